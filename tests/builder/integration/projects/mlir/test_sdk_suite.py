"""The suite of an SDK's wheels, on miniature ones: their programs are copies of ``true``, and no LLVM's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.sdk_wheels import pack_all
from mlir_release.builder.testing.report import TestOutcome
from mlir_release.builder.testing.run import run_suites
from mlir_release.ground.errors import UsageError
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the miniature programs are Linux's /bin/true")


@pytest.fixture(scope="module")
def wheels(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return pack_all(sdk, "20261120.2", output=tmp_path_factory.mktemp("wheels"))


def test_programs_of_no_llvm_fail(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    (run,) = run_suites(wheels["tools"], sdk=sdk, workdir=tmp_path)
    assert (run.suite, run.wheel, run.passed) == ("sdk", wheels["tools"].name, False)
    assert {result.name: result.outcome for result in run.results} == dict.fromkeys(
        ("mlir-opt", "mlir-translate", "FileCheck", "round-trip"), TestOutcome.FAIL
    )
    assert "did not print '22.1.8'" in run.results[0].message


def test_programs_that_find_nothing_fail(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    """The miniature's programs always succeed, so what they find, and how much they count, looks right."""
    (run,) = run_suites(wheels["test_tools"], sdk=sdk, workdir=tmp_path)
    assert (run.suite, run.wheel, run.passed) == ("sdk", wheels["test_tools"].name, False)
    failed = {result.name for result in run.results if result.outcome is TestOutcome.FAIL}
    assert failed == {"FileCheck", "split-file"}


def test_what_is_built_ends_with_the_first_step_that_fails(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    (run,) = run_suites(wheels["sdk"], sdk=sdk, workdir=tmp_path)
    assert [(result.name, result.outcome.good) for result in run.results] == [
        ("tells-where", True),
        ("generates-code", False),
    ]


def test_suites_and_wheels_that_do_not_fit(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    for wheel, suite in ((wheels["sdk"], "smoke"), (make_wheel(tmp_path), "sdk")):
        with pytest.raises(UsageError) as refused:
            run_suites(wheel, sdk=sdk, workdir=tmp_path, suites=[suite])
        assert refused.value.id == "option-invalid"
