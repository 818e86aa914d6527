"""What a folder offers beside releases: issues and runs as files. It has no jobs, settings, caches or attestations.

::

    <root>/issues/<number>.json    an issue, open or closed, with its comments
    <root>/runs/<number>.json      a workflow run; dispatched ones wait until a runner on this machine takes them
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, structs

from mlir_release.ground.documents.decode import MalformedError, PlainName, from_json
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.hosting import Issue
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.local.store import Store, damaged, is_locked, lock_file
from mlir_release.release.forge.observations import Observations
from mlir_release.release.forge.services import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.forge.local.repository import LocalRepository


class LocalServices:
    """Adapter of :class:`~mlir_release.release.forge.services.Services`. A folder has no address of its own."""

    address = location = url = ""

    def __init__(self, store: Store, runs: RunQueue, repository: LocalRepository) -> None:
        self.tracker = LocalTracker(store)
        self.runs = runs
        self._repository = repository

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        """See :class:`Services`. Who may write to a folder, the system decides."""
        default = self._repository.default_branch
        head = self._repository.head(branch or default)
        read = {path: self._repository.read(path, commit=head) for path in files} if head is not None else {}
        found = {path: content for path, content in read.items() if content is not None}
        return Observations(branch=branch or default, default_branch=default, files=found if head is not None else None)

    def file_of(self, repository: str, path: str, *, ref: str) -> None:
        """See :class:`Services`."""

    def tidy_caches(self, branch: str) -> Sequence[str]:
        return ()

    def keep_attestation(self, bundle: bytes) -> bool:
        return False


class _IssueRecord(Struct, frozen=True, kw_only=True):
    """The content of an issue's file."""

    key: str
    title: str
    body: str
    open: bool = True
    comments: dict[str, str] = {}


class LocalTracker:
    """Adapter of :class:`~mlir_release.ground.hosting.Tracker`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.root / "issues"

    def open_issues(self) -> Sequence[Issue]:
        with self._store.reading("list its issues"):
            return [self._issue(number, record) for number, record in self._all() if record.open]

    def find(self, key: str) -> Issue | None:
        with self._store.reading("list its issues"):
            return next((self._issue(number, record) for number, record in self._all() if record.key == key), None)

    def open(self, key: str, title: str, body: str) -> Issue:
        with self._store.writing(f"open the issue {title}"):
            self._folder.mkdir(exist_ok=True)
            return self._save(self._store.next_number(), _IssueRecord(key=key, title=title, body=body))

    def update(self, issue: Issue, title: str, body: str, *, reopen: bool = False) -> Issue:
        return self._change(issue, lambda old: structs.replace(old, title=title, body=body, open=old.open or reopen))

    def comment(self, issue: Issue, key: str, body: str) -> None:
        self._change(issue, lambda old: structs.replace(old, comments={key: body, **old.comments}))

    def close(self, issue: Issue, comment: str) -> None:
        """See :class:`Tracker`. The comment becomes part of the body, as on GitHub."""
        body = f"{comment}\n\n{issue.body}"
        self._change(issue, lambda old: structs.replace(old, body=body, open=False))

    def _change(self, issue: Issue, change: Callable[[_IssueRecord], _IssueRecord]) -> Issue:
        with self._store.writing(f"change issue {issue.number}"):
            return self._save(issue.number, change(self._load(self._path(issue.number))))

    def _all(self) -> Iterator[tuple[int, _IssueRecord]]:
        """Oldest first. Under the lock, at least shared."""
        paths = {int(path.stem): path for path in self._folder.glob("*.json") if path.stem.isdecimal()}
        return ((number, self._load(path)) for number, path in sorted(paths.items()))

    def _load(self, path: Path) -> _IssueRecord:
        try:
            return from_json(read_document(path), _IssueRecord)
        except MalformedError as error:
            remedy = "it was changed by hand: restore it, or delete the file to forget that issue"
            raise damaged(path, why=str(error), remedy=remedy) from error

    def _save(self, number: int, record: _IssueRecord) -> Issue:
        self._store.write(self._path(number), msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        return self._issue(number, record)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _issue(self, number: int, record: _IssueRecord) -> Issue:
        url = self._path(number).as_uri()
        return Issue(number=number, key=record.key, title=record.title, body=record.body, url=url)


class _RunRecord(Struct, frozen=True, kw_only=True):
    """The content of a run's file."""

    id: PlainName
    workflow: str
    ref: str
    status: Literal["queued", "in_progress", "completed"]
    conclusion: str | None
    created_at: str
    inputs: Mapping[str, str] = {}
    url: str = ""
    commit: str = ""


