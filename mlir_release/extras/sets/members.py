"""The versions of a set's members, with the LLVM that each is built from."""

from __future__ import annotations

import io
import re
from functools import cached_property
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
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import canonical, check_requirement, check_specifiers
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
    from collections.abc import Mapping, Sequence

    from mlir_release.extras.sets.set_file import Member
    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.ground.python.cpython import CPython
    from mlir_release.release.judging.signed import SignedBy


class Wheels(NamedTuple):
    """The wheels of one version of a member."""

    entries: tuple[WheelEntry, ...]
    urls: Mapping[str, str]  #: by their names


class Released:
    """A member that is a distribution of this toolkit's releases."""

    def __init__(self, member: Member, forge: str | None, signed_by: SignedBy) -> None:
        self.name = canonical(member.distribution)
        self.left_out: dict[str, str] = {}
        self._forge = open_forge(member.forge or forge)
        self._signed_by = signed_by

    @cached_property
    def _tags(self) -> Mapping[str, tuple[str, str]]:
        """The tag and the LLVM of each version, but of yanked ones."""
        entries = read_index(self._forge, self._signed_by).entries
        return {
            entry.row.version: (entry.tag, entry.row.revision)
            for entry in entries
            if entry.yanked is None and any(canonical(wheel.distribution) == self.name for wheel in entry.wheels)
        }

    @property
    def llvm(self) -> Mapping[str, str]:
        """The LLVM commit of each version."""
        return {version: revision for version, (_, revision) in self._tags.items()}

    def wheels(self, version: str, scratch: Path, pythons: Sequence[CPython]) -> Wheels:
        """The wheels of a version, whose manifest is verified as ``install`` does it."""
        manifest = read_release(self._forge, self._tags[version][0], self._signed_by).manifest
        entries = tuple(
            wheel
            for wheel in manifest.wheels
            if canonical(wheel.distribution) == self.name and _is_for(wheel.filename, pythons)
        )
        return Wheels(entries, {each.filename: self._forge.file_url(manifest.tag, each.filename) for each in entries})


class _Link(NamedTuple):
    """A wheel on a page of others."""

    filename: str
    url: str
    sha256: str  #: empty if the page does not say
    metadata: str | None  #: digest of the METADATA beside it (PEP 658); empty: not told; None: it is not there


class Listed:
    """A member whose wheels are on an index, on a page with links, or in a folder."""

    def __init__(self, member: Member, upstream: Upstream) -> None:
        self.name = canonical(member.distribution)
        self.left_out: dict[str, str] = {}  #: versions without a known LLVM: why
        self._member = member
        self._upstream = upstream

    @cached_property
    def _links(self) -> Mapping[str, list[_Link]]:
        """The wheels of each version."""
        member = self._member
        place = member.find_links or urljoin(member.index.rstrip("/") + "/", f"{self.name}/")
        found: dict[str, list[_Link]] = {}
        for link in _folder(place) if place.startswith("file:") else _page(place):
            parsed = named(link.filename) if link.filename.endswith(".whl") else None
            if parsed is not None and parsed[0] == self.name and is_plain_name(link.filename):
                found.setdefault(str(parsed[1]), []).append(link)
        return found

    @cached_property
    def llvm(self) -> Mapping[str, str]:
        """The LLVM commit of each version: upstream's, if the project pins one of a fork with patches."""
        if not self._member.llvm:
            return self._by_project()
        found = {}
        for version, links in self._links.items():
            with scratch_folder("set") as folder:
                match = re.search(self._member.llvm, _metadata(links[0], folder).decode(errors="replace"))
            commit = match[1] if match else ""
            if re.fullmatch("[0-9a-f]{40}", commit or ""):
                found[version] = commit
            else:
                self.left_out[version] = "its METADATA names no LLVM commit"
        return found

    def _by_project(self) -> dict[str, str]:
        source, _, path = parse(self._member.pin_of)
        project = RecognisedProject(source, path)
        commits: dict[str, list[str]] = {}
        for version in self._links:
            refs = self._member.refs_of(version)
            at = [project.in_history(ref) for ref in refs or ()]
            if refs is None:
                self.left_out[version] = "the set file says nothing of such versions"
            elif not all(at):
                self.left_out[version] = f"{project.name} has no commit {refs[at.index('')]}"
            else:
                commits[version] = at
        if commits:
            project.have(commit for at in commits.values() for commit in at)
        pins: dict[str, str] = {}
        for commit in {commit for at in commits.values() for commit in at}:
            try:
                pin, fork = project.pin(commit), project.fork(commit, project.place(commit))
                ours, theirs = (url.rstrip("/").removesuffix(".git").lower() for url in (self._upstream.url, fork))
                is_upstream = not fork or ours == theirs
                pins[commit] = pin if is_upstream else base_of(self._upstream, pin, fork=fork).sha
            except (UsageError, VerificationError) as error:
                pins[commit] = ""
                self.left_out.update({version: error.what for version, at in commits.items() if commit in at})
        found = {}
        for version, at in commits.items():
            llvms = {pins[commit] for commit in at}
            if len(llvms) > 1:
                self.left_out.setdefault(version, "LLVM was bumped when it was built")
            elif llvm := llvms.pop():
                found[version] = llvm
        return found

    def wheels(self, version: str, scratch: Path, pythons: Sequence[CPython]) -> Wheels:
        """The wheels of a version. Those that the page gives no digest for are downloaded.

        :param scratch: a folder for them
        :param pythons: for these alone; empty: for all
        :raises VerificationError: ``wheel-unsuitable``, ``file-damaged``
        """
        links = [link for link in self._links[version] if _is_for(link.filename, pythons)]
        entries = tuple(_entry(self.name, link, scratch) for link in links)
        return Wheels(entries, {link.filename: link.url for link in links})


