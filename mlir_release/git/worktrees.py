"""git beyond :mod:`~mlir_release.git.repository`, for integrates: trees, replayed commits, merges, linked work trees.

Everything that decides something is made of objects only (``mktree``, ``merge-tree``, ``commit-tree``): a process that
is killed leaves unreachable objects and nothing else. A work tree follows afterwards, and can always be made again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, MachineError, UsageError
from mlir_release.git import locks as flock
from mlir_release.git.repository import Git

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mlir_release.git.repository import Signature


@dataclass(frozen=True)
class Entry:
    """One entry of a tree: ``mode`` as git prints it (``160000`` is a submodule's commit)."""

    mode: str
    kind: str
    oid: str


def entry_at(git: Git, treeish: str, path: str) -> Entry | None:
    """The tree entry at ``path``, or None. ``path`` has no trailing slash."""
    output = git.run("ls-tree", "-z", "--full-tree", treeish, "--", path).stdout
    for record in output.split(b"\0")[:-1]:
        head, _, name = record.partition(b"\t")
        if name == os.fsencode(path):
            mode, kind, oid = head.decode().split()
            return Entry(mode, kind, oid)
    return None


def tree_with(git: Git, treeish: str, path: str, entry: Entry | None) -> str:
    """The tree of ``treeish`` with ``path`` replaced by ``entry`` (None: removed). Only objects are written."""
    name, _, rest = path.partition("/")
    entries: dict[bytes, bytes] = {}
    for record in git.run("ls-tree", "-z", "--full-tree", treeish).stdout.split(b"\0")[:-1]:
        entries[record.partition(b"\t")[2]] = record
    key = os.fsencode(name)
    if rest:
        below = entries.get(key, b"").partition(b"\t")[0].split()
        if len(below) == 3 and below[1] == b"tree":
            oid = tree_with(git, below[2].decode(), rest, entry)
        else:
            empty = git.run("mktree", "-z", input=b"").stdout.decode().strip()
            oid = tree_with(git, empty, rest, entry)
        entries[key] = f"040000 tree {oid}\t".encode() + key
    elif entry is None:
        entries.pop(key, None)
    else:
        entries[key] = f"{entry.mode} {entry.kind} {entry.oid}\t".encode() + key
    # --missing: a submodule's commit lives in another repository, and a partial clone may lack blobs.
    data = b"".join(record + b"\0" for record in entries.values())
    return git.run("mktree", "-z", "--missing", input=data).stdout.decode().strip()


def tree_of(git: Git, commit: str) -> str:
    """The tree id of a commit."""
    return git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, signature: Signature) -> str:
    """Make a commit object; no ref moves."""
    options = [option for parent in parents for option in ("-p", parent)]
    done = git.run("commit-tree", tree, *options, input=message.encode(), env=signature.environment())
    return done.stdout.decode().strip()


def replay_commit(git: Git, commit: str, tree: str, parent: str, *, message: bytes | None = None) -> str:
    """The same commit with another tree and one parent: author, committer, encoding and message stay byte for byte.

    Being a function of its arguments alone, it gives the same id on every machine.
    """
    head, _, body = git.run("cat-file", "commit", commit).stdout.partition(b"\n\n")
    kept: list[bytes] = []
    skipping = False
    for line in head.split(b"\n"):
        if line.startswith(b" "):
            if not skipping:
                kept.append(line)
            continue
        # A signature would not match the new content.
        skipping = line.split(b" ", 1)[0] in (b"tree", b"parent", b"gpgsig", b"gpgsig-sha256", b"mergetag")
        if not skipping:
            kept.append(line)
    lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), *kept]
    data = b"\n".join(lines) + b"\n\n" + (body if message is None else message)
    return git.run("hash-object", "-t", "commit", "-w", "--stdin", input=data).stdout.decode().strip()


@dataclass(frozen=True)
class Merge:
    """A three-way merge's tree, or the paths that conflict (then ``tree`` is empty)."""

    tree: str
    conflicts: tuple[str, ...] = ()


_ANONYMOUS = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "mlir-release"), ("EMAIL", "mlir-release@localhost"), ("DATE", "1000000000 +0000"))
}


def merge_trees(git: Git, base: str, ours: str, theirs: str) -> Merge:
    """Merge two trees whose common ancestor is the commit ``base``; nothing is checked out.

    Git 2.39 can't be told a merge base, so both sides become (unreachable) children of ``base`` first.
    """
    sides = [
        git.run("commit-tree", tree, "-p", base, input=b"side\n", env=_ANONYMOUS).stdout.decode().strip()
        for tree in (ours, theirs)
    ]
    return merge_commits(git, *sides)


def merge_commits(git: Git, ours: str, theirs: str) -> Merge:
    """Merge two commits as ``git merge`` would, without a work tree."""
    done = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs, check=False)
    if done.returncode not in (0, 1):
        raise MachineError(
            "merge-failed",
            "git could not merge two commits in memory",
            where=str(git.directory),
            why=done.stderr.decode(errors="replace").strip(),
            remedy="git ≥ 2.38 is needed, and the objects of both commits",
        )
    fields = done.stdout.split(b"\0")
    if done.returncode == 0:
        return Merge(fields[0].decode())
    return Merge("", tuple(sorted({os.fsdecode(name) for name in fields[1:] if name})))


