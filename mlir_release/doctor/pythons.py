"""Whether the CPythons of the build matrix are those of today: by the dates in ``cpython.toml``, with their source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from importlib import resources
from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, of_error
from mlir_release.errors import ReleaseError
from mlir_release.model.cpython import CPython
from mlir_release.model.decode import parse_toml
from mlir_release.pinning.state import matrix_of
from mlir_release.release.ledger import Ledger
from mlir_release.release.status import stale

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mlir_release.forge.base import Forge
    from mlir_release.model.matrix import Matrix

#: How long a new CPython may be missing: NumPy and the like need some weeks for their wheels.
_GRACE = timedelta(days=90)

#: A new CPython comes every year (PEP 602).
_CADENCE = timedelta(days=366)


@dataclass(frozen=True, kw_only=True)
class Life:
    """From the first release of a CPython to the end of its support."""

    python: CPython
    pep: int  #: its release schedule
    begins: date
    ends: date  #: the last day with support


def read_lives() -> tuple[Life, ...]:
    """Those that ``cpython.toml`` knows, the oldest first."""
    text = resources.files(__package__).joinpath("cpython.toml").read_text(encoding="utf-8")
    rows: Mapping[str, Mapping[str, object]] = parse_toml(text)["python"]
    lives = [
        Life(
            python=CPython.parse(version),
            pep=int(str(row["pep"])),
            begins=date.fromisoformat(str(row["first-release"])),
            ends=date.fromisoformat(str(row["end-of-life"])),
        )
        for version, row in rows.items()
    ]
    return tuple(sorted(lives, key=lambda life: life.python))


def examine_pythons(matrix: Matrix, *, today: date) -> Iterator[Finding]:
    """Whether a CPython of the matrix has reached the end of its life, and whether a new one is missing."""
    lives = read_lives()
    wheels = (*matrix.wheels, *(row.wheel for row in matrix.excluded))
    used = {python.release for wheel in wheels for python in wheel.pythons}
    findings = [*_ended(lives, used, today), *_missing(lives, used, today), *_unknown(lives, used, today)]
    if not findings:
        shown = ", ".join(f"{major}.{minor}" for major, minor in sorted(used))
        findings.append(Finding("cpython", "ok", f"the matrix's CPythons are today's: {shown}"))
    yield from findings


def _ended(lives: Collection[Life], used: Collection[tuple[int, int]], today: date) -> Iterator[Finding]:
    for life in lives:
        if life.python.release in used and life.ends < today:
            yield Finding(
                "cpython",
                "problem",
                f"CPython {life.python.version} reached the end of its life on {life.ends} (PEP {life.pep})",
                f"remove {life.python} from the pythons in targets.toml",
            )


def _missing(lives: Collection[Life], used: Collection[tuple[int, int]], today: date) -> Iterator[Finding]:
    newest = max(used, default=(0, 0))
    for life in lives:
        if life.python.release > newest and life.begins + _GRACE <= today <= life.ends:
            yield Finding(
                "cpython",
                "problem",
                f"CPython {life.python.version} is out since {life.begins} (PEP {life.pep}), and no target is for it",
                f"add {life.python} to the pythons in targets.toml, at first in a row with required = false",
            )


def _unknown(lives: Collection[Life], used: Collection[tuple[int, int]], today: date) -> Iterator[Finding]:
    last = max(lives, key=lambda life: life.begins)
    newer = sorted(release for release in used if release > last.python.release)
    if newer or today > last.begins + _CADENCE:
        what = ", ".join(f"{major}.{minor}" for major, minor in newer) or f"after {last.python.version}"
        yield Finding(
            "cpython",
            "unknown",
            f"this version of mlir-release knows no dates of CPython {what}",
            "update mlir-release, and compare targets.toml with https://devguide.python.org/versions/",
        )


def examine_newest_snapshot(forge: Forge) -> Iterator[Finding]:
    """Whether snapshots are still made, and which targets the newest was not made for; its tag records the reasons."""
    try:
        every = Ledger(forge).newest(10)
        remedy = "docs/operating.md, 'No snapshot appeared', has the causes"
        for note in stale(forge.now(), every) if forge.services is not None else ():  # else there is no schedule
            yield Finding("newest-snapshot", "problem", note, remedy)
        snapshots = [state for state in every if state.tag.kind == "snapshot" and state.state != "abandoned"]
        if not snapshots:
            return
        matrix = matrix_of(forge, snapshots[-1])
    except ReleaseError as error:
        yield of_error("excluded", error, level="unknown")
        return
    reasons: dict[str, list[str]] = {}
    for row in matrix.excluded:
        reasons.setdefault(row.reason, []).append(row.name)
    for reason, names in reasons.items():
        yield Finding(
            "excluded",
            "problem",
            f"{', '.join(names)}: no target of {snapshots[-1].name}: {reason}",
            "relax upstream's cap in [requires] of targets.toml, or remove that CPython from its runtime",
        )
