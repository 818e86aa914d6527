"""The local forge: a folder with a bare git repository and releases on disk; the embedded default.

::

    <root>/repository.git     branches and tags
    <root>/releases/<tag>/    published releases, served as plain files: assets and index.html
    <root>/drafts/<id>/       drafts, which are not served
    <root>/runs/              workflow runs, taken by a runner on this machine
    <root>/issues/            what fails
    <root>/scratch/           files that are not whole yet (see store.py)

A release's place decides whether it is a draft, so publication is one rename of a complete folder. ``.forge.json``
in it records the rest; an asset exists once both its record and its file do.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mlir_release.ground.documents.decode import is_plain_name
from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.storage.files import replacing, sync_folder
from mlir_release.release.forge.base import Asset, Release, ReleaseRow
from mlir_release.release.forge.local.releases import Records, render_page
from mlir_release.release.forge.local.repository import LocalRepository, make_repository, utc_now
from mlir_release.release.forge.local.services import LocalServices, RunQueue
from mlir_release.release.forge.local.store import Store, answering
from mlir_release.release.forge.refusals import (
    RELEASE_PAGE,
    asset_taken,
    check_name,
    release_tag_missing,
    release_taken,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from mlir_release.release.forge.services import Run


class LocalForge(LocalRepository):
    """A forge in a folder. See :class:`~mlir_release.release.forge.base.Forge` for what the methods promise.

    :param clock: the forge's clock, timezone-aware
    :param base_url: where ``<root>/releases`` is served; a ``file:`` URL if not given
    :param identity: who acts, ``Name <email>``; git's ``user.name`` and ``user.email`` if not given
    :raises ForgeError: if there is no forge in ``root``
    """

    def __init__(
        self,
        root: Path,
        *,
        clock: Callable[[], datetime] = utc_now,
        base_url: str | None = None,
        identity: str | None = None,
    ) -> None:
        super().__init__(root, clock, identity)
        self._runs = RunQueue(self._store)
        self.services = LocalServices(self._store, self._runs, self)
        base = base_url or (self.root / "releases").as_uri()
        self._records = Records(self._store, base.rstrip("/"))

    @classmethod
    def create(
        cls,
        root: Path,
        files: Mapping[str, bytes],
        *,
        clock: Callable[[], datetime] = utc_now,
        base_url: str | None = None,
        identity: str | None = None,
    ) -> LocalForge:
        """Make a forge whose branch ``main`` begins with ``files``; one that is there already is left as it is."""
        root = root.absolute()
        with answering(root, "be created"):
            for name in ("releases", "drafts", "runs", "scratch"):
                (root / name).mkdir(parents=True, exist_ok=True)
            make_repository(Store(root), files, identity, clock())
        return cls(root, clock=clock, base_url=base_url, identity=identity)

    # -- releases -----------------------------------------------------------------------------------------------

    def releases(self) -> Sequence[Release]:
        with self._store.reading("list its releases"):
            return self._records.all("drafts", "releases")

    def recent(self, count: int | None) -> Sequence[ReleaseRow]:
        with self._store.reading("list its releases"):
            return self._records.all("drafts", "releases")[::-1][:count]

    def drafts(self, tag: str) -> Sequence[Release]:
        with self._store.reading(f"list the drafts of {tag}"):
            return [release for release in self._records.all("drafts") if release.tag == tag]

    def refresh(self, release: ReleaseRow) -> Release | None:
        with self._store.reading(f"read the release {release.tag}"):
            draft = self._records.find(self._records.draft_folder(release))
            found = draft or self._records.find(self._records.release_folder(release.tag))
            return found if found is not None and found.id == release.id else None

    def published(self, tag: str) -> Release | None:
        if not is_plain_name(tag):
            return None
        with self._store.reading(f"read the release {tag}"):
            return self._records.find(self._records.release_folder(tag))

    def published_newest_first(self) -> Iterator[Release]:
        dated = [(release.published_at, release.tag, release) for release in self.releases() if release.published_at]
        return (release for _, _, release in sorted(dated, key=lambda row: row[:2], reverse=True))

    def create_draft(self, tag: str, *, title: str, body: str, prerelease: bool) -> Release:
        """Create a draft, even if ``tag`` has one already."""
        check_name("tag", tag, where=self.description)
        with self._store.writing(f"create a draft of {tag}"):
            if self._git.resolve(f"refs/tags/{tag}") is None:
                raise release_tag_missing(tag, where=self.description)
            release = Release(
                id=f"{self._store.next_number():06d}",
                tag=tag,
                title=title,
                body=body,
                draft=True,
                prerelease=prerelease,
                created_at=self.now(),
                published_at=None,
            )
            made = self._store.scratch / release.id
            made.mkdir()
            self._records.save(made, release)
            made.rename(self._records.draft_folder(release))
            sync_folder(self.root / "drafts")
        return release

    def edit_release(self, release: Release, *, title: str, body: str) -> Release:
        with self._store.writing(f"edit the draft of {release.tag}"):
            edited = replace(self._records.draft(release), title=title, body=body)
            self._records.save(self._records.draft_folder(release), edited)
        return edited

    def delete_draft(self, release: Release) -> None:
        with self._store.writing(f"delete a draft of {release.tag}"):
            self._records.refuse_published(release)
            if self._records.draft_folder(release).exists():
                self._store.remove_folder(self._records.draft_folder(release))

    def upload(self, release: Release, name: str, source: Path) -> Asset:
        check_name("asset", name, where=self.description)
        with open_regular(source) as stream, answering(self.root, f"store {name}"), self._store.incoming() as file:
            with self._store.reading(f"store {name}"):
                _check_free(self._records.draft(release), name)
            sha256 = _copy(stream, file)
            with self._store.exclusive():
                draft = self._records.draft(release)
                _check_free(draft, name)
                folder = self._records.draft_folder(release)
                asset = self._records.asset(release.tag, name, Path(file.name).stat().st_size, sha256)
                # The record first: one without its file is no asset yet; a file without one would have no digest.
                self._records.save(folder, replace(draft, assets=(*draft.assets, asset)))
                Path(file.name).chmod(0o644)
                Path(file.name).rename(folder / name)
                sync_folder(folder)
        return asset

    def delete_asset(self, release: Release, asset: Asset) -> None:
        with self._store.writing(f"delete {asset.name}"):
            draft = self._records.draft(release)
            if draft.asset(asset.name) is not None:
                folder = self._records.draft_folder(release)
                (folder / asset.name).unlink()
                self._records.save(
                    folder, replace(draft, assets=tuple(a for a in draft.assets if a.name != asset.name))
                )

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        """Copy an asset to the file ``destination``, atomically, and check its digest."""
        check_name("asset", asset.name, where=self.description)
        with answering(self.root, f"fetch {asset.name} of {release.tag}"):
            with self._store.reading(f"fetch {asset.name} of {release.tag}"):
                folder = self._records.draft_folder(release)
                if not folder.exists():
                    folder = self._records.release_folder(release.tag)
                stream = self._records.open(folder, asset.name)
            with stream, replacing(destination) as temporary, temporary.open("wb") as file:
                why = "another size was recorded"
                if asset.complete:
                    sha256 = _copy(stream, file)
                    why = f"its sha256 is {sha256}, recorded was {asset.sha256}" if sha256 != asset.sha256 else ""
                if why:
                    raise ForgeError(
                        "forge-damaged",
                        f"{asset.name} on the forge is not what was uploaded",
                        where=str(folder / asset.name),
                        why=why,
                    )

    def file_url(self, tag: str, name: str) -> str:
        return self._records.url(tag, name)

    def fetch_published(self, tag: str, name: str, destination: Path) -> bool:
        release = self.published(tag)
        asset = release.asset(name) if release is not None else None
        if release is None or asset is None:
            return False
        self.download(release, asset, destination)
        return True

    def published_folder(self, tag: str) -> Path | None:
        """See :class:`Forge`. Its address may be one that is not served yet."""
        return self._records.release_folder(tag) if self.published(tag) is not None else None

    def publish(self, release: Release) -> Release:
        with self._store.writing(f"publish {release.tag}"):
            target = self._records.release_folder(release.tag)
            if target.exists():
                public = self._records.load(target)
                if public.id == release.id:
                    return public
                raise release_taken(release.tag, where=str(target))
            folder = self._records.draft_folder(release)
            public = replace(self._records.draft(release), draft=False, published_at=self.now())
            # Both are harmless in a draft's folder, so a publication that is killed here is simply done again.
            self._store.write(folder / RELEASE_PAGE, render_page(public, self._records.url(release.tag, "")).encode())
            self._records.save(folder, public)
            folder.rename(target)
            sync_folder(target.parent)
            sync_folder(folder.parent)
        return public

    def page_url(self, tag: str) -> str:
        return self._records.url(tag, RELEASE_PAGE)

    def files_page(self, tag: str) -> str:
        return self.page_url(tag)

    # -- workflow runs ------------------------------------------------------------------------------------------

    def dispatch(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> Run:
        with self._store.writing(f"dispatch {workflow}"):
            found = (self._git.resolve(f"refs/{kind}/{ref}^{{commit}}") for kind in ("heads", "tags"))
            commit = next(filter(None, found), None)
            if commit is None:
                raise ForgeError(
                    "not-on-forge",
                    f"{workflow} can't run on {ref}: no such branch or tag",
                    where=self.description,
                    remedy="check the name, or create it first",
                )
            return self._runs.add(workflow, ref, commit, inputs, self.now())

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        with self._store.reading("list its runs"):
            return [run for run in self._runs.all() if run.workflow == workflow and run.ref == ref]

    def await_runs(self, attempt: int) -> bool:
        """Never waits: a run is listed as soon as it is dispatched."""
        return False

    def take_run(self, workflow: str | None = None) -> Run | None:
        """For a runner on this machine: the oldest queued run, now in progress as long as this process lives."""
        with self._store.writing("start a run"):
            return self._runs.take(workflow)

    def finish_run(self, run: Run, conclusion: str) -> Run:
        """For a runner on this machine: complete a run that it took, with ``success`` or ``failure``."""
        with self._store.writing(f"finish run {run.id}"):
            return self._runs.finish(run, conclusion)


def _check_free(draft: Release, name: str) -> None:
    if draft.asset(name) is not None:
        raise asset_taken(draft.tag, name, where=draft.id)


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    """Copy to the end, durably; returns the sha256."""

    def copied() -> Iterator[bytes]:
        while block := source.read(1 << 20):
            target.write(block)
            yield block

    found = sha256_of(copied())
    target.flush()
    os.fsync(target.fileno())
    return found
