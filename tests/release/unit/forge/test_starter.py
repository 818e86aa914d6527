"""The build matrix that a release repository begins with: one distribution, the platforms that are asked for."""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.cost.estimate import planned_jobs
from mlir_release.release.forge.checkout import starter
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets

WHOLE = (Path(__file__).parents[4] / TARGETS_FILE).read_text(encoding="utf-8")
PLATFORMS = [("linux-x86_64",), ("macos-arm64", "linux-x86_64"), ("windows-x64",)]
MONDAY = SnapshotTag(date(2026, 11, 23), 1)


@pytest.mark.parametrize("platforms", PLATFORMS)
def test_it_has_one_distribution_on_the_platforms_that_are_asked_for(platforms: tuple[str, ...]) -> None:
    matrix, whole = Matrix.parse(starter(WHOLE, platforms)), Matrix.parse(WHOLE)
    assert {wheel.distribution for wheel in matrix.wheels} == {"mlir"}
    assert {runtime.name for runtime in matrix.runtimes} == set(platforms)
    assert {wheel.name for wheel in matrix.wheels} <= {wheel.name for wheel in whole.wheels}
    assert matrix.wheels == matrix.for_tag(MONDAY).wheels  # nothing waits for Mondays
    proven = {"linux-x86_64"}
    assert {wheel.runtime.name for wheel in matrix.wheels if wheel.required} <= proven
    assert not matrix.canaries
    assert matrix.release == whole.release


def test_each_other_row_is_switched_on_by_its_line() -> None:
    text = starter(WHOLE, ["linux-x86_64"])
    matrix, whole = Matrix.parse(text.replace("  # {", "  {")), Matrix.parse(WHOLE)
    assert sorted(wheel.name for wheel in matrix.wheels) == sorted(wheel.name for wheel in whole.wheels)
    for line in [line for line in text.splitlines() if line.startswith("  # {")]:
        more = Matrix.parse(text.replace(line, line.replace("# ", "", 1)))
        assert len({wheel.name for wheel in more.wheels}) > 4


def test_repeating_it_changes_nothing_and_another_platform_is_added() -> None:
    text = starter(WHOLE, ["linux-x86_64"])
    assert starter(text, ["linux-x86_64"]) == text
    assert starter(text, ["macos-arm64"]) == starter(WHOLE, ["linux-x86_64", "macos-arm64"])


@pytest.mark.parametrize("platform", ["linux-x86", "linux-x86_64_asserts", ".*", ""])
def test_a_platform_that_is_none(platform: str) -> None:
    for text in (WHOLE, starter(WHOLE, ["windows-x64"])):
        error = refused(partial(starter, text, [platform]), "option-invalid")
        assert "linux-x86_64, linux-aarch64" in error.remedy


def test_a_matrix_of_ones_own() -> None:
    own = make_targets(make_row("mlir", suites=["smoke"])).replace("schema = 1", "schema=1 # ours")
    assert Matrix.parse(starter(own, ["linux-x86_64"])).wheels == Matrix.parse(own).wheels


def test_it_takes_about_25_jobs() -> None:
    jobs = [
        sum(job.runs for job in planned_jobs(Matrix.parse(starter(WHOLE, names)), public=True)) for names in PLATFORMS
    ]
    assert jobs == [26, 32, 25]  # of Linux, the suite that measures is a job more


def test_the_command_writes_it_once(tmp_path: Path) -> None:
    (tmp_path / TARGETS_FILE).write_text(WHOLE, encoding="utf-8")
    command = ["forge", "adopt", "octo/wheels", "@octo/team", "--platform", "linux-x86_64", "-C", str(tmp_path)]
    assert TARGETS_FILE in CliRunner().invoke(app, command).stdout
    assert (tmp_path / TARGETS_FILE).read_text(encoding="utf-8") == starter(WHOLE, ["linux-x86_64"])
    assert "nothing to do" in CliRunner().invoke(app, command).stdout
