"""A downstream repository and the upstream that it carries, as the rest of the integrate code sees them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, MachineError, UsageError
from mlir_release.git import SHA_PATTERN, Git, Signature, parse_trailers
from mlir_release.integrate.config import Config, load_config
from mlir_release.shared_git import SharedGit
from mlir_release.worktree import (
    Entry,
    changed_paths,
    common_directory,
    current_branch,
    entry_at,
    exclusive,
    is_ancestor,
    refuse_treeless,
    tree_of,
    tree_with,
)

if TYPE_CHECKING:
    from pathlib import Path

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock that commits are dated with, outside tests."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class UpstreamCommit:
    """One commit of the upstream: ``when`` is the committer time in seconds since 1970."""

    sha: str
    tree: str
    when: int
    subject: str


@dataclass
class Project:
    """Open one with :func:`open_project`."""

    config: Config
    outer: Git
    upstream: Git
    clock: Clock = field(default=utc_now)

    # -- how the downstream carries LLVM ----------------------------------------------------------------------------

    def pin(self, commit: str = "HEAD") -> str:
        """LLVM's commit (carried patches included) in the outer commit. :raises UsageError: if there is none."""
        path = self.config.carried_at
        entry = entry_at(self.outer, commit, path)
        if self.config.submodule:
            if entry is None or entry.kind != "commit":
                raise UsageError(
                    "carrier-not-submodule",
                    f"{path!r} is not a submodule at {commit}",
                    where=str(self.outer.directory),
                    why="the tree has nothing there" if entry is None else f"the tree has a {entry.kind} there",
                    remedy="correct submodule in integrate.toml, or git submodule add … and commit",
                )
            return entry.oid
        text = (self.outer.read(commit, path) or b"").decode(errors="replace").strip()
        if not SHA_PATTERN.fullmatch(text):
            raise UsageError(
                "carrier-not-pin",
                f"{path!r} does not hold a full commit at {commit}",
                where=str(self.outer.directory),
                why="there is no such file" if entry is None else f"it holds {text[:60]!r}",
                remedy="put the 40-digit llvm-project commit there, alone on one line, and commit",
            )
        return text

    def tree_with_pin(self, commit: str, pin: str) -> str:
        """The outer commit's tree with LLVM at ``pin``."""
        path = self.config.carried_at
        if self.config.submodule:
            return tree_with(self.outer, commit, path, Entry("160000", "commit", pin))
        old = entry_at(self.outer, commit, path)
        blob = self.outer.run("hash-object", "-w", "--stdin", input=f"{pin}\n".encode()).stdout.decode().strip()
        return tree_with(self.outer, commit, path, Entry(old.mode if old else "100644", "blob", blob))

    def outer_key(self, commit: str) -> str:
        """The tree of everything but the pin: what a verdict depends on besides LLVM."""
        return tree_with(self.outer, commit, self.config.carried_at, None)

    # -- upstream ---------------------------------------------------------------------------------------------------

    @property
    def upstream_ref(self) -> str:
        """Where the upstream's head is remembered."""
        return f"refs/mlir-release/upstream/{self.config.upstream_branch}"

    def fetch_upstream(self) -> str:
        """Fetch and return the upstream's head.

        :raises MachineError: if it can't be reached
        :raises ConflictError: if its history was rewritten
        """
        refspec = f"refs/heads/{self.config.upstream_branch}:{self.upstream_ref}"
        source = self.config.upstream_url if self.config.submodule else "origin"
        options = [] if self.config.submodule else ["--filter=blob:none"]
        # Not --quiet: that would hide why a ref was rejected.
        done = self.upstream.run("fetch", "--no-tags", *options, "--", source, refspec, check=False)
        stderr = done.stderr.decode(errors="replace")
        if done.returncode != 0 and ("non-fast-forward" in stderr or "rejected" in stderr):
            raise ConflictError(
                "upstream-rewritten",
                f"the upstream's branch {self.config.upstream_branch} was force-pushed: "
                "the head known before is not in its history any more",
                where=self.config.upstream_url,
                why="commits that were upstream would now be taken for carried patches",
                remedy=f"look at what happened; then accept it with: git -C {self.upstream.directory} update-ref -d "
                f"{self.upstream_ref}",
            )
        if done.returncode != 0:
            raise MachineError(
                "upstream-unreachable",
                "the upstream repository can't be read",
                where=self.config.upstream_url,
                why=stderr.strip(),
                remedy="check the URL in integrate.toml and the network, then run this again",
            )
        return self.upstream_head()

    def upstream_head(self) -> str:
        """The upstream's head as last fetched."""
        head = self.upstream.resolve(self.upstream_ref)
        return head if head is not None else self.fetch_upstream()

    def base_of(self, pin: str, head: str) -> str:
        """The upstream commit that ``pin`` stands on. :raises ConflictError: if it is not in the upstream's history."""
        base = self._merge_base(pin, head)
        if base != pin:  # an ancestor of a ref is complete; else a fetch may have been killed half-way
            self.require(pin)
            base = self._merge_base(pin, head)
        if not base:
            raise ConflictError(
                "pin-not-upstream",
                "the pinned commit shares no history with the upstream",
                where=f"{pin} and {self.config.upstream_url}",
                remedy="check upstream.url and upstream.branch in integrate.toml",
            )
        return base

    def _merge_base(self, pin: str, head: str) -> str:
        return self.upstream.run("merge-base", pin, head, check=False).stdout.decode().strip()

    def check_base(self, recorded: str, head: str) -> None:
        """:raises ConflictError: if the base that the branch's trailers record has left the upstream's history."""
        if recorded and not is_ancestor(self.upstream, recorded, head):
            raise ConflictError(
                "upstream-rewritten",
                "the upstream commit that this branch stands on is not in the upstream's history any more",
                where=f"{recorded} and {self.config.upstream_url}",
                why="the upstream was force-pushed; its lost commits would be taken for carried patches",
                remedy="start a new integrate from a pin that is upstream",
            )

    def require(self, pin: str) -> None:
        """Have the commit ``pin`` whole in the upstream repository, fetched from the upstream or the export if need be.

        Whole is what a ref leads to: git moves refs after everything else.
        """
        if self._whole(pin):
            return
        sources = [self.config.upstream_url]
        if self.config.export:
            sources.append(self.config.export.remote)
        reasons = []
        for source in sources:
            refspec = f"+{pin}:refs/mlir-release/pins/{pin}"
            done = self.upstream.run("fetch", "--quiet", "--no-tags", "--", source, refspec, check=False)
            if done.returncode == 0 and self._whole(pin):
                return
            reasons.append(done.stderr.decode(errors="replace").strip())
        raise MachineError(
            "pin-unreachable",
            f"LLVM's commit {pin} can't be fetched",
            where=" and ".join(sources),
            why="\n".join(reasons),
            remedy="push it to the export branch from the machine that has it (mlir-release integrate export)",
        )

    def _whole(self, pin: str) -> bool:
        done = self.upstream.run("rev-list", "-n1", pin, "--not", "--all", check=False)
        return done.returncode == 0 and not done.stdout

    def affecting(self, base: str, until: str) -> list[UpstreamCommit]:
        """Upstream commits after ``base`` up to ``until`` that touch the tracked paths, oldest first, ignored ones out.

        Along first parents, so that every commit has one predecessor. One ``git log``: cost grows with the range.
        """
        output = self.upstream.run(
            *("log", "-z", "--first-parent", "--reverse", "--format=%H%x00%T%x00%ct%x00%s"),
            f"{base}..{until}",
            "--",
            *self.config.paths,
        ).stdout
        fields = output.split(b"\0")
        ignored = (
            re.compile("|".join(f"(?:{pattern})" for pattern in self.config.ignore)) if self.config.ignore else None
        )
        found = []
        for sha, tree, when, raw in zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4], strict=False):
            subject = raw.decode(errors="surrogateescape")
            if ignored is None or not ignored.search(subject):
                found.append(UpstreamCommit(sha.decode(), tree.decode(), int(when), subject))
        return found

    def upstream_commit(self, revision: str) -> UpstreamCommit:
        """Exactly the commit that ``revision`` names. :raises UsageError: if it names none, or more than one."""
        sha = self.upstream.resolve(revision)
        if sha is None:
            raise UsageError(
                "upstream-commit-unknown",
                f"{revision!r} names no commit of the upstream",
                where=str(self.upstream.directory),
                why="it does not exist, was not fetched, or is an abbreviation of several commits",
                remedy="give more digits, a tag or a branch that exists there",
            )
        fields = self.upstream.run("log", "-1", "-z", "--format=%H%x00%T%x00%ct%x00%s", sha).stdout.split(b"\0")
        subject = fields[3].decode(errors="surrogateescape")
        return UpstreamCommit(fields[0].decode(), fields[1].decode(), int(fields[2]), subject)

    def within(self, revision: str, base: str, head: str) -> UpstreamCommit:
        """The commit that ``revision`` names, if it lies after ``base`` and up to ``head``. :raises UsageError:"""
        commit = self.upstream_commit(revision)
        if commit.sha == base or not is_ancestor(self.upstream, base, commit.sha):
            reason = "it does not come after the commit where the branch stands"
        elif not is_ancestor(self.upstream, commit.sha, head):
            reason = f"it is not in the history of the upstream's {self.config.upstream_branch}"
        else:
            return commit
        raise UsageError(
            "advance-out-of-range",
            f"can't advance to {revision!r} ({commit.sha}): {reason}",
            where=f"{base}..{head}",
            remedy="mlir-release integrate status lists the commits ahead; nothing was changed",
        )

    # -- the outer repository ---------------------------------------------------------------------------------------

    def signature(self) -> Signature:
        """Who commits, at the clock's time. :raises MachineError: if git has no identity."""
        done = self.outer.run("var", "GIT_COMMITTER_IDENT", check=False)
        match = re.fullmatch(r"(.*) <(.*)> \d+ [+-]\d{4}", done.stdout.decode(errors="surrogateescape").strip())
        if done.returncode != 0 or match is None:
            raise MachineError(
                "identity-missing",
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
                "integrate-detached",
                "HEAD is detached: no branch would keep what is committed here",
                where=str(self.outer.directory),
                remedy=f"git switch to an integrate branch, or to {self.config.main} and start one",
            )
        before, after = self.config.branch.split("{date}")
        if not re.fullmatch(re.escape(before) + r"\d{8}" + re.escape(after) + r"(_\d+)?", name):
            raise UsageError(
                "integrate-not-started",
                f"the branch {name!r} is not an integrate branch ({self.config.branch})",
                where=str(self.outer.directory),
                remedy="mlir-release integrate start, or git switch to the integrate branch",
            )
        return name

    def refuse_dirty(self) -> None:
        """:raises ConflictError: if tracked files have uncommitted changes.

        A pin that merely lags behind HEAD at a commit which the branch held before is what a killed run leaves: it is
        brought up to date, not complained about.
        """
        dirty = changed_paths(self.outer)
        if dirty == [self.config.carried_at] and self._lagging():
            self.follow()
            dirty = changed_paths(self.outer)
        if dirty:
            shown = ", ".join(dirty[:5]) + (f" and {len(dirty) - 5} more" if len(dirty) > 5 else "")
            raise ConflictError(
                "checkout-has-changes",
                "there are changes that are not committed",
                where=f"{self.outer.directory}: {shown}",
                remedy="commit, stash or discard them first; nothing was changed",
            )

    def _lagging(self) -> bool:
        path = self.outer.directory / self.config.carried_at
        if self.config.submodule:
            seen = Git(path).resolve("HEAD") if (path / ".git").exists() else None
        else:
            seen = path.read_text(errors="replace").strip() if path.is_file() else None
        pins = {self.pin(commit) for commit in self.outer.text("rev-list", "--first-parent", "-n", "2", "HEAD").split()}
        return seen in pins

    def follow(self) -> None:
        """Bring the pin in the work tree to what HEAD says."""
        self.outer.run("checkout", "--quiet", "HEAD", "--", self.config.carried_at)
        if self.config.submodule:
            pin = self.pin()
            self.require(pin)
            if self.upstream.resolve("HEAD") != pin:
                self.upstream.run("checkout", "--quiet", "--detach", pin)

    def move_branch(self, branch: str, commit: str) -> None:
        """Fast-forward the checked-out ``branch`` and the work tree to ``commit``. :raises ConflictError:"""
        done = self.outer.run("merge", "--quiet", "--ff-only", commit, check=False)
        if done.returncode != 0:
            raise ConflictError(
                "branch-moved",
                f"{branch} could not be moved forward",
                where=str(self.outer.directory),
                why=done.stderr.decode(errors="replace").strip(),
                remedy="see what else works in this checkout, then run the same command again; nothing was lost",
            )
        if self.config.submodule:
            self.follow()

    def trailers(self, commit: str) -> dict[str, str]:
        """The trailers of an outer commit."""
        return parse_trailers(self.outer.message(commit))

    def state_directory(self) -> Path:
        """Where logs and locks are kept: in the repository's own folder, shared by its work trees."""
        return common_directory(self.outer) / "mlir-release"

    def tree(self, commit: str) -> str:
        """Tree id of an upstream commit."""
        return tree_of(self.upstream, commit)


