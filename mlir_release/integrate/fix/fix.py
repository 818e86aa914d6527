"""``integrate fix``: a work tree at the commit that breaks the downstream, for a person to fix it in.

It is made once and kept, so that its builds are incremental. A person's changes there are never overwritten. The branch
moves once a commit from there has passed the smoke test.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mlir_release.ground import strategy as st
from mlir_release.ground.console import console, counted
from mlir_release.ground.errors import ConflictError, NeedsPersonError, UsageError
from mlir_release.ground.git import locks
from mlir_release.ground.git.remotes import UnreachableError
from mlir_release.ground.git.trees import is_ancestor, merge_base
from mlir_release.ground.git.worktrees import adopt, has_objects, head_of, in_slot, take_over
from mlir_release.ground.storage.files import write_atomically
from mlir_release.integrate.patches.files import applied, fitting
from mlir_release.integrate.pins.refresh import refreshed
from mlir_release.integrate.report import findings_in
from mlir_release.integrate.upstream import shown
from mlir_release.integrate.walk.risk import IDLE_FILE, included_in
from mlir_release.integrate.walk.smoke import ProbeSlot, place, slot_in, slots, sources_in, variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mlir_release.ground.git.shared import SharedGit
    from mlir_release.integrate.patches.patches import Stack
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.state import Record
    from mlir_release.integrate.walk.observe import Observation
    from mlir_release.integrate.walk.walk import Walk


@dataclass(frozen=True, kw_only=True)
class Fix:
    """A place to fix the downstream in."""

    worktree: Path  #: of the downstream, its upstream at ``bad`` in it
    command: Path  #: runs the smoke test there
    good: str  #: upstream commits
    bad: str
    files: tuple[str, ...]  #: those that ``bad`` changes and the downstream includes
    diff: str  #: of these files, the hunks that the errors name where there are such; without files: a list of all
    left_out: str  #: how much of these files is not in ``diff``; empty: nothing
    subject: str  #: of ``bad``
    sources: Path  #: the folder of the upstream's sources
    log: Path  #: of the failed smoke test
    errors: tuple[str, ...]  #: of the failed smoke test
    kept: bool  #: the work tree was there already, and is as it was

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        paths = ("worktree", "command", "sources", "log")
        return {**asdict(self), **{name: str(getattr(self, name)) for name in paths}}

    def as_text(self) -> str:
        """For the terminal: upstream's change, then the next commands."""
        which = "in files that it includes or errors name" if self.files else "no file that it includes by name"
        which += f"; {self.left_out} left out, which no error names" if self.left_out else ""
        begun = "is as you left it" if self.kept else "is ready"
        return "\n".join(
            [
                f"{self.good[:12]} passes, {self.bad[:12]} fails. What changed upstream ({which}):",
                self.diff.rstrip("\n"),
                "",
                f"The work tree {begun}: {self.worktree}",
                f"  test it:      {self.command}",
                "  then commit there, and run: mlir-release integrate fix --continue",
            ]
        )


def failing(walks: Sequence[Walk]) -> Walk:
    """The first walk in which a smoke test is known to have failed; without one, the first."""

    def failed(walk: Walk) -> bool:
        seen = walk.observer.look(fetch=False)
        return st.bracket(walk.observer.knowledge(seen, walk.observer.verdicts(seen))).high is not None

    return next(filter(failed, walks), walks[0]) if len(walks) > 1 else walks[0]


