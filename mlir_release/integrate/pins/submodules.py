"""The downstream's other submodules: where a branch makes them point, and whether others can fetch that."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.git import locks
from mlir_release.ground.git.carriers import listed
from mlir_release.ground.git.remotes import fetch
from mlir_release.ground.git.shared import STATE, SharedGit
from mlir_release.ground.git.trees import entry_at
from mlir_release.ground.git.worktrees import place_slot
from mlir_release.ground.storage.files import read_text, write_atomically
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.credentials import fetch_export

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.project import Integration

#: Where the branches and tags of a submodule's remote are remembered while they are looked at.
_THERE = "refs/mlir-release/there"


def wanted(project: Integration) -> list[str]:
    """The submodules besides the upstream that a smoke test finds: ``[smoke] submodules``.

    By default, those that are initialised in the checkout, and those that carry patches (``[[export.also]]``).

    :raises UsageError: if the file names a path that is no submodule
    """
    outer, asked = project.outer, project.config.smoke.submodules
    followed = [table.submodule for table in project.config.upstreams]
    known = [path for path in listed(outer) if path not in followed]
    if asked is None:
        patched = {target.path for target in project.config.export.also}
        return [path for path in known if path in patched or (outer.directory / path / ".git").exists()]
    unknown = [path for path in asked if path not in known]
    if unknown:
        raise UsageError(
            "config-invalid",
            f"{', '.join(unknown)} in submodules of [smoke] is no submodule",
            where=CONFIG_FILE,
            why="an upstream's own is always there" if {*followed} & {*unknown} else "",
            remedy=f"choose of: {', '.join(known)}" if known else "remove it: .gitmodules lists no other",
        )
    return list(asked)


def update(project: Integration) -> None:
    """Check out the submodules that are :func:`wanted` in the checkout, each at the commit that it points at."""
    others = wanted(project)
    if others:
        project.outer.run("submodule", "--quiet", "update", "--init", "--", *others, remote="")


def repository(outer: SharedGit, path: str) -> SharedGit:
    """The submodule's repository; cloned (without old blobs) if it is not there yet. :raises MachineError:"""
    clone(outer, path)
    return SharedGit(outer.directory / path, lazy=True)


#: The note about a complete clone whose commit is still to be checked out.
_TO_FINISH = "to finish"


def clone(outer: SharedGit, path: str, *, finish: Callable[[], None] = lambda: None) -> None:
    """Clone the submodule at ``path`` (without old blobs) if it is not there yet.

    A clone that was killed half-way looks like a complete one. So a note is written before; if it is still there, the
    clone is made again.

    :param finish: called if git could not check out the submodule's commit
    :raises MachineError: if git can't clone it
    """
    folder, begun = outer.directory / path, outer.common / STATE / "cloning" / quote(path, safe="")
    if (folder / ".git").exists() and not begun.exists():
        return
    with locks.exclusive(outer.common / STATE / "cloning.lock") as lock:
        assert lock is not None  # waited for; git inherits it
        interrupted = read_text(begun, errors="surrogateescape") if begun.exists() else None
        if interrupted is None and (folder / ".git").exists():  # another process made it
            return
        if interrupted != _TO_FINISH:
            if interrupted:
                shutil.rmtree(interrupted, ignore_errors=True)
            if interrupted is not None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            if not (folder.is_dir() and any(folder.iterdir())):  # else these are a person's files, and git refuses
                inside = f"modules/{listed(outer).get(path, path)}"
                made = Path(outer.text("rev-parse", "--path-format=absolute", "--git-path", inside))
                write_atomically(begun, b"" if made.exists() else os.fsencode(made))
            console.say(f"    cloning {path}: minutes, if it is large")
            # A walk needs the history, even where .gitmodules recommends a shallow clone.
            update = ("submodule", "--quiet", "update", "--init", "--no-recommend-shallow", "--filter=blob:none")
            done = outer.run(*update, "--", path, check=False, pass_fds=(lock,), remote="")
            if not (folder / ".git").exists():
                begun.unlink(missing_ok=True)
                raise MachineError(
                    "network-failed",
                    f"the submodule {path!r} could not be cloned",
                    where=str(folder),
                    why=done.stderr.decode(errors="replace").strip(),
                    remedy=f"git submodule update --init {path} (--filter=blob:none makes it smaller) and see",
                )
            if done.returncode == 0:
                begun.unlink(missing_ok=True)
                return
            write_atomically(begun, _TO_FINISH)
        finish()
        begun.unlink()


