"""The versions of a set's members, with the LLVM that each is built from."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from mlir_release.builder.model.names import named
from mlir_release.ground.documents.decode import DOCUMENT_LIMIT, MalformedError, is_plain_name
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, ReleaseError, UsageError, VerificationError
from mlir_release.ground.llvm.recogniser import RecognisedProject, parse
from mlir_release.ground.programs.needs import need
from mlir_release.ground.python.cpython import ANY_PYTHON, CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import canonical
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.download import download, receive
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.open import open_forge
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.manifest import WheelEntry, fits
from mlir_release.release.pinning.reachable import base_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mlir_release.extras.sets.set_file import SetMember
    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.judging.signed import SignedBy

    #: Of a version and CPythons (none: all), the wheels by their addresses; in the folder are those that must be read.
    FindWheels = Callable[[str, Sequence[CPython], Path], Mapping[str, WheelEntry]]


@dataclass(frozen=True, kw_only=True)
class Versions:
    """The versions of a member."""

    name: str  #: of the distribution, canonical
    llvm: Mapping[str, str]  #: the commit that each is built from
    left_out: dict[str, str]  #: those without a known one: why
    wheels: FindWheels


class _Link(NamedTuple):
    """A wheel on a page of others."""

    filename: str
    url: str
    sha256: str = ""  #: empty if the page does not say
    metadata: str | None = None  #: digest of the METADATA beside it (PEP 658); empty: not told; None: it is not there


def released(member: SetMember, forge: str | None, signed_by: SignedBy) -> Versions:
    """Those of a distribution of this toolkit's releases, but for yanked ones.

    Manifests are verified as ``install`` does it.
    """
    name, place = canonical(member.distribution), open_forge(member.forge or forge)
    entries = {
        entry.row.version: entry
        for entry in read_index(place, signed_by).entries
        if entry.yanked is None and any(canonical(wheel.distribution) == name for wheel in entry.wheels)
    }

    def wheels(version: str, pythons: Sequence[CPython], _: Path) -> Mapping[str, WheelEntry]:
        manifest = read_release(place, entries[version].tag, signed_by).manifest
        return {
            place.file_url(manifest.tag, wheel.filename): wheel
            for wheel in manifest.wheels
            if canonical(wheel.distribution) == name and _is_for(wheel.filename, pythons)
        }

    llvm = {version: entry.row.revision for version, entry in entries.items()}
    return Versions(name=name, llvm=llvm, left_out={}, wheels=wheels)


def listed(member: SetMember, upstream: Upstream) -> Versions:
    """Those of a distribution whose wheels are on an index, on a page with links, or in a folder.

    :raises MachineError: ``network-failed``
    :raises VerificationError: ``wheel-unsuitable``, ``file-damaged``; ``wheels``, too
    """
    name = canonical(member.distribution)
    place = member.find_links or urljoin(member.index.rstrip("/") + "/", f"{name}/")
    links: dict[str, list[_Link]] = {}
    for link in _folder(place) if place.startswith("file:") else _page(place):
        parsed = named(link.filename) if link.filename.endswith(".whl") else None
        if parsed is not None and parsed[0] == name and is_plain_name(link.filename):
            links.setdefault(str(parsed[1]), []).append(link)

    def wheels(version: str, pythons: Sequence[CPython], scratch: Path) -> Mapping[str, WheelEntry]:
        chosen = [link for link in links[version] if _is_for(link.filename, pythons)]
        return {link.url: _entry(name, link, scratch) for link in chosen}

    known = _written(member.llvm, links) if member.llvm else _pinned(member, links, upstream)
    llvm = {version: sha for version, (sha, _) in known.items() if sha}
    left_out = {version: why for version, (_, why) in known.items() if why}
    return Versions(name=name, llvm=llvm, left_out=left_out, wheels=wheels)


def _is_for(filename: str, pythons: Sequence[CPython]) -> bool:
    platforms = {PlatformTag.parse(tag.platform) for tag in parse_wheel_filename(filename)[3]}
    return not pythons or any(fits(filename, python, platform) for python in pythons for platform in platforms)


def _written(pattern: str, links: Mapping[str, Sequence[_Link]]) -> dict[str, tuple[str, str]]:
    """The LLVM of each version, as its METADATA has it; or why that is not known."""
    known = {}
    for version, (link, *_) in links.items():
        with scratch_folder("set") as folder:
            match = re.search(pattern, _metadata(link, folder).decode(errors="replace"))
        is_commit = match is not None and re.fullmatch("[0-9a-f]{40}", match[1] or "")
        known[version] = (match[1], "") if match and is_commit else ("", "its METADATA names no LLVM commit")
    return known


def _pinned(member: SetMember, versions: Iterable[str], upstream: Upstream) -> dict[str, tuple[str, str]]:
    """As :func:`_written`, by the project's pin; of a fork's commit with patches it is the upstream's below them."""
    source, _, path = parse(member.pin_of)
    project = RecognisedProject(source, path)
    known: dict[str, tuple[str, str]] = {}
    commits: dict[str, list[str]] = {}
    for version in versions:
        refs = member.refs_of(version)
        at = [project.in_history(ref) for ref in refs or ()]
        if refs is None:
            known[version] = "", "the set file says nothing of such versions"
        elif not all(at):
            known[version] = "", f"{project.name} has no commit {refs[at.index('')]}"
        else:
            commits[version] = at
    if commits:
        project.have(commit for at in commits.values() for commit in at)

    @cache
    def llvm_at(commit: str) -> tuple[str, str]:
        try:
            pin, fork = project.pin(commit), project.fork(commit, project.place(commit))
            ours, theirs = (url.rstrip("/").removesuffix(".git").lower() for url in (upstream.url, fork))
            return (pin if not fork or ours == theirs else base_of(upstream, pin, fork=fork).sha), ""
        except (UsageError, VerificationError) as error:
            return "", error.what

    for version, at in commits.items():
        llvms = list(dict.fromkeys(map(llvm_at, at)))
        unknown = [(sha, why) for sha, why in llvms if why]
        bumped = [("", "LLVM was bumped when it was built")] if len(llvms) > 1 else []
        known[version] = [*unknown, *bumped, *llvms][0]
    return known


