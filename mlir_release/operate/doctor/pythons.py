"""Whether the build matrix's CPythons and runners are those of today: by the dates in ``cpython.toml``."""

from __future__ import annotations

from datetime import date, timedelta
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.python.cpython import CPython
from mlir_release.operate.doctor.results import Finding, ok, problem, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mlir_release.release.model.matrix import Matrix

#: How long a new CPython may be missing: NumPy and the like need some weeks for their wheels.
_GRACE = timedelta(days=90)

#: A new CPython comes every year (PEP 602).
_CADENCE = timedelta(days=366)

_CHECK = "cpython"


class Life(msgspec.Struct, frozen=True, rename="kebab"):
    """From the first release of a CPython to the end of its support."""

    pep: int  #: its release schedule
    first_release: date
    end_of_life: date  #: the last day with support


class End(msgspec.Struct, frozen=True):
    """When the image of a runner goes."""

    ends: date
    source: str


class Dates(msgspec.Struct, frozen=True):
    """``cpython.toml``."""

    python: dict[str, Life]
    runner: dict[str, End]


def read_dates() -> Dates:
    """What comes with the toolkit."""
    text = resources.files(__package__).joinpath("cpython.toml").read_text(encoding="utf-8")
    return msgspec.convert(parse_toml(text), Dates)


def examine_runners(labels: Iterable[str], *, today: date) -> Iterator[Finding]:
    """Whether GitHub has taken away the image of a runner, or will within :data:`_GRACE`."""
    ends = read_dates().runner
    going = [label for label in sorted(set(labels)) if label in ends and ends[label].ends - _GRACE <= today]
    for label in going:
        end = ends[label]
        text = f"GitHub {'took' if end.ends < today else 'takes'} the runner {label} away on {end.ends} ({end.source})"
        yield problem(text, "name a newer runner in targets.toml and in the workflows", check="runners")
    if not going:
        yield ok("GitHub takes none of the matrix's runners away within 90 days", check="runners")


def read_lives() -> dict[CPython, Life]:
    """Those that ``cpython.toml`` knows, the oldest first."""
    lives = read_dates().python
    return dict(sorted((CPython.parse(version), life) for version, life in lives.items()))


def examine_pythons(matrix: Matrix, *, today: date) -> Iterator[Finding]:
    """Whether a CPython of the matrix has reached the end of its life, and whether a new one is missing."""
    lives, well = read_lives(), True
    wheels = (*matrix.wheels, *(row.wheel for row in matrix.excluded))
    used = sorted({python.release for wheel in wheels for python in wheel.pythons})
    for python, life in lives.items():
        if python.release in used and life.end_of_life < today:
            well = False
            yield problem(
                f"CPython {python.version} reached the end of its life on {life.end_of_life} (PEP {life.pep})",
                f"remove {python} from the pythons in targets.toml",
                check=_CHECK,
            )
        is_newer = python.release > max(used, default=(0, 0))
        if is_newer and life.first_release + _GRACE <= today <= life.end_of_life:
            well = False
            yield problem(
                f"CPython {python.version} is out since {life.first_release} (PEP {life.pep}), and no target is for it",
                f"add {python} to the pythons in targets.toml, at first in a row with required = false",
                check=_CHECK,
            )
    last = max(lives)
    beyond = ", ".join(f"{major}.{minor}" for major, minor in used if (major, minor) > last.release)
    if beyond or today > lives[last].first_release + _CADENCE:
        yield unknown(
            f"this version of mlir-release knows no dates of CPython {beyond or f'after {last.version}'}",
            "update mlir-release, and compare targets.toml with https://devguide.python.org/versions/",
            check=_CHECK,
        )
    elif well:
        shown = ", ".join(f"{major}.{minor}" for major, minor in used)
        yield ok(f"the matrix's CPythons are today's: {shown}", check=_CHECK)