def open_fix(walk: Walk) -> Fix:
    """Make the work tree at the first commit that is known to be bad, or find it as it was left.

    :raises UsageError: if no smoke test is known to have failed
    :raises PatchConflict: if it is the next commit that the carried patches do not apply on
    :raises ConflictError: if the work tree holds something else that was not committed to the branch
    """
    try:
        walk.store.pull(walk.project.config.downstream.remote)  # another machine may have found it
    except UnreachableError as error:
        console.warn(str(error))
    with work_tree(walk.project) as slot:
        seen = walk.observer.look(fetch=False)
        low, high, stack = failure(walk, seen)
        kept = _kept(walk.project, slot, seen.head, stack.tip)
        if not kept:
            commit = seen.head
            if high > 0:
                generated = refreshed(walk.project, seen.head, stack.tip)
                commit = walk.advance_commit(seen, seen.ahead[high - 1], stack, str(st.Verdict.BAD), generated)
            _unfinished(slot).touch()
            place(slot, walk.project, commit, stack.tip)
            _unfinished(slot).unlink()
        good, bad = map(seen.upstream_at, (low, high))
        question = walk.observer.question(seen, bad)
        record = walk.observer.verdicts(seen).get(high)
        errors = tuple(shown(found.line) for found in record.findings) if record else ()
        files, diff, left_out = _changes(walk.project, good, bad, errors)
        command = slot.outer.parent / "smoke-test"  # repeats the smoke test as a probe runs it
        lines = ["#!/bin/sh", f"cd {shlex.quote(str(slot.outer))} || exit 1"]
        values = variables(walk.project, slot, bad)
        lines += [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
        # Not through a link that foreign code may have put there.
        write_atomically(command, "\n".join([*lines, f"exec {shlex.join(walk.project.config.smoke.argv)}", ""]))
        command.chmod(0o755)
        return Fix(
            worktree=slot.outer,
            command=command,
            good=good,
            bad=bad,
            files=files,
            diff=diff,
            left_out=left_out,
            subject=walk.project.upstream.commit(bad).title,
            sources=slot.sources,
            log=walk.project.log(question.key),
            errors=errors,
            kept=kept,
        )


def failure(walk: Walk, seen: Observation) -> tuple[int, int, Stack]:
    """The positions of the last good and the first bad commit, and the carried stack at the bad one."""
    here = st.bracket(walk.observer.knowledge(seen, walk.observer.verdicts(seen)))
    if here.high is not None:
        return here.low, here.high, walk.observer.stack_at(seen, seen.upstream_at(here.high))
    if here.low < len(seen.ahead):
        walk.observer.stack_at(seen, seen.upstream_at(here.low + 1))  # or a conflict, which says what can be done
    raise UsageError(
        "nothing-to-do",
        "no smoke test ahead of this branch is known to have failed",
        where=seen.branch,
        why=f"there are {others}" if (others := walk.observer.other_settings()) else "",
        remedy="mlir-release integrate run finds the commit to fix, if there is one",
    )


@contextmanager
def work_tree(project: Integration) -> Iterator[ProbeSlot]:
    """The slot in which people fix, held for us while we look at it and decide.

    :raises ConflictError: if it is of another clone, and a person's work is in it; without, it can be made anew
    """
    folder = slots(project) / "fix"
    with ExitStack() as stack:
        lock = stack.enter_context(locks.exclusive(folder / "lock", wait=False))
        if lock is None:
            console.say("    waiting for another mlir-release integrate fix")
            lock = stack.enter_context(locks.exclusive(folder / "lock"))
        assert lock is not None
        slot = slot_in(project, folder, lock)
        adopt(project.outer, slot.outer)
        for each in project.everyone:
            adopt(each.upstream, sources_in(each, slot.outer))
        if head_of(slot.outer) is not None and not take_over(project.outer, slot.outer):
            in_slot(project.outer, slot.outer, "update-index", "-q", "--refresh", check=False)
            changed = in_slot(project.outer, slot.outer, "diff-files", "--name-only", "--ignore-submodules").stdout
            if changed or has_objects(slot.outer):
                discard = f"discard it (rm -rf {shlex.quote(str(slot.outer))})"
                raise ConflictError(
                    "checkout-dirty",
                    "the work tree for fixes is of a clone that is gone, and somebody has worked in it",
                    where=str(slot.outer),
                    why=f"{project.outer.directory} was cloned again, without the commit that the work is based on",
                    remedy=f"copy what you need; {discard}; then run this again",
                )
            _unfinished(slot).touch()
        yield slot


def _unfinished(slot: ProbeSlot) -> Path:
    """A file that is there while the work tree is made: after a kill it holds nothing of a person's."""
    return slot.outer.parent / "unfinished"


def _there(slot: ProbeSlot) -> str | None:
    """The work tree's commit; None if it is to be made anew."""
    return None if _unfinished(slot).exists() else head_of(slot.outer)


def _is_for(project: Integration, commit: str, head: str, pin: str) -> bool:
    """Whether ``commit`` of the work tree goes on from the branch at ``head``, with the pin that is to be fixed."""
    return is_ancestor(project.outer, head, commit) and project.pin(commit) == pin


def _kept(project: Integration, slot: ProbeSlot, head: str, pin: str) -> bool:
    """Whether the work tree is already one for this fix; False: it may be replaced."""
    if _unfinished(slot).exists() or not slot.outer.exists():
        return False
    there, discard = head_of(slot.outer), f"discard it (rm -rf {shlex.quote(str(slot.outer))})"
    if there is None:
        why, remedy = "git does not know the folder as a work tree", "move or remove it"
    elif _is_for(project, there, head, pin):
        return True
    elif changed := _changed(project, slot, there):
        why, remedy = f"not committed: {', '.join(changed[:5])}", f"commit it there, or {discard}"
    elif not _by_a_person(project, there, head):
        return False
    else:
        places = ("refs/heads", "refs/remotes", "refs/tags")
        containing = ("for-each-ref", "--count=1", f"--contains={there}", *places)
        if project.outer.text(*containing):
            return False
        why, remedy = f"{there[:12]} is on no branch", f"git branch NAME {there[:12]} (in your checkout), or {discard}"
    raise ConflictError(
        "checkout-dirty",
        "the work tree for fixes holds something else than the commit that is to be fixed now",
        where=str(slot.outer),
        why=why,
        remedy=f"{remedy}; then run this again",
    )


def _changed(project: Integration, slot: ProbeSlot, there: str) -> list[str]:
    """The files in the work tree, at ``there``, that are neither committed nor ignored.

    Of the upstreams' sources, those that are changed.
    """
    for each in project.everyone:
        each.upstream.require(each.pin(there))  # a clone that was made again may lack it
    asked = ("ls-files", "--others", "--exclude-standard", "-z")
    listed = in_slot(project.outer, slot.outer, *asked).stdout.split(b"\0")[:-1]
    placed = [sources_in(each, slot.outer) for each in project.everyone]
    new = [name for name in map(os.fsdecode, listed) if slot.outer / name not in placed]
    inside = [
        os.path.relpath(sources / name, slot.outer)
        for each, sources in zip(project.everyone, placed, strict=True)
        for name in _different(each.upstream, sources, applied(each, there, each.pin(there)))
    ]
    return [*_different(project.outer, slot.outer, there), *new, *inside]


def _different(git: SharedGit, path: Path, commit: str) -> list[str]:
    if not (path / ".git").is_dir():
        return []
    asked = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "-z", commit, "--")
    return [os.fsdecode(name) for name in in_slot(git, path, *asked).stdout.split(b"\0")[:-1]]


