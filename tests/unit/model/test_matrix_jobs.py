from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def chain(row: dict[str, str], kind: str) -> list[dict[str, str]]:
    """The rows of a platform's matrix."""
    found: Any = json.loads(row[kind])["include"] if row[kind] else []
    return list(found)


def test_a_platforms_chain_has_all_of_its_jobs() -> None:
    rows = job_rows(MATRIX, "platforms")
    assert [(row["runtime"], row["runner"]) for row in rows] == [(r.name, r.runner) for r in MATRIX.runtimes]
    for kind in ("wheels", "tests"):
        for row in rows:
            assert {found["runtime"] for found in chain(row, kind)} == {row["runtime"]}
        flat = sorted((found for row in rows for found in chain(row, kind)), key=lambda found: found["name"])
        assert flat == sorted(job_rows(MATRIX, kind), key=lambda found: found["name"])
    assert {row["fetch"] for row in rows} == {""}
    assert all(isinstance(value, str) for row in rows for value in row.values())
    assert len(json.dumps(rows)) < 500_000  # GitHub allows outputs of 1 MB a job


def test_a_test_takes_its_wheel_from_the_job_that_builds_it_or_from_the_draft() -> None:
    built, there = "mlir-linux-x86_64-cp312", "mlir-linux-x86_64-cp313"
    tests = {f"smoke-{built}", f"smoke-{there}", "regression-mlir-linux-x86_64", "regression-mlir-windows-x64"}
    linux, windows = missing_rows(MATRIX, "platforms", wheels={built}, tests=tests)
    assert [row["name"] for row in chain(linux, "wheels")] == [built]
    assert {row["name"]: row["artifact"] for row in chain(linux, "tests")} == {
        f"smoke-{built}": chain(linux, "wheels")[0]["artifact"],
        f"smoke-{there}": "draft-linux-x86_64",
        "regression-mlir-linux-x86_64": "",
    }
    assert linux["fetch"] == there
    assert (windows["wheels"], windows["fetch"]) == ("", "")
    assert [row["name"] for row in chain(windows, "tests")] == ["regression-mlir-windows-x64"]


def test_nothing_missing_is_no_platform() -> None:
    assert missing_rows(MATRIX, "platforms", wheels=(), tests=()) == []


def test_githubs_limit() -> None:
    assert github_matrix([{"name": "x"}] * MAX_JOBS)["include"]
    with pytest.raises(UsageError) as caught:
        github_matrix([{"name": "x"}] * (MAX_JOBS + 1))
    assert caught.value.id == "matrix-too-large"
