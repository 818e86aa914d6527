"""What somebody else's extra may import, and all that stays where it is: docs/extras.md.

Each name is imported when it is asked for, so that a command is as fast as what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground import plugins

if TYPE_CHECKING:
    from mlir_release.ground.console import console as console
    from mlir_release.ground.errors import MachineError as MachineError
    from mlir_release.ground.errors import NeedsPersonError as NeedsPersonError
    from mlir_release.ground.errors import ReleaseError as ReleaseError
    from mlir_release.ground.errors import UsageError as UsageError
    from mlir_release.ground.errors import VerificationError as VerificationError
    from mlir_release.release.forge.base import Forge as Forge
    from mlir_release.release.forge.open import open_forge as open_forge
    from mlir_release.release.index.site import Channel as Channel
    from mlir_release.release.index.site import Section as Section
    from mlir_release.release.index.site import Shown as Shown
    from mlir_release.release.rehearsal.run import ExtraStep as ExtraStep
    from mlir_release.release.rehearsal.run import Rehearsal as Rehearsal

__getattr__, __dir__ = plugins.door(__name__)