def is_ancestor(git: Git, ancestor: str, descendant: str) -> bool:
    """Whether ``ancestor`` is reachable from ``descendant`` (or is it). Unknown commits are not."""
    return git.run("merge-base", "--is-ancestor", ancestor, descendant, check=False).returncode == 0


def changed_paths(git: Git) -> list[str]:
    """Paths with uncommitted changes, untracked files left out, without asking submodules about their insides."""
    output = git.run("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty").stdout
    fields = output.split(b"\0")[:-1]
    paths, index = [], 0
    while index < len(fields):
        paths.append(os.fsdecode(fields[index][3:]))
        index += 2 if fields[index][:1] in (b"R", b"C") else 1
    return paths


def current_branch(git: Git) -> str | None:
    """The short name of the branch that is checked out; None while HEAD is detached."""
    done = git.run("symbolic-ref", "--quiet", "--short", "HEAD", check=False)
    return os.fsdecode(done.stdout.strip()) if done.returncode == 0 else None


def common_directory(git: Git) -> Path:
    """The repository's folder, shared by all its work trees."""
    return Path(git.text("rev-parse", "--path-format=absolute", "--git-common-dir"))


def refuse_treeless(git: Git) -> None:
    """:raises UsageError: if the repository is a partial clone without trees."""
    done = git.run("config", "--get-regexp", "-z", r"^remote\..*\.partialclonefilter$", check=False)
    if any(b"tree:" in record for record in done.stdout.split(b"\0")):
        raise UsageError(
            "clone-treeless",
            "this clone of the upstream has no trees (--filter=tree:…)",
            where=str(git.directory),
            why="listing the commits that touch a path would fetch every commit's trees one by one: minutes, not "
            "milliseconds",
            remedy="use a full clone, or one without blobs: git clone --filter=blob:none",
        )


# -- linked work trees -------------------------------------------------------------------------------------------------


def place_worktree(git: Git, path: Path, commit: str, *, lock: int) -> None:
    """Make ``path`` a linked work tree of ``git`` at ``commit``, detached; ignored files (builds) survive.

    :param lock: descriptor of the lock (:func:`exclusive`) of the folder that ``path`` is in; git inherits it, so a
        git lock file found there is a dead process's
    """
    inside = Git(path)
    private = _private_folder(inside, git) if (path / ".git").is_file() else None
    if private is not None:
        (private / "index.lock").unlink(missing_ok=True)
        (private / "HEAD.lock").unlink(missing_ok=True)
    else:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        git.run("worktree", "prune")
        path.parent.mkdir(parents=True, exist_ok=True)
        options = ("--quiet", "--force", "--force", "--no-checkout", "--detach")
        git.run("worktree", "add", *options, str(path), commit, pass_fds=(lock,))
    inside.run("checkout", "--quiet", "--force", "--detach", commit, pass_fds=(lock,))
    inside.run("clean", "-ffdq", pass_fds=(lock,))


def _private_folder(inside: Git, git: Git) -> Path | None:
    """What a linked work tree of ``git`` has for itself; None if ``inside`` is none, or not a finished one."""
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir")
    done = inside.run(*asked, check=False)
    lines = [Path(line) for line in os.fsdecode(done.stdout).splitlines()]
    if done.returncode != 0 or len(lines) != 3:
        return None
    top, common, private = lines
    # Git locks a work tree while it makes it; one that it was killed in making is about to be removed.
    mine = top == inside.directory.resolve() and common == common_directory(git) and not (private / "locked").exists()
    return private if mine else None


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[int | None]:
    """Hold the lock file ``path`` (``flock``). Yields its descriptor; None if it is taken and not ``wait``.

    A child process that inherits the descriptor (``pass_fds``) keeps the lock if this process is killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if not flock.lock(file.fileno(), wait=wait):
            yield None
            return
        try:
            yield file.fileno()
        finally:
            # Not left to closing the file: a daemon that a build has started may keep the inherited descriptor open.
            flock.unlock(file.fileno())


def push(git: Git, remote: str, *refspecs: str, env: Mapping[str, str] | None = None) -> bool:
    """Push; False if the remote moved meanwhile. :raises ConflictError: if the remote can't be reached or says no."""
    done = git.run("push", "--porcelain", "--no-verify", "--atomic", remote, *refspecs, env=env, check=False)
    if done.returncode == 0:
        return True
    output = (done.stdout + done.stderr).decode(errors="replace")
    if any(reason in output for reason in ("non-fast-forward", "fetch first", "stale info", "cannot lock ref")):
        return False
    raise ConflictError(
        "push-failed",
        f"nothing could be pushed to {remote}",
        where=" ".join(refspecs),
        why=output.strip(),
        remedy="check the address, the network and your rights there, then run the same command again: nothing was "
        "recorded that points at what is missing there",
    )
