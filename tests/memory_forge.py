"""A forge in memory: as much of the port as the release transaction needs; its state can be copied and compared."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.forge.base import Asset, BranchMoved, Release, Run, Tag, Taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class MemoryForge:
    """Commits are numbered from 1: ``f"{n:040x}"``."""

    description = "forge in memory"

    def __init__(self, files: Mapping[str, bytes], *, now: datetime = NOON) -> None:
        self.time = now
        self.commits: list[tuple[dict[str, bytes], str]] = [(dict(files), "first")]
        self.branches = {"main": f"{1:040x}"}
        self.tag_list: dict[str, Tag] = {}
        self.release_list: list[Release] = []
        self.run_list: list[Run] = []
        self.count = 0

    def fork(self) -> MemoryForge:
        """An independent copy."""
        twin = copy.copy(self)
        twin.commits, twin.branches, twin.tag_list = self.commits[:], self.branches.copy(), self.tag_list.copy()
        twin.release_list, twin.run_list = self.release_list[:], self.run_list[:]
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

    def now(self) -> datetime:
        return self.time

    def whoami(self) -> str:
        return "Ada Lovelace <ada@example.org>"

    def head(self, branch: str) -> str | None:
        return self.branches.get(branch)

    def read(self, path: str, *, commit: str) -> bytes | None:
        return self.commits[int(commit, 16) - 1][0].get(path)

    def commit_message(self, commit: str) -> str:
        return self.commits[int(commit, 16) - 1][1]

    def commit(self, branch: str, *, expected: str, files: Mapping[str, bytes], message: str) -> str:
        if self.branches[branch] != expected:
            raise BranchMoved("branch-moved", "moved")
        self.commits.append(({**self.commits[int(expected, 16) - 1][0], **files}, message))
        self.branches[branch] = f"{len(self.commits):040x}"
        return self.branches[branch]

    def create_branch(self, branch: str, commit: str) -> None:
        if self.branches.setdefault(branch, commit) != commit:
            raise Taken("branch-taken", "taken")

    def tags(self) -> Sequence[Tag]:
        return [tag for _, tag in sorted(self.tag_list.items())]

    def create_tag(self, name: str, commit: str, message: str) -> Tag:
        if name in self.tag_list:
            raise Taken("tag-taken", "taken")
        self.tag_list[name] = Tag(name=name, commit=commit, message=message)
        return self.tag_list[name]

    def releases(self) -> Sequence[Release]:
        return list(self.release_list)

    def create_draft(self, tag: str, *, title: str, body: str, prerelease: bool) -> Release:
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

    def delete_draft(self, release: Release) -> None:
        self.release_list = [other for other in self.release_list if other.id != release.id]

    def give_asset(self, release: Release, name: str) -> None:
        """As if something had been uploaded."""
        asset = Asset(name=name, size=1, sha256="0" * 64, complete=True, url="")
        self.release_list = [
            replace(other, assets=(*other.assets, asset)) if other.id == release.id else other
            for other in self.release_list
        ]

    def publish(self, release: Release) -> Release:
        done = replace(release, draft=False, published_at=self.time)
        self.release_list = [done if other.id == release.id else other for other in self.release_list]
        return done

    def dispatch(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> None:
        self.run_list.append(
            Run(
                id=str(len(self.run_list)),
                workflow=workflow,
                ref=ref,
                status="queued",
                conclusion=None,
                created_at=self.time,
            )
        )

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        return [run for run in reversed(self.run_list) if (run.workflow, run.ref) == (workflow, ref)]

    def end_run(self, ref: str, conclusion: str) -> None:
        """Complete the runs on ``ref``."""
        self.run_list = [
            replace(run, status="completed", conclusion=conclusion) if run.ref == ref else run for run in self.run_list
        ]