def _by_a_person(project: Integration, commit: str, head: str) -> bool:
    """Whether ``commit`` changes more than pins, and what follows from them, since it left the history of ``head``."""
    made = begun = merge_base(project.outer, commit, head)
    for each in project.everyone if begun else ():
        made = each.outer_key(fitting(each, made, each.pin(commit)))
        commit = each.outer_key(commit)
    return not begun or made != commit


#: Files of a difference that are looked through, where releases are far apart.
_MOST_FILES = 5000

#: A word of an error that may be a name in upstream's sources; and those that compilers say of anything.
_WORD = re.compile(r"\w{4,}")
_COMMON = re.compile(
    "candidate|cannot|class|const|constructor|conversion|convert|declared|error|expected|fatal|file|found|from|function|"
    "have|include|initialization|line|lines|make|member|mlir|named|namespace|object|operator|required|requires|return|"
    "scope|std|struct|target|template|that|this|type|undeclared|undefined|unknown|used|using|value|void|warning|with"
)


def _changes(project: Integration, good: str, bad: str, errors: Sequence[str]) -> tuple[tuple[str, ...], str, str]:
    """The files that differ and that the downstream includes or the errors name; their differences, or a list of all;
    and what is left out of these: hunks that no error names, where others are named."""
    git, included = project.upstream, included_in(project)
    said = {word for line in errors for word in _WORD.findall(line) if not _COMMON.fullmatch(word.lower())}
    words = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(said)))})\b") if said else None
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
    names = git.text("diff", "--name-only", "-z", "--no-renames", good, bad).split("\0")[:-1]
    names = [name for name in names if included(name) or (words and not IDLE_FILE.search(name))][:_MOST_FILES]
    literal = [f":(literal){name}" for name in names]
    whole = git.run("diff", *options, good, bad, "--", *literal).stdout.decode(errors="replace") if names else ""
    files, parts = [], []
    each = [f"diff --git {text}" for text in re.split(r"^diff --git ", whole, flags=re.MULTILINE)[1:]]
    for name, text in zip(names, each, strict=True):
        header, *hunks = re.split(r"^(?=@@ )", text, flags=re.MULTILINE)
        named = [hunk for hunk in hunks if words and words.search(re.sub(r"^ .*\n|^@@.*\n", "", hunk, flags=re.M))]
        if included(name) or named:
            files.append(name)
            parts.append((header, hunks, named))
    if not files:
        return (), git.text("diff", *options, "--stat", good, bad), ""
    if not any(named for *_, named in parts):
        return tuple(files), "".join(header + "".join(hunks) for header, hunks, _ in parts), ""
    quiet = sum(len(hunks) - len(named) for _, hunks, named in parts)
    diff = "".join(header + "".join(named) for header, _, named in parts if named)
    return tuple(files), diff, counted(quiet, "hunk") if quiet else ""


