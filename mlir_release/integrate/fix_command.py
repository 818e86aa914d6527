"""``[fix] command``: a program (a script, a formatter, an assistant) that tries to fix the downstream at the culprit.

It runs in a slot of its own, without tokens. Git of ours never reads what it left in that slot's git folder: its
changes are the files that it changed. See :mod:`~mlir_release.integrate.fix_take` for what becomes of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.foreign import code_block, markdown
from mlir_release.git.remotes import UnreachableError
from mlir_release.git.repository import GitError
from mlir_release.git.shared import STATE
from mlir_release.git.trees import entry_at
from mlir_release.git.worktrees import head_of, tree_of_files
from mlir_release.host.files import read_if_there, write_atomically
from mlir_release.host.surroundings import foreign_environment, withheld
from mlir_release.host.trial import run_trial
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.fix import describe, failure, held_slot
from mlir_release.integrate.fix_rules import FILE_MODES, changes, refusals
from mlir_release.integrate.smoke import place, sources_in, variables
from mlir_release.integrate.submodules import wanted
from mlir_release.integrate.upstream import shown
from mlir_release.model.decode import MalformedError, Sha1, doc, from_json, text
from mlir_release.model.digests import sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.fix import Fix
    from mlir_release.integrate.observe import Observation
    from mlir_release.integrate.patches import Stack
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.smoke import ProbeSlot
    from mlir_release.integrate.walk import Walk

#: Names the file with what ``integrate fix --json`` prints.
DOCUMENT_VARIABLE = "MLIR_RELEASE_FIX"

#: Git in the command's work tree reads no settings with credentials in them, asks nobody, and reaches no remote.
_GIT_ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
}

#: How it ended: not tested yet; the smoke test's answer; or why there is nothing to test.
Outcome = Literal["made", "good", "bad", "nothing", "failed", "refused"]

_TOLD: dict[Outcome, str] = {
    "made": "changed this project; that is still to be tested",
    "good": "fixed this project",
    "bad": "changed this project, and the smoke test still fails",
    "nothing": "changed nothing",
    "failed": "failed",
    "refused": "changed what it may not change",
}

#: Files that a fix may change, the bytes of their difference, and those of the whole files.
_FILES, _LIMIT, _WHOLE = 1000, 2 << 20, 8 << 20

#: Lines of a diff in a report.
_SHOWN = 200


class Content(Struct, frozen=True):
    """A file that the command wrote. ``mode``: as git has it, executable or not."""

    mode: Literal["100644", "100755"]
    data: bytes


class Attempt(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """What the command did at one culprit. Others may have written the file that it is read from."""

    branch: str
    head: Annotated[Sha1, doc("The branch's commit that the changes belong to")]
    upstream: Annotated[Sha1, doc("The upstream commit that breaks the project")]
    pin: Annotated[Sha1, doc("That commit with the carried patches")]
    outcome: Outcome
    why: str = ""
    changes: Annotated[
        dict[Annotated[str, text(r"[^\x00]{1,4000}", "a path")], Content | None],
        Meta(max_length=_FILES, description="The files that it wrote, by their paths; null: it removed the file"),
    ] = {}
    diff: Annotated[bytes, doc("The changes for people, and for git apply")] = b""

    @property
    def told(self) -> str:
        """One sentence."""
        return f"The fix command {_TOLD[self.outcome]}."

    def as_json(self) -> dict[str, object]:
        """For ``--json``, with the files' names only."""
        known = {name: getattr(self, name) for name in self.__struct_fields__}
        return {**known, "changes": sorted(self.changes), "diff": self.diff.decode(errors="replace")}

    def as_markdown(self) -> str:
        """A part of a report."""
        lines = self.diff.decode(errors="replace").splitlines()
        shown_lines = [*lines[:_SHOWN], *([f"({len(lines) - _SHOWN} more lines)"] if len(lines) > _SHOWN else [])]
        parts = ["### The fix command", markdown(self.told)]
        parts += [code_block(self.why.splitlines()[:25])] if self.why else []
        parts += ["What it changed:", code_block(shown_lines, "diff")] if lines else []
        return "\n\n".join(parts) + "\n"

    def unfixed(self) -> NeedsPersonError:
        """The error for an attempt that fixed nothing."""
        error = NeedsPersonError(
            "smoke-failed" if self.outcome == "bad" else "walk-needs-person",
            self.told.removesuffix("."),
            where=f"{self.branch}, at {self.upstream}",
            why=self.why,
            remedy="nothing was committed; mlir-release integrate fix opens a work tree in which you fix it",
        )
        error.details = {"fix": self.as_json()}
        return error


