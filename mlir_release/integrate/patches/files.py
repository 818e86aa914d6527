"""Patches of an upstream that the downstream keeps as files: its own build applies them, or we do, for a smoke test.

``git apply`` decides whether a file fits, strictly: ``patch`` takes fuzz. What has moved is made anew by a merge, and
what upstream has by now is dropped. All of it is done on objects, and follows from the downstream's commit and the new
pin: the same on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, unquote

from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, NeedsPersonError, UsageError
from mlir_release.ground.foreign import in_commit, visible
from mlir_release.ground.git.trees import (
    GitEntry,
    entries_at,
    make_blob,
    merge_trees,
    replay_commit,
    tree_of,
    tree_with,
)
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.patches.ledger import MOST_ASLEEP, SLEEP
from mlir_release.integrate.patches.patches import PatchConflict, Stack
from mlir_release.integrate.pins.generated import FILES, PLAIN
from mlir_release.integrate.pins.pins import EMPTY, LIMIT, changed_at
from mlir_release.integrate.state import CARRIES_AGAIN, DROPS, past_of

if TYPE_CHECKING:
    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.tables import PatchesTable
    from mlir_release.integrate.upstream import UpstreamCommit, UpstreamRepository

#: Where the changes begin, after what people or programs say about them.
_BEGINS = re.compile(rb"^(?:diff -|--- \S)", re.MULTILINE)

#: Lines of a patch that name a path.
_NAMES = re.compile(rb"^(?:(?:---|\+\+\+) (?!/dev/null)[^/\n]*/|(?:rename|copy) (?:from|to) )([^\t\n]+)", re.MULTILINE)

#: What is no patch that can be followed, in its lines: a sign of it, what it is, and what to do.
_UNFIT = (
    (rb"^(?:@@ .*|--- .*)\r$", "it has CRLF ends of lines", "write *.patch -text into .gitattributes, and convert it"),
    (rb"^(?:GIT binary patch|Binary files .* differ)$", "it changes a binary file", "carry that change as a commit"),
    (rb"^(?:new file mode|new mode) 1[26]0000$", "it makes a link or a submodule", "carry that change as a commit"),
)


class Downstream(Hashable, Protocol):
    """What is asked here of a :class:`~mlir_release.integrate.project.Integration`, which asks this module."""

    upstream: UpstreamRepository

    @property
    def outer(self) -> Git:
        """Its repository."""

    @property
    def names(self) -> tuple[str, ...]:
        """How trailers name the upstream."""

    def pin(self, commit: str) -> str:
        """The upstream's commit in its own."""


#: What a person has to do about a file that does not fit.
FIT = "make the patch fit there (or remove it, and what mentions it), and commit"


@dataclass(frozen=True)
class PatchFile:
    """A patch file as a commit of the downstream has it."""

    path: str
    content: bytes = field(repr=False)
    mode: str
    table: PatchesTable = field(repr=False)
    changes: tuple[str, ...]  #: paths of the upstream's; none: it is there to be filled
    at: str  #: the commit that has it
    dropped: bool = False  #: by an advance: ``at`` was the last one

    @property
    def text(self) -> str:
        """A line for the terminal."""
        by = "applied by the build" if self.table.applied_by == "build" else "applied by us"
        return f"{visible(self.path)} [file, {'dropped' if self.dropped else by if self.changes else 'empty'}]"

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        told = {"applied_by": self.table.applied_by, "changes": self.changes, "dropped": self.dropped}
        return {"file": self.path, **told, "text": self.text}


@dataclass(frozen=True)
class Followed:
    """The patch files of a commit at another pin."""

    edits: Mapping[str, GitEntry | None] = field(default_factory=dict)  #: of the downstream's tree
    told: tuple[str, ...] = ()  #: what these are, a line each
    refused: Mapping[str, str] = field(default_factory=dict)  #: why a person is needed, by path
    asleep: tuple[str, ...] = ()  #: files that are dropped there, as a trailer names them


