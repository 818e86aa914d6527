"""What the names of wheels say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from mlir_release.model.cpython import STABLE_ABI
from mlir_release.model.platforms import Platform, PlatformTag

if TYPE_CHECKING:
    from mlir_release.model.matrix import WheelTarget


@dataclass(frozen=True, kw_only=True, order=True)
class Slot:
    """What a wheel's file name says it is for; two files in one slot would compete for the same users.

    A row of the build matrix fills one, too: see :class:`mlir_release.model.matrix.WheelTarget`.
    """

    distribution: str  #: normalized
    python: str  #: interpreter tag: ``cp312``; ``cp314t`` for a free-threaded one; ``py3`` and the like of others
    platform: Platform
    stable_abi: bool = False  #: for this CPython and later ones

    @classmethod
    def of_file(cls, filename: str) -> Slot | None:
        """The slot of a wheel's file name; None for what is not a wheel's file name."""
        try:
            name, _, _, tags = parse_wheel_filename(filename)
        except (InvalidWheelFilename, InvalidVersion):
            return None
        tag = min(tags, key=str)
        python = tag.interpreter + ("t" if tag.abi.endswith("t") and tag.abi.startswith("cp") else "")
        return cls(
            distribution=canonicalize_name(name),
            python=python,
            platform=PlatformTag.parse(tag.platform).platform,
            stable_abi=tag.abi == STABLE_ABI,
        )

    @classmethod
    def of_target(cls, target: WheelTarget) -> Slot:
        """The slot that a row of the build matrix fills."""
        return cls(
            distribution=canonicalize_name(target.distribution),
            python=target.interpreter,
            platform=target.runtime.tag.platform,
            stable_abi=bool(target.serves),
        )
