"""What the names of wheels say."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from mlir_release.ground.python.cpython import STABLE_ABI
from mlir_release.ground.python.platforms import Platform, PlatformTag

#: How the names of source distributions begin and end, and of all that pip can install. Called ``mlir-1.2.tar.gz``, one
#: would be taken from any page that lists all files of a release (GitHub's does) wherever no wheel fits.
SOURCE_PREFIX, SOURCE_SUFFIX = "source-", ".tar.gz"
DISTRIBUTION_SUFFIXES = (".whl", SOURCE_SUFFIX)


def parse_source(filename: str) -> tuple[str, Version]:
    """The distribution, normalized, and the version in the file name of a source distribution.

    Releases of older toolkits have some with the usual name. :raises InvalidSdistFilename: :raises InvalidVersion:
    """
    return parse_sdist_filename(filename.removeprefix(SOURCE_PREFIX))


def source_root(filename: str) -> str:
    """The folder that all members of a source distribution are in: ``mlir-1.2``."""
    return filename.removeprefix(SOURCE_PREFIX).removesuffix(SOURCE_SUFFIX)


def named(filename: str) -> tuple[str, Version] | None:
    """The distribution, normalized, and the version in the file name of a wheel or a source distribution; None of any
    other."""
    try:
        if filename.endswith(SOURCE_SUFFIX):
            return parse_source(filename)
        return parse_wheel_filename(filename)[:2]
    except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):
        return None


@dataclass(frozen=True, kw_only=True, order=True)
class WheelKey:
    """What a file name says it is for, a wheel's or a source distribution's; two in one slot would compete for users.

    A row of the build matrix fills one, too: see :class:`mlir_release.release.model.wheel_target.WheelTarget`.
    """

    distribution: str  #: normalized
    python: str  #: interpreter tag: ``cp312``; ``cp314t`` for a free-threaded one; ``py3`` and the like of others
    platform: Platform
    stable_abi: bool = False  #: for this CPython and later ones

    @classmethod
    def of_file(cls, filename: str) -> WheelKey | None:
        """The slot of the file name of a wheel or a source distribution; None of any other."""
        found = named(filename)
        if found is None or filename.endswith(SOURCE_SUFFIX):
            return cls.of_source(found[0]) if found is not None else None
        tag = min(parse_wheel_filename(filename)[3], key=str)
        python = tag.interpreter + ("t" if tag.abi.endswith("t") and tag.abi.startswith("cp") else "")
        return cls(
            distribution=canonicalize_name(found[0]),
            python=python,
            platform=PlatformTag.parse(tag.platform).platform,
            stable_abi=tag.abi == STABLE_ABI,
        )

    @classmethod
    def of_source(cls, distribution: str) -> WheelKey:
        """That of a source distribution."""
        return cls(distribution=canonicalize_name(distribution), python="source", platform=Platform("any", "any"))
