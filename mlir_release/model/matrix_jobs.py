"""The build matrix as workflow jobs: rows of strings, as GitHub's ``strategy.matrix`` takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from mlir_release.errors import UsageError
from mlir_release.model.cpython import CPython

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mlir_release.model.matrix import Matrix

Kind = Literal["platforms", "sdk", "wheels", "tests"]
Row = dict[str, str]

#: What a platform's chain of jobs is made of, in its order.
CHAIN: tuple[Kind, ...] = ("sdk", "wheels", "tests")

#: The CPython of jobs that need just any: what the toolkit itself runs with.
DEFAULT_PYTHON = CPython(3, 12)

#: Jobs that GitHub makes of one matrix at most.
MAX_JOBS = 256

#: Jobs of one kind that a platform has at most: each hands the digest of its file over by an output of its own, and the
#: names of outputs are fixed in platform.yml.
MAX_HANDED_OVER = 48


def job_rows(matrix: Matrix, kind: Kind) -> list[Row]:
    """One row a job: an SDK for each runtime, a wheel for each target, or a test for each test target.

    ``platforms``: one row for each runtime, with all jobs of its chain (:func:`platform_rows`).
    """
    if kind == "platforms":
        names = {wheel.name for wheel in matrix.wheels}
        return platform_rows(matrix, wheels=names, tests={test.name for test in matrix.tests})
    if kind == "sdk":
        return [{"name": f"sdk-{r.name}", "runtime": r.name, "runner": r.runner} for r in matrix.runtimes]
    if kind == "wheels":
        return [
            {
                "name": wheel.name,
                "llvm": wheel.configuration.name,
                "runtime": wheel.runtime.name,
                "runner": wheel.runtime.runner,
                "python": wheel.python.tag if wheel.python else "",
                "version": (wheel.python or DEFAULT_PYTHON).version,
                "tools": str(wheel.configuration.has_sdk).lower(),
                "required": str(wheel.required).lower(),
                "artifact": wheel_artifact(wheel.name),
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
            "artifact": wheel_artifact(test.wheels[0]) if test.needs_wheel else "",
        }
        for test in matrix.tests
    ]


def wheel_artifact(target: str) -> str:
    """The workflow artifact with the wheel that a job built."""
    return f"wheel-{target}"


def draft_artifact(runtime: str) -> str:
    """The workflow artifact with the wheels of a platform that earlier runs built."""
    return f"draft-{runtime}"


def missing_rows(matrix: Matrix, kind: Kind, *, wheels: Collection[str], tests: Collection[str]) -> list[Row]:
    """The rows of what is missing: the named wheels and tests, and the SDKs that these need."""
    if kind == "platforms":
        return platform_rows(matrix, wheels=wheels, tests=tests)
    runtimes = {wheel.runtime.name for wheel in matrix.wheels if wheel.name in wheels}
    runtimes |= {test.runtime.name for test in matrix.tests if test.name in tests}
    wanted = {"sdk": {f"sdk-{name}" for name in runtimes}, "wheels": wheels, "tests": tests}[kind]
    return [row for row in job_rows(matrix, kind) if row["name"] in wanted]


def platform_rows(matrix: Matrix, *, wheels: Collection[str], tests: Collection[str]) -> list[Row]:
    """A row for each platform that lacks something, with the matrices of its chain as JSON, ``""`` for an empty one.

    ``fetch`` names the targets whose wheels are not built but are to be tested. A row of ``tests`` names the artifact
    with its wheel, which is there in a folder named after its target.

    :param wheels, tests: names of those that are missing
    """
    rows = {kind: missing_rows(matrix, kind, wheels=wheels, tests=tests) for kind in CHAIN}
    found = []
    for sdk in rows["sdk"]:
        runtime = sdk["runtime"]
        wheels_here, tests_here = ([row for row in rows[kind] if row["runtime"] == runtime] for kind in CHAIN[1:])
        fetch = sorted({row["wheels"] for row in tests_here if row["artifact"]} - set(wheels))
        tests_here = [
            row | {"artifact": draft_artifact(runtime)} if row["artifact"] and row["wheels"] in fetch else row
            for row in tests_here
        ]
        found.append(
            {
                "runtime": runtime,
                "runner": sdk["runner"],
                "wheels": _as_json(wheels_here, limit=MAX_HANDED_OVER),
                "tests": _as_json(tests_here, limit=MAX_HANDED_OVER),
                "fetch": " ".join(fetch),
            }
        )
    return found


def _as_json(rows: Sequence[Row], *, limit: int) -> str:
    return json.dumps(github_matrix(rows, limit=limit), separators=(",", ":")) if rows else ""


def github_matrix(rows: Sequence[Row], *, limit: int = MAX_JOBS) -> dict[str, Sequence[Row]]:
    """``strategy.matrix`` of GitHub Actions. :raises UsageError: ``matrix-too-large``"""
    if len(rows) > limit:
        raise UsageError(
            "matrix-too-large",
            f"{len(rows)} jobs; one matrix takes {limit}",
            remedy="split the matrix with --only",
        )
    return {"include": rows}
