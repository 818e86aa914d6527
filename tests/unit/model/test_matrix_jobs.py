from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.errors import UsageError
from mlir_release.model.matrix import Matrix
from mlir_release.model.matrix_jobs import MAX_JOBS, github_matrix, job_rows, missing_rows
from mlir_release.model.targets import TARGETS_FILE

MATRIX = Matrix.parse((Path(__file__).parents[3] / TARGETS_FILE).read_text())


def test_rows() -> None:
    assert job_rows(MATRIX, "sdk")[0] == {
        "name": "sdk-linux-x86_64",
        "runtime": "linux-x86_64",
        "runner": "ubuntu-24.04",
    }
    assert len(job_rows(MATRIX, "wheels")) == len(MATRIX.wheels)
    tests = {row["name"]: row for row in job_rows(MATRIX, "tests")}
    assert tests["regression-mlir-linux-x86_64"]["python"] == ""
    assert tests["bindings-mlir-linux-x86_64-cp314t"]["required"] == "false"


def test_only_what_is_missing_and_the_sdks_for_it() -> None:
    wheels, tests = {"mlir-macos-arm64-cp312"}, {"regression-mlir-windows-x64"}
    assert [row["name"] for row in missing_rows(MATRIX, "wheels", wheels=wheels, tests=tests)] == sorted(wheels)
    assert [row["name"] for row in missing_rows(MATRIX, "tests", wheels=wheels, tests=tests)] == sorted(tests)
    sdks = missing_rows(MATRIX, "sdk", wheels=wheels, tests=tests)
    assert [row["name"] for row in sdks] == ["sdk-macos-arm64", "sdk-windows-x64"]
    assert missing_rows(MATRIX, "sdk", wheels=(), tests=()) == []


def test_githubs_limit() -> None:
    assert github_matrix([{"name": "x"}] * MAX_JOBS)["include"]
    with pytest.raises(UsageError) as caught:
        github_matrix([{"name": "x"}] * (MAX_JOBS + 1))
    assert caught.value.id == "matrix-too-large"
