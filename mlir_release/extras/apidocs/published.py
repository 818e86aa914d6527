"""The API sections of a site: one for each numbered release, for good, and one for the newest snapshot.

A section is made anew only if its wheel, or the code that draws it, has changed. If the folder lacks it, as in a new
job, it is fetched from the served pages. ``made.json`` there has the digest of each file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json, structs
from packaging.utils import parse_wheel_filename

from mlir_release.extras.apidocs.outline import keep_outline
from mlir_release.extras.apidocs.read import read_wheel
from mlir_release.extras.apidocs.reference import read_reference
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import DOCUMENT_LIMIT, MalformedError, PlainName, Sha256, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.llvm.projects import known_profile
from mlir_release.ground.programs.needs import need
from mlir_release.ground.python.cpython import python_order
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import check_inside, read_document, read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.index.drawing import digest_of_code
from mlir_release.release.index.site import FOLDERS, Channel, Published, WheelLink, listed_channels

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.extras.apidocs.draw import DrawnSection, Frame
    from mlir_release.release.model.manifest import WheelEntry
    from mlir_release.release.model.release_tags import Kind

#: These libraries decide how a section looks, together with the code.
_LIBRARIES = ("griffelib", "markdown-it-py")

#: A file beside the pages of a section. It names their sources, so that they are made only once.
SECTION_NAME = "made.json"
_SCHEMA = 1


class ApiSection(Struct, frozen=True, kw_only=True):
    """The pages of one wheel."""

    tag: str  #: of its release
    wheel: str  #: SHA-256
    renderer: str  #: digest of the code that drew them
    files: Mapping[PlainName, Sha256]  #: the pages' names, all in one folder, with their SHA-256
    schema: int = _SCHEMA

    @classmethod
    def parse(cls, content: bytes | None) -> ApiSection | None:
        """Read the document. Without one of this kind the result is None, and the pages are made anew."""
        try:
            found = from_json(content or b"", cls)
        except MalformedError:
            return None
        return found if found.schema == _SCHEMA else None

    def to_bytes(self) -> bytes:
        """The document; the same pages give the same bytes."""
        return json.format(json.encode(self, order="sorted"), indent=1) + b"\n"

    def is_of(self, other: ApiSection) -> bool:
        """Whether ``other`` has the same sources."""
        return (self.tag, self.wheel, self.renderer) == (other.tag, other.wheel, other.renderer)


def make_section(wheel: Path, output: Path, frame: Frame | None = None) -> DrawnSection:
    """Describe a wheel's API in ``output``, as pages that link only each other, and the site of ``frame``.

    :raises VerificationError: ``wheel-unsuitable``
    :raises MachineError: ``tool-missing``
    """
    need("griffe")
    from mlir_release.extras.apidocs.describe import describe
    from mlir_release.extras.apidocs.draw import Frame, draw

    api = describe(read_wheel(wheel))
    keep_outline(sha256_of(wheel), api)  # for a comparison with another release
    name, version, _, _ = parse_wheel_filename(wheel.name)
    return draw(api, read_reference(wheel), output, f"{name} {version}", frame or Frame())


def api_folder(kind: Kind, tag: str) -> str:
    """The folder of a release's API section, below the site. All snapshots share the one of the newest."""
    return f"{FOLDERS[kind]}/{'latest' if kind == 'snapshot' else tag}/api"


def read_sections(site: Path, channels: Iterable[Channel]) -> Mapping[str, str]:
    """The API sections in the folder of a site: a release's tag -> its section's folder, below the site."""
    found = {}
    for channel in channels:
        for release in _shown(channel):
            folder = api_folder(channel.kind, release.tag)
            section = ApiSection.parse(read_if_there(site / folder / SECTION_NAME))
            if section is not None and section.tag == release.tag:
                found[release.tag] = folder
    return found


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A section that the site needs."""

    release: Published
    link: WheelLink

    @property
    def folder(self) -> str:
        """Its folder, below the site."""
        return api_folder(self.release.manifest.kind, self.release.tag)

    def sources(self, navigation: Mapping[str, Any]) -> ApiSection:
        """Its sources, without files yet. ``navigation``: of the site"""
        libraries = [f"{name} {version(name)}" for name in _LIBRARIES]
        rooms = ("mlir_release.extras.apidocs", "mlir_release.release.index")
        renderer = digest_of_code(*rooms, text=repr((libraries, navigation)))
        return ApiSection(tag=self.release.tag, wheel=self.link.wheel.sha256, renderer=renderer, files={})


def wanted_sections(channels: Sequence[Channel]) -> Iterator[Wanted]:
    """A section for each numbered release that is not yanked, and for the newest snapshot. Pure."""
    for channel in channels:
        for release in _shown(channel):
            if release.yanked is None and (link := described_link(release)):
                yield Wanted(release=release, link=link)


def _shown(channel: Channel) -> Sequence[Published]:
    """The releases of a channel that can have a section."""
    return channel.releases if channel.kind == "numbered" else [channel.latest] if channel.latest else []


def described_link(release: Published) -> WheelLink | None:
    """The wheel that a release's API is read from: of its main project; None if it has none of the bindings."""
    projects = tuple(release.manifest.projects)[:1]
    links = {link.wheel: link for link in release.links if link.yanked is None and link.wheel.project in projects}
    best = best_described(links)
    return links[best] if best is not None else None


