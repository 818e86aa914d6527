"""Pin commits, as the snapshot transaction makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.llvm.pin import PIN_FILE, format_pin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.release.forge.base import Forge


def make_pin(forge: Forge, revision: str, files: Mapping[str, bytes] | None = None) -> str:
    """Pin a revision with the newest toolkit of ``main``.

    :param files: to change besides, as nobody may
    """
    changes = {PIN_FILE: format_pin(revision), **(files or {})}
    head, base = forge.head("snapshots"), forge.head("main")
    return forge.commit("snapshots", expected=head, base=base, files=changes, message=f"Pin {revision[:12]}\n")
