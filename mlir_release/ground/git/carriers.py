"""How a repository carries another one: as a submodule, or as a commit that is written in a file."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.trees import entry_at

if TYPE_CHECKING:
    from mlir_release.ground.git.repository import Git

#: A full commit, and no part of something longer, such as a SHA-256.
_COMMIT = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{40}(?![0-9A-Za-z])")

#: Characters of a file that are looked at: files that hold a pin are short.
_READ = 100_000


def carried_at(git: Git, commit: str, path: str, *, submodule: bool | None = None, where: str = "") -> str:
    """The other repository's commit that ``commit`` carries at ``path``.

    :param submodule: whether it has to be a submodule, or a file that holds nothing else. None, for a repository of
        others: whichever is there, and a file that names one commit among other text, as Bazel's do
    :param where: the repository's address, for errors; default: its folder
    :raises UsageError: ``config-invalid``, ``pin-invalid``
    """
    where = where or str(git.directory)
    entry = entry_at(git, commit, path)
    if entry is not None and entry.kind == "commit" and submodule is not False:
        return entry.oid
    if submodule:
        raise UsageError(
            "config-invalid",
            f"{path!r} is not a submodule at {commit}",
            where=where,
            why="the tree has nothing there" if entry is None else f"the tree has a {entry.kind} there",
            remedy="correct submodule in integrate.toml, or git submodule add … and commit",
        )
    content = git.read(commit, path)
    text = (content or b"")[:_READ].decode(errors="replace").strip()
    named: list[str] = sorted({*_COMMIT.findall(text)})
    if len(named) == 1 and (text == named[0] or submodule is None):
        return named[0]
    holds = f"names {len(named)} commits: {', '.join(named[:3])}" if len(named) > 1 else f"holds {text[:60]!r}"
    raise UsageError(
        "pin-invalid",
        f"{path!r} does not hold a full commit at {commit}",
        where=where,
        why="there is no such file" if content is None else f"it {holds}",
        remedy="put the 40 digits of the commit there, alone on one line, and commit; or, if the file has other text, "
        "add a pattern to integrate.toml (mlir-release integrate init recognises many)"
        if submodule is not None
        else "name the submodule or the file that pins LLVM: pin-of:PROJECT#PATH",
    )


def listed(git: Git, commit: str = "") -> dict[str, str]:
    """The submodules that ``.gitmodules`` lists, of ``commit`` or else in the work tree of ``git``: path -> name."""
    return {path: name for name, path in submodule_settings(git, "path", commit).items()}


def submodule_settings(git: Git, key: str, commit: str = "") -> dict[str, str]:
    """One setting (``path``, ``url``) of each submodule that ``.gitmodules`` lists, by the submodule's name."""
    source = (f"--blob={commit}:.gitmodules",) if commit else ("-f", ".gitmodules")
    done = git.run("config", "-z", *source, "--get-regexp", rf"^submodule\..*\.{key}$", check=False)
    fields = [os.fsdecode(record).partition("\n") for record in done.stdout.split(b"\0")[:-1]]
    return {name.removeprefix("submodule.").removesuffix(f".{key}"): value for name, _, value in fields}