def best_described(wheels: Iterable[WheelEntry]) -> WheelEntry | None:
    """The API is the same on all platforms, so any wheel will do: the one that most people install, if it is there."""

    def preference(wheel: WheelEntry) -> tuple[bool, bool, object]:
        on_linux = any("linux" in tag and tag.endswith("x86_64") for tag in wheel.platforms)
        return wheel.profile == "host", on_linux, python_order(wheel.python)

    def is_bindings(wheel: WheelEntry) -> bool:
        profile = known_profile(wheel.project, wheel.profile)
        return bool(wheel.pythons) if profile is None else profile.makes != "sdk"

    return max(filter(is_bindings, wheels), key=preference, default=None)


def make_sections(channels: Sequence[Channel], site: Path, base_url: str, given: Mapping[str, Any]) -> None:
    """Make or renew the sections in the folder ``site``, and remove those that are no longer wanted.

    If a section can't be made, that is a warning, and no page links it: the pages must not wait for it.

    :param base_url: where the site is served, with sections of earlier runs, unless the forge is a folder
    :param given: what further pages the site has (:meth:`~mlir_release.release.index.site.Section.provide`)
    :raises MachineError: ``tool-missing``
    """
    need("griffe")
    from mlir_release.extras.apidocs.draw import Frame

    wanted = list(wanted_sections(channels))
    navigation = {
        "title": "MLIR wheels",
        "end": "index.html",  # the same pages are served, and opened as files
        "channels": listed_channels(channels),
        "links": {"API": wanted[0].folder} if wanted else {},
        "has_documents": given.get("has_documents", False),
        "has_status": given.get("has_status", False),
    }
    folders = {site / each.folder for each in wanted}
    for stale in {path.parent for path in site.glob(f"*/*/*/{SECTION_NAME}")} - folders:
        check_inside(site, stale / SECTION_NAME)
        shutil.rmtree(stale)
    for folder in folders:
        check_inside(site, folder / SECTION_NAME)
    for each in wanted:
        folder, sources = site / each.folder, each.sources(navigation)
        try:
            found = ApiSection.parse(read_if_there(folder / SECTION_NAME))
            if found is not None and found.is_of(sources):
                continue
            shutil.rmtree(folder, ignore_errors=True)
            is_served = each.release.folder is None and base_url.startswith(("https:", "http:"))
            if is_served and _fetch(sources, folder, f"{base_url.rstrip('/')}/{each.folder}"):
                continue
            step = console.step(f"documenting the API of {each.release.tag}", without="no page links it")
            with scratch_folder("apidocs") as scratch, step:
                wheel = fetch_wheel(each.release, each.link, scratch)
                page = f"../../{each.release.tag}/index.html"
                section = make_section(wheel, folder, Frame(root="../../../", release=page, site=navigation))
                console.say(section.text())
            files = {path.name: sha256_of(path) for path in folder.iterdir()}
            write_atomically(folder / SECTION_NAME, structs.replace(sources, files=files).to_bytes())
        except Exception as error:  # whatever another's code makes a parser raise
            why = (
                f"{error.what} ({error.why})" if isinstance(error, ReleaseError) else f"{type(error).__name__}: {error}"
            )
            console.warn(f"the API of {each.release.tag} is not documented: {why}")
            shutil.rmtree(folder, ignore_errors=True)


def fetch_wheel(release: Published, link: WheelLink, folder: Path) -> Path:
    """A wheel of a published release, as its manifest lists it. :raises VerificationError: ``file-damaged``"""
    wheel = folder / link.wheel.filename
    url = link.url if release.folder is None else (release.folder / wheel.name).as_uri()
    download(url, wheel, sha256=link.wheel.sha256)
    return wheel


def _fetch(sources: ApiSection, folder: Path, url: str) -> bool:
    """Fetch a section that is served. False if it is missing, or made from other sources."""
    try:
        with scratch_folder("apidocs") as scratch:
            download(f"{url}/{SECTION_NAME}", scratch / SECTION_NAME, limit=DOCUMENT_LIMIT)
            content = read_document(scratch / SECTION_NAME)
            found = ApiSection.parse(content)
            if found is None or not found.is_of(sources):
                return False
            for name, sha256 in found.files.items():
                download(f"{url}/{name}", folder / name, sha256=sha256)
    except ReleaseError as error:
        console.say(f"{error.where}: {error.why}; the section is made anew")
        shutil.rmtree(folder, ignore_errors=True)
        return False
    write_atomically(folder / SECTION_NAME, content)
    return True
