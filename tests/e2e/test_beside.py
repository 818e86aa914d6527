"""The rehearsal's wheel in one process with what people install next to it: from PyPI, 0.7 GB where nothing is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.builder.testing.report import TestOutcome
from mlir_release.builder.testing.run import run_suites

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk
    from tests.e2e.conftest import Rehearsed


def test_what_people_install_next_to_it_works_before_and_after_it(
    rehearsed: Rehearsed, sdk: Sdk, tmp_path: Path
) -> None:
    (run,) = run_suites(rehearsed.wheel, sdk=sdk, suites=["beside"], workdir=tmp_path)
    assert run.passed, run.failures
    passed = {result.name for result in run.results if result.outcome is TestOutcome.PASS}
    assert {"iree-base-compiler/after-ours", "iree-base-compiler/before-ours"} <= passed