@dataclass(frozen=True)
class Broken:
    """Where the branch fails now."""

    seen: Observation
    low: int
    high: int
    stack: Stack

    @property
    def upstream(self) -> str:
        """The first bad upstream commit."""
        return self.seen.upstream_at(self.high)


def broken(walk: Walk) -> Broken:
    """See :class:`Broken`. :raises UsageError: if no smoke test is known to have failed"""
    try:
        walk.store.pull(walk.project.config.downstream.remote)  # another machine may have found it
    except UnreachableError as error:
        console.warn(str(error))
    seen = walk.observer.look(fetch=False)
    return Broken(seen, *failure(walk, seen))


def refuse_without_command(project: Project) -> None:
    """:raises UsageError: if ``integrate.toml`` names no command"""
    if not project.config.fix.argv:
        raise UsageError(
            "config-invalid",
            f"{CONFIG_FILE} names no command that fixes this project",
            where=CONFIG_FILE,
            remedy='add [fix] with command = ["…"] (docs/integrate.md), and commit it on the main branch',
        )


# -- running it --------------------------------------------------------------------------------------------------------


def run_command(walk: Walk, *, again: bool) -> Attempt:
    """Let the command change the project at the culprit, in a slot of its own. Nothing is committed.

    Changes that were made before and not tested yet are found again: a killed process does not run it twice.

    :param again: run it although it has failed at this culprit before
    :raises UsageError: if no smoke test is known to have failed, or there is no command
    :raises MachineError: if the command can't be run, or was killed
    """
    project = walk.project
    refuse_without_command(project)
    with held_slot(project, "command") as slot:
        at = broken(walk)
        file = _file(walk, at)
        known = _remembered(file)
        if known is not None and (known.outcome == "made" or not again):
            return known
        base = project.pin_commit(at.seen.head, at.stack.tip, f"Try {project.upstream.config.title}\n")
        place(slot, project, base, at.stack.tip)
        fix = describe(walk, slot, at.seen, (at.low, at.high), kept=False)
        log = project.log(f"fix-{file.stem}")
        failed = _run(project, slot, fix, log)
        attempt = Attempt(
            branch=walk.branch, head=at.seen.head, upstream=at.upstream, pin=at.stack.tip, outcome="nothing"
        )
        attempt = _found(project, slot, base, attempt)
        if failed:
            attempt = structs.replace(attempt, outcome="failed", why=failed, changes={})
        remember(walk, at, attempt)
        return attempt


def _run(project: Project, slot: ProbeSlot, fix: Fix, log: Path) -> str:
    """Run the command on what is described in ``fix``. Returns why it failed; empty: it did not."""
    config = project.config.fix
    document = slot.outer.parent / "fix.json"
    write_atomically(document, json.dumps(fix.as_json(), indent=2))
    environment = foreign_environment(named=config.environment) | _GIT_ALONE
    environment |= variables(project, slot, fix.bad) | {DOCUMENT_VARIABLE: str(document)}
    console.say(f"    the fix command works on {fix.bad[:12]}")
    trial = run_trial(
        config.argv,
        what="the fix command",
        remedy=f"correct fix.command in {CONFIG_FILE} (it runs in the top folder of the downstream)",
        log=log,
        environment=environment,
        cwd=slot.outer,
        lock=slot.lock,
        timeout=config.timeout,
    )
    if trial.code == 0:
        return ""
    how = trial.killed or (f"exit code {trial.code}" if trial.code is not None else f"no end in {config.timeout:g} s")
    end = shown(log.read_bytes()[-2000:].decode(errors="replace")).strip()
    hidden = withheld(named=config.environment, place=f"environment of [fix] in {CONFIG_FILE}").removeprefix("; ")
    return "\n".join(filter(None, (how, end, f"the whole log is {log}", hidden)))


