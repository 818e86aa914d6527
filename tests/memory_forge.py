"""A forge in memory, whose state can be copied and compared. One thread at a time may use it."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.hosting import Issue
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.base import Asset, BranchMoved, Release, Tag, Taken, parents_of
from mlir_release.release.forge.observations import Observations
from mlir_release.release.forge.services import Run
from mlir_release.release.model.pin_commit import PARENTS, PLAIN, PinFacts, TreeEntry, changed_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.forge.base import ReleaseRow

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class MemoryServices:
    """What a :class:`MemoryForge` offers beside releases: issues, and nothing that a folder lacks."""

    address = location = url = ""

    def __init__(self, forge: MemoryForge) -> None:
        self.forge, self.tracker, self.runs = forge, self, self

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        return Observations(branch=branch or "main", default_branch="main")

    def file_of(self, repository: str, path: str, *, ref: str) -> None:
        pass

    def tidy_caches(self, branch: str) -> Sequence[str]:
        return ()

    def keep_attestation(self, bundle: bytes) -> bool:
        return False

    def since(self, start: datetime) -> Sequence[Run]:
        return [run for run in reversed(self.forge.run_list) if run.created_at >= start]

    def jobs(self, run: Run) -> Sequence[RunJob]:
        if run.id not in {known.id for known in self.forge.run_list}:
            raise ForgeError("not-on-forge", "no such run")
        return ()

    def open_issues(self) -> Sequence[Issue]:
        return [issue for issue, is_open in self.forge.issues.values() if is_open]

    def find(self, key: str) -> Issue | None:
        return next((issue for issue, _ in self.forge.issues.values() if issue.key == key), None)

    def open(self, key: str, title: str, body: str) -> Issue:
        number = len(self.forge.issues) + 1
        return self._keep(Issue(number=number, key=key, title=title, body=body, url=f"issue {number}"), True)

    def update(self, issue: Issue, title: str, body: str, *, reopen: bool = False) -> Issue:
        old, is_open = self.forge.issues[issue.number]
        return self._keep(replace(old, title=title, body=body), is_open or reopen)

    def comment(self, issue: Issue, key: str, body: str) -> None:
        pass

    def close(self, issue: Issue, comment: str) -> None:
        self._keep(replace(issue, body=f"{comment}\n\n{issue.body}"), False)

    def _keep(self, issue: Issue, is_open: bool) -> Issue:
        self.forge.issues[issue.number] = issue, is_open
        return issue


class MemoryForge:
    """Commits are numbered from 1: ``f"{n:040x}"``."""

    description = "forge in memory"
    default_branch = "main"
    base = "https://forge.example/releases/download"

    def __init__(self, files: Mapping[str, bytes], *, now: datetime = NOON) -> None:
        self.time = now
        self.commits: list[tuple[dict[str, bytes], str]] = [(dict(files), "first")]
        self.parents: dict[str, tuple[str, ...]] = {f"{1:040x}": ()}
        self.branches = {"main": f"{1:040x}"}
        self.tag_list: dict[str, Tag] = {}
        self.release_list: list[Release] = []
        self.run_list: list[Run] = []
        self.issues: dict[int, tuple[Issue, bool]] = {}  #: by number, and whether they are open
        self.contents: dict[tuple[str, str], bytes] = {}  #: of assets, by the release's id and their names
        self.count = 0

    def fork(self) -> MemoryForge:
        """An independent copy."""
        twin = copy.copy(self)
        twin.commits, twin.branches, twin.tag_list = self.commits[:], self.branches.copy(), self.tag_list.copy()
        twin.release_list, twin.run_list = self.release_list[:], self.run_list[:]
        twin.issues = self.issues.copy()
        twin.contents, twin.parents = self.contents.copy(), self.parents.copy()
        return twin

    def key(self) -> object:
        """Everything that later steps can depend on; equal keys behave equally."""
        return (
            tuple(sorted(self.branches.items())),
            tuple((name, tag.commit, tag.message) for name, tag in sorted(self.tag_list.items())),
            tuple((release.tag, release.draft, len(release.assets)) for release in self.release_list),
            tuple((run.ref, run.status, run.conclusion) for run in self.run_list),
            tuple(files.get("llvm-project.version") for files, _ in self.commits),
        )

    @property
    def services(self) -> MemoryServices:
        return MemoryServices(self)

    def now(self) -> datetime:
        return self.time

    def whoami(self) -> str:
        return "Ada Lovelace <ada@example.org>"

    def head(self, branch: str) -> str | None:
        return self.branches.get(branch)

    def read(self, path: str, *, commit: str) -> bytes | None:
        return self.commits[int(commit, 16) - 1][0].get(path)

    def files(self, folder: str, *, commit: str) -> Sequence[str]:
        return sorted(path for path in self.commits[int(commit, 16) - 1][0] if path.rpartition("/")[0] == folder)

    def commit_message(self, commit: str) -> str:
        """As git records it; no forge is asked for it."""
        return self.commits[int(commit, 16) - 1][1]

    def commit(
        self,
        branch: str,
        *,
        expected: str | None,
        files: Mapping[str, bytes],
        message: str,
        base: str | None = None,
        keep: str = "",
    ) -> str:
        if self.branches.get(branch) != expected:
            raise BranchMoved("lost-race", "moved")
        parents = parents_of(expected, base)
        old = self.commits[int(expected, 16) - 1][0] if keep and expected is not None else {}
        kept = {path: content for path, content in old.items() if path.startswith(f"{keep}/")}
        self.commits.append(({**self.commits[int(parents[-1], 16) - 1][0], **kept, **files}, message))
        self.branches[branch] = f"{len(self.commits):040x}"
        self.parents[self.branches[branch]] = tuple(parents)
        return self.branches[branch]

    def pin_facts(self, commit: str) -> PinFacts | None:
        parents = self.parents.get(commit)
        if parents is None:
            return None
        told = len(parents) in PARENTS
        entries = self._entries(commit)
        return PinFacts(
            commit=commit,
            parents=parents,
            branch=self.default_branch,
            base_on_branch=told and parents[-1] in self._history(self.branches[self.default_branch]),
            changed=changed_names(entries, self._entries(parents[-1])) if told else (),
            entry=next((entry for entry in entries if entry.name == PIN_FILE), None),
            pin=self.read(PIN_FILE, commit=commit),
        )

    def _entries(self, commit: str) -> list[TreeEntry]:
        """One entry a file; folders are not told apart."""
        return [
            TreeEntry(name=path, mode=PLAIN, kind="blob", oid=hashlib.sha1(content).hexdigest())
            for path, content in self.commits[int(commit, 16) - 1][0].items()
        ]

    def _history(self, commit: str) -> set[str]:
        found: set[str] = set()
        waiting = [commit]
        while waiting:
            found.add(commit := waiting.pop())
            waiting += [parent for parent in self.parents[commit] if parent not in found]
        return found

    def tags(self) -> Sequence[Tag]:
        return [tag for _, tag in sorted(self.tag_list.items())]

    def tag(self, name: str) -> Tag | None:
        return self.tag_list.get(name)

    def create_tag(self, name: str, commit: str, message: str) -> Tag:
        if name in self.tag_list:
            raise Taken("lost-race", "taken")
        self.tag_list[name] = Tag(name=name, commit=commit, message=message, created_at=self.time)
        return self.tag_list[name]

    def releases(self) -> Sequence[Release]:
        return list(self.release_list)

    def recent(self, count: int | None) -> Sequence[Release]:
        return self.release_list[::-1][:count]

    def drafts(self, tag: str) -> Sequence[Release]:
        return [release for release in self.release_list if release.tag == tag and release.draft]

    def refresh(self, release: ReleaseRow) -> Release | None:
        return next((other for other in self.release_list if other.id == release.id), None)

    def published(self, tag: str) -> Release | None:
        return next((release for release in self.release_list if release.tag == tag and not release.draft), None)

    def published_newest_first(self) -> Iterator[Release]:
        dated = [(release.published_at, release.tag, release) for release in self.releases() if release.published_at]
        return (release for _, _, release in sorted(dated, key=lambda row: row[:2], reverse=True))

    def create_draft(self, tag: str, *, title: str, body: str, prerelease: bool) -> Release:
        if tag not in self.tag_list:
            raise ForgeError("not-on-forge", "no such tag")
        self.count += 1
        release = Release(
            id=f"{self.count:06d}",
            tag=tag,
            title=title,
            body=body,
            draft=True,
            prerelease=prerelease,
            created_at=self.time,
            published_at=None,
        )
        self.release_list.append(release)
        return release

    def edit_release(self, release: Release, *, title: str, body: str) -> Release:
        return self.replace(replace(self.draft(release), title=title, body=body))

    def delete_draft(self, release: Release) -> None:
        if self.refresh(release) is not None:
            self.draft(release)
            self.release_list = [other for other in self.release_list if other.id != release.id]

    def draft(self, release: Release) -> Release:
        """A draft as it is now. :raises ForgeError: if it was published or deleted"""
        found = self.refresh(release)
        if found is None or not found.draft:
            raise ForgeError("release-immutable" if found else "not-on-forge", "no draft")
        return found

    def replace(self, release: Release) -> Release:
        """Put ``release`` in the place of the one with its id."""
        self.release_list = [release if other.id == release.id else other for other in self.release_list]
        return release

    def upload(self, release: Release, name: str, source: Path) -> Asset:
        found = self.draft(release)
        if found.asset(name) is not None:
            raise Taken("lost-race", "taken")
        content = source.read_bytes()
        self.contents[release.id, name] = content
        asset = self.make_asset(release.tag, name, len(content), hashlib.sha256(content).hexdigest())
        self.replace(replace(found, assets=tuple(sorted((*found.assets, asset), key=lambda asset: asset.name))))
        return asset

    def make_asset(self, tag: str, name: str, size: int, sha256: str) -> Asset:
        return Asset(name=name, size=size, sha256=sha256, complete=True, url=self.file_url(tag, name))

    def give_asset(self, release: Release, name: str) -> None:
        """As if something had been uploaded."""
        found = self.draft(release)
        self.replace(replace(found, assets=(*found.assets, self.make_asset(release.tag, name, 1, "0" * 64))))

    def delete_asset(self, release: Release, asset: Asset) -> None:
        found = self.draft(release)
        self.replace(replace(found, assets=tuple(other for other in found.assets if other.name != asset.name)))

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        destination.write_bytes(self.contents[release.id, asset.name])

    def file_url(self, tag: str, name: str) -> str:
        return f"{self.base}/{tag}/{name}"

    def fetch_published(self, tag: str, name: str, destination: Path) -> bool:
        release = self.published(tag)
        asset = release.asset(name) if release is not None else None
        if release is None or asset is None:
            return False
        self.download(release, asset, destination)
        return True

    def published_folder(self, tag: str) -> None:
        pass

    def publish(self, release: Release) -> Release:
        public = self.published(release.tag)
        if public is not None:
            if public.id != release.id:
                raise Taken("lost-race", "published from another draft")
            return public
        return self.replace(replace(self.draft(release), draft=False, published_at=self.time))

    def page_url(self, tag: str) -> str:
        return f"{self.base.replace('/download', '/tag')}/{tag}"

    def files_page(self, tag: str) -> str:
        return f"{self.base.replace('/download', '/expanded_assets')}/{tag}"

    def dispatch(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> Run | None:
        if ref not in self.branches and ref not in self.tag_list:
            raise ForgeError("not-on-forge", "no such branch or tag")
        self.run_list.append(
            Run(
                id=str(len(self.run_list)),
                workflow=workflow,
                ref=ref,
                status="queued",
                conclusion=None,
                created_at=self.time,
                inputs=dict(inputs),
                commit=self.branches.get(ref) or self.tag_list[ref].commit,
            )
        )
        return self.run_list[-1]

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        return [run for run in reversed(self.run_list) if (run.workflow, run.ref) == (workflow, ref)]

    def await_runs(self, attempt: int) -> bool:
        return False

    def end_run(self, ref: str, conclusion: str) -> None:
        """Complete the runs on ``ref``."""
        self.run_list = [
            replace(run, status="completed", conclusion=conclusion) if run.ref == ref else run for run in self.run_list
        ]
