"""A process for the kill tests: start an integrate in a world and walk it, with the clock injected."""

from __future__ import annotations

import sys
from pathlib import Path

from mlir_release.integrate.project import open_project
from mlir_release.integrate.start import start
from mlir_release.integrate.strategy import make_strategy
from mlir_release.integrate.walk import Walk
from mlir_release.worktree import current_branch
from tests.integration.miniature import NOON


def main(checkout: Path, strategy: str, until: str) -> None:
    """Go on from wherever the last process was ended."""
    project = open_project(checkout, clock=lambda: NOON)
    if not (current_branch(project.outer) or "").startswith("integrates/"):
        start(project, publish=True)
    print(Walk(project, publish=True).run(make_strategy(strategy), until=until).outcome)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