class RunQueue:
    """The runs in ``<root>/runs``. Callers hold the store's lock where a method says so.

    A run is in progress as long as its runner holds the lock of the run's file. One whose runner died without a word
    counts as failed, as it does on GitHub, so that it can be dispatched again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.root / "runs"
        self._taken: dict[str, int] = {}

    def add(self, workflow: str, ref: str, commit: str, inputs: Mapping[str, str], now: datetime) -> Run:
        """Queue a run. Under the exclusive lock."""
        run = Run(
            id=f"{self._store.next_number():06d}",
            workflow=workflow,
            ref=ref,
            status="queued",
            conclusion=None,
            created_at=now,
            inputs=dict(inputs),
            commit=commit,
        )
        self._save(run)
        return run

    def all(self) -> Sequence[Run]:
        """All runs, newest first. Under the lock, at least shared."""
        found = [self._load(path) for path in self._folder.glob("*.json")]
        return sorted(found, key=lambda run: run.id, reverse=True)

    def since(self, start: datetime) -> Sequence[Run]:
        """See :class:`~mlir_release.release.forge.services.WorkflowRuns`."""
        with self._store.reading("list its runs"):
            return [run for run in self.all() if run.created_at >= start]

    def jobs(self, run: Run) -> Sequence[RunJob]:
        """None: this forge is told how a run ends, and nothing of its jobs. :raises ForgeError: without such a run"""
        with self._store.reading("list its runs"):
            if run.id not in {known.id for known in self.all()}:
                raise ForgeError(
                    "not-on-forge",
                    f"there is no run {run.id}",
                    where=str(self._folder),
                    remedy="check the number: the files there are named for the runs",
                )
        return ()

    def take(self, workflow: str | None) -> Run | None:
        """Mark the oldest queued run as in progress and ours; None if no run is queued. Under the exclusive lock."""
        queued = [run for run in self.all() if run.status == "queued" and workflow in (None, run.workflow)]
        if not queued:
            return None
        run = replace(queued[-1], status="in_progress")
        self._save(run)
        self._taken[run.id] = lock_file(self._path(run))
        return run

    def finish(self, run: Run, conclusion: str) -> Run:
        """Complete a run that this process took. Under the exclusive lock."""
        if run.id not in self._taken:
            raise ForgeError(
                "forge-refused",
                f"run {run.id} of {run.workflow} was not taken by this process",
                where=str(self._path(run)),
                remedy="take a run before finishing it",
            )
        done = replace(run, status="completed", conclusion=conclusion)
        self._save(done)
        os.close(self._taken.pop(run.id))
        return done

    def _path(self, run: Run) -> Path:
        return self._folder / f"{run.id}.json"

    def _save(self, run: Run) -> None:
        data = vars(run) | {"created_at": run.created_at.isoformat()}
        self._store.write(self._path(run), json.dumps(data, indent=1, sort_keys=True).encode() + b"\n")

    def _load(self, path: Path) -> Run:
        try:
            data = structs.asdict(from_json(read_document(path), _RunRecord))
            run = Run(**data | {"created_at": datetime.fromisoformat(data["created_at"])})
        except ValueError as error:
            remedy = "it was changed by hand: restore it, or delete the file to forget that run"
            raise damaged(path, why=str(error), remedy=remedy) from error
        if run.status == "in_progress" and not is_locked(path):
            return replace(run, status="completed", conclusion="failure")
        return run
