"""A downstream repository and the upstream that it carries, as the rest of the integrate code sees them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, MachineError, UsageError
from mlir_release.foreign import visible
from mlir_release.git.remotes import fetch
from mlir_release.git.repository import Git, Signature
from mlir_release.git.shared import STATE, SharedGit
from mlir_release.git.trees import commit_tree, entry_at, merge_base, tree_of, tree_with
from mlir_release.git.worktrees import changed_paths, current_branch
from mlir_release.integrate.pins import also_said, left_out, said, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.integrate.config import Config
    from mlir_release.integrate.upstream import UpstreamRepository

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock that commits are dated with, outside tests."""
    return datetime.now(UTC)


def _not_refreshed(project: Project, commit: str, pin: str) -> str:
    return tree_of(project.outer, commit)


@dataclass
class Project:
    """Open one with :func:`~mlir_release.integrate.open.open_project`."""

    config: Config
    outer: SharedGit
    upstream: UpstreamRepository
    clock: Clock = field(default=utc_now)
    refresh: Callable[[Project, str, str], str] = field(default=_not_refreshed)  #: of a commit and its pin: a tree

    # -- how the downstream carries the upstream --------------------------------------------------------------------

    def pin(self, commit: str = "HEAD") -> str:
        """The upstream's commit (carried patches included) in the outer commit. :raises UsageError: if it has none"""
        table = self.upstream.config
        return self.upstream.pinned(said(self.outer, commit, table), where=f"{table.carrier} at {commit}")

    def tree_with_pin(self, commit: str, pin: str) -> str:
        """The outer commit's tree with the upstream at ``pin``, and with all that follows from the pin in files.

        :raises UsageError: ``pin-invalid``
        :raises MachineError: if a value can't be found out, such as the digest of an archive
        """
        table, spelled = self.upstream.config, pin
        if table.pattern and pin:
            spelled = self.upstream.spelled(pin, said(self.outer, commit, table))
        if not table.also:
            return tree_with(self.outer, commit, written(self.outer, commit, table, spelled, ()))
        from mlir_release.integrate.derived import follows  # a look at an integrate needs no downloads

        olds = also_said(self.outer, commit, table)
        also = [follows(self.upstream, place, old, pin) for place, old in zip(table.also, olds, strict=True)]
        return tree_with(self.outer, commit, written(self.outer, commit, table, spelled, also))

    def check_copies(self, commit: str) -> None:
        """:raises UsageError: ``pin-invalid``: if a copy of the pin says another commit than the pin does."""
        table = self.upstream.config
        if not any(place.copies for place in table.also):
            return
        pin = self.pin(commit)
        for place, value in zip(table.also, also_said(self.outer, commit, table), strict=True):
            if not place.copies:
                continue
            copy = self.upstream.pinned(value, where=f"{place.file} at {commit}")
            if copy != pin:
                raise UsageError(
                    "pin-invalid",
                    f"two places disagree about the commit of {table.title} that is pinned",
                    where=f"{table.carrier} and {place.file} at {commit}",
                    why=f"{table.carrier} says {pin}, {place.file} says {visible(value)}"
                    + (f", which is {copy}" if copy != value else ""),
                    remedy="correct the wrong one and commit; mlir-release integrate start --repair takes "
                    f"{table.carrier} for right and corrects the others on the branch",
                )

    def outer_key(self, commit: str) -> str:
        """The tree of everything but the pin, and what follows from it. A verdict depends on it and on the upstream."""
        return tree_with(self.outer, commit, left_out(self.outer, commit, self.upstream.config))

    @property
    def branch_pattern(self) -> str:
        """See :meth:`~mlir_release.integrate.config.Config.branch_pattern`."""
        return self.config.branch_pattern(self.upstream.config)

    # -- the outer repository ---------------------------------------------------------------------------------------

    def signature(self) -> Signature:
        """Who commits, at the clock's time. :raises MachineError: if git has no identity."""
        done = self.outer.run("var", "GIT_COMMITTER_IDENT", check=False)
        match = re.fullmatch(r"(.*) <(.*)> \d+ [+-]\d{4}", done.stdout.decode(errors="surrogateescape").strip())
        if done.returncode != 0 or match is None:
            raise MachineError(
                "tool-missing",
                "git does not know who commits",
                where=str(self.outer.directory),
                why=done.stderr.decode(errors="replace").strip().partition("\n")[0],
                remedy="git config user.name … and git config user.email …",
            )
        return Signature(name=match[1], email=match[2], when=self.clock())

    def branch(self) -> str:
        """The integrate branch that is checked out. :raises UsageError: if HEAD is detached or elsewhere."""
        name = current_branch(self.outer)
        if name is None:
            raise UsageError(
                "integrate-not-started",
                "HEAD is detached: no branch would keep what is committed here",
                where=str(self.outer.directory),
                remedy=f"git switch to an integrate branch, or to {self.config.downstream.branch} and start one",
            )
        if not self.config.is_branch(name, self.upstream.config):
            raise UsageError(
                "integrate-not-started",
                f"the branch {name!r} is not an integrate branch ({self.branch_pattern})",
                where=str(self.outer.directory),
                remedy="mlir-release integrate start, or git switch to the integrate branch",
            )
        return name

    def main_ref(self) -> str:
        """The main branch as its remote has it, if that is known."""
        downstream = self.config.downstream
        remote = f"refs/remotes/{downstream.remote}/{downstream.branch}"
        return remote if self.outer.resolve(remote) is not None else f"refs/heads/{downstream.branch}"

    def fork_point(self, commit: str) -> str:
        """Where ``commit`` left main. :raises UsageError: if they share no history here"""
        fork = merge_base(self.outer, self.main_ref(), commit)
        if not fork:
            remote, main = self.config.downstream.remote, self.config.downstream.branch
            raise UsageError(
                "clone-incomplete",
                f"it can't be seen here where the branch left {main}",
                where=f"{self.outer.directory}: {commit}",
                why=f"{self.main_ref()} does not exist, or shares no history with it in this clone",
                remedy=f"git fetch {remote} {main}; in a shallow clone, git fetch --unshallow (in a workflow: "
                "fetch-depth: 0)",
            )
        return fork

    def started_from(self, branch: str) -> str:
        """The upstream commit under the pin where ``branch`` left main. :raises UsageError: see :meth:`fork_point`"""
        return self.upstream.base_of(self.pin(self.fork_point(branch)), self.upstream.head())

    def refuse_dirty(self) -> None:
        """:raises ConflictError: if tracked files have uncommitted changes.

        A killed run leaves a pin as it was before the last commit that changed it: it is brought up to date instead.
        """
        dirty = changed_paths(self.outer)
        if dirty and self._lagging(dirty):
            self.follow(*dirty)
            dirty = changed_paths(self.outer)
        if dirty:
            shown = ", ".join(dirty[:5]) + (f" and {len(dirty) - 5} more" if len(dirty) > 5 else "")
            raise ConflictError(
                "checkout-dirty",
                "there are changes that are not committed",
                where=f"{self.outer.directory}: {shown}",
                remedy="commit, stash or discard them first; nothing was changed",
            )

    def _lagging(self, dirty: Sequence[str]) -> bool:
        """Whether all that is changed is as the last commits that moved the pin have it."""
        table = self.upstream.config
        if not set(dirty) <= {*table.carriers, *self._refreshed()}:
            return False
        changes = ("rev-list", "--first-parent", "-n", "2", "HEAD", "--", *table.carriers)
        commits = self.outer.text(*changes).split()
        commits += [f"{commit}^" for commit in commits[:1]]  # which has the files that only the refresh changes
        return all(any(self._is_at(path, commit) for commit in commits) for path in dirty)

    def _is_at(self, path: str, commit: str) -> bool:
        """Whether the work tree has at ``path`` what ``commit`` has there."""
        file = self.outer.directory / path
        if path == self.upstream.config.submodule:
            entry = entry_at(self.outer, commit, path)
            here = Git(file).resolve("HEAD") if (file / ".git").exists() else None
            return entry is not None and entry.oid == here
        there = self.outer.run("cat-file", "--filters", f"{commit}:{path}", check=False)
        return there.returncode == 0 and file.is_file() and file.read_bytes() == there.stdout

    def _refreshed(self) -> list[str]:
        """Files that the refresh command may have changed."""
        refresh = self.upstream.config.refresh
        if refresh is None:
            return []
        listed = self.outer.run("ls-files", "-z", "--", *refresh.pathspecs).stdout
        return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]

    def follow(self, *paths: str) -> None:
        """Set the pin in the work tree to that of HEAD.

        :param paths: files that are brought up to date; default: those that say the pin
        """
        asked = paths or self.upstream.config.carriers
        self.outer.run("checkout", "--quiet", "HEAD", "--", *asked, env={"GIT_LITERAL_PATHSPECS": "1"})
        if self.upstream.config.submodule:
            self.check_out_pin()

    def check_out_pin(self) -> None:
        """Check out the upstream's commit in its submodule. Carried commits are fetched from the export branch."""
        pin, upstream = self.pin(), self.upstream
        upstream.require(pin)
        if upstream.resolve("HEAD") != pin:
            # Where nothing was checked out yet, git takes all files for deleted.
            force = () if (upstream.common / "index").exists() else ("--force",)
            upstream.run("checkout", "--quiet", *force, "--detach", pin)

    def move_branch(self, branch: str, commit: str) -> None:
        """Fast-forward the checked-out ``branch`` and the work tree to ``commit``. :raises ConflictError:"""
        done = self.outer.run("merge", "--quiet", "--ff-only", commit, check=False)
        if done.returncode != 0:
            raise local_branch_moved(branch, self.outer, why=done.stderr.decode(errors="replace").strip())
        if self.upstream.config.submodule:
            self.follow()

    def pin_commit(self, parent: str, pin: str, message: str) -> str:
        """Make a commit of ``pin`` on ``parent``, refreshed where that is configured; no branch moves.

        :raises UsageError: ``pin-invalid``, ``config-invalid``
        :raises MachineError: if a value can't be found out, or the refresh command fails
        """
        commit = commit_tree(self.outer, self.tree_with_pin(parent, pin), [parent], message, self.signature())
        if self.upstream.config.refresh is None:
            return commit
        tree = self.refresh(self, commit, pin)
        return commit_tree(self.outer, tree, [parent], message, self.signature())

    def fetch_branch(self, name: str) -> str | None:
        """Fetch a branch from the remote; its commit, None if it is not there. :raises UnreachableError:"""
        remote = self.config.downstream.remote
        tracking = f"refs/remotes/{remote}/{name}"
        found = fetch(self.outer, remote, f"+refs/heads/{name}:{tracking}")
        return self.outer.resolve(tracking) if found else None

    def log(self, name: str) -> Path:
        """A log in the repository's own folder, shared by its work trees."""
        return self.outer.common / STATE / "logs" / f"{name}.log"


def local_branch_moved(branch: str, outer: Git, *, why: str) -> ConflictError:
    """The error for a checkout in which something else is at work."""
    return ConflictError(
        "lost-race",
        f"{branch} could not be moved forward",
        where=str(outer.directory),
        why=why,
        remedy="find what else is using this checkout, then run the same command again; nothing was lost",
    )


def branch_moved_remotely(branch: str, remote: str) -> ConflictError:
    """The error for a branch that others have pushed to."""
    return ConflictError(
        "branch-diverged",
        f"{branch} at {remote} has commits that are not here",
        where=branch,
        why="another person or process pushed them",
        remedy="mlir-release integrate sync, then run the same command again",
    )