class FileConflict(PatchConflict):
    """Patch files do not fit an upstream commit, or are not needed there. Nothing was changed."""

    def __init__(self, refused: Mapping[str, str], target: str, by: tuple[UpstreamCommit, ...] = ()) -> None:
        self.refused, self.target, self.files, self.by = dict(refused), target, tuple(refused), by
        NeedsPersonError.__init__(
            self,
            "patch-conflict",
            f"{', '.join(map(visible, refused))}: {'; '.join(dict.fromkeys(refused.values()))}, at {target[:12]}",
            where=", ".join(map(visible, refused)),
            why="".join(f"since {commit.sha[:12]} {commit.title}" for commit in by),
            remedy=f"mlir-release integrate next --advance-to {target}; {FIT}, then mlir-release integrate run",
        )


# -- reading -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def patch_files(project: Downstream, commit: str) -> tuple[PatchFile, ...]:
    """The patch files of the downstream's ``commit`` (an id), in the order in which they are applied.

    Those are among them that advances have dropped: they come back if upstream takes their changes back.

    :raises UsageError: ``input-invalid``: naming the first that is none, and what to do
    """
    found: dict[str, PatchFile] = {}
    for table in sorted(project.upstream.config.patches, key=lambda table: table.applied_by == "build"):
        for name in table.files:
            for path, at in _named(project, commit, name).items():
                if path not in found:
                    found[path] = replace(_read(project, at, path, table), dropped=at != commit)
    return tuple(found.values())


def _named(project: Downstream, commit: str, name: str) -> dict[str, str]:
    """The files that a path or a glob names, each with the commit that has it, or had it until it was dropped."""
    spec = [f":(top,glob){name}"]
    found = dict.fromkeys(changed_at(project.outer, EMPTY, commit, spec), commit)
    for path, at in _dropped(project, commit).items():
        if path in changed_at(project.outer, EMPTY, at, spec):
            found.setdefault(path, at)
    return {path: found[path] for path in sorted(found, key=os.fsencode)}


#: Begins a dropped file in a trailer; there are ids of dropped commits, too.
_FILE = "file:"


@lru_cache(maxsize=256)
def _dropped(project: Downstream, commit: str) -> Mapping[str, str]:
    """The files that advances up to ``commit`` have dropped, but long ago, each with the last commit that had it."""
    outer, found = project.outer, dict[str, str]()
    if outer.text("cat-file", "-t", commit) != "commit":  # a tree on its way to be one
        return found
    words = [word for word in past_of(outer, commit, project.names).dropped.split() if word.startswith(_FILE)]
    now = int(outer.text("log", "-n1", "--format=%ct", commit)) if words else 0
    for path in (unquote(word.removeprefix(_FILE)) for word in words[-MOST_ASLEEP:]):
        asked = ("log", "-n1", "--first-parent", "-m", "--diff-filter=D", "--format=%ct %P", commit)
        said = outer.text(*asked, "--", f":(top,literal){path}").split()
        if said[1:] and int(said[0]) > now - SLEEP:
            try:
                project.upstream.require(project.pin(said[1]))
                found[path] = said[1]
            except (UsageError, MachineError):
                console.warn(f"the pin that {visible(path)} fitted is nowhere to be found: it would not come back")
    return found


def _read(project: Downstream, commit: str, path: str, table: PatchesTable) -> PatchFile:
    entry, names, content = entries_at(project.outer, commit, path)[path], list[bytes](), b""
    problem, remedy = "it is no plain file", "replace it by the patch itself"
    if entry.mode in PLAIN:
        size = int(project.outer.text("cat-file", "-s", entry.oid))
        problem, remedy = f"it has {size:,} bytes; {LIMIT:,} are taken", "split it, or carry it as a commit"
        if size <= LIMIT:
            content = project.outer.run("cat-file", "blob", entry.oid).stdout
            unfit = ((what, then) for sign, what, then in _UNFIT if re.search(sign, content, re.MULTILINE))
            problem, remedy = next(unfit, ("", ""))
    if content and not problem:
        done = project.upstream.run("apply", "--numstat", "-z", "-", input=content, check=False)
        if done.returncode == 0:
            names = [row.split(b"\t", 2)[2] for row in done.stdout.split(b"\0")[:-1]] + changed_by(content)
        elif b"No valid patches" not in done.stderr or _BEGINS.search(content):
            cut = "" if content.endswith(b"\n") else "; its last line has no end"
            problem, remedy = f"git apply says: {_said(done.stderr)}{cut}", "make it anew with git diff"
    changes = tuple(map(os.fsdecode, dict.fromkeys(names)))
    parts = [name.split("/") for name in changes]
    if any({"", ".", "..", ".git"} & {part.lower() for part in each} or each[0].startswith(":") for each in parts):
        problem, remedy = "it names a path outside of the upstream's tree", "make it in the upstream's top folder"
    if len(changes) > FILES:
        problem, remedy = f"it changes {len(changes):,} files; {FILES:,} are taken", "carry it as a commit"
    if problem:
        raise UsageError(
            "input-invalid",
            f"the patch file {visible(path)} can't be followed",
            where=f"{visible(path)} at {commit}",
            why=problem,
            remedy=f"{remedy}; or take it out of files of [[upstream.patches]] in {CONFIG_FILE}",
        )
    return PatchFile(path, content, entry.mode, table, changes, commit)