def _folder(url: str) -> list[_Link]:
    folder = Path(url2pathname(urlsplit(url).path))
    try:
        return [_Link(path.name, path.as_uri()) for path in sorted(folder.iterdir())]
    except OSError as error:
        raise _unreadable(str(folder), error.strerror or str(error)) from error


def _page(url: str) -> list[_Link]:
    """The links of an HTML page: of a project in a simple index (PEP 503), or of any other."""
    import requests

    need("pypi_simple")
    from pypi_simple import RepositoryPage

    content = io.BytesIO()
    try:
        receive(url, content, headers={"Accept": "text/html"}, limit=DOCUMENT_LIMIT)
        links = RepositoryPage.from_html(content.getvalue(), url).links
    except (requests.RequestException, ValueError) as error:
        if isinstance(error, requests.HTTPError) and error.response is not None and error.response.status_code == 404:
            return []  # an index that does not have the project
        raise _unreadable(url, str(error)) from error
    found = []
    for link in links:
        address, fragment = urldefrag(link.url)
        if urlsplit(address).scheme in ("http", "https"):  # no page of others names files of this machine
            beside = link.get_str_attrib("data-core-metadata") or link.get_str_attrib("data-dist-info-metadata")
            filename = unquote(urlsplit(address).path.rpartition("/")[2])
            found.append(_Link(filename, address, _sha256(fragment), _sha256(beside) if beside else None))
    return found


def _sha256(text: str) -> str:
    match = re.fullmatch("sha256=([0-9a-f]{64})", text)
    return match[1] if match else ""


def _unreadable(where: str, why: str) -> MachineError:
    return MachineError("network-failed", "the index of a set's member can't be read", where=where, why=why)


def _metadata(link: _Link, folder: Path) -> bytes:
    """The METADATA of a wheel: the file beside it, else out of the wheel, which is then in ``folder``."""
    if link.metadata is not None:
        beside = folder / f"{link.filename}.metadata"
        download(f"{link.url}.metadata", beside, sha256=link.metadata, limit=DOCUMENT_LIMIT)
        return read_document(beside)
    path = folder / link.filename
    download(link.url, path, sha256=link.sha256)
    try:
        with open_zip(path) as archive:
            (name,) = (each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
            return archive.read(name)
    except (ArchiveError, ValueError) as error:
        raise _unsuitable(link, str(error)) from error


def _entry(distribution: str, link: _Link, folder: Path) -> WheelEntry:
    """A wheel of others, as a manifest describes ours."""
    text, path = _metadata(link, folder), folder / link.filename
    if not link.sha256 and not path.exists():
        download(link.url, path)
    raw, _ = parse_email(text)
    tags = sorted(parse_wheel_filename(link.filename)[3], key=str)
    free = any(tag.abi.endswith("t") and tag.abi.startswith("cp") for tag in tags)
    requires = [line for line in raw.get("requires_dist", []) if not re.search(r"\bextra\b", line.partition(";")[2])]
    try:
        entry = WheelEntry(
            filename=link.filename,
            target="",
            distribution=distribution,
            profile="",
            python=ANY_PYTHON if tags[0].interpreter.startswith("py") else tags[0].interpreter + "t" * free,
            platforms=tuple(dict.fromkeys(tag.platform for tag in tags)),
            requires_python=raw.get("requires_python", ""),
            requires_dist=tuple(requires),
            size=path.stat().st_size if path.exists() else 0,
            sha256=link.sha256 or sha256_of(path),
            metadata_sha256=sha256_of(text),
        )
        for line in requires:
            if Requirement(line).url:  # it would be fetched from wherever the wheel likes
                raise MalformedError("requires_dist", f"has {line!r}, the address of a file")
    except MalformedError as error:
        raise _unsuitable(link, str(error)) from error
    return entry


def _unsuitable(link: _Link, why: str) -> ReleaseError:
    return VerificationError(
        "wheel-unsuitable",
        f"{link.filename} is no sound wheel",
        where=link.url,
        why=why,
        remedy="tell those who publish it; until then, choose another LLVM with --llvm",
    )