def _is_for(filename: str, pythons: Sequence[CPython]) -> bool:
    platforms = {PlatformTag.parse(tag.platform) for tag in parse_wheel_filename(filename)[3]}
    return not pythons or any(fits(filename, python, platform) for python in pythons for platform in platforms)


def _folder(url: str) -> list[_Link]:
    folder = Path(url2pathname(urlsplit(url).path))
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".whl")
    except OSError as error:
        raise _unreadable(str(folder), error.strerror or str(error)) from error
    return [_Link(path.name, path.as_uri(), sha256_of(path), None) for path in paths]


def _page(url: str) -> list[_Link]:
    """The links of an HTML page: of a project in a simple index (PEP 503), or of any other."""
    import requests

    need("pypi_simple")
    from pypi_simple import RepositoryPage

    content = io.BytesIO()
    try:
        receive(url, content, headers={"Accept": "text/html"}, limit=DOCUMENT_LIMIT)
        links = RepositoryPage.from_html(content.getvalue(), url).links
    except requests.HTTPError as error:
        if error.response is not None and error.response.status_code == 404:
            return []  # an index that does not have the project
        raise _unreadable(url, str(error)) from error
    except (requests.RequestException, ValueError) as error:
        raise _unreadable(url, str(error)) from error
    found = []
    for link in links:
        address, fragment = urldefrag(link.url)
        if urlsplit(address).scheme in ("http", "https"):  # no page of others names files of this machine
            beside = link.get_str_attrib("data-core-metadata") or link.get_str_attrib("data-dist-info-metadata")
            metadata = _sha256(beside) if beside else None
            filename = unquote(urlsplit(address).path.rpartition("/")[2])
            found.append(_Link(filename, address, _sha256(fragment), metadata))
    return found


def _sha256(text: str) -> str:
    match = re.fullmatch("sha256=([0-9a-f]{64})", text)
    return match[1] if match else ""


def _unreadable(where: str, why: str) -> MachineError:
    return MachineError(
        "network-failed",
        "the index of a set's member can't be read",
        where=where,
        why=why,
    )


def _metadata(link: _Link, folder: Path) -> bytes:
    """The METADATA of a wheel: the file beside it, else out of the wheel, which is then in ``folder``."""
    if link.metadata is not None:
        beside = folder / f"{link.filename}.metadata"
        download(f"{link.url}.metadata", beside, sha256=link.metadata, limit=DOCUMENT_LIMIT)
        return read_document(beside)
    path = folder / link.filename
    if not path.exists():
        download(link.url, path, sha256=link.sha256)
    try:
        with open_zip(path) as archive:
            (name,) = (each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each))
            return archive.read(name)
    except (ArchiveError, ValueError) as error:
        raise _unsuitable(link, str(error)) from error


def _entry(distribution: str, link: _Link, folder: Path) -> WheelEntry:
    """A wheel of others, as a manifest describes ours."""
    text = _metadata(link, folder)
    raw, _ = parse_email(text)
    path = folder / link.filename
    if not link.sha256 and not path.exists():
        download(link.url, path)
    tags = sorted(parse_wheel_filename(link.filename)[3], key=str)
    free = any(tag.abi.endswith("t") and tag.abi.startswith("cp") for tag in tags)
    python = ANY_PYTHON if tags[0].interpreter.startswith("py") else tags[0].interpreter + "t" * free
    requires = [line for line in raw.get("requires_dist", []) if not re.search(r"\bextra\b", line.partition(";")[2])]
    try:
        check_specifiers(raw.get("requires_python", ""))
        for line in requires:
            check_requirement(line)
            if Requirement(line).url:  # it would be fetched from wherever the wheel likes
                raise MalformedError("requires_dist", f"has {line!r}, the address of a file")
    except MalformedError as error:
        raise _unsuitable(link, str(error)) from error
    return WheelEntry(
        filename=link.filename,
        target="",
        distribution=distribution,
        profile="",
        python=python,
        platforms=tuple(dict.fromkeys(tag.platform for tag in tags)),
        requires_python=raw.get("requires_python", ""),
        requires_dist=tuple(requires),
        size=path.stat().st_size if path.exists() else 0,
        sha256=link.sha256 or sha256_of(path),
        metadata_sha256=sha256_of(text),
    )


def _unsuitable(link: _Link, why: str) -> ReleaseError:
    return VerificationError(
        "wheel-unsuitable",
        f"{link.filename} is no sound wheel",
        where=link.url,
        why=why,
        remedy="tell those who publish it; until then, choose another LLVM with --llvm",
    )