def changed_by(content: bytes) -> list[bytes]:
    """The paths that the lines of a patch name, but quoted ones."""
    return _NAMES.findall(content[_start(content) :])


def mentioned_alone(text: bytes, path: str) -> re.Match[bytes] | None:
    """The line of a file that mentions a patch file and holds nothing else, if nothing else there does."""
    name = re.escape(os.fsencode(path.rpartition("/")[2]))
    line = rb"^[ \t]*[\"']?(?:[^\s\"']*[/:])?" + name + rb"[\"']?[ \t]*,?[ \t]*\r?\n"
    once = len(re.findall(rb"(?<![\w.-])" + name + rb"(?![\w.-])", text)) == 1
    return re.search(line, text, re.MULTILINE) if once else None


def _start(content: bytes) -> int:
    begins = _BEGINS.search(content)
    return begins.start() if begins else len(content)


def _said(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").replace("error: ", "").splitlines()
    return visible("; ".join(dict.fromkeys(lines)))


# -- following ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PatchIndex:
    """A tree of the upstream as an index of the paths that patches change, and of what these paths lead through."""

    git: Git
    base: str
    env: Mapping[str, str]  #: names its file
    entries: Mapping[str, GitEntry]
    folders: frozenset[str]  #: in the place of files

    def apply(self, content: bytes, *options: str) -> str:
        """Apply a patch, all of it or nothing; what is wrong, or an empty string."""
        for path in self.folders.intersection(map(os.fsdecode, changed_by(content))):
            return f"does not apply ({visible(path)} is a folder there)"
        strict = ("--cached", "--whitespace=nowarn", "--no-ignore-whitespace")
        done = self.git.run("apply", *strict, *options, "-", input=content, env=self.env, check=False)
        return "" if done.returncode == 0 else f"does not apply ({_said(done.stderr)})"

    def tree(self) -> str:
        """The tree with what was applied."""
        rows = self.git.run("ls-files", "--stage", "-z", env=self.env).stdout.split(b"\0")[:-1]
        now = {os.fsdecode(name): row.decode().split() for row, _, name in (row.partition(b"\t") for row in rows)}
        new: dict[str, GitEntry | None] = {path: GitEntry(row[0], "blob", row[1]) for path, row in now.items()}
        changes = {path: new.get(path) for path in new.keys() | self.entries if new.get(path) != self.entries.get(path)}
        return tree_with(self.git, self.base, changes)


@contextmanager
def _index(git: Git, tree: str, files: Sequence[PatchFile]) -> Iterator[_PatchIndex]:
    paths = {path for file in files for path in file.changes}
    leading = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)}
    found = entries_at(git, tree, *sorted(paths | leading)) if paths else {}
    entries = {path: entry for path, entry in found.items() if entry.kind == "blob"}
    rows = "".join(f"{entry.mode} {entry.oid}\t{path}\0" for path, entry in entries.items())
    with scratch_folder("patches") as folder:
        trees = [path for path, entry in found.items() if entry.kind == "tree"]
        through = ("/".join(path.split("/")[:depth]) for path in entries for depth in range(1, path.count("/") + 1))
        env = {"GIT_INDEX_FILE": os.fspath(folder / "index")}
        git.run("update-index", "-z", "--index-info", input=os.fsencode(rows), env=env)
        yield _PatchIndex(git, tree, env, entries, frozenset(paths & {*trees, *through}))


