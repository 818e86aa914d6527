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
    beside/                                   wheels without files, which only requirements and locks name
    releases/<tag>/api/, snapshots/latest/api/  the API of their wheels (the extra apidocs)
    releases/conda/, snapshots/conda/         the index of conda packages that are elsewhere (the extra conda)
    docs/                                     the toolkit's documentation
    index.json, index/, quality.json, …       the index of all releases, for programs
    status/                                   what is going on: index.html, status.json
    manifests.json.gz                         all manifests, from which the next run begins (:mod:`.observe`)
    state.json                                the files that the last run planned

The same releases give the same bytes, whether the folder was empty before or not: each run draws every file, and
replaces those that differ. ``state.json`` only tells what may be removed: it lacks the status, and others' files.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Struct, structs

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, from_large_json, text
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.storage.files import check_inside, read_if_there, write_atomically
from mlir_release.release.forge.base import Forge, public_name
from mlir_release.release.index import simple
from mlir_release.release.index.documents import DOCUMENTS
from mlir_release.release.index.drawing import copy_script, icon, style
from mlir_release.release.index.observe import ARCHIVE_NAME, SERVED_LIMIT, observe, pack, read_served, unpack
from mlir_release.release.index.pages import Pages
from mlir_release.release.index.simple import BESIDE, beside, stand_ins
from mlir_release.release.index.site import Channel, Published, SiteOptions
from mlir_release.release.instructions import lockfiles
from mlir_release.release.judging.signed import AS_DECLARED, KnownManifest, SignedBy, is_required
from mlir_release.release.judging.status import make_status
from mlir_release.release.judging.status_facts import observe_status
from mlir_release.release.latest.catalogue import Catalogue, learnt_here, need_signed, read_signed
from mlir_release.release.latest.latest import read_head
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    make_index,
    month_file,
    parse_index,
    to_bytes,
)
from mlir_release.release.model.release_tags import LATEST_GOOD
from mlir_release.release.model.schemas import read_schemas
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

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
    matrix: Matrix | None = None,
    signed_by: SignedBy = AS_DECLARED,
    options: SiteOptions | None = None,
    afresh: bool = False,
    dry_run: bool = False,
) -> IndexOutcome:
    """Make or renew the pages in ``output``. What they, or the pages at ``base_url``, show already is not read again.

    Only published releases with a manifest are shown. Files are replaced one by one, each atomically, those that others
    link to first. Two runs at once go one after the other.

    :param base_url: where ``output`` will be served: ``https://…``, or a ``file:`` URL
    :param matrix: what the status page is about, and whether releases must be signed: the branch's; None: there is no
        such page, and those must be that say so
    :param signed_by: who must have signed the releases, if that is asked for: no others are shown, and all are read;
        its branch holds ``yanked.toml``
    :param afresh: read every manifest again
    :raises VerificationError: ``file-damaged``, ``release-tampered``
    :raises UsageError: ``config-invalid``
    """
    output, options = output.absolute(), options or SiteOptions()
    with _scratch_beside(output) as scratch:
        known = {} if afresh or signed_by.required else read_known(forge, output, base_url, scratch)
        required = matrix is not None and is_required(forge, matrix.release.provenance)
        ledger = Ledger(forge, whole=not known)
        if matrix is not None:
            _ = ledger.states  # which reads the tags before the releases, for the status
        published, new = observe(ledger, known, scratch, required=required, signed_by=signed_by)
        snapshots = Channel.of("snapshot", published, linked_days=options.linked_days)
        channels = (snapshots, Channel.of("numbered", published))
        head, stored = read_head(forge), None
        try:
            stored = read_signed(head, signed_by) if head.bundle is not None else None
        except VerificationError as error:
            console.warn(f"{error.what} ({error.why}); the pages serve an index that nobody signed")
        learnt, good = stored.learnt if stored is not None else learnt_here(forge, signed_by)
        if not dry_run:
            further = {"has_status": matrix is not None, "has_documents": options.documents is not None}
            for section in options.sections.values():
                section.provide(channels, output, base_url, {**options.given, **further})
        # They are called by the project of the matrix's main distribution, else by the newest release's.
        wheels = matrix.wheels if matrix is not None else ()
        of_matrix = (wheel.configuration.project for wheel in wheels if matrix and wheel.distribution == matrix.main)
        newest = (channel.newest.manifest for channel in channels if channel.newest is not None)
        called = (project for manifest in newest for project in manifest.projects)
        pages = Pages(
            base_url=base_url,
            channels=channels,
            project=next(iter((*of_matrix, *called, DEFAULT_PROJECT))),
            options=options,
            has_status=matrix is not None,
            repository=forge.services.url,
            sections={
                (name, section.title): section.show(channels, output, base_url)
                for name, section in options.sections.items()
            },
            quality=learnt.releases,
            good=good,
        )
        plan = _plan(pages, _source(forge))
        copies = _index_files(published, stored, learnt, good)
        plan |= {path: partial(bytes, content) for path, content in copies.items()}
        written, removed = _apply(plan, output, scratch, dry_run=dry_run)
        if matrix is not None and not dry_run:
            manifests = {release.tag: release.manifest for release in published}
            status = make_status(observe_status(ledger, matrix, known=manifests, learnt=(learnt, good)))
            status = replace(status, source=_source(forge))
            for note in status.notes:
                console.warn(note)
            check_inside(output, output / "status" / "index.html")
            text = json.dumps(status.to_json(), indent=1) + "\n"
            for name, content in (("status.json", text), ("index.html", pages.status(status))):
                write_atomically(output / "status" / name, content.encode(), scratch=scratch)
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


