"""What the tests of bisects share: a command that fails from a planted commit on, and notes its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.integrate.integration.miniature import World


def scale(world: World, *, prefix: str = "") -> tuple[str, ...]:
    """A command that fails from the commit "rename scale" on, and notes each of its runs."""
    counted = f'echo "$MLIR_RELEASE_UPSTREAM_COMMIT" >> {world.root}/runs; {prefix}'
    return "sh", "-c", f'{counted} grep -q "int scale(" "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/api.h"'


def runs(world: World) -> list[str]:
    path = world.root / "runs"
    return path.read_text().split() if path.exists() else []