def _found(project: Project, slot: ProbeSlot, base: str, attempt: Attempt) -> Attempt:
    """The attempt with what the command left: which files it changed, or why these changes are refused."""
    outer = project.outer
    try:
        tree = tree_of_files(outer, slot.outer, base)
        refused = refusals(project, base, tree) + _moved(project, slot, base, attempt.pin)
    except (GitError, UsageError, OSError) as error:
        return structs.replace(attempt, outcome="refused", why=f"its changes can't be stored: {shown(str(error))}")
    made = changes(outer, base, tree)
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--binary")
    diff = outer.run("diff", *options, base, tree).stdout
    if len(diff) > _LIMIT or len(made) > _FILES:
        refused.insert(0, f"it changed {len(made):,} files, by {len(diff):,} bytes: too many")
    if refused:
        why = "\n".join(map(shown, refused[:50]))
        return structs.replace(attempt, outcome="refused", why=why, diff=diff[:_LIMIT])
    if not made:
        return attempt
    present = [change for change in made if change.new_mode in FILE_MODES]
    files: dict[str, Content | None] = {change.path: None for change in made}
    for change, content in zip(present, outer.objects([change.oid for change in present]), strict=True):
        assert content is not None  # git has just stored it
        files[change.path] = Content("100755" if change.new_mode == "100755" else "100644", content[1])
    size = sum(len(content.data) for content in files.values() if content is not None)
    if size > _WHOLE:
        return structs.replace(attempt, outcome="refused", why=f"the files have {size:,} bytes: too many", diff=diff)
    return structs.replace(attempt, outcome="made", changes=files, diff=diff)


def _moved(project: Project, slot: ProbeSlot, base: str, tip: str) -> list[str]:
    """The submodules whose other commit the command has checked out: that would not be tested."""
    followed = [each for each in project.everyone if not each.upstream.config.releases]
    expected = {sources_in(each, slot.outer): tip if each is project else each.pin(base) for each in followed}
    for path in wanted(project):
        entry = entry_at(project.outer, base, path)
        if entry is not None and entry.kind == "commit":
            expected[slot.outer / path] = entry.oid
    return [
        f"{os.path.relpath(folder, slot.outer)}: it is another repository"
        for folder, commit in expected.items()
        if head_of(folder) != commit
    ]


# -- what it did before ------------------------------------------------------------------------------------------------


def _file(walk: Walk, at: Broken) -> Path:
    """Where the attempt of this command at this culprit, on these sources, is kept."""
    asked = [walk.observer.question(at.seen, at.upstream).key, *walk.project.config.fix.argv]
    return walk.project.outer.common / STATE / "fixes" / f"{sha256_of(chr(0).join(asked))[:40]}.json"


def _remembered(file: Path) -> Attempt | None:
    content = read_if_there(file)
    try:
        return None if content is None else from_json(content, Attempt)
    except MalformedError:  # of another version
        return None


def remember(walk: Walk, at: Broken, attempt: Attempt) -> None:
    """Keep an attempt, and its changes as a file for ``git apply``, so that it is not repeated."""
    file = _file(walk, at)
    write_atomically(file.with_suffix(".diff"), attempt.diff)
    write_atomically(file, as_document(attempt))


def as_document(data: Struct) -> bytes:
    """JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(data), indent=1)