def links_made(project: Integration, base: str, tip: str) -> Iterator[tuple[str, str, str, str]]:
    """Where the commits after ``base`` up to ``tip`` point other submodules at something else; oldest first.

    Yields the outer commit and its subject, the submodule's path, and the submodule's commit.
    """
    output = project.outer.run(
        *("log", "-z", "--first-parent", "-m", "--reverse", "--raw", "--no-abbrev", "--no-renames"),
        *("--format=%x01%H%x00%s", f"{base}..{tip}"),
    ).stdout
    followed = [table.submodule for table in project.config.upstreams]
    outer = subject = ""
    fields = iter(output.split(b"\0"))
    for field in fields:
        if field.startswith(b"\x01"):
            outer, subject = field[1:].decode(), next(fields).decode(errors="replace")
        elif field.lstrip(b"\n").startswith(b":"):
            mode, commit = field.split()[1:4:2]
            path = os.fsdecode(next(fields))
            if mode == b"160000" and path not in followed:
                yield outer, subject, path, commit.decode()


def populate(project: Integration, slot: Path, commit: str, lock: int) -> None:
    """Check out the submodules that are :func:`wanted` in a slot at ``commit``, with theirs.

    They are cloned in the checkout, where their remotes and credentials are known, and lend the slot their objects.

    :param lock: descriptor that git inherits
    :raises UnreachableError: if a commit is neither at the submodule's remote nor at its ``[[export.also]]``
    """
    exports = {target.path: target for target in project.config.export.also}
    left = [(project.outer, slot, commit, path) for path in wanted(project)]
    while left:
        outer, folder, commit, path = left.pop(0)
        entry = entry_at(outer, commit, path)
        if entry is None or entry.kind != "commit":
            continue
        inner = repository(outer, path)
        if inner.resolve(entry.oid) is None and path in exports and outer is project.outer:
            fetch_export(inner, exports[path])
        for refspec in ("+refs/heads/*:refs/remotes/origin/*", entry.oid):
            if inner.resolve(entry.oid) is None:
                fetch(inner, "origin", refspec)
        place_slot(inner, folder / path, entry.oid, lock=lock)
        left += [(inner, folder / path, entry.oid, below) for below in listed(inner, entry.oid)]


def fetchable(project: Integration, path: str, commit: str) -> bool:
    """Whether others can fetch ``commit`` from the submodule's own remote or its ``[[export.also]]``.

    :raises MachineError: if the submodule can't be cloned
    """
    inner = repository(project.outer, path)
    _forget(inner)  # old refs prove nothing
    there = inner.text("config", "--get", "remote.origin.url")
    inner.run(
        *("fetch", "--quiet", "--no-tags", "--", there, f"+refs/heads/*:{_THERE}/heads/*"),
        f"+refs/tags/*:{_THERE}/tags/*",
        check=False,
        remote=there,
    )
    for target in project.config.export.also:
        if target.path == path:
            fetch_export(inner, target, into=f"{_THERE}/export")
    done = inner.run("rev-list", "-n1", commit, "--not", f"--glob={_THERE}/*", check=False)
    _forget(inner)
    return done.returncode == 0 and not done.stdout


def _forget(inner: Git) -> None:
    names = "".join(f"delete {ref.name}\n" for ref in inner.refs(_THERE))
    if names:
        inner.run("update-ref", "--stdin", input=names.encode())
