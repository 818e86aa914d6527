"""Workflow runs of a local forge: dispatched ones wait on disk until a runner on this machine takes them.

A run is in progress as long as its runner holds the lock of the run's file. One whose runner died without a word
counts as failed, as it does on GitHub, so that it can be dispatched again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from mlir_release.ground.documents.decode import PlainName, from_json
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.local.store import Store, damaged, is_locked, lock_file
from mlir_release.release.forge.services import Run

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.hosting import RunJob


class _Record(Struct, frozen=True, kw_only=True):
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
    """The runs in ``<root>/runs``: one JSON file each. Callers hold the store's lock where a method says so."""

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
            data = structs.asdict(from_json(read_document(path), _Record))
            run = Run(**data | {"created_at": datetime.fromisoformat(data["created_at"])})
        except ValueError as error:
            remedy = "it was changed by hand: restore it, or delete the file to forget that run"
            raise damaged(path, why=str(error), remedy=remedy) from error
        if run.status == "in_progress" and not is_locked(path):
            return replace(run, status="completed", conclusion="failure")
        return run