def _patched(git: Git, tree: str, files: Sequence[PatchFile]) -> str:
    """``tree`` with all these patches; empty if one does not apply."""
    with _index(git, tree, files) as index:
        return "" if any(index.apply(file.content) for file in files if file.changes) else index.tree()


#: Why a file is dropped, and why it comes back.
_TURNS = {False: "upstream has every change of it", True: "upstream has taken a change of it back"}


@lru_cache(maxsize=1024)
def follow(project: Downstream, commit: str, pin: str) -> Followed:
    """What becomes of the patch files of the downstream's ``commit`` with the upstream at ``pin``; both are ids.

    A file that applies stays as it is. One whose surroundings have changed is made anew. One is dropped if upstream has
    each change in it, with the line of ``listed-in`` that mentions it. It comes back with that line once upstream has
    taken a change back. All else needs a person.

    :raises UsageError: see :func:`patch_files`
    """
    files = [file for file in patch_files(project, commit) if file.changes]
    git, moves = project.upstream, project.pin(commit) != pin
    edits: dict[str, GitEntry | None] = {}
    told: list[str] = []
    refused: dict[str, str] = {}
    asleep: list[str] = []
    if not files:
        return Followed()
    with _index(git, tree_of(git, pin), files) as there:
        for file in files:
            left: bytes | None = None if file.dropped and not moves else file.content  # of it there; None: no fit
            problem, twice = there.apply(file.content, "--check"), not there.apply(file.content, "-R", "--check")
            if left is not None and (problem or (twice and moves)):
                tree = there.tree()
                merged = _merged(project, file, tree) if moves else ""
                if merged == tree:
                    left = b""
                elif problem or (file.dropped and not merged):
                    diff = ("diff-tree", "-p", "--no-renames", "--no-color", "--no-ext-diff", tree, merged)
                    left = file.content[: _start(file.content)] + git.run(*diff).stdout if merged else None
            if left and there.apply(left):
                left = None
            path, changed = file.path, bool(left) and (file.dropped or left != file.content)
            new = replace(make_blob(project.outer, left or b""), mode=file.mode) if changed else None
            if file.dropped and not left:
                asleep.append(path)
            elif left is None:  # what comes after one that does not fit may need it
                refused |= {} if refused else {path: problem}
            elif left and not file.dropped:
                if changed:
                    edits[path] = new
                    told.append(f"makes {in_commit(path)} anew: upstream changed the lines around it")
            elif (listed := _listed(project, commit, file, edits)) is None:
                refused[path] = f"{_TURNS[bool(left)]}: {'put it back with' if left else 'remove it and'} its mention"
            else:
                edits |= {**listed, path: new}
                told.append(f"{CARRIES_AGAIN if left else DROPS} {in_commit(path)}: {_TURNS[bool(left)]}")
                asleep += [] if left else [path]
    return Followed(edits, tuple(told), refused, tuple(f"{_FILE}{quote(path)}" for path in asleep))


def _merged(project: Downstream, file: PatchFile, tree: str) -> str:
    """``tree`` with the changes of a file, as it fitted where it was last, by a merge; empty if that can't be done."""
    git, old = project.upstream, project.pin(file.at)
    line = [each for each in patch_files(project, file.at) if each.changes and not each.dropped]
    number = [each.path for each in line].index(file.path)
    states = [_patched(git, tree_of(git, old), some) for some in (line[:number], line[: number + 1])]
    if not all(states):
        return ""
    return merge_trees(
        git, replay_commit(git, old, states[0], old, message=b"With patch files\n"), tree, states[1]
    ).tree


