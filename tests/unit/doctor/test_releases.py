"""Names of checks that never occur are found before policy green waits for them; what a snapshot left out is told."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from mlir_release.doctor import releases
from mlir_release.doctor.releases import LOOKED_AT, green_checks, targets_of_newest
from mlir_release.forge.github.refusals import not_found
from mlir_release.forge.services import Commit
from mlir_release.model.matrix import Matrix
from mlir_release.model.release_settings import TARGETS_FILE
from mlir_release.model.release_tags import SnapshotTag
from mlir_release.pinning.state import tag_message
from tests.memory_forge import MemoryForge
from tests.release_stage import TARGETS
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pytest

    from mlir_release.doctor.results import Finding

GREEN = Matrix.parse(
    TARGETS.replace("[release]", '[release.green]\nchecks = ["linux", "windows"]\n\n[release]', 1)
).release


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


def examine(history: Sequence[Mapping[str, str]], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Finding], int]:
    checks = PaperChecks(history)
    monkeypatch.setattr(releases, "open_checks", lambda url, environ: checks)
    return list(green_checks(GREEN)), checks.asked


def test_checks_that_occur_are_fine_whatever_their_state(monkeypatch: pytest.MonkeyPatch) -> None:
    history: list[dict[str, str]] = [{}, {"linux": "failure"}, {"windows": "pending", "docs": "success"}]
    (found,), asked = examine([*history, *([{}] * 10)], monkeypatch)
    assert (found.check, found.level) == ("green-checks", "ok")
    assert asked == 3  # no further than needed


def test_a_misspelt_check_is_a_problem_with_its_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,), asked = examine([{"linux": "success", "windws": "success"}] * 50, monkeypatch)
    assert found.level == "problem"
    assert "'windows' (did you mean 'windws'?)" in found.text
    assert "linux" not in found.text
    assert asked == LOOKED_AT


def test_no_checks_at_all_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,), _ = examine([{}] * 3, monkeypatch)
    assert found.level == "unknown"


def test_an_upstream_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, environ: Mapping[str, str]) -> PaperChecks:
        raise not_found(where=url, why="404")

    monkeypatch.setattr(releases, "open_checks", refuse)
    (found,) = green_checks(GREEN)
    assert (found.level, bool(found.remedy)) == ("unknown", True)


def test_nothing_is_asked_if_green_is_not_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "open_checks", None)
    assert list(green_checks(Matrix.parse(TARGETS).release)) == []


def test_exclusions_of_the_newest_snapshot_are_told_by_reason() -> None:
    text = make_targets(make_row(), pythons=["cp313", "cp314", "cp315"])
    forge = MemoryForge({TARGETS_FILE: text.encode()})
    assert not list(targets_of_newest(forge))
    for number, excluded in ((1, {}), (2, {"linux-x86_64-cp314": "no wheels", "linux-x86_64-cp315": "no wheels"})):
        tag = SnapshotTag(date(2026, 11, 21), number)
        message = tag_message(
            tag, revision="a" * 40, request_id="x", wheel_version="1", toolkit_version="0", excluded=excluded
        )
        forge.create_tag(str(tag), forge.branches["main"], message)
    (found,) = targets_of_newest(forge)
    assert found.level == "problem"
    assert found.text == (
        "mlir-linux-x86_64-cp314, mlir-linux-x86_64-cp315: no target of snapshot-20261121.02: no wheels"
    )
