"""A downstream repository and the upstream that it carries, as the rest of the integrate code sees them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import ConflictError, MachineError, UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.remotes import fetch
from mlir_release.ground.git.repository import NO_OBJECT, Git, Signature
from mlir_release.ground.git.shared import STATE, SharedGit
from mlir_release.ground.git.signing import as_asked, own_settings
from mlir_release.ground.git.trees import alike, commit_tree, entry_at, is_ancestor, merge_base, tree_with
from mlir_release.ground.git.worktrees import changed_paths, current_branch
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.storage.files import read_document
from mlir_release.integrate.patches.files import fitting
from mlir_release.integrate.pins.generated import NONE_GENERATED, Generated, with_generated
from mlir_release.integrate.pins.pins import also_said, left_out, said, written
from mlir_release.integrate.state import T_PIN

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.config import Config
    from mlir_release.integrate.upstream import UpstreamRepository

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock that commits are dated with, outside tests."""
    return datetime.now(UTC)


@dataclass(eq=False)
class Integration:
    """Open one with :func:`~mlir_release.integrate.open.open_project`."""

    config: Config
    outer: SharedGit
    upstream: UpstreamRepository
    clock: Clock = field(default=utc_now)
    #: The same downstream with each of its upstreams, this one among them; in the file's order.
    everyone: tuple[Integration, ...] = field(default=(), repr=False, compare=False)

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

    def walked(self, branch: str) -> tuple[Integration, ...]:
        """Those whose upstreams ``branch`` walks; on a branch that is no integrate's, all."""
        tables = self.config.walked(branch) or self.config.upstreams
        return tuple(each for each in self.everyone if each.upstream.config in tables)

    # -- how the downstream carries the upstream --------------------------------------------------------------------

    def pin(self, commit: str = "HEAD") -> str:
        """The upstream's commit (carried patches included) in the outer commit. :raises UsageError: if it has none"""
        table = self.upstream.config
        value = said(self.outer, commit, table)
        try:
            return self.upstream.pinned(value, where=f"{table.carrier} at {commit}")
        except UsageError:  # a release that is gone: whoever landed it has recorded its commit
            landed = self.outer.text("log", "-1", f"-S{value}", "--format=%B", commit, "--", table.carrier)
            trailers = parse_trailers(landed)
            pins = [trailers[key] for name in self.names if (key := f"{T_PIN}{name}") in trailers]
            if not table.releases or not pins or not SHA_PATTERN.fullmatch(pins[0]):
                raise
            return pins[0]

    def version(self, commit: str, pin: str) -> str:
        """The version of ``pin``, where pins are releases: that in ``commit``, or the newest."""
        table = self.upstream.config
        if not table.releases:
            return ""
        return said(self.outer, commit, table) if self.pin(commit) == pin else self.upstream.releases.version(pin)

    def tree_with_pin(self, commit: str, pin: str, generated: Generated = NONE_GENERATED) -> str:
        """The outer commit's tree with the upstream at ``pin``, and with all that follows from the pin in files, patch
        files among them.

        :param generated: files that a refresh command has made for it
        :raises UsageError: ``pin-invalid``; ``input-invalid`` if a generated file is none that may be
        :raises MachineError: if a value can't be found out, such as the digest of an archive
        """
        table, spelled = self.upstream.config, pin
        commit = fitting(self, commit, pin)
        if table.pattern and pin:
            spelled = self.upstream.spelled(pin, said(self.outer, commit, table))
        commit = with_generated(self.outer, commit, generated, self.config.upstreams) if generated else commit
        if not table.also:
            return tree_with(self.outer, commit, written(self.outer, commit, table, spelled, ()))
        from mlir_release.integrate.pins.pins import follows  # a look at an integrate needs no downloads

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
                    f"{f', which is {copy}' if copy != value else ''} (its pattern: {place.pattern})",
                    remedy="correct the wrong one and commit; mlir-release integrate start --repair takes "
                    f"{table.carrier} for right and corrects the others on the branch",
                )

    def outer_key(self, commit: str) -> str:
        """The tree of everything but the pin, and what follows from it. A verdict depends on it and on the upstream."""
        return tree_with(self.outer, commit, left_out(self.outer, commit, self.upstream.config))

    # -- the outer repository ---------------------------------------------------------------------------------------

    def signature(self, *, official: bool = False) -> Signature:
        """Who commits, at the clock's time. :raises MachineError: if git has no identity.

        :param official: for a commit that people review: signed (off) if the user's own git configuration asks for it
        """
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
        plain = Signature(name=match[1], email=match[2], when=self.clock())
        return as_asked(plain, self._own_settings) if official else plain

    @cached_property
    def _own_settings(self) -> dict[str, str]:
        return own_settings(self.outer)

    def commit(self, tree: str, parents: Sequence[str], message: str, *, known: str = "") -> str:
        """Make a commit for people to review; no branch moves.

        :param known: a commit that is taken instead, if it is the same but for its author, time and signature
        """
        if known:
            draft = commit_tree(self.outer, tree, parents, message, self.signature())
            if alike(self.outer, draft, known):
                return known
        return commit_tree(self.outer, tree, parents, message, self.signature(official=True))

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

    def commits(self, branch: str, at: str = "") -> list[tuple[str, str, Mapping[str, str]]]:
        """Commits of the branch since it left main, oldest first: id, subject, trailers.

        :param at: one of its commits, which is looked at instead of its head
        """
        messages = self.messages(branch, at)
        return [(commit, text.partition("\n")[0], parse_trailers(text)) for commit, text in messages.items()]

    def messages(self, branch: str, at: str = "") -> dict[str, str]:
        """The messages of these commits, by their ids."""
        since = f"{self.main_ref()}..{at or f'refs/heads/{branch}'}"
        output = self.outer.run("log", "-z", "--first-parent", "--reverse", "--format=%H%n%B", since).stdout
        records = (row.partition("\n") for row in output.decode(errors="surrogateescape").split("\0") if row)
        return {commit: message for commit, _, message in records}

    def refuse_dirty(self) -> None:
        """:raises ConflictError: if tracked files have uncommitted changes, here or in the upstream's submodule.

        A killed command, and ``git switch``, leave submodules where they were: they are brought up to date instead.
        """
        for each in self.everyone:  # an advance checks out another commit there: git would stop half-way
            submodule, inside = each.upstream.config.submodule, each.upstream
            has_index = submodule and (inside.common / "index").exists()
            if changed := changed_paths(inside, submodules=False) if has_index else []:
                raise ConflictError(
                    "checkout-dirty",
                    f"files of the upstream's submodule {submodule} are changed",
                    where=f"{inside.directory}: {_some(changed)}",
                    why="each advance checks out another commit there, and no smoke test sees these changes",
                    remedy=f"git -C {submodule} stash (or restore them); a change that is needed there is carried: "
                    "commit it, then mlir-release integrate patches add COMMIT; nothing was changed",
                )
        dirty = changed_paths(self.outer)
        if dirty and all(map(self._lags, dirty)):
            upstreams = {each.upstream.config.submodule for each in self.everyone}
            others = [
                path for path in dirty if path not in upstreams and (self.outer.directory / path / ".git").exists()
            ]
            if others:
                self.outer.run("checkout", "--quiet", "HEAD", "--", *others)
                update = ("submodule", "--quiet", "update", "--", *others)
                done = self.outer.run(*update, check=False, remote="")
                if done.returncode != 0 and b"would be overwritten" not in done.stderr:
                    raise self.outer.failure(update, done)
            if len(others) < len(dirty):
                self.follow(*(path for path in dirty if path not in others))
            console.say(f"    brought to what HEAD names: {_some(dirty)}")
            dirty = changed_paths(self.outer)
        if dirty:
            raise ConflictError(
                "checkout-dirty",
                "there are changes that are not committed",
                where=f"{self.outer.directory}: {_some(dirty)}",
                remedy="commit, stash or discard them first (of a submodule: git submodule update PATH); nothing was "
                "changed",
            )

    def _lags(self, path: str) -> bool:
        """Whether a submodule, or a file of a pin, is as it was at a commit that HEAD has been at lately."""
        place, outer = self.outer.directory / path, self.outer
        if (place / ".git").exists():
            seen = Git(place).resolve("HEAD")
            commits = outer.text("rev-list", "--first-parent", "-n", "2", "HEAD", "--", path).split()
            commits += dict.fromkeys(outer.text("log", "--walk-reflogs", "-n", "20", "--format=%H", "HEAD").split())
            entries = (entry_at(outer, commit, path) for commit in commits)
            return any(entry is not None and (entry.kind, entry.oid) == ("commit", seen) for entry in entries)
        carriers = [name for each in self.everyone for name in each.upstream.config.carriers]
        # Files that the refresh commands may have changed.
        tables = [each.upstream.config.refresh for each in self.everyone]
        specs = [spec for refresh in tables if refresh is not None for spec in refresh.pathspecs]
        listed = outer.run("ls-files", "-z", "--", *specs).stdout if specs else b""
        if not place.is_file() or path not in {*carriers, *map(os.fsdecode, listed.split(b"\0")[:-1])}:
            return False
        commits = outer.text("rev-list", "--first-parent", "-n", "2", "HEAD", "--", *carriers).split()
        commits += [f"{commit}^" for commit in commits[:1]]  # which has the files that only the refresh changes
        contents = (outer.run("cat-file", "--filters", f"{commit}:{path}", check=False) for commit in commits)
        return any(
            done.returncode == 0 and done.stdout == read_document(place, limit=len(done.stdout)) for done in contents
        )

    def follow(self, *paths: str) -> None:
        """Set the pins in the work tree to those of HEAD.

        :param paths: files that are brought up to date; default: those that say the pins
        """
        asked = paths or dict.fromkeys(path for each in self.everyone for path in each.upstream.config.carriers)
        self.outer.run("checkout", "--quiet", "HEAD", "--", *asked, env={"GIT_LITERAL_PATHSPECS": "1"})
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
            done = upstream.run("checkout", "--quiet", *force, "--detach", pin, check=False)
            if b"would be overwritten" in done.stderr:
                raise ConflictError(
                    "checkout-dirty",
                    f"{pin[:12]} could not be checked out in {upstream.config.submodule}",
                    where=str(upstream.directory),
                    why=done.stderr.decode(errors="replace").strip(),
                    remedy="move the files away that git names, then run the same command again: the branch is right",
                )
            if done.returncode != 0:
                raise upstream.failure(("checkout", pin), done)

    def move_branch(self, branch: str, commit: str) -> None:
        """Fast-forward the checked-out ``branch`` and the work tree to ``commit``. :raises ConflictError:"""
        done = self.outer.run("merge", "--quiet", "--ff-only", commit, check=False)
        if done.returncode != 0:
            raise local_branch_moved(branch, self.outer, why=done.stderr.decode(errors="replace").strip())
        if any(each.upstream.config.submodule for each in self.everyone):
            self.follow()

    def pin_commit(self, parent: str, pin: str, message: str, generated: Generated = NONE_GENERATED) -> str:
        """Make a commit of ``pin`` on ``parent``; no branch moves, and no program runs.

        :param generated: what a refresh command has made for it, with which it was tested
        :raises UsageError: ``pin-invalid``, ``input-invalid``
        :raises MachineError: if a value can't be found out
        """
        return self.commit(self.tree_with_pin(parent, pin, generated), [parent], message)

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
    )


