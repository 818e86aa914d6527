"""Whether the build matrix is of today: its projects can be imported, and its CPythons and runners still exist."""

from __future__ import annotations

from datetime import date, timedelta
from importlib import resources
from typing import TYPE_CHECKING, get_args

import msgspec

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.llvm.projects import Room, find_project
from mlir_release.ground.plugins import PROJECTS, plugins
from mlir_release.ground.python.cpython import CPython
from mlir_release.operate.doctor.results import Answer, of_error, ok, problem, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.operate.doctor.files import Examined

#: How long a new CPython may be missing: NumPy and the like need some weeks for their wheels.
_GRACE = timedelta(days=90)

#: A new CPython comes every year (PEP 602).
_CADENCE = timedelta(days=366)


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

    def lives(self) -> dict[CPython, Life]:
        """The CPythons, the oldest first."""
        return dict(sorted((CPython.parse(version), life) for version, life in self.python.items()))


def read_dates() -> Dates:
    """What comes with the toolkit."""
    text = resources.files(__package__).joinpath("cpython.toml").read_text(encoding="utf-8")
    return msgspec.convert(parse_toml(text), Dates)


def runners(known: Examined) -> Iterator[Answer]:
    """Whether GitHub has taken away the image of a runner, or will within :data:`_GRACE`."""
    ends = read_dates().runner
    labels = sorted({runtime.runner for runtime in known.matrix.runtimes})
    going = [label for label in labels if label in ends and ends[label].ends - _GRACE <= known.today]
    for label in going:
        end = ends[label]
        took = "took" if end.ends < known.today else "takes"
        text = f"GitHub {took} the runner {label} away on {end.ends} ({end.source})"
        yield problem(text, "name a newer runner in targets.toml and in the workflows")
    if not going:
        yield ok("GitHub takes none of the matrix's runners away within 90 days")


def pythons(known: Examined) -> Iterator[Answer]:
    """Whether a CPython of the matrix has reached the end of its life, and whether a new one is missing."""
    lives, well, matrix, today = read_dates().lives(), True, known.matrix, known.today
    wheels = (*matrix.wheels, *(row.wheel for row in matrix.excluded))
    used = sorted({python.release for wheel in wheels for python in wheel.pythons})
    for python, life in lives.items():
        if python.release in used and life.end_of_life < today:
            well = False
            yield problem(
                f"CPython {python.version} reached the end of its life on {life.end_of_life} (PEP {life.pep})",
                f"remove {python} from the pythons in targets.toml",
            )
        is_newer = python.release > max(used, default=(0, 0))
        if is_newer and life.first_release + _GRACE <= today <= life.end_of_life:
            well = False
            yield problem(
                f"CPython {python.version} is out since {life.first_release} (PEP {life.pep}), and no target is for it",
                f"add {python} to the pythons in targets.toml, at first in a row with required = false",
            )
    last = max(lives)
    beyond = ", ".join(f"{major}.{minor}" for major, minor in used if (major, minor) > last.release)
    if beyond or today > lives[last].first_release + _CADENCE:
        yield unknown(
            f"this version of mlir-release knows no dates of CPython {beyond or f'after {last.version}'}",
            "update mlir-release, and compare targets.toml with https://devguide.python.org/versions/",
        )
    elif well:
        yield ok(f"the matrix's CPythons are today's: {', '.join(f'{major}.{minor}' for major, minor in used)}")


def projects(known: Examined) -> Iterator[Answer]:
    """Whether the modules of each project can be imported; with its distributions.

    Its smoke test and its list of known failures are there, or the matrix could not have been read.
    """
    names: dict[str, dict[str, bool]] = {}
    for wheel in (*known.matrix.wheels, *(row.wheel for row in known.matrix.excluded)):
        row = names.setdefault(wheel.configuration.project, {})
        row[wheel.distribution] = row.get(wheel.distribution, False) or wheel.required
    for name, distributions in names.items():
        try:
            for room in get_args(Room):
                find_project(name).room(room)
        except ReleaseError as error:
            yield of_error("", error)
            continue
        owner = plugins(PROJECTS)[name][0]
        text = f"{name} makes {', '.join(distributions)}"
        if not any(distributions.values()):
            text += "; no release waits for it"
        if not owner.is_ours:
            text += f"; it comes from {owner.distribution}, which jobs have if requirements/toolkit.txt names it"
        yield ok(text)
