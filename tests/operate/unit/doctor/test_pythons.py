"""The CPythons of a matrix against their dates, on a fixed day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from mlir_release.operate.doctor.releases import read_dates
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from tests.healthy import asked
from tests.memory_forge import MemoryForge
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.operate.doctor.results import Finding

TODAY = date(2026, 11, 21)


def on(check: str, matrix: Matrix, today: date) -> list[Finding]:
    noon = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    return asked(check, matrix, MemoryForge({}, now=noon))


def findings(pythons: Sequence[str], today: date = TODAY) -> list[Finding]:
    return on("cpython", Matrix.parse(make_targets(make_row(), pythons=pythons)), today)


def test_the_shipped_matrix_is_of_its_day() -> None:
    matrix = Matrix.parse((Path(__file__).parents[4] / TARGETS_FILE).read_text(encoding="utf-8"))
    (found,) = on("cpython", matrix, TODAY)
    assert (found.level, found.text) == ("ok", "the matrix's CPythons are today's: 3.11, 3.12, 3.13, 3.14, 3.15")


@pytest.mark.parametrize(
    ("today", "level"), [(date(2026, 10, 31), "ok"), (date(2026, 11, 1), "problem"), (date(2026, 11, 21), "problem")]
)
def test_the_end_of_a_life(today: date, level: str) -> None:
    (found,) = findings(["cp310", "cp314"], today)
    assert found.level == level
    if level == "problem":
        assert found.text == "CPython 3.10 reached the end of its life on 2026-10-31 (PEP 619)"
        assert found.remedy == "remove cp310 from the pythons in targets.toml"


@pytest.mark.parametrize(
    ("pythons", "today", "level"),
    [
        (["cp314"], TODAY, "ok"),  # 3.15 is out for seven weeks
        (["cp314"], date(2026, 12, 29), "ok"),
        (["cp314"], date(2026, 12, 30), "problem"),
        (["cp314", "cp315"], date(2026, 12, 30), "ok"),
        (["cp314", "cp315t"], date(2026, 12, 30), "ok"),
        (["cp312", "cp314"], TODAY, "ok"),  # a gap is a decision
    ],
)
def test_a_new_one_that_is_missing(pythons: list[str], today: date, level: str) -> None:
    (found,) = findings(pythons, today)
    assert found.level == level
    if level == "problem":
        assert found.text == "CPython 3.15 is out since 2026-10-01 (PEP 790), and no target is for it"
        assert "required = false" in found.remedy


@pytest.mark.parametrize(
    ("pythons", "today", "what"),
    [(["cp316", "cp317"], date(2027, 12, 1), "CPython 3.17"), (["cp316"], date(2028, 12, 1), "CPython after 3.16")],
)
def test_what_the_table_does_not_know_is_unknown(pythons: list[str], today: date, what: str) -> None:
    (found,) = findings(pythons, today)
    assert (found.level, found.text) == ("unknown", f"this version of mlir-release knows no dates of {what}")


def test_the_dates_are_in_order() -> None:
    lives = read_dates().lives()
    assert [python.minor for python in lives] == list(range(9, 9 + len(lives)))
    for one, other in pairwise(lives.values()):
        assert one.first_release < other.first_release
        assert one.end_of_life < other.end_of_life
    assert all(4 <= life.end_of_life.year - life.first_release.year <= 5 for life in lives.values())


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (date(2027, 5, 1), "none of the matrix's runners"),
        (date(2027, 6, 1), "GitHub takes the runner macos-15-intel away on 2027-08-01 (https://"),
        (date(2027, 8, 2), "GitHub took the runner macos-15-intel away on 2027-08-01 (https://"),
    ],
)
def test_the_end_of_a_runner_is_told_in_time(today: date, said: str) -> None:
    labels = ["ubuntu-24.04", "macos-15-intel", "our-own"]
    runtimes = [SimpleNamespace(runner=label) for label in (*labels, labels[1])]
    (found,) = on("runners", SimpleNamespace(runtimes=runtimes), today)  # type: ignore[arg-type]
    assert found.level == ("ok" if "none" in said else "problem")
    assert said in found.text