def branch_moved_remotely(project: Integration, branch: str) -> ConflictError:
    """The error for a branch that has commits at the remote that would be lost there. Fetches them."""
    outer, remote = project.outer, project.config.downstream.remote
    theirs = project.fetch_branch(branch) or NO_OBJECT
    ours = outer.text("rev-parse", "--verify", f"refs/heads/{branch}")
    if not is_ancestor(outer, ours, theirs):
        return branch_diverged(project, branch, ours, theirs)
    return ConflictError(
        "branch-diverged",
        f"{branch} at {remote} has commits that are not on the branch here",
        where=f"{ours[:12]}..{theirs[:12]}: {_count(outer, ours, theirs)} commits",
        why="another person or process pushed them, or the branch was reset here",
        remedy="mlir-release integrate sync, then run the same command again. If they are to be left out: "
        "mlir-release integrate land --at HEAD lands the branch without them; to walk on without them, "
        f"git push --force-with-lease={branch}:{theirs} {remote} {branch}",
    )


def branch_diverged(project: Integration, branch: str, ours: str, theirs: str) -> ConflictError:
    """The error for a branch that has other commits here than at the remote."""
    outer, remote = project.outer, project.config.downstream.remote
    here, there = _count(outer, theirs, ours), _count(outer, ours, theirs)
    return ConflictError(
        "branch-diverged",
        f"{branch} here and at {remote} have different commits",
        where=f"only here: {here}, up to {ours[:12]}; only at {remote}: {there}, up to {theirs[:12]}",
        why="the branch was rebased or amended here, or others pushed to it while there were commits here",
        remedy=f"if those here replace the others (a rebase): git push --force-with-lease={branch}:{theirs} {remote} "
        f"{branch}, or to land at once: mlir-release integrate land --at HEAD; if both count: "
        f"git merge {remote}/{branch}, then run the same command again; if those here don't: "
        f"git reset --hard {remote}/{branch}",
    )


def _count(outer: Git, since: str, until: str) -> str:
    done = outer.run("rev-list", "--count", until, f"^{since}", check=False)
    return done.stdout.decode().strip() or "?"


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
