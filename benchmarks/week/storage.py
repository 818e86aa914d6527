"""The bytes that a year of releases adds: sizes of the projects' profiles x matrix x cadence. Pure.

Releases are kept for good, so each year adds as much again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, convert, field
from packaging.utils import canonicalize_name

from mlir_release.extras.cost.estimate import MONDAY
from mlir_release.ground.documents.decode import parse_toml
from mlir_release.release.model.release_tags import SnapshotTag

if TYPE_CHECKING:
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.targets import Configuration

#: Weeks of a year.
_WEEKS = 52


class Limits(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Bytes that a place takes."""

    file: int  #: of GitHub's releases, which limit no total
    pypi_project: int


class ArtifactSize(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Megabytes of an artifact beside its wheels."""

    name: str  #: what artifacts' names begin with
    mb: float = 0.0
    per_file: float = 0.0  #: more for each wheel and report


class Sizes(Struct, frozen=True, kw_only=True, rename="kebab"):
    """``sizes.toml``."""

    llvm: str
    measured_on: date
    limits: Limits
    cache_mb: float  #: a compiler cache after one build
    artifacts: tuple[ArtifactSize, ...] = field(name="artifact")

    def artifact(self, name: str) -> ArtifactSize:
        """The size of an artifact, by the longest beginning of its name. :raises LookupError: unknown"""
        found = [size for size in self.artifacts if name.startswith(size.name)]
        if not found:
            raise LookupError(f"sizes.toml has no size of the artifact {name}")
        return max(found, key=lambda size: len(size.name))


@cache
def sizes() -> Sizes:
    """What sizes were measured with, and those of artifacts."""
    return convert(parse_toml(Path(__file__).with_name("sizes.toml").read_text(encoding="utf-8")), Sizes)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The files of an LLVM configuration."""

    name: str  #: the configuration's
    cadence: str
    platforms: int
    files: int  #: of one release that has them
    size: int  #: bytes of these together
    releases: int  #: of a year's snapshots that have them

    @property
    def a_year(self) -> int:
        """The bytes that a year adds."""
        return self.size * self.releases


@dataclass(frozen=True, kw_only=True)
class Year:
    """A year of snapshots that all succeed, without numbered releases."""

    snapshots: int
    rows: tuple[Kept, ...]
    pypi_release: int  #: bytes of one numbered release on PyPI

    COLUMNS = ("LLVM configuration", "cadence", ">platforms", ">files", ">MB a release", ">releases", ">GB a year")

    def table(self) -> list[list[str]]:
        """The rows, the largest first, then their sum."""
        rows = [
            [
                f"`{row.name}`", row.cadence, str(row.platforms), str(row.files), f"{row.size / 1e6:,.0f}",
                f"{row.releases:,}", f"{row.a_year / 1e9:,.1f}",
            ]
            for row in sorted(self.rows, key=lambda row: -row.a_year)
        ]  # fmt: skip
        files, size = sum(row.files for row in self.rows), sum(row.size for row in self.rows)
        a_year = sum(row.a_year for row in self.rows)
        return [
            *rows,
            ["together", "", "", str(files), f"{size / 1e6:,.0f}", f"{self.snapshots:,}", f"{a_year / 1e9:,.1f}"],
        ]

    def text(self) -> str:
        """What the figures rest on, and the limits."""
        known, largest = sizes(), max(row.size // row.files for row in self.rows)
        lines = [
            f"sizes: LLVM {known.llvm} on Linux x86_64, {known.measured_on}; other platforms are assumed to be alike",
            f"the largest file has {largest / known.limits.file:.0%} of what GitHub takes; all together have no limit",
        ]
        if unknown := [row.name for row in self.rows if not row.size]:
            lines.append(f"not measured, and not in the sums: {', '.join(unknown)}")
        if self.pypi_release:
            count = known.limits.pypi_project // self.pypi_release
            lines.append(f"PyPI's project of {known.limits.pypi_project / 1e9:.0f} GB holds {count} numbered releases")
        return "\n".join(lines)


def size_of(configuration: Configuration) -> int:
    """Bytes of a file; 0: nobody has measured it."""
    return configuration.about.profile(configuration.profile).size


def a_year(matrix: Matrix, *, per_day: int) -> Year:
    """The bytes of so many snapshots a day of a matrix."""
    releases: dict[str, int] = defaultdict(int)
    for day in range(7):
        due = matrix.for_tag(SnapshotTag(MONDAY + timedelta(days=day), 1))
        for name in {wheel.configuration.name for wheel in due.wheels}:
            releases[name] += _WEEKS * per_day
    rows = []
    for configuration in dict.fromkeys(wheel.configuration for wheel in matrix.wheels):
        wheels = [wheel for wheel in matrix.wheels if wheel.configuration == configuration]
        rows.append(
            Kept(
                name=configuration.name,
                cadence=configuration.cadence,
                platforms=len({wheel.runtime.platform for wheel in wheels}),
                files=len(wheels),
                size=len(wheels) * size_of(configuration),
                releases=releases[configuration.name],
            )
        )
    pypi_release = sum(
        size_of(wheel.configuration)
        for wheel in matrix.wheels
        if not wheel.configuration.own_suite and canonicalize_name(wheel.distribution) in matrix.on_pypi
    )
    return Year(snapshots=7 * _WEEKS * per_day, rows=tuple(rows), pypi_release=pypi_release)