def open_project(directory: Path, *, clock: Clock = utc_now) -> Project:
    """The downstream repository that ``directory`` is in. :raises UsageError: if it is none, or not configured."""
    done = Git(directory).run("rev-parse", "--show-toplevel", check=False) if directory.is_dir() else None
    if done is None or done.returncode != 0:
        raise UsageError(
            "not-a-checkout",
            "this is not inside a git work tree",
            where=str(directory),
            remedy="run the command in a checkout of the downstream repository (or give it with -C)",
        )
    outer = SharedGit(directory.__class__(os.fsdecode(done.stdout.rstrip(b"\n"))))
    config = load_config(outer.directory)
    project = Project(config, outer, outer, clock)
    if config.submodule:
        project.pin()  # says so if it is no submodule
        project.upstream = _submodule(project)
    else:
        project.upstream = _mirror(project)
    refuse_treeless(project.upstream)
    return project


def _submodule(project: Project) -> Git:
    """The submodule's repository; cloned (without old blobs) if it is not there yet."""
    outer, path = project.outer, project.config.submodule
    folder = outer.directory / path
    if (folder / ".git").exists():
        return SharedGit(folder)
    done = outer.run("submodule", "--quiet", "update", "--init", "--filter=blob:none", "--", path, check=False)
    if not (folder / ".git").exists():
        raise MachineError(
            "submodule-not-cloned",
            f"the submodule {path!r} could not be cloned",
            where=str(folder),
            why=done.stderr.decode(errors="replace").strip(),
            remedy=f"git submodule update --init {path} (--filter=blob:none makes it smaller) and see",
        )
    project.upstream = SharedGit(folder)
    if done.returncode != 0:
        # The submodule's own remote lacks commits that are carried: they are on the export branch.
        pin = project.pin()
        project.require(pin)
        project.upstream.run("checkout", "--quiet", "--force", "--detach", pin)
    return project.upstream


def _mirror(project: Project) -> Git:
    """The private clone of the upstream for a downstream with a pin file: bare and without blobs."""
    state = project.state_directory()
    folder, url = state / "upstream.git", project.config.upstream_url
    if not folder.is_dir():
        with exclusive(state / "upstream.lock"):
            _make_mirror(folder, url)
    mirror = SharedGit(folder)
    if mirror.text("config", "--get", "remote.origin.url") != url:
        mirror.run("config", "remote.origin.url", url)
    return mirror


def _make_mirror(folder: Path, url: str) -> None:
    if folder.is_dir():  # another process was faster
        return
    # A repository that is not complete would be none, and git would look for one in the folders above.
    unfinished = Git(folder.with_name("upstream.unfinished"))
    shutil.rmtree(unfinished.directory, ignore_errors=True)
    unfinished.directory.mkdir(parents=True)
    unfinished.run("init", "--quiet", "--bare")
    unfinished.run("config", "remote.origin.url", url)
    unfinished.directory.rename(folder)
