"""A world whose downstream keeps patches as files, and an upstream that moves, takes and breaks them."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from mlir_release.integrate.deliver.branch import start
from tests.integrate.integration import miniature

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integrate.integration.miniature import Upstream, World

SMOKE = """#!/bin/sh
rm -rf build && mkdir build && cp -r "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir" build && cd build && git init -q . || exit 125
sed -n 's/.*:\\(.*patch\\)",$/\\1/p' ../series | while read -r each; do
  git apply --allow-empty "../patches/$each" || exit 1
done || exit 1
grep -qx "ours 5" mlir/table.txt && grep -qx "ours 20" mlir/table.txt
"""

SERIES = """patches = [
    "//patches:none.patch",  # Do not remove.
    "//patches:one.patch",
    "//patches:two.patch",
]
"""


def table(**lines: str) -> str:
    """Forty lines; those named ``_5`` are something else."""
    return "".join(f"{lines.get(f'_{number}', f'line {number}')}\n" for number in range(40))


def patch(old: str, new: str, folder: Path) -> bytes:
    """The patch from one table to another, as git makes it."""
    for name, text in (("a", old), ("b", new)):
        (folder / name / "mlir").mkdir(parents=True, exist_ok=True)
        (folder / name / "mlir/table.txt").write_text(text)
    done = subprocess.run(["git", "diff", "--no-index", "a", "b"], cwd=folder, capture_output=True)
    return bytes(done.stdout).replace(b"a/a/", b"a/").replace(b"b/b/", b"b/")


def history(up: Upstream) -> None:
    """Upstream changes what stands around the first patch, and takes it; then half of the second; and breaks that."""
    now: dict[str, str] = {}
    for name, subject, change in (
        ("near", "[mlir] Change a line beside it", {"_7": "beside"}),
        ("taken", "[mlir] Mend line 5", {"_5": "ours 5"}),
        ("half", "[mlir] Mend line 30", {"_30": "ours 30"}),
        ("broken", "[clang-format] Reformat line 20", {"_20": "theirs"}),
    ):
        up.filler(2, others=0)
        now |= change
        more = {"mlir/same.txt": "same\n" * 21} if name == "taken" else {}
        up.commit(subject, {"mlir/table.txt": table(**now), **more}, name=name, affecting=name != "broken")
    up.filler(2, others=0)


def undecided(up: Upstream) -> None:
    """Upstream takes the first patch, goes on, takes it back, and goes on."""
    for name, change in (("taken", {"_5": "ours 5"}), ("later", {"_5": "ours 5", "_35": "x"}), ("back", {"_35": "x"})):
        up.commit(f"[mlir] {name}", {"mlir/table.txt": table(**change)}, name=name)
        up.filler(1, others=0)


def built(
    folder: Path,
    *,
    by: str = "build",
    listed: str = 'listed-in = ["series"]',
    history: Callable[[Upstream], None] = history,
) -> World:
    """A world whose downstream has two patch files, and one that is empty, on an integrate that has begun."""
    up = miniature.begin(folder, patched=False)
    up.commit("Add a table", {"mlir/table.txt": table(), "mlir/same.txt": "same\n" * 20}, affecting=False)
    up.flush()
    base = up.previous
    history(up)
    world = miniature.finish(folder, up, base, carrier="submodule", patched=False)
    (world.checkout / "smoke.sh").write_text(SMOKE)
    config = world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace("timeout-minutes = 2", "timeout-minutes = 2\nattempts = 1"))
    carry_files(world, by=by, listed=listed)
    world.git("push", "-q")
    start(world.open())
    return world


def carry_files(world: World, *, by: str = "build", listed: str = 'listed-in = ["series"]') -> None:
    """Commit two patch files, and one that is empty."""
    top, scratch = world.checkout, world.root / "p"
    (top / "patches").mkdir()
    (top / "patches/one.patch").write_bytes(b"What it is for.\n\n" + patch(table(), table(_5="ours 5"), scratch))
    (top / "patches/two.patch").write_bytes(patch(table(), table(_20="ours 20", _30="ours 30"), scratch))
    (top / "patches/none.patch").write_bytes(b"Do not delete it, even if empty.\n")
    (top / "series").write_text(SERIES if by == "build" else "")
    tables = f'[[upstream.patches]]\nfiles = ["patches/*.patch"]\napplied-by = "{by}"\n{listed}\n[upstream.export]\n'
    config = top / "integrate.toml"
    config.write_text(config.read_text().replace("[upstream.export]\n", tables))
    commit(world, "Carry patches as files")


def commit(world: World, subject: str) -> None:
    world.git("add", "-A")
    miniature.git(world.checkout, "commit", "-qm", subject, env={**os.environ, **miniature.dated()})
