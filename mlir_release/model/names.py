"""What the names of wheels and of releases say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from mlir_release.model.release_tags import SnapshotTag, parse_tag

if TYPE_CHECKING:
    from mlir_release.model.targets import WheelTarget

Kind = Literal["snapshot", "numbered"]


@dataclass(frozen=True, order=True)
class Order:
    """Where a release stands among those of its kind: sort by it, oldest first."""

    kind: Kind
    version: Version  #: of LLVM, for a numbered release
    number: int


def order_of(tag: str) -> Order | None:
    """The order of a release tag; None for any other tag (``v1.2.3`` of the toolkit itself, say)."""
    parsed = parse_tag(tag)
    if isinstance(parsed, SnapshotTag):
        return Order("snapshot", parsed.version, parsed.number)
    return None if parsed is None else Order("numbered", Version(parsed.version), parsed.number)


@dataclass(frozen=True, kw_only=True, order=True)
class Slot:
    """What a wheel's file name says it is for; two files in one slot would compete for the same users.

    The same words as a row of the build matrix: see :class:`mlir_release.model.targets.WheelTarget`.
    """

    distribution: str  #: normalized
    python: str  #: ``cp312``; ``cp314t`` for a free-threaded one
    os: str  #: ``linux``, ``musl``, ``macos``, ``windows``
    arch: str  #: ``x86_64``, ``aarch64``, ``arm64``

    @classmethod
    def of_file(cls, filename: str) -> Slot | None:
        """The slot of a wheel's file name; None for what is not a wheel's file name."""
        try:
            name, _, _, tags = parse_wheel_filename(filename)
        except (InvalidWheelFilename, InvalidVersion):
            return None
        tag = min(tags, key=str)
        os, arch = platform_of(tag.platform)
        python = tag.interpreter + ("t" if tag.abi.endswith("t") and tag.abi.startswith("cp") else "")
        return cls(distribution=canonicalize_name(name), python=python, os=os, arch=arch)

    @classmethod
    def of_target(cls, target: WheelTarget) -> Slot:
        """The slot that a row of the build matrix fills."""
        arch = _ARCHITECTURES.get(target.runtime.arch, target.runtime.arch)
        return cls(
            distribution=canonicalize_name(target.distribution), python=target.python, os=target.runtime.os, arch=arch
        )


#: Other spellings of one architecture: Windows says amd64.
_ARCHITECTURES = {"amd64": "x86_64"}

#: Platform tags begin with one of these.
_SYSTEMS = {"manylinux": "linux", "linux": "linux", "musllinux": "musl", "macosx": "macos", "win": "windows"}


def platform_of(platform_tag: str) -> tuple[str, str]:
    """Operating system and architecture that a wheel's platform tag stands for (PEP 425, 600, 656).

    ``manylinux_2_28_x86_64`` → linux, x86_64; ``macosx_11_0_arm64`` → macos, arm64; ``win_amd64`` → windows, x86_64.
    """
    family, _, rest = platform_tag.partition("_")
    family = family.rstrip("0123456789")
    arch = rest.lstrip("0123456789_") or platform_tag
    return _SYSTEMS.get(family, family), _ARCHITECTURES.get(arch, arch)
