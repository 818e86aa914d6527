"""``[upstream.refresh]``: a command that brings generated files up to date after the pin was written.

It runs in a slot of its own, on the commit that says the new pin, where a commit is tested, or is taken without a test.
What it changes there is tested, and is in the record of the verdict: an advance takes it from there and runs nothing.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.git import locks
from mlir_release.ground.git.shared import STATE
from mlir_release.ground.git.trees import commit_tree, entry_at, make_blob
from mlir_release.ground.git.worktrees import in_slot
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.programs.trial import TriedCommand, run_trial
from mlir_release.ground.storage.files import read_document, read_end, read_if_there, write_atomically
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.pins.generated import FILES, LIMIT, File, Generated, Mode, with_generated
from mlir_release.integrate.walk.smoke import ProbeSlot, free_slot, place, slot_in, slots, variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.tables import RefreshTable


def refreshed(project: Integration, parent: str, pin: str) -> Generated:
    """What the refresh command makes of ``pin`` on the downstream's commit ``parent``. It runs foreign code.

    :returns: empty, too, if there is no such command
    :raises UsageError: ``config-invalid``: it changes other files than it may
    :raises MachineError: it can't be run, fails, or is stopped
    """
    table, outer = project.upstream.config.refresh, project.outer
    if table is None:
        return {}
    before = project.tree_with_pin(parent, pin)
    folder = outer.common / STATE / "refreshed"
    kept = folder / sha256_of("\0".join((before, pin, *table.argv, "", *table.files)))[:40]
    with locks.exclusive(slots(project) / "refresh" / "lock") as lock:
        assert lock is not None  # waited for
        with suppress(MalformedError):
            known = from_json(read_if_there(kept) or b"", Generated)
            if all(outer.objects([file.blob for file in known.values() if file is not None])):
                return known
        console.say(f"    refreshing {', '.join(table.files)} for {pin[:12]}")
        commit = commit_tree(outer, before, [parent], f"Refresh {pin}\n", project.signature())
        slot = place(slot_in(project, slots(project) / "refresh", lock), project, commit, pin)
        log = project.log(f"refresh-{pin[:12]}")
        remedy = f"correct refresh.command in {CONFIG_FILE} (it runs in the top folder of the downstream)"
        trial = run_trial(
            TriedCommand(table.argv, "the refresh command", remedy),
            log=log,
            environment=foreign_environment(named=project.config.smoke.environment) | variables(project, slot, pin),
            cwd=slot.outer,
            lock=slot.lock,
            timeout=60 * table.timeout_minutes,
        )
        if trial.code != 0:
            how = trial.killed or (f"exit code {trial.code}" if trial.code is not None else "it took too long")
            said = read_end(log, 1000).decode(errors="replace").splitlines()
            raise MachineError(
                "interrupted" if trial.killed else "program-failed",
                f"the refresh command failed at {pin[:12]}: no verdict",
                where=" ".join(table.argv),
                why="\n".join(filter(None, (how, trial.why, *said))),
                remedy=f"the whole log is {log}; correct the command or its files; nothing was committed",
            )
        made = _changes(project, table, slot, commit)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, msgspec.json.encode(made))
    return made


@contextmanager
def prepared(project: Integration, outer_commit: str, llvm: str) -> Iterator[ProbeSlot]:
    """A slot with the downstream at ``outer_commit`` and its upstream at ``llvm`` (patches included), held for us."""
    with ExitStack() as stack:
        folder, lock = free_slot(project, stack)
        generated: Generated = {}
        if project.pin(outer_commit) != llvm:  # a commit on no branch
            generated = refreshed(project, outer_commit, llvm)
            message = f"Try {project.upstream.config.title} at {llvm}\n"
            outer_commit = project.pin_commit(outer_commit, llvm, message, generated)
        slot = place(slot_in(project, folder, lock), project, outer_commit, llvm)
        yield replace(slot, generated=generated)


def _changes(project: Integration, table: RefreshTable, slot: ProbeSlot, commit: str) -> Generated:
    """What the command changed, made or removed."""
    changed = _listed(project, slot, commit)
    allowed = _listed(project, slot, commit, *table.pathspecs)
    if others := sorted(changed - allowed):
        raise UsageError(
            "config-invalid",
            f"the refresh command changed {len(others)} files that it may not change",
            where=str(slot.outer),
            why=", ".join(others[:5]) + (", …" if len(others) > 5 else ""),
            remedy=f"name them in refresh.files in {CONFIG_FILE}, or ignore them in .gitignore; nothing was committed",
        )
    found: dict[str, tuple[File, int] | None] = {}
    for path in sorted(allowed):
        file, old = slot.outer / path, entry_at(project.outer, commit, path)
        if not os.path.lexists(file):
            found[path] = None
            continue
        problem = "it is no plain file"
        if not file.is_symlink() and file.is_file() and (old is None or old.kind == "blob"):
            content = read_document(file, limit=LIMIT)
            if len(content) <= LIMIT:
                mode: Mode = "100755" if os.access(file, os.X_OK) else "100644"
                found[path] = File(mode, make_blob(project.outer, content).oid), len(content)
                continue
            problem = f"it has more than {LIMIT:,} bytes"
        raise UsageError(
            "config-invalid",
            f"the refresh command made {path!r} something that can't be committed",
            where=str(slot.outer),
            why=problem,
            remedy=f"correct refresh.command in {CONFIG_FILE}; nothing was committed",
        )
    size = sum(each[1] for each in found.values() if each is not None)
    if len(found) > FILES or size > LIMIT:
        raise VerificationError(
            "file-damaged",
            f"the refresh command changed {len(found):,} files of {size:,} bytes",
            where=str(slot.outer),
            why=f"{FILES:,} files of {LIMIT:,} bytes together are allowed",
            remedy=f"narrow refresh.files in {CONFIG_FILE}; nothing was committed",
        )
    made = {path: each and each[0] for path, each in found.items()}
    with_generated(project.outer, commit, made, project.config.upstreams)
    return made


def _listed(project: Integration, slot: ProbeSlot, commit: str, *pathspecs: str) -> set[str]:
    """Paths that differ from ``commit``, and new ones that are not ignored."""
    different = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "-z", commit)
    new = ("ls-files", "--others", "--exclude-standard", "-z")
    outputs = [in_slot(project.outer, slot.outer, *asked, "--", *pathspecs).stdout for asked in (different, new)]
    names = {os.fsdecode(name) for output in outputs for name in output.split(b"\0") if name}
    return {name for name in names if slot.outer / name != slot.sources}
