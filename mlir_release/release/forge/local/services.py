"""What a folder offers beside releases: issues as files. It has no jobs, settings, caches or attestations.

::

    <root>/issues/<number>.json    an issue, open or closed, with its comments
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.hosting import Issue
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.local.store import Store, damaged
from mlir_release.release.forge.observations import Observations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from mlir_release.release.forge.local.repository import LocalRepository
    from mlir_release.release.forge.local.runs import RunQueue


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


class _Record(Struct, frozen=True, kw_only=True):
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
            return self._save(self._store.next_number(), _Record(key=key, title=title, body=body))

    def update(self, issue: Issue, title: str, body: str, *, reopen: bool = False) -> Issue:
        return self._change(issue, lambda old: structs.replace(old, title=title, body=body, open=old.open or reopen))

    def comment(self, issue: Issue, key: str, body: str) -> None:
        self._change(issue, lambda old: structs.replace(old, comments={key: body, **old.comments}))

    def close(self, issue: Issue, comment: str) -> None:
        """See :class:`Tracker`. The comment becomes part of the body, as on GitHub."""
        body = f"{comment}\n\n{issue.body}"
        self._change(issue, lambda old: structs.replace(old, body=body, open=False))

    def _change(self, issue: Issue, change: Callable[[_Record], _Record]) -> Issue:
        with self._store.writing(f"change issue {issue.number}"):
            return self._save(issue.number, change(self._load(self._path(issue.number))))

    def _all(self) -> Iterator[tuple[int, _Record]]:
        """Oldest first. Under the lock, at least shared."""
        paths = {int(path.stem): path for path in self._folder.glob("*.json") if path.stem.isdecimal()}
        return ((number, self._load(path)) for number, path in sorted(paths.items()))

    def _load(self, path: Path) -> _Record:
        try:
            return from_json(read_document(path), _Record)
        except MalformedError as error:
            remedy = "it was changed by hand: restore it, or delete the file to forget that issue"
            raise damaged(path, why=str(error), remedy=remedy) from error

    def _save(self, number: int, record: _Record) -> Issue:
        self._store.write(self._path(number), msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        return self._issue(number, record)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _issue(self, number: int, record: _Record) -> Issue:
        url = self._path(number).as_uri()
        return Issue(number=number, key=record.key, title=record.title, body=record.body, url=url)
