"""What a program that fixes the downstream may change: not what judges it, and not what runs with a job's rights.

Its changes are looked at as objects, between two trees, so that nothing that it left on the machine hides one.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.integrate.config import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.git.repository import Git
    from mlir_release.integrate.project import Project

#: Modes of files as git prints them. A submodule's and a symbolic link's are not among them.
FILE_MODES = ("100644", "100755")

_LINK, _SUBMODULE, _NOTHING = "120000", "160000", "000000"


class Change(NamedTuple):
    """One path that differs between two trees. A mode of zeros: it is not there."""

    path: str
    old_mode: str
    new_mode: str
    oid: str  #: the new content


def changes(git: Git, old: str, new: str) -> list[Change]:
    """What differs between two trees, submodules included."""
    output = git.run("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, new).stdout
    fields = iter(output.split(b"\0")[:-1])
    found = []
    for row, path in zip(fields, fields, strict=True):
        old_mode, new_mode, _, oid, _ = row.decode().lstrip(":").split()
        found.append(Change(os.fsdecode(path), old_mode, new_mode, oid))
    return found


def refusals(project: Project, base: str, tree: str) -> list[str]:
    """The changes from the commit ``base`` to ``tree`` that are refused, as ``PATH: reason``."""
    git, config = project.outer, project.config.fix
    made = changes(git, base, tree)
    reasons = {change.path: _own_reason(project, change) for change in made}
    judging = [f":(literal,icase){path}" for path in named_files(git, base, project.config.smoke.argv)]
    own = [f":(literal,icase){path}" for path in named_files(git, base, config.argv)]
    for specs, reason in (
        (judging, "the smoke test's command names it"),
        (own, "the fix command is in it"),
        ([f":(glob,icase){glob}" for glob in config.protected], f"[fix] protected in {CONFIG_FILE} has it"),
    ):
        for path in _matching(git, base, tree, specs):
            reasons[path] = reasons[path] or reason
    if config.allowed:
        inside = _matching(git, base, tree, [f":(glob,icase){glob}" for glob in config.allowed])
        for path in reasons.keys() - inside:
            reasons[path] = reasons[path] or f"[fix] allowed in {CONFIG_FILE} does not have it"
    return [f"{path}: {reason}" for path, reason in sorted(reasons.items()) if reason]


def _own_reason(project: Project, change: Change) -> str:
    """Why nobody's configuration can allow this change; empty: it can."""
    parts = re.split(r"[/\\]", change.path.casefold())
    pins = [path.casefold() for each in project.everyone for path in each.upstream.config.carriers]
    if _SUBMODULE in (change.old_mode, change.new_mode):
        return "it is a submodule"
    if change.new_mode == _LINK:
        return "it is a symbolic link"
    if change.new_mode not in (*FILE_MODES, _NOTHING):
        return f"its mode is {change.new_mode}"
    if any(part.startswith(".git") for part in parts):
        return "its name, or a folder's, begins with .git"
    if any(part in ("", ".", "..") for part in parts) or "\\" in change.path:
        return "it is no plain path"
    if parts[-1] == "codeowners":
        return "it says who reviews changes"
    if change.path.casefold() == CONFIG_FILE:
        return "it configures this"
    if any(change.path.casefold() == pin or change.path.casefold().startswith(f"{pin}/") for pin in pins):
        return "it is the pin"
    if any("\ud800" <= character <= "\udfff" for character in change.path):
        return "its name is not UTF-8"
    return ""


def _matching(git: Git, base: str, tree: str, specs: Sequence[str]) -> set[str]:
    """The paths that differ and match one of git's pathspecs."""
    if not specs:
        return set()
    output = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, tree, "--", *specs).stdout
    return {os.fsdecode(path) for path in output.split(b"\0")[:-1]}


def named_files(git: Git, commit: str, argv: Sequence[str]) -> list[str]:
    """The files and folders of a commit that a command names: as a word, an option's value, or ``python -m``'s module.

    Words within a word (``sh -c "./a && ./b"``) count, and so does the target of a link in the repository. What a
    script runs in turn is not known here.
    """
    wanted = {path for word in argv for inner in (word, *_words(word)) for path in _paths(inner)}
    found: set[str] = set()
    for _ in range(5):  # links may lead to links
        prefixes = {prefix for path in wanted for prefix in accumulate(path.split("/"), posixpath.join)}
        links = {}
        for path, mode in _modes(git, commit, prefixes).items():
            if path in wanted:
                found.add(path)
            if mode == _LINK:
                links[path] = os.fsdecode(git.read(commit, path) or b"")
        wanted = {
            target
            for path in wanted
            for link, to in links.items()
            if path == link or path.startswith(f"{link}/")
            for target in _paths(posixpath.join(posixpath.dirname(link), to) + path.removeprefix(link))
        }
        if not wanted:
            break
    return sorted(found)


def _words(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError:  # an open quote
        return word.split()


def _paths(word: str) -> list[str]:
    """The paths inside the repository that a word may be."""
    values = [word, word.partition("=")[2]]
    if re.fullmatch(r"\w+(\.\w+)+", word):
        values += [f"{word.replace('.', '/')}.py", word.replace(".", "/")]
    plain = (posixpath.normpath(value.rstrip(";&|)")) for value in values if value)
    return [path for path in plain if path != "." and not path.startswith(("/", "../")) and path != ".."]


def _modes(git: Git, commit: str, paths: Iterable[str]) -> dict[str, str]:
    """The modes of those paths that a commit has."""
    asked = [path for path in paths if "\0" not in path]
    if not asked:
        return {}
    listed = git.run("ls-tree", "-z", "--full-tree", commit, "--", *asked).stdout.split(b"\0")[:-1]
    rows = (row.partition(b"\t") for row in listed)
    return {os.fsdecode(path): head.split()[0].decode() for head, _, path in rows}