@contextmanager
def _scratch_beside(output: Path) -> Iterator[Path]:
    """A folder for what is being written, until it is whole: beside the pages and not among them. One run at once."""
    from filelock import FileLock

    scratch = output.with_name(f"{output.name}.scratch")
    try:
        output.mkdir(parents=True, exist_ok=True)
        with FileLock(output.with_name(f"{output.name}.lock")):
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            try:
                yield scratch
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


def read_known(forge: Forge, output: Path, base_url: str, scratch: Path) -> Mapping[str, KnownManifest]:
    """The releases that the pages in ``output`` show; if it has none, those that are served at ``base_url``.

    A forge in a folder is asked again instead: its pages may never have been served.
    """
    content = read_if_there(output / ARCHIVE_NAME, limit=SERVED_LIMIT)
    if content is None and forge.services.url and base_url.startswith(("https:", "http:")):
        content = read_served(base_url, scratch)
    return unpack(content, _source(forge))


def _source(forge: Forge) -> str:
    """What the pages say about where they came from: no path of this machine, which a local forge's address is."""
    return forge.services.address or public_name(forge)


def _apply(plan: Plan, output: Path, scratch: Path, *, dry_run: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draw everything, replace what differs, and remove what the last run planned and this one does not."""
    content, before = read_if_there(output / STATE_NAME), dict[str, object]()
    try:  # the files that the last run planned; where that is not known, none is removed
        before |= from_large_json(content, _State).files if content is not None else {}
    except MalformedError as error:
        console.warn(f"{STATE_NAME} {error.problem}; what is no longer published is not removed")
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


# -- plan -----------------------------------------------------------------------------------------------------------


def _plan(pages: Pages, source: str) -> Plan:
    """All files, in the order in which they are replaced: what others link to comes first."""
    plan: Plan = {"style.css": style, "icon.svg": icon, "copy.js": copy_script}
    plan |= {f"schemas/{name}": partial(str, text) for name, text in read_schemas().items()}
    documents = pages.options.documents
    if documents is not None:
        for each in documents.files:
            plan[f"{DOCUMENTS}/{each.name}.html"] = partial(pages.document, documents, each)
        plan[f"{DOCUMENTS}/index.html"] = partial(pages.documents, documents)
    for channel in pages.channels:
        for release in channel.releases:
            files: Plan = {MANIFEST_NAME: partial(str, release.text)}
            for name in release.manifest.distributions:
                made = stand_ins(release.manifest, name)
                plan |= {f"{BESIDE}/{file}": partial(bytes, content) for file, content in made.items()}
                given = (release.manifest, name, release.urls)
                others = beside(release.manifest, name, pages.url)
                pinned = lockfiles.requirements_name(release.manifest, name, tag=release.tag)
                files[pinned] = partial(lockfiles.requirements, *given, yanked=release.yanked, beside=others)
                locked = partial(lockfiles.pylock, *given, yanked=release.yanked, beside=others)
                files[lockfiles.pylock_name(release.manifest, name)] = locked
            files["index.html"] = partial(pages.release, release, channel.previous(release))
            plan |= {f"{channel.folder}/{release.tag}/{name}": draw for name, draw in files.items()}
    for channel in pages.channels:
        if channel.releases or channel.kind == "snapshot":
            plan |= _channel_files(pages, channel)
    published = [release for channel in pages.channels for release in channel.releases]
    plan[ARCHIVE_NAME] = partial(pack, source, published)
    plan["getting-started/index.html"] = pages.getting_started
    plan["feed.xml"] = pages.feed
    plan["index.html"] = pages.landing
    return plan


def _channel_files(pages: Pages, channel: Channel) -> Plan:
    """The files about all releases of a kind."""
    projects, core_metadata = channel.files(), pages.options.core_metadata
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
            newest = next(each for each in channel.linked if name in each.manifest.distributions)
            others = beside(newest.manifest, name, pages.url)
            files[path] = partial(lockfiles.newest_requirements, channel.kind, name, tuple(wheels), urls, others)
    for good in (release for release in channel.releases if release.tag == pages.good):
        for name in good.manifest.distributions:
            path = f"{LATEST_GOOD}/{lockfiles.requirements_name(good.manifest, name)}"
            others = beside(good.manifest, name, pages.url)
            files[path] = partial(lockfiles.requirements, good.manifest, name, good.urls, beside=others)
    files["latest/index.html"] = partial(pages.latest, channel)
    files["index.html"] = partial(pages.channel, channel)
    return {f"{channel.folder}/{name}": draw for name, draw in files.items()}


# -- the index of all releases, for programs that ask no forge ---------------------------------------------------------


def _index_files(
    published: Sequence[Published], stored: Catalogue | None, quality: Quality, good: str
) -> dict[str, bytes]:
    """``index.json``, its months and ``quality.json`` by their paths; what others name comes first.

    They are copies of the branch ``latest``, with the signed pointer, if that has the releases that the pages show.
    Otherwise they are made of those, and nothing signs them: pages and index are renewed in runs of their own.

    :param stored: what is signed on the branch ``latest``; None: nothing is that is to be believed
    :param quality: what was learnt of releases
    :param good: the tag of the channel latest-good; empty: no snapshot is
    """
    tags = {release.tag for release in published}
    computed = make_index(
        [release.manifest for release in published],
        repository=quality.repository,
        yanks=[yank for release in published for yank in release.yanks],
    )
    if stored is not None and set(stored.index.tags) == tags:
        try:
            months = {}
            for month in stored.index.months:  # only those that were not computed alike are read from the branch
                name = month_file(month.month)
                months[name] = computed.get(name, b"")
                if sha256_of(months[name]) != month.sha256:
                    months[name] = need_signed(stored.read_month(month), month.sha256, name, where=stored.where)
            return {**months, **stored.files}
        except VerificationError as error:
            console.warn(f"{error.what} ({error.why}); the pages serve an index that nobody signed")
    if good in tags:
        head = parse_index(computed[INDEX_NAME])
        channels = {**head.channels, LATEST_GOOD: good}
        computed[INDEX_NAME] = to_bytes(structs.replace(head, channels=dict(sorted(channels.items()))))
    return {**{name: computed[name] for name in sorted(computed, reverse=True)}, QUALITY_NAME: to_bytes(quality)}
