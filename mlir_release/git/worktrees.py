"""Work trees: what is checked out in one, and linked work trees that can always be made again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.git.repository import Git, GitError
from mlir_release.git.shared import being_made

if TYPE_CHECKING:
    from mlir_release.git.shared import SharedGit


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
    asked = ("symbolic-ref", "--quiet", "--short", "HEAD")
    try:
        return os.fsdecode(git.run(*asked).stdout.strip())
    except GitError as error:
        if error.returncode == 1:
            return None
        raise


def place_worktree(git: SharedGit, path: Path, commit: str, *, lock: int) -> None:
    """Make ``path`` a linked work tree of ``git`` at ``commit``, detached; ignored files (builds) survive.

    :param lock: descriptor of the lock (see :mod:`~mlir_release.git.locks`) of the folder that ``path`` is in; git
        inherits it, so a git lock file found there is a dead process's
    """
    inside = Git(path, lazy=git.lazy)
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


def put_back(inside: Git, *, lock: int) -> None:
    """Give a work tree whose processes were killed the content of its HEAD again; ignored files survive."""
    private = inside.run("rev-parse", "--path-format=absolute", "--git-dir").stdout
    (Path(os.fsdecode(private.rstrip(b"\n"))) / "index.lock").unlink(missing_ok=True)
    inside.run("checkout", "--quiet", "--force", pass_fds=(lock,))
    inside.run("clean", "-ffdq", pass_fds=(lock,))


def _private_folder(inside: Git, git: SharedGit) -> Path | None:
    """What a linked work tree of ``git`` has for itself; None if ``inside`` is none, or not a finished one."""
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir")
    done = inside.run(*asked, check=False)
    lines = [Path(line) for line in os.fsdecode(done.stdout).splitlines()]
    if done.returncode != 0 or len(lines) != 3:
        return None
    top, common, private = lines
    if top != inside.directory.resolve() or common != git.common or being_made(private):
        return None
    # Once what an unfinished work tree had is removed, its name is free for the next one that is made.
    back = Path(os.fsdecode((private / "gitdir").read_bytes().rstrip(b"\n")))
    return private if back.resolve() == top / ".git" else None
