"""What is asked of releases, dates and projects: checks that never occur, what is left out, CPythons that are old."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from msgspec import structs

from mlir_release.builder.model.test_report import TestEntry
from mlir_release.operate.doctor import releases
from mlir_release.operate.doctor.releases import LOOKED_AT, read_dates
from mlir_release.release.forge.github.refusals import refused
from mlir_release.release.forge.services import Commit
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from mlir_release.release.pinning.state import tag_message
from tests.healthy import ROOT, asked
from tests.made_up_project import made_up_targets, registered
from tests.memory_forge import MemoryForge
from tests.paper_forge import PaperForge, make_manifest
from tests.release_stage import TARGETS
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mlir_release.operate.doctor.results import Finding

SHIPPED_TEXT = (ROOT / TARGETS_FILE).read_text(encoding="utf-8")
SHIPPED = Matrix.parse(SHIPPED_TEXT)
GREEN = Matrix.parse(TARGETS.replace("[release]", '[release.green]\nchecks = ["linux", "windows"]\n\n[release]', 1))


class PaperChecks:
    def __init__(self, history: Sequence[Mapping[str, str]]) -> None:
        self.history = history
        self.asked = 0

    def newest(self, branch: str, count: int) -> Sequence[Commit]:
        when = datetime(2026, 11, 20, tzinfo=UTC)
        return [Commit(sha=str(number), when=when, subject="s") for number in range(len(self.history))][:count]

    def states(self, commit: str, names: Collection[str]) -> Mapping[str, str]:
        self.asked += 1
        return self.history[int(commit)]


def examine(history: Sequence[Mapping[str, str]]) -> tuple[list[Finding], int]:
    checks = PaperChecks(history)
    with patch.object(releases, "open_checks", lambda *_: checks):
        return asked("green-checks", GREEN, None), checks.asked


def test_checks_that_occur_are_fine_whatever_their_state() -> None:
    history: list[dict[str, str]] = [{}, {"linux": "failure"}, {"windows": "pending", "docs": "success"}]
    (found,), asked = examine([*history, *([{}] * 10)])
    assert (found.check, found.level) == ("green-checks", "ok")
    assert asked == 3  # no further than needed


def test_a_misspelt_check_is_a_problem_with_its_correction() -> None:
    (found,), asked = examine([{"linux": "success", "windws": "success"}] * 50)
    assert found.level == "problem"
    assert "'windows' (did you mean 'windws'?)" in found.text
    assert "linux" not in found.text
    assert asked == LOOKED_AT


def test_no_checks_at_all_prove_nothing() -> None:
    (found,), _ = examine([{}] * 3)
    assert found.level == "unknown"


def test_an_upstream_that_cannot_be_asked() -> None:
    def refuse(url: str, environ: Mapping[str, str]) -> PaperChecks:
        raise refused("absent", where=url, why="404")

    with patch.object(releases, "open_checks", refuse):
        (found,) = asked("green-checks", GREEN, None)
    assert (found.level, bool(found.remedy)) == ("unknown", True)


def test_nothing_is_asked_if_green_is_not_defined() -> None:
    with patch.object(releases, "open_checks", lambda *_: pytest.fail("it is asked")):
        assert asked("green-checks", Matrix.parse(TARGETS), None) == []


def test_exclusions_of_the_newest_snapshot_are_told_by_reason() -> None:
    text = make_targets(make_row(), pythons=["cp313", "cp314", "cp315"])
    forge = MemoryForge({TARGETS_FILE: text.encode()})
    assert not asked("excluded", Matrix.parse(text), forge)
    for number, excluded in ((1, {}), (2, {"linux-x86_64-cp314": "no wheels", "linux-x86_64-cp315": "no wheels"})):
        tag = SnapshotTag(date(2026, 11, 21), number)
        message = tag_message(tag, revision="a" * 40, request_id="x", wheel_version="1", excluded=excluded)
        forge.create_tag(str(tag), forge.branches["main"], message)
    (found,) = asked("excluded", Matrix.parse(text), forge)
    assert found.level == "problem"
    assert found.text == (
        "mlir-linux-x86_64-cp314, mlir-linux-x86_64-cp315: no target of snapshot-20261121.02: no wheels"
    )


TESTS = (
    *(f"{suite}-mlir-windows-x64-cp3{minor}" for suite in ("smoke", "bindings") for minor in (11, 12, 13, 14)),
    "regression-mlir-windows-x64",
)


def proofs(matrix: Matrix, *releases_: tuple[str, tuple[str, ...]]) -> list[Finding]:
    forge = PaperForge()
    for tag, names in releases_:
        rows = tuple(TestEntry(name=name, suite=name.partition("-")[0], counts={"pass": 10}) for name in names)
        forge.add(structs.replace(make_manifest(tag), tests=rows))
    return asked("proven", matrix, forge)


def test_the_newest_snapshot_proves_a_platform_and_the_two_lines_are_said() -> None:
    assert not proofs(SHIPPED)
    (found,) = proofs(SHIPPED, ("snapshot-20261121.01", TESTS))
    assert (found.check, found.level) == ("proven", "ok")
    assert found.text == (
        'snapshot-20261121.01 proves windows-x64 (rows of mlir): write proven = "snapshot-20261121.01" into '
        "[runtime.windows-x64] of targets.toml, then required = true into these rows"
    )


def test_what_is_missing_or_an_experiment_or_said_already_proves_nothing() -> None:
    other = tuple(
        f"{suite}-mlir-windows-x64-{python}" for suite in ("smoke", "bindings") for python in ("cp314t", "cp315t")
    )
    for names in ((), other, *(tuple(name for name in TESTS if name != left) for left in TESTS)):
        assert not proofs(SHIPPED, ("snapshot-20261121.01", names))
    said = SHIPPED_TEXT.replace("[runtime.windows-x64]\n", '[runtime.windows-x64]\nproven = "snapshot-20261121.01"\n')
    assert not proofs(Matrix.parse(said), ("snapshot-20261121.01", TESTS))


# -- dates, on a fixed day -----------------------------------------------------------------------------------------

TODAY = date(2026, 11, 21)


def on(check: str, matrix: Matrix, today: date) -> list[Finding]:
    noon = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    return asked(check, matrix, MemoryForge({}, now=noon))


def findings(pythons: Sequence[str], today: date = TODAY) -> list[Finding]:
    return on("cpython", Matrix.parse(make_targets(make_row(), pythons=pythons)), today)


def test_the_shipped_matrix_is_of_its_day() -> None:
    (found,) = on("cpython", SHIPPED, TODAY)
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


# -- projects of the matrix --------------------------------------------------------------------------------------------


def test_our_own_project_is_well() -> None:
    (finding,) = asked("projects", Matrix.parse(make_targets(make_row(), make_row("mlir-core", required=False))), None)
    assert (finding.check, finding.level, finding.text) == ("projects", "ok", "mlir makes mlir, mlir-core")


def test_a_project_whose_modules_are_missing_is_a_problem() -> None:
    with registered("plain"):
        found = asked("projects", Matrix.parse(made_up_targets(mlir=True)), None)
        assert [finding.level for finding in found] == ["ok", "problem"]
        assert "plain of made-up 1.0 can't be used" in found[1].text
        assert "for_sdk" in found[1].text
        assert found[1].remedy


def test_a_project_of_another_distribution_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("sdk", "wheels", "testing"):
        name = f"tests.made_up_project.for_{room}"
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with registered("plain"):
        (finding,) = asked("projects", Matrix.parse(made_up_targets(gates=False)), None)
        assert finding.text == (
            "plain makes plain-library; no release waits for it; it comes from made-up 1.0, which jobs have if "
            "requirements/toolkit.txt names it"
        )
