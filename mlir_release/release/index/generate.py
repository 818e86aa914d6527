"""The pages that pip and people read, made from the published releases' manifests and ``yanked.toml``.

::

    index.html, style.css, icon.svg, copy.js, feed.xml
    getting-started/                          a first program, with the newest release
    snapshots/index.html                      all snapshots
    snapshots/latest/                         requirements[-<distribution>].txt: the newest release
    snapshots/latest-good/                    requirements[-<distribution>].txt: the newest that nothing speaks against
    snapshots/latest/index.html               for pip -f: the newest, as many days as targets.toml says
    snapshots/simple/[<distribution>/]        PEP 503 (index.html) and PEP 691 (index.json), of the same
    snapshots/<tag>/                          index.html, requirements-<tag>.txt, pylock.toml, release.json
    releases/…                                the same for numbered releases
    releases/<tag>/api/, snapshots/latest/api/  the API of their wheels (the extra apidocs)
    releases/conda/, snapshots/conda/         the index of conda packages that are elsewhere (the extra conda)
    docs/                                     the toolkit's documentation
    index.json, index/, quality.json, …       the index of all releases, for programs (:mod:`.copies`)
    status/                                   what is going on: index.html, status.json
    manifests.json.gz                         all manifests, from which the next run begins (:mod:`.archive`)
    state.json                                the files that the last run planned

The same releases give the same bytes, whether the folder was empty before or not: each run draws every file, and
replaces those that differ. ``state.json`` only tells what may be removed: it lacks the status, and others' files.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Struct

from mlir_release.builder.model.orders import NOTICE
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, from_large_json, text
from mlir_release.ground.errors import MachineError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.storage.files import check_inside, read_if_there, write_atomically
from mlir_release.release.forge.base import public_name
from mlir_release.release.index import simple
from mlir_release.release.index.archive import ARCHIVE_NAME, SERVED_LIMIT, pack, read_served, unpack
from mlir_release.release.index.copies import index_files, stored_index
from mlir_release.release.index.documents import DOCUMENTS
from mlir_release.release.index.drawing import copy_script, icon, style
from mlir_release.release.index.observe import observe
from mlir_release.release.index.pages import Pages
from mlir_release.release.index.site import Channel
from mlir_release.release.instructions import lockfiles
from mlir_release.release.judging.signed import AS_DECLARED, is_required
from mlir_release.release.judging.status import make_status
from mlir_release.release.judging.status_facts import observe_status
from mlir_release.release.latest.catalogue import learnt_here
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.model.release_settings import LINKED_DAYS
from mlir_release.release.model.release_tags import LATEST_GOOD
from mlir_release.release.model.schemas import read_schemas
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.index.archive import Known
    from mlir_release.release.index.documents import Documents
    from mlir_release.release.index.sections import Section
    from mlir_release.release.index.site import Published
    from mlir_release.release.judging.signed import SignedBy
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.release_index import Quality

    #: The files to be, by their paths, and how each is made.
    Plan: TypeAlias = dict[str, Callable[[], str | bytes]]

STATE_NAME = "state.json"

#: A file of the pages, below their folder.
PAGE_PATH = text(r"(?!(?:.*/)?\.\.?(?:/|$))[A-Za-z0-9_.+!~@=-]+(?:/[A-Za-z0-9_.+!~@=-]+)*", "a path below the pages")


@dataclass(frozen=True, kw_only=True)
class IndexOutcome:
    """What was done to the pages."""

    output: Path
    base_url: str
    releases: int
    new: tuple[str, ...]  #: releases that the pages did not show yet
    written: tuple[str, ...]
    reused: int  #: files that are as they were
    removed: tuple[str, ...]
    links: Mapping[str, str] = field(default_factory=dict)  #: what extras added: titles, and folders of the newest
    dry_run: bool = False

    def text(self) -> str:
        """One line."""
        verb = "to write" if self.dry_run else "written"
        removed = f", {len(self.removed)} removed" if self.removed else ""
        return (
            f"{self.output}: {self.releases} published; files {verb}: {len(self.written)}, "
            f"{self.reused} as they were{removed}"
        )


def generate(
    forge: Forge,
    output: Path,
    *,
    base_url: str,
    signed_by: SignedBy = AS_DECLARED,
    title: str = "",
    core_metadata: bool = True,
    afresh: bool = False,
    linked_days: int = LINKED_DAYS,
    notice: str = NOTICE,
    matrix: Matrix | None = None,
    sections: Mapping[str, Section] = MappingProxyType({}),
    given: Mapping[str, Any] = MappingProxyType({}),
    documents: Documents | None = None,
    dry_run: bool = False,
) -> IndexOutcome:
    """Make or renew the pages in ``output``. What they, or the pages at ``base_url``, show already is not read again.

    Only published releases with a manifest are shown. Files are replaced one by one, each atomically, those that others
    link to first. Two runs at once go one after the other.

    :param base_url: where ``output`` will be served: ``https://…``, or a ``file:`` URL
    :param signed_by: who must have signed the releases, if that is asked for: no others are shown, and all are read;
        its branch holds ``yanked.toml``
    :param core_metadata: whether links announce the metadata files beside the wheels; for comparisons only
    :param afresh: read every manifest again
    :param linked_days: days of snapshots that the shared pages link
    :param notice: a line in the footer of every page; empty: no such line
    :param matrix: what the status page is about, and whether releases must be signed: the branch's; None: there is no
        such page, and those must be that say so
    :param sections: what extras add, by name
    :param given: the values of the sections' options
    :param documents: of the toolkit, to be shown among the pages
    :raises VerificationError: ``file-damaged``, ``release-tampered``
    :raises UsageError: ``config-invalid``
    """
    from filelock import FileLock

    output = output.absolute()
    # Beside the pages and not among them: what is being written, until it is whole.
    scratch = output.with_name(f"{output.name}.scratch")
    try:
        output.mkdir(parents=True, exist_ok=True)
        with FileLock(output.with_name(f"{output.name}.lock")):
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            try:
                known = {} if afresh or signed_by.required else read_known(forge, output, base_url, scratch)
                required = matrix is not None and is_required(forge, matrix.release.provenance)
                ledger = Ledger(forge, whole=not known)
                if matrix is not None:
                    _ = ledger.states  # which reads the tags before the releases, for the status
                published, new = observe(ledger, known, scratch, required=required, signed_by=signed_by)
                snapshots = Channel.of("snapshot", published, linked_days=linked_days)
                channels = (snapshots, Channel.of("numbered", published))
                stored = stored_index(forge, signed_by)
                learnt, good = stored.learnt if stored is not None else learnt_here(forge, signed_by)
                if not dry_run:
                    further = {"has_status": matrix is not None, "has_documents": documents is not None}
                    for section in sections.values():
                        section.provide(channels, output, base_url, {**given, **further})
                pages = Pages(
                    base_url=base_url,
                    project=_main_project(matrix, channels),
                    given_title=title,
                    has_status=matrix is not None,
                    has_documents=documents is not None,
                    repository=forge.services.url,
                    notice=notice,
                    sections={
                        (name, section.title): section.show(channels, output, base_url)
                        for name, section in sections.items()
                    },
                    quality=learnt.releases,
                    good=good,
                )
                plan = _plan(pages, channels, core_metadata, _source(forge), documents)
                copies = index_files(published, stored, learnt, good)
                plan |= {path: partial(bytes, content) for path, content in copies.items()}
                written, removed = _apply(plan, output, scratch, dry_run=dry_run)
                if matrix is not None and not dry_run:
                    _write_status(ledger, matrix, pages, channels, output, scratch, learnt=(learnt, good))
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise MachineError(
            "system-refused",
            "the pages can't be written",
            where=str(error.filename or output),
            why=str(error),
            remedy="make room or fix the permissions, then run this again; every file is either old or new",
        ) from error
    return IndexOutcome(
        output=output,
        base_url=base_url,
        releases=len(published),
        new=new,
        written=written,
        reused=len(plan) - len(written),
        removed=removed,
        links=pages.links,
        dry_run=dry_run,
    )


def _main_project(matrix: Matrix | None, channels: Sequence[Channel]) -> str:
    """The project that the pages are called by: of the matrix's main distribution, else of the newest release's."""
    wheels = matrix.wheels if matrix is not None else ()
    of_matrix = (wheel.configuration.project for wheel in wheels if matrix and wheel.distribution == matrix.main)
    newest = (channel.newest.manifest for channel in channels if channel.newest is not None)
    published = (project for manifest in newest for project in manifest.projects)
    return next(iter((*of_matrix, *published, DEFAULT_PROJECT)))


def read_known(forge: Forge, output: Path, base_url: str, scratch: Path) -> Mapping[str, Known]:
    """The releases that the pages in ``output`` show; if it has none, those that are served at ``base_url``.

    A forge in a folder is asked again instead: its pages may never have been served.
    """
    content = read_if_there(output / ARCHIVE_NAME, limit=SERVED_LIMIT)
    if content is None and forge.services.url and base_url.startswith(("https:", "http:")):
        content = read_served(base_url, scratch)
    return unpack(content, _source(forge))


def _write_status(
    ledger: Ledger,
    matrix: Matrix,
    pages: Pages,
    channels: tuple[Channel, Channel],
    output: Path,
    scratch: Path,
    *,
    learnt: tuple[Quality, str],
) -> None:
    """Replace the status page."""
    known = {release.tag: release.manifest for channel in channels for release in channel.releases}
    status = make_status(observe_status(ledger, matrix, known=known, learnt=learnt))
    status = replace(status, source=_source(ledger.forge))
    for note in status.notes:
        console.warn(note)
    check_inside(output, output / "status" / "index.html")
    text = json.dumps(status.to_json(), indent=1) + "\n"
    write_atomically(output / "status" / "status.json", text.encode(), scratch=scratch)
    page = pages.status(status, channels)
    write_atomically(output / "status" / "index.html", page.encode(), scratch=scratch)


def _source(forge: Forge) -> str:
    """What the pages say about where they came from: no path of this machine, which a local forge's address is."""
    return forge.services.address or public_name(forge)


