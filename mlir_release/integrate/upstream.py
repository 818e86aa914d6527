"""The upstream's repository as a downstream has it: its submodule, or a private clone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, MachineError, UsageError
from mlir_release.git.remotes import try_fetch, upstream_unreachable
from mlir_release.git.shared import SharedGit
from mlir_release.git.trees import is_ancestor, merge_base
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.credentials import for_export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from mlir_release.integrate.config import Config


_TAG = re.compile(r"\w[\w./+-]*")


@dataclass(frozen=True)
class UpstreamCommit:
    """One commit of the upstream."""

    sha: str
    tree: str
    subject: str
    body: str = field(default="", compare=False, repr=False)  #: the rest of its message

    @property
    def title(self) -> str:
        """The subject, fit for output whatever bytes it holds."""
        return shown(self.subject)

    def as_json(self) -> dict[str, str]:
        """The commit in the output of ``--json``."""
        return {"commit": self.sha, "subject": self.title}


def shown(text: str) -> str:
    """Text that may hold undecodable bytes, fit for output."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


class UpstreamRepository(SharedGit):
    """Git in that repository, and questions to the upstream there."""

    def __init__(self, directory: Path, config: Config) -> None:
        super().__init__(directory, lazy=True)
        self.config = config
        self.ref = f"refs/mlir-release/upstream/{config.upstream.branch}"  #: the upstream's head as last fetched

    def fetch(self) -> str:
        """Fetch and return the upstream's head.

        :raises UnreachableError: if it can't be read
        :raises ConflictError: if its history was rewritten
        """
        refspec = f"refs/heads/{self.config.upstream.branch}:{self.ref}"
        source, options = self.config.upstream.url, []
        if not self.config.downstream.submodule:  # our own clone without blobs: they come from its remote
            if self.text("config", "--get", "remote.origin.url") != source:
                self.run("config", "remote.origin.url", source)
            source, options = "origin", ["--filter=blob:none"]
        # Not --quiet: that would hide why a ref was rejected.
        done = self.run("fetch", "--no-tags", *options, "--", source, refspec, check=False, remote=source)
        stderr = done.stderr.decode(errors="replace")
        if done.returncode != 0 and ("non-fast-forward" in stderr or "rejected" in stderr):
            raise ConflictError(
                "upstream-rewritten",
                f"the upstream's branch {self.config.upstream.branch} was force-pushed: "
                "the previously fetched head is no longer in its history",
                where=self.config.upstream.url,
                why="commits that were upstream would now be taken for carried patches",
                remedy=f"look at what happened; then accept it with: git -C {self.directory} update-ref -d {self.ref}",
            )
        if done.returncode != 0:
            raise upstream_unreachable(self.config.upstream.url, why=stderr.strip(), configured_in=CONFIG_FILE)
        return self.head()

    def head(self) -> str:
        """The upstream's head as last fetched."""
        return self.resolve(self.ref) or self.fetch()

    def base_of(self, pin: str, head: str, *, recorded: str = "") -> str:
        """The upstream commit that ``pin`` is based on.

        :param recorded: the one in the branch's trailers, or empty
        :raises ConflictError: if they share no history, or the recorded one has left the upstream's history
        :raises UsageError: if this is a shallow clone that ends before it
        """
        base = merge_base(self, pin, head)
        if recorded not in ("", base) and not is_ancestor(self, recorded, head):
            raise ConflictError(
                "upstream-rewritten",
                "the upstream commit that this branch is based on is no longer in the upstream's history",
                where=f"{recorded} and {self.config.upstream.url}",
                why="the upstream was force-pushed; its lost commits would be taken for carried patches",
                remedy="start a new integrate from a pin that is upstream",
            )
        # An ancestor of a ref is complete; else a fetch may have been killed half-way.
        if base != pin and self.require(pin):
            base = merge_base(self, pin, head)
        if not base and self.text("rev-parse", "--is-shallow-repository") == "true":
            raise UsageError(
                "clone-incomplete",
                "the clone of the upstream ends before the commit that the pinned one is based on",
                where=str(self.directory),
                why="it was made with --depth; carried commits can't be told from upstream's",
                remedy=f"git -C {self.directory} fetch --unshallow --filter=blob:none",
            )
        if not base:
            raise ConflictError(
                "upstream-rewritten",
                "the pinned commit shares no history with the upstream",
                where=f"{pin} and {self.config.upstream.url}",
                remedy="check upstream.url and upstream.branch in integrate.toml",
            )
        return base

    def require(self, pin: str) -> bool:
        """Fetch the commit ``pin`` with its history, from the upstream or the export, unless it is there completely.

        Returns whether something was fetched. A ref's history is complete, because git moves refs last.
        """
        if self._complete(pin):
            return False
        sources: dict[str, Mapping[str, str]] = {self.config.upstream.url: {}}
        export = self.config.export.remote
        if export:
            sources[export] = for_export(self, export)
        reasons = []
        for source, env in sources.items():
            fetched, said = try_fetch(self, source, f"+{pin}:refs/mlir-release/pins/{pin}", env=env)
            if fetched and self._complete(pin):
                return True
            reasons.append(said.strip())
        raise MachineError(
            "commit-unreachable",
            f"{self.config.upstream.title}'s commit {pin} can't be fetched",
            where=" and ".join(sources),
            why="\n".join(reasons),
            remedy="push it to the export branch from the machine that has it (mlir-release integrate export)",
        )

    def _complete(self, pin: str) -> bool:
        done = self.run("rev-list", "-n1", pin, "--not", "--all", check=False)
        return done.returncode == 0 and not done.stdout

    def affecting(self, base: str, until: str) -> list[UpstreamCommit]:
        """Upstream commits after ``base`` up to ``until`` that touch the tracked paths, but ignored ones, oldest first.

        Along first parents, so that every commit has one predecessor. One ``git log``: cost grows with the range.
        """
        commits = self._log("--first-parent", "--reverse", f"{base}..{until}", "--", *self.config.track.paths)
        ignored = [re.compile(pattern) for pattern in self.config.track.ignore_subjects]
        return [commit for commit in commits if not any(pattern.search(commit.subject) for pattern in ignored)]

    def _log(self, *args: str) -> Iterator[UpstreamCommit]:
        output = self.run("log", "-z", "--format=%H%x00%T%x00%s%x00%b", *args).stdout.decode(errors="surrogateescape")
        fields = iter(output.split("\0"))
        return map(UpstreamCommit, fields, fields, fields, fields)

    def touched(self, commits: Iterable[str], *, check: bool = True) -> dict[str, list[str]]:
        """The paths that each commit changes from its first parent; one process for all.

        :param check: False: commits that are not here are left out
        """
        asked = "".join(f"{commit}\n" for commit in commits).encode()
        listing = ("diff-tree", "--stdin", "-r", "-m", "--first-parent", "--root", "--name-only", "--format=%x01%H")
        output = self.run(*listing, input=asked, check=check).stdout if asked else b""
        records = (record.split("\n") for record in output.decode(errors="replace").split("\x01")[1:])
        return {sha: [path for path in paths if path] for sha, *paths in records}

    def commit(self, revision: str) -> UpstreamCommit:
        """Exactly the commit that ``revision`` names; tags are fetched if need be.

        The upstream's branch means its head as last fetched, not a local branch of that name.

        :raises UsageError: unless it names exactly one
        """
        branch = self.config.upstream.branch
        sha = self.resolve(self.ref if revision in (branch, f"origin/{branch}") else revision)
        if sha is None and _TAG.fullmatch(revision):
            named = f"refs/mlir-release/tags/{revision}"
            fetched, _ = try_fetch(self, self.config.upstream.url, f"+refs/tags/{revision}:{named}")
            sha = self.resolve(named) if fetched else None
        if sha is None:
            raise UsageError(
                "revision-unknown",
                f"{revision!r} names no commit of the upstream",
                where=str(self.directory),
                why="it does not exist, was not fetched, or is an abbreviation of several commits",
                remedy="give more digits, a tag or a branch that exists there",
            )
        return next(self._log("-1", sha))

    def within(self, revision: str, base: str, head: str) -> UpstreamCommit:
        """The commit that ``revision`` names, if it lies after ``base`` and up to ``head``. :raises UsageError:"""
        commit = self.commit(revision)
        if commit.sha == base or not is_ancestor(self, base, commit.sha):
            reason = "it does not come after the commit that the branch is at"
        elif not is_ancestor(self, commit.sha, head):
            reason = f"it is not in the history of the upstream's {self.config.upstream.branch}"
        else:
            return commit
        raise UsageError(
            "revision-unsuitable",
            f"can't advance to {revision!r} ({commit.sha}): {reason}",
            where=f"{base}..{head}",
            remedy="mlir-release integrate status lists the commits ahead; nothing was changed",
        )
