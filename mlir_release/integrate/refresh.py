"""``[upstream.refresh]``: a command that brings generated files up to date after the pin was written.

It runs in a slot of its own, on the commit that says the new pin. What it changes there joins the advance, and is
tested with it. Answers are kept: a commit that was tested is advanced to with the files that were tested.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import MachineError, UsageError, VerificationError
from mlir_release.git import locks
from mlir_release.git.shared import STATE
from mlir_release.git.trees import Entry, entry_at, make_blob, tree_of, tree_with
from mlir_release.git.worktrees import in_slot
from mlir_release.host.files import open_regular, read_if_there, write_atomically
from mlir_release.host.surroundings import foreign_environment
from mlir_release.host.trial import run_trial
from mlir_release.integrate.config import CONFIG_FILE
from mlir_release.integrate.smoke import place, slot_in, slots, variables
from mlir_release.model.digests import sha256_of

if TYPE_CHECKING:
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.smoke import ProbeSlot
    from mlir_release.integrate.tables import RefreshTable

#: Bytes that a refreshed file may have, and files that may be refreshed.
LIMIT = 64 << 20
FILES = 10_000


def refreshed(project: Project, commit: str, pin: str) -> str:
    """The tree of the downstream's ``commit``, which says ``pin``, with what the refresh command makes of it.

    :raises UsageError: ``config-invalid``: it changes other files than it may
    :raises MachineError: it can't be run, fails, or is stopped
    """
    table = project.upstream.config.refresh
    assert table is not None
    before = tree_of(project.outer, commit)
    folder = project.outer.common / STATE / "refreshed"
    kept = folder / sha256_of("\0".join((before, pin, *table.argv, "", *table.files)))[:40]
    with locks.exclusive(slots(project) / "refresh" / "lock") as lock:
        assert lock is not None  # waited for
        known = (read_if_there(kept) or b"").decode("ascii", "replace").strip()
        if len(known) == 40 and project.outer.run("cat-file", "-e", f"{known}^{{tree}}", check=False).returncode == 0:
            return known
        console.say(f"    refreshing {', '.join(table.files)} for {pin[:12]}")
        slot = place(slot_in(project, slots(project) / "refresh", lock), project, commit, pin)
        _run(project, table, slot, pin)
        tree = tree_with(project.outer, commit, _changes(project, table, slot, commit))
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, f"{tree}\n")
    return tree


def _run(project: Project, table: RefreshTable, slot: ProbeSlot, pin: str) -> None:
    log = project.log(f"refresh-{pin[:12]}")
    trial = run_trial(
        table.argv,
        what="the refresh command",
        remedy=f"correct refresh.command in {CONFIG_FILE} (it runs in the top folder of the downstream)",
        log=log,
        environment=foreign_environment(named=project.config.smoke.environment) | variables(project, slot, pin),
        cwd=slot.outer,
        lock=slot.lock,
        timeout=60 * table.timeout_minutes,
    )
    if trial.code == 0:
        return
    how = trial.killed or (f"exit code {trial.code}" if trial.code is not None else "it took too long")
    raise MachineError(
        "interrupted" if trial.killed else "program-failed",
        f"the refresh command failed at {pin[:12]}: no verdict",
        where=" ".join(table.argv),
        why="\n".join(filter(None, (how, trial.why, *log.read_bytes()[-1000:].decode(errors="replace").splitlines()))),
        remedy=f"the whole log is {log}; correct the command or its files; nothing was committed",
    )


def _changes(project: Project, table: RefreshTable, slot: ProbeSlot, commit: str) -> dict[str, Entry | None]:
    """The tree entries of what the command changed, made or removed."""
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
    if len(allowed) > FILES:
        raise VerificationError(
            "file-damaged",
            f"the refresh command changed {len(allowed):,} files; {FILES:,} are allowed",
            where=str(slot.outer),
            remedy=f"narrow refresh.files in {CONFIG_FILE}; nothing was committed",
        )
    return {path: _entry(project, slot, commit, path) for path in sorted(allowed)}


def _listed(project: Project, slot: ProbeSlot, commit: str, *pathspecs: str) -> set[str]:
    """Paths that differ from ``commit``, and new ones that are not ignored."""
    different = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "-z", commit)
    new = ("ls-files", "--others", "--exclude-standard", "-z")
    outputs = [in_slot(project.outer, slot.outer, *asked, "--", *pathspecs).stdout for asked in (different, new)]
    names = {os.fsdecode(name) for output in outputs for name in output.split(b"\0") if name}
    return {name for name in names if slot.outer / name != slot.sources}


def _entry(project: Project, slot: ProbeSlot, commit: str, path: str) -> Entry | None:
    """What is at ``path`` in the slot, as a tree has it. :raises UsageError: for anything but a plain file"""
    file, old = slot.outer / path, entry_at(project.outer, commit, path)
    if not os.path.lexists(file):
        return None
    problem = "it is no plain file"
    if not file.is_symlink() and file.is_file() and (old is None or old.kind == "blob"):
        with open_regular(file) as opened:
            content = opened.read(LIMIT + 1)
        if len(content) <= LIMIT:
            mode = "100755" if os.access(file, os.X_OK) else "100644"
            return replace(make_blob(project.outer, content), mode=mode)
        problem = f"it has more than {LIMIT:,} bytes"
    raise UsageError(
        "config-invalid",
        f"the refresh command made {path!r} something that can't be committed",
        where=str(slot.outer),
        why=problem,
        remedy=f"correct refresh.command in {CONFIG_FILE}; nothing was committed",
    )