def _apply(plan: Plan, output: Path, scratch: Path, *, dry_run: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draw everything, replace what differs, and remove what the last run planned and this one does not."""
    before = _read_state(output)
    for folder in {(output / path).parent for path in (*plan, *before)}:
        check_inside(output, folder / STATE_NAME)
    written = []
    for path, draw in plan.items():
        drawn = draw()
        content = drawn.encode() if isinstance(drawn, str) else drawn
        if content != read_if_there(output / path):
            written.append(path)
            if not dry_run:
                write_atomically(output / path, content, scratch=scratch)
    removed = tuple(path for path in before if path not in plan and (output / path).is_file())
    if not dry_run:
        for path in removed:
            (output / path).unlink()
        state = json.dumps({"schema": 1, "files": {path: {} for path in plan}}, indent=0) + "\n"
        write_atomically(output / STATE_NAME, state.encode(), scratch=scratch)
    return tuple(written), removed


class _State(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    files: dict[Annotated[str, PAGE_PATH], dict[str, str]]  # digests of older toolkits, which nobody reads


def _read_state(output: Path) -> Collection[str]:
    """The files that the last run planned; none if that is not known, and then none is removed."""
    content = read_if_there(output / STATE_NAME)
    if content is None:
        return ()
    try:
        return from_large_json(content, _State).files
    except MalformedError as error:
        console.warn(f"{STATE_NAME} {error.problem}; what is no longer published is not removed")
        return ()


# -- plan -----------------------------------------------------------------------------------------------------------


def _plan(
    pages: Pages, channels: tuple[Channel, Channel], core_metadata: bool, source: str, documents: Documents | None
) -> Plan:
    """All files, in the order in which they are replaced: what others link to comes first."""
    snapshots, numbered = channels
    plan: Plan = {"style.css": style, "icon.svg": icon, "copy.js": copy_script}
    plan |= {f"schemas/{name}": partial(str, text) for name, text in read_schemas().items()}
    if documents is not None:
        for each in documents.files:
            plan[f"{DOCUMENTS}/{each.name}.html"] = partial(pages.document, documents, each, channels)
        plan[f"{DOCUMENTS}/index.html"] = partial(pages.documents, documents, channels)
    for channel in channels:
        for release in channel.releases:
            plan |= _release_files(pages, channel, release, channels)
    for channel in channels:
        if channel.releases or channel.kind == "snapshot":
            plan |= _channel_files(pages, channel, channels, core_metadata)
    published = [release for channel in channels for release in channel.releases]
    plan[ARCHIVE_NAME] = partial(pack, source, published)
    plan["getting-started/index.html"] = partial(pages.getting_started, channels)
    plan["feed.xml"] = partial(pages.feed, *channels)
    plan["index.html"] = partial(pages.landing, snapshots, numbered)
    return plan


def _release_files(pages: Pages, channel: Channel, release: Published, channels: tuple[Channel, ...]) -> Plan:
    """The files in a release's folder."""
    files: Plan = {MANIFEST_NAME: partial(str, release.text)}
    for name in release.manifest.distributions:
        given = (release.manifest, name, release.urls)
        pinned = lockfiles.requirements_name(release.manifest, name, tag=release.tag)
        files[pinned] = partial(lockfiles.requirements, *given, yanked=release.yanked)
        files[lockfiles.pylock_name(release.manifest, name)] = partial(lockfiles.pylock, *given, yanked=release.yanked)
    files["index.html"] = partial(pages.release, release, channel.previous(release), channels)
    return {f"{channel.folder}/{release.tag}/{name}": draw for name, draw in files.items()}


def _channel_files(pages: Pages, channel: Channel, channels: tuple[Channel, ...], core_metadata: bool) -> Plan:
    """The files about all releases of a kind."""
    projects = channel.files()
    files: Plan = {}
    for name, links in projects.items():
        files[f"simple/{name}/index.html"] = partial(simple.project_html, name, links, core_metadata=core_metadata)
        files[f"simple/{name}/index.json"] = partial(simple.project_json, name, links)
    files["simple/index.html"] = partial(simple.root_html, projects)
    files["simple/index.json"] = partial(simple.root_json, projects)
    if channel.newest is not None:
        wheels = {link.wheel: link.url for link in channel.newest_links}
        urls = {wheel.filename: url for wheel, url in wheels.items()}
        for name in projects:
            path = f"latest/{lockfiles.requirements_name(channel.newest.manifest, name)}"
            files[path] = partial(lockfiles.newest_requirements, channel.kind, name, tuple(wheels), urls)
    for good in (release for release in channel.releases if release.tag == pages.good):
        for name in good.manifest.distributions:
            path = f"{LATEST_GOOD}/{lockfiles.requirements_name(good.manifest, name)}"
            files[path] = partial(lockfiles.requirements, good.manifest, name, good.urls)
    files["latest/index.html"] = partial(pages.latest, channel, channels, core_metadata=core_metadata)
    files["index.html"] = partial(pages.channel, channel, channels)
    return {f"{channel.folder}/{name}": draw for name, draw in files.items()}
