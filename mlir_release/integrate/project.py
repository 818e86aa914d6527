"""A downstream repository and the upstream that it carries, as the rest of the integrate code sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, MachineError, UsageError
from mlir_release.git.remotes import fetch
from mlir_release.git.repository import Git, Signature
from mlir_release.git.shared import STATE, SharedGit
from mlir_release.git.trees import commit_tree, entry_at, merge_base, tree_with
from mlir_release.git.worktrees import changed_paths, current_branch
from mlir_release.integrate.pins import left_out, said, written
from mlir_release.model.pin import SHA_PATTERN

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.config import Config
    from mlir_release.integrate.upstream import UpstreamRepository

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock that commits are dated with, outside tests."""
    return datetime.now(UTC)


@dataclass(eq=False)
class Project:
    """Open one with :func:`~mlir_release.integrate.open.open_project`."""

    config: Config
    outer: SharedGit
    upstream: UpstreamRepository
    clock: Clock = field(default=utc_now)
    #: The same downstream with each of its upstreams, this one among them; in the file's order.
    everyone: tuple[Project, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        self.everyone = self.everyone or (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """How trailers name this upstream: what is put behind their keys. The first is written, all are read.

        Empty while there is only one; the first of several also owns what was written before there were several.
        """
        if len(self.config.upstreams) == 1:
            return ("",)
        own = f"-{self.upstream.config.slug.replace('.', '-')}"
        return (own, "") if self.upstream.config is self.config.upstreams[0] else (own,)

    @property
    def slug(self) -> str:
        """The upstream's name in records and probes; empty while there is only one."""
        return self.upstream.config.slug if len(self.config.upstreams) > 1 else ""

    def owns(self, of: str) -> bool:
        """Whether a record of the upstream with this slug is about this one."""
        return of == self.slug or (not of and "" in self.names)

    def named(self, trailers: Mapping[str, object]) -> dict[str, object]:
        """These trailers as a commit has them, which name the upstream where there are several."""
        return {f"{key}{self.names[0]}": value for key, value in trailers.items()}

    def walked(self, branch: str) -> tuple[Project, ...]:
        """Those whose upstreams ``branch`` walks; on a branch that is no integrate's, all."""
        tables = self.config.walked(branch) or self.config.upstreams
        return tuple(each for each in self.everyone if each.upstream.config in tables)

    # -- how the downstream carries the upstream --------------------------------------------------------------------

    def pin(self, commit: str = "HEAD") -> str:
        """The upstream's commit (carried patches included) in the outer commit. :raises UsageError: if it has none"""
        value = said(self.outer, commit, self.upstream.config)
        return value if SHA_PATTERN.fullmatch(value) else self.upstream.commit(value).sha

    def tree_with_pin(self, commit: str, pin: str) -> str:
        """The outer commit's tree with the upstream at ``pin``."""
        return tree_with(self.outer, commit, written(self.outer, commit, self.upstream.config, pin))

    def outer_key(self, commit: str) -> str:
        """The tree of everything but the pin. A verdict depends on it and on the upstream."""
        return tree_with(self.outer, commit, left_out(self.outer, commit, self.upstream.config))

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
        walked = self.config.walked(name)
        if walked and self.upstream.config not in walked:
            raise UsageError(
                "option-invalid",
                f"the branch {name!r} is an integrate of {walked[0].title}, not of {self.upstream.config.title}",
                where="--upstream",
                remedy=f"leave --upstream out, or switch to a branch like {self.config.branch_pattern()}",
            )
        if not walked:
            raise UsageError(
                "integrate-not-started",
                f"the branch {name!r} is not an integrate branch ({self.config.branch_pattern()})",
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
        carriers = {each.upstream.config.carrier: each for each in self.everyone}
        if dirty and all(carriers[path]._lagging() if path in carriers else self._left(path) for path in dirty):
            self.follow()
            if others := [path for path in dirty if path not in carriers]:
                self.outer.run("submodule", "--quiet", "update", "--", *others, check=False, remote="")
            dirty = changed_paths(self.outer)
        if dirty:
            shown = ", ".join(dirty[:5]) + (f" and {len(dirty) - 5} more" if len(dirty) > 5 else "")
            raise ConflictError(
                "checkout-dirty",
                "there are changes that are not committed",
                where=f"{self.outer.directory}: {shown}",
                remedy="commit, stash or discard them first; nothing was changed",
            )

    def _lagging(self) -> bool:
        path = self.outer.directory / self.upstream.config.carrier
        if self.upstream.config.submodule:
            seen = Git(path).resolve("HEAD") if (path / ".git").exists() else None
        else:
            seen = path.read_text(errors="replace").strip() if path.is_file() else None
        changes = ("rev-list", "--first-parent", "-n", "2", "HEAD", "--", self.upstream.config.carrier)
        return seen in {self.pin(commit) for commit in self.outer.text(*changes).split()}

    def _left(self, path: str) -> bool:
        """Whether the other submodule at ``path`` is where it was before the last commit that moved it."""
        folder = self.outer.directory / path
        seen = Git(folder).resolve("HEAD") if (folder / ".git").exists() else None
        changes = ("rev-list", "--first-parent", "-n", "2", "HEAD", "--", path)
        entries = [entry_at(self.outer, commit, path) for commit in self.outer.text(*changes).split()]
        return seen in {entry.oid for entry in entries if entry is not None and entry.kind == "commit"}

    def follow(self) -> None:
        """Set the pins in the work tree to those of HEAD."""
        carriers = dict.fromkeys(each.upstream.config.carrier for each in self.everyone)
        self.outer.run("checkout", "--quiet", "HEAD", "--", *carriers)
        for each in self.everyone:
            if each.upstream.config.submodule:
                each.check_out_pin()

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
        if any(each.upstream.config.submodule for each in self.everyone):
            self.follow()

    def pin_commit(self, parent: str, pin: str, message: str) -> str:
        """Make a commit of ``pin`` on ``parent``; no branch moves."""
        return commit_tree(self.outer, self.tree_with_pin(parent, pin), [parent], message, self.signature())

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
