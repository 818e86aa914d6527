"""The build matrix as workflow jobs: rows of strings, as GitHub's ``strategy.matrix`` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mlir_release.errors import UsageError
from mlir_release.model.cpython import CPython

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mlir_release.model.matrix import Matrix

Kind = Literal["sdk", "wheels", "tests"]
Row = dict[str, str]

#: The CPython of jobs that need just any: what the toolkit itself runs with.
DEFAULT_PYTHON = CPython(3, 12)

#: Jobs that GitHub makes of one matrix at most.
MAX_JOBS = 256


def job_rows(matrix: Matrix, kind: Kind) -> list[Row]:
    """One row a job: an SDK for each runtime, a wheel for each target, or a test for each test target."""
    if kind == "sdk":
        return [{"name": f"sdk-{r.name}", "runtime": r.name, "runner": r.runner} for r in matrix.runtimes]
    if kind == "wheels":
        return [
            {
                "name": wheel.name,
                "llvm": wheel.configuration.name,
                "runtime": wheel.runtime.name,
                "runner": wheel.runtime.runner,
                "python": wheel.python.tag,
                "version": wheel.python.version,
                "required": str(wheel.required).lower(),
            }
            for wheel in matrix.wheels
        ]
    return [
        {
            "name": test.name,
            "suite": test.suite,
            "llvm": test.configuration.name,
            "runtime": test.runtime.name,
            "runner": test.runtime.runner,
            "python": test.python.tag if test.python else "",
            "version": (test.python or DEFAULT_PYTHON).version,
            "wheels": " ".join(test.wheels),
            "required": str(test.required).lower(),
        }
        for test in matrix.tests
    ]


def missing_rows(matrix: Matrix, kind: Kind, *, wheels: Collection[str], tests: Collection[str]) -> list[Row]:
    """The rows of what is missing: the named wheels and tests, and the SDKs that these need."""
    runtimes = {wheel.runtime.name for wheel in matrix.wheels if wheel.name in wheels}
    runtimes |= {test.runtime.name for test in matrix.tests if test.name in tests}
    wanted = {"sdk": {f"sdk-{name}" for name in runtimes}, "wheels": wheels, "tests": tests}[kind]
    return [row for row in job_rows(matrix, kind) if row["name"] in wanted]


def github_matrix(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """``strategy.matrix`` of GitHub Actions. :raises UsageError: if GitHub would refuse it for its size"""
    if len(rows) > MAX_JOBS:
        raise UsageError(
            "matrix-too-large",
            f"{len(rows)} jobs; GitHub allows {MAX_JOBS} in one matrix",
            remedy="split the matrix with --only",
        )
    return {"include": rows}