def _listed(
    project: Downstream, commit: str, file: PatchFile, edits: Mapping[str, GitEntry | None]
) -> dict[str, GitEntry | None] | None:
    """The changes that remove the mentions of a file, or put back those of one that was dropped; None if these are not
    all in a line of their own.

    :param edits: those that were made before
    """
    found: dict[str, GitEntry | None] = {}
    for path in file.table.listed_in:
        old = edits.get(path) or entries_at(project.outer, commit, path).get(path)
        if old is None or old.mode not in PLAIN:
            continue
        text = project.outer.run("cat-file", "blob", old.oid).stdout
        was = (project.outer.read(file.at, path) or b"") if file.dropped else text
        line = None if path.endswith(".json") else mentioned_alone(was, file.path)
        lines = text.splitlines(keepends=True)
        if line is None:
            if os.fsencode(file.path.rpartition("/")[2]) in was:
                return None
            continue
        if file.dropped:  # below the nearest line above it that is still there
            above = [each for each in was[: line.start()].splitlines(keepends=True) if lines.count(each) == 1]
            if not above:
                return None
            lines.insert(lines.index(above[-1]) + 1, line[0])
        else:
            lines = [text[: line.start()], text[line.end() :]]
        found[path] = replace(make_blob(project.outer, b"".join(lines)), mode=old.mode)
    return found if found or file.table.applied_by == "us" else None


# -- for the walk ------------------------------------------------------------------------------------------------------


def fitting(project: Downstream, commit: str, pin: str) -> str:
    """The downstream's ``commit``, or its tree with the patch files as they fit ``pin``, as far as they do."""
    if not project.upstream.config.patches or not pin or pin == project.pin(commit):
        return commit
    edits = follow(project, project.outer.text("rev-parse", "--verify", commit), pin).edits
    return tree_with(project.outer, commit, edits) if edits else commit


def applied(project: Downstream, commit: str, pin: str) -> str:
    """The upstream's commit ``pin`` with the patch files of the downstream's ``commit`` that we apply.

    :raises FileConflict: if one does not apply
    """
    commit = project.outer.text("rev-parse", "--verify", commit) if project.upstream.config.patches else commit
    files = [file for file in patch_files(project, commit) if file.table.applied_by == "us" and not file.dropped]
    if not files:
        return pin
    tree = _patched(project.upstream, tree_of(project.upstream, pin), files)
    if not tree:
        raise FileConflict(follow(project, commit, pin).refused or {files[0].path: "does not apply"}, pin)
    return replay_commit(project.upstream, pin, tree, pin, message=b"With patch files\n")


def conflict(project: Downstream, commit: str, pin: str, target: str) -> FileConflict | None:
    """Why the upstream commit ``target``, with carried patches ``pin``, needs a person because of patch files."""
    refused = follow(project, commit, pin).refused if project.upstream.config.patches else {}
    return FileConflict(refused, target) if refused else None


def explained(
    project: Downstream, commit: str, since: str, replayed: Callable[[str], Stack], found: PatchConflict | None
) -> PatchConflict | None:
    """The conflict with the commit that brought it: the first after ``since``, whether it affects us or not.

    :param commit: of the downstream; ``replayed``: the carried stack on an upstream commit
    """
    if not isinstance(found, FileConflict):
        return found
    paths = {path for file in patch_files(project, commit) if file.path in found.refused for path in file.changes}
    asked = ("--reverse", f"{since}..{found.target}", "--", *(f":(literal){path}" for path in paths))
    for each in project.upstream.text("rev-list", "--first-parent", *asked).split():
        told = follow(project, commit, replayed(each).tip).refused
        if found.refused.keys() & told.keys():
            return FileConflict(told, each, (project.upstream.commit(each),))
    return found


def check_files(project: Downstream, commit: str, pin: str, base: str) -> None:
    """Refuse, before the first test, what no test would change; warn of what may be wrong.

    :param commit: of the downstream; ``base``: the upstream commit under its ``pin``
    :raises UsageError: ``input-invalid``
    :raises FileConflict: if a patch file does not apply where the branch is
    """
    found = conflict(project, commit, pin, base)
    if found is not None:
        found.remedy = f"{FIT}; nothing was tested"
        raise found
    files = [file for file in patch_files(project, commit) if not file.dropped]
    for table in project.upstream.config.patches:
        for name in table.files:
            if not _named(project, commit, name):
                console.warn(f"{CONFIG_FILE} names {visible(name)}, which is not there: correct it, or remove it")
    if not files:
        return
    with _index(project.upstream, tree_of(project.upstream, pin), files) as here:
        for file in files:
            if file.changes and not here.apply(file.content, "-R", "--check"):
                console.warn(
                    f"{visible(file.path)} applies, and so does its reverse: if upstream has it, remove it; else "
                    "make it anew with more lines around it (git diff -U10)"
                )
            here.apply(file.content)
