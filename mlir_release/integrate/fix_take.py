"""What a fix command changed, tested and committed: in one process, or in three jobs of a workflow.

In a workflow, one job runs the command and saves its changes, one tests them on another machine, and one that may write
takes them: foreign code never runs beside the right to write. The last one trusts neither file: it looks at the changes
again, and takes a verdict only on exactly these.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from mlir_release.console import console
from mlir_release.errors import ConflictError, ReleaseError, UsageError
from mlir_release.foreign import in_commit
from mlir_release.git.repository import GitError
from mlir_release.git.trees import Entry, commit_tree, make_blob, tree_with
from mlir_release.host.files import read_document, write_atomically
from mlir_release.integrate import strategy as st
from mlir_release.integrate.fix import at_culprit
from mlir_release.integrate.fix_command import Attempt, Broken, as_document, broken, remember, run_command
from mlir_release.integrate.fix_rules import refusals
from mlir_release.integrate.state import Record
from mlir_release.integrate.upstream import shown
from mlir_release.model.decode import from_json
from mlir_release.model.trailers import format_message, parse_trailers

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.walk import Walk

T = TypeVar("T")

#: Trailers of a commit that the command made: the upstream commit that it is for, and the command.
T_FIX = "Integrate-Fix"
T_COMMAND = "Integrate-Fix-Command"

#: Folders within each other that a changed file may be in.
_DEPTH = 100


def _candidate(walk: Walk, at: Broken, attempt: Attempt, parent: str) -> str:
    """A commit of the changes on ``parent``. :raises NeedsPersonError: if one of them is refused"""
    project = walk.project
    expected = {"branch": walk.branch, "head": at.seen.head, "upstream": at.upstream, "pin": at.stack.tip}
    for name, value in expected.items():
        if (found := getattr(attempt, name)) != value:
            raise ConflictError(
                "changed-meanwhile",
                f"the fix command's changes belong to another {name}",
                where=walk.branch,
                why=f"{shown(found)!r}; now it is {value}",
                remedy="run it again: mlir-release integrate fix --auto; nothing was committed",
            )
    if deep := next((path for path in attempt.changes if path.count("/") > _DEPTH), None):
        raise structs.replace(attempt, outcome="refused", why=f"{deep[:200]}…: its folder is too deep").unfixed()
    entries: dict[str, Entry | None] = {}
    for path, content in attempt.changes.items():
        made = None if content is None else make_blob(project.outer, content.data)
        entries[path] = None if made is None or content is None else Entry(content.mode, "blob", made.oid)
    try:
        tree = tree_with(project.outer, parent, entries)
        refused = refusals(project, parent, tree)
    except (GitError, UnicodeError) as error:
        refused = [f"these are no paths that git stores: {error}"]
    if refused:
        raise structs.replace(attempt, outcome="refused", why="\n".join(refused)).unfixed()
    config = project.config
    subject = f"Fix for {project.upstream.config.title} {at.upstream[:12]}, made by a command"
    body = f"{at.upstream} breaks this project. The smoke test passes there with this commit. No person has read it."
    trailers = {T_FIX: at.upstream, T_COMMAND: in_commit(shlex.join(config.fix.argv))}
    return commit_tree(project.outer, tree, [parent], format_message(subject, body, trailers), project.signature())


def commit_changes(walk: Walk, attempt: Attempt, record: Record | None = None) -> Attempt:
    """Move the branch to the changes if they pass; else they are told to be bad, and nothing moves.

    :param record: a verdict of :func:`probe_saved` on another machine; None: test them here
    """
    project = walk.project
    project.refuse_dirty()
    if _is_taken(walk, attempt):
        console.say("    what the fix command changed is on the branch already")
        if walk.publish:
            walk.push_branch()
        return structs.replace(attempt, outcome="good")
    at = broken(walk)
    parent = at.seen.head
    if at.high > 0:
        parent = walk.advance_commit(at.seen, at.seen.ahead[at.high - 1], at.stack, str(st.Verdict.BAD))
    fixed = _candidate(walk, at, attempt, parent)
    there = at_culprit(at.seen, fixed, at.high, at.stack)
    if record is None:
        record = walk.probe(there, there.base)
    elif not walk.observer.asks(there, record) or record.upstream != there.base:
        raise UsageError(
            "input-invalid",
            "the verdict is not about the fix command's changes",
            where=fixed,
            why="it is about another commit, other sources or another command",
            remedy="test them again: mlir-release integrate fix --probe FILE --record-to FILE; nothing was committed",
        )
    walk.store.record(record)
    if record.verdict is not st.Verdict.GOOD:
        why = "\n".join(shown(found.line) for found in record.findings[:25])
        attempt = structs.replace(attempt, outcome="bad", why=why or f"the smoke test is {record.verdict}")
        remember(walk, at, attempt)
        return attempt
    project.move_branch(walk.branch, fixed)
    if walk.publish:
        walk.push_branch()
    return structs.replace(attempt, outcome="good")


def _is_taken(walk: Walk, attempt: Attempt) -> bool:
    """Whether the branch has a commit for this culprit already, after the one that the changes belong to."""
    outer = walk.project.outer
    done = outer.run("log", "-z", "--format=%B", f"{attempt.head}..refs/heads/{walk.branch}", "--", check=False)
    messages = done.stdout.decode(errors="replace").split("\0") if done.returncode == 0 else []
    return any(parse_trailers(message).get(T_FIX) == attempt.upstream for message in messages)


def fix_automatically(walk: Walk, *, again: bool = False) -> Attempt:
    """Run the command at the culprit and test what it changed; if that passes, the branch has it.

    :param again: see :func:`run_command`
    """
    attempt = run_command(walk, again=again)
    return commit_changes(walk, attempt) if attempt.outcome == "made" else attempt


def tried(walk: Walk, bad: str) -> Attempt:
    """As a walk does it at the culprit ``bad``: once. Whatever goes wrong does not keep the walk from its report."""
    try:
        return fix_automatically(walk)
    except ReleaseError as error:
        return Attempt(branch=walk.branch, head="", upstream=bad, pin="", outcome="failed", why=str(error))


def require_fixed(attempt: Attempt, pulls: PullRequests | None = None) -> None:
    """:raises NeedsPersonError: if it fixed nothing; told in the step summary and in ``pulls``, too"""
    if attempt.outcome == "good":
        return
    text = attempt.as_markdown()
    console.summary(text)
    if pulls is not None:
        try:
            pulls.comment(branch=attempt.branch, key="fix", body=text)
        except ReleaseError as error:  # the attempt's own end matters more
            console.warn(str(error))
    raise attempt.unfixed()


# -- in three jobs -----------------------------------------------------------------------------------------------------


def save_attempt(walk: Walk, file: Path) -> Attempt:
    """Run the command and write down what it did, for :func:`probe_saved` and :func:`take_saved`."""
    attempt = run_command(walk, again=True)
    write_atomically(file, as_document(attempt))
    return attempt


def _load(file: Path, kind: type[T], made_by: str) -> T:
    try:
        return from_json(read_document(file), kind)
    except (OSError, ValueError) as error:
        raise UsageError(
            "input-invalid",
            "the file is not what was asked for",
            where=str(file),
            why=str(error),
            remedy=f"make it again: mlir-release integrate fix {made_by}; nothing was committed",
        ) from error


def probe_saved(walk: Walk, file: Path, record_to: Path | None = None) -> Record:
    """The verdict on saved changes, by a smoke test on a machine on which the command did not run.

    :raises NeedsPersonError: if there is nothing to test, or a change is refused
    """
    attempt = _load(file, Attempt, "--auto --save FILE")
    if attempt.outcome != "made":
        raise attempt.unfixed()
    at, project = broken(walk), walk.project
    parent = project.pin_commit(at.seen.head, at.stack.tip, f"Try {project.upstream.config.title}\n")
    there = at_culprit(at.seen, _candidate(walk, at, attempt, parent), at.high, at.stack)
    record = walk.probe(there, there.base)
    if record_to is not None:
        write_atomically(record_to, as_document(record))
    return record


def take_saved(walk: Walk, file: Path, record: Path | None) -> Attempt:
    """Commit saved changes that a probe's record says are good; nothing is run here.

    :raises UsageError: if a file is not what it must be, or the record is about other changes
    :raises ConflictError: if the branch is not where the command saw it
    """
    attempt = _load(file, Attempt, "--auto --save FILE")
    if attempt.outcome != "made":
        # The file is the command's word: it can't say that it is good.
        return structs.replace(attempt, outcome="failed") if attempt.outcome == "good" else attempt
    if record is None:
        raise UsageError(
            "option-invalid",
            "--take needs the verdict on these changes",
            where=str(file),
            remedy="mlir-release integrate fix --probe FILE --record-to RECORD, then --take FILE --record RECORD",
        )
    return commit_changes(walk, attempt, _load(record, Record, "--probe FILE --record-to FILE"))