# -- when a person has committed ---------------------------------------------------------------------------------------


def close_fix(walk: Walk) -> None:
    """Test the work tree's commit; if it passes, record the verdict and move the branch there.

    Does nothing if that was done already: the walk can go on.

    :raises NeedsPersonError: if it fails; the branch is where it was
    :raises UsageError: if nothing was committed, or not all
    """
    walk.project.refuse_dirty()
    with work_tree(walk.project) as slot:
        seen = walk.observer.look(fetch=False)
        fix, here = _there(slot), walk.observer.verdicts(seen).get(0)
        # The branch has the work tree's commit: it is behind the branch, or where the branch tested good.
        good = here is not None and here.verdict is st.Verdict.GOOD
        if fix is not None and is_ancestor(walk.project.outer, fix, seen.head) and (fix != seen.head or good):
            console.say("    what was committed in the work tree for fixes is on the branch already")
            return
        _, high, stack = failure(walk, seen)
        fixed = committed(walk.project, slot, seen.head, stack.tip)
        # The branch as it is at that commit, which has the first bad upstream commit.
        there = replace(seen, head=fixed, pin=stack.tip, base=seen.upstream_at(high), patches=stack.kept)
        record = tested(walk, slot, there)
        walk.store.record(record)  # first: whoever is killed now finds the verdict again
        walk.project.move_branch(walk.branch, fixed)
    if walk.publish:
        walk.push_branch()


def tested(walk: Walk, slot: ProbeSlot, there: Observation) -> Record:
    """The verdict on the work tree, which is good: recorded already, or by a smoke test. :raises NeedsPersonError:"""
    question = walk.observer.question(there, there.base)
    known = walk.store.load().get(question.key)
    if known is not None and known.verdict is st.Verdict.GOOD:
        return known
    log = walk.project.log("fix")
    console.say(f"    testing {there.head[:12]}")
    record = walk.answer(question, slot, log)
    if record.verdict is not st.Verdict.GOOD:
        raise NeedsPersonError(
            "smoke-failed",
            f"the smoke test of {there.head[:12]} is {record.verdict}",
            where=str(slot.outer),
            why="\n".join(found.line for found in findings_in(log, most=25)) + walk.project.config.smoke.withheld,
            remedy=f"the whole log is {log}; commit again there, then mlir-release integrate fix --continue",
        )
    return record


def committed(project: Integration, slot: ProbeSlot, head: str, pin: str) -> str:
    """The commit that a person made in the work tree."""
    there = _there(slot)
    if there is None or not _is_for(project, there, head, pin):
        why, remedy = "it is not at the commit that is to be fixed", "mlir-release integrate fix"
    elif changed := _changed(project, slot, there):
        why, remedy = f"not committed: {', '.join(changed[:5])}", f"commit or remove it in {slot.outer}"
    elif not _by_a_person(project, there, head):
        why, remedy = "nothing was committed there", f"fix the project in {slot.outer}, and commit"
    else:
        return there
    raise UsageError(
        "nothing-to-do",
        "the work tree for fixes holds no fix to continue with",
        where=str(slot.outer),
        why=why,
        remedy=f"{remedy}; then mlir-release integrate fix --continue",
    )
