"""What the kill tests do in a miniature world: start an integrate and walk it, with the clock injected."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mlir_release.git.worktrees import current_branch
from mlir_release.integrate.open import open_project
from mlir_release.integrate.start import start
from mlir_release.integrate.strategy import make_strategy
from mlir_release.integrate.walk import Walk
from tests.integration.integrate import miniature
from tests.integration.integrate.miniature import NOON

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.walk import WalkEnd


def to_the_first_break(folder: Path, strategy: str, width: int = 1) -> WalkEnd:
    """Start, unless it was started, and walk until the first planted break is named; all published."""
    world = miniature.load(folder)
    os.environ.update(world.environment())
    project = open_project(world.checkout, clock=lambda: NOON)
    if not (current_branch(project.outer) or "").startswith("integrates/"):
        start(project, publish=True)
    end = Walk(project, publish=True).run(
        make_strategy(strategy, width), until=world.commits["rename scale"], width=width
    )
    assert end.outcome == "culprit"
    assert end.bad == world.commits["rename scale"]
    return end


def linear(folder: Path) -> None:
    """One after the other."""
    to_the_first_break(folder, "linear")


def head(folder: Path) -> None:
    """Head first."""
    to_the_first_break(folder, "head")


def adaptive(folder: Path) -> None:
    """The default."""
    to_the_first_break(folder, "adaptive")


def parallel(folder: Path) -> None:
    """Two probes side by side."""
    to_the_first_break(folder, "parallel", 2)


def open_and_look(folder: Path) -> None:
    """What the first command in a fresh clone does: the submodule is cloned, or the mirror made."""
    world = miniature.load(folder)
    os.environ.update(world.environment())
    project = open_project(world.checkout, clock=lambda: NOON)
    start(project)
    Walk(project).observer.look()
