"""Names of checks that never occur are found before policy green waits for them; what a snapshot left out is told."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from msgspec import structs

from mlir_release.builder.model.test_report import TestEntry
from mlir_release.operate.doctor import releases
from mlir_release.operate.doctor.releases import LOOKED_AT
from mlir_release.release.forge.github.refusals import refused
from mlir_release.release.forge.services import Commit
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from mlir_release.release.pinning.state import tag_message
from tests.healthy import ROOT, asked
from tests.memory_forge import MemoryForge
from tests.paper_forge import PaperForge, make_manifest
from tests.release_stage import TARGETS
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mlir_release.operate.doctor.results import Finding

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


WINDOWS = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
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
    assert not proofs(WINDOWS)
    (found,) = proofs(WINDOWS, ("snapshot-20261121.01", TESTS))
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
        assert not proofs(WINDOWS, ("snapshot-20261121.01", names))
    text = (ROOT / TARGETS_FILE).read_text(encoding="utf-8")
    said = text.replace("[runtime.windows-x64]\n", '[runtime.windows-x64]\nproven = "snapshot-20261121.01"\n')
    assert not proofs(Matrix.parse(said), ("snapshot-20261121.01", TESTS))
