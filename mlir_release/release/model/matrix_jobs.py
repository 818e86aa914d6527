"""The build matrix as workflow jobs: rows of strings, as GitHub's ``strategy.matrix`` takes them."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from mlir_release.builder.model.orders import LOCAL_TAG, LOCAL_VERSION, TARGET_MINUTES
from mlir_release.builder.model.suites import CORE_MINUTES, PERFORMANCE
from mlir_release.ground.errors import UsageError
from mlir_release.ground.job_names import EXPERIMENTAL, group_name
from mlir_release.ground.python.cpython import DEFAULT_PYTHON
from mlir_release.release.model.wheel_target import TestTarget, WheelTarget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mlir_release.release.model.matrix import Matrix

Kind = Literal["platforms", "sdk", "wheels", "tests"]
Row = dict[str, str]
Target = WheelTarget | TestTarget
T = TypeVar("T", bound=WheelTarget | TestTarget)


#: What orders say that are for no release.
NO_RELEASE: Mapping[str, str] = {"tag": LOCAL_TAG, "version": LOCAL_VERSION, "revision": ""}

#: Jobs that GitHub makes of one matrix at most.
MAX_JOBS = 256

#: Jobs of one kind that a platform has at most: each hands the digests of its files over by an output of its own, and
#: the names of outputs are fixed in platform.yml.
MAX_HANDED_OVER = 8

#: The suites that read no more of an SDK than its description.
_DESCRIPTION_ONLY = frozenset({"smoke", "sdk", PERFORMANCE})

#: Minutes that one job is expected to work on its targets; more targets are divided among several jobs. The table in
#: docs/limits.md ("Jobs and the queue") says why so many. :func:`timeout` of it is within GitHub's six hours.
LONGEST_JOB = 50.0

#: How often the expected time a target may take; how many may hang; minutes of a job before and after its targets.
SLOWER, HANGS, BESIDE = 4, 3, 60

#: Of the weakest hosted runner, and what a target takes beside its own work: an interpreter, an environment.
CORES, MINUTES_A_TARGET = 2, 0.5


def job_rows(
    matrix: Matrix,
    kind: Kind,
    *,
    wheels: Collection[str] | None = None,
    tests: Collection[str] | None = None,
    release: Mapping[str, str] = NO_RELEASE,
) -> list[Row]:
    """One row for each SDK, wheel or test target; ``platforms``: for each platform, with its jobs.

    :param wheels: names of the wheels to make, with the SDKs that they need; None: all
    :param tests: names of the tests to run, likewise
    :param release: the ``tag``, ``version`` and ``revision`` that the jobs' orders are of
    """
    lacking = [wheel for wheel in matrix.wheels if wheels is None or wheel.name in wheels]
    untested = [test for test in matrix.tests if tests is None or test.name in tests]
    if kind == "wheels":
        return [_row(wheel) for wheel in lacking]
    if kind == "tests":
        return [_row(test) | {"suite": test.suite, "wheels": " ".join(test.wheels)} for test in untested]
    names = {wheel.runtime.name for wheel in lacking} | {test.runtime.name for test in untested}
    runtimes = [runtime for runtime in matrix.runtimes if runtime.name in names]
    if kind == "sdk":
        return [{"name": f"sdk-{one.name}", "runtime": one.name, "runner": one.runner} for one in runtimes]
    rows = []
    for runtime in runtimes:  # ``order``: of its SDK; ``fetch``: targets whose wheels are not built but to be tested
        mine = [wheel for wheel in lacking if wheel.runtime == runtime]
        own = [test for test in untested if test.runtime == runtime]
        needed = {test.wheels[0] for test in own if test.needs_wheel} - {wheel.name for wheel in mine}
        row = {
            "runtime": runtime.name,
            "runner": runtime.runner,
            "order": _text(runtime.order(matrix.release, release["revision"])),
            "wheels": _as_json(jobs_of_wheels(mine, release)),
            "tests": _as_json(jobs_of_tests(own)),
            "fetch": " ".join(sorted(needed)),
        }
        rows.append(row)
    return rows


def _row(target: Target) -> Row:
    return {
        "name": target.name,
        "llvm": target.configuration.name,
        "runtime": target.runtime.name,
        "runner": target.runtime.runner,
        "python": target.python.tag if target.python else "",
        "required": str(target.required).lower(),
    }


def jobs_of_wheels(wheels: Sequence[WheelTarget], release: Mapping[str, str] = NO_RELEASE) -> list[Row]:
    """The jobs that build a platform's wheels.

    ``orders``: what :func:`~.orders.read_orders` reads; ``tools``: whether one takes the SDK's tools, too
    """
    return [
        _job(name, group)
        | {
            "orders": _text([replace(wheel.order(**release), minutes=budget([wheel], 1)) for wheel in group]),
            "tools": str(any(wheel.configuration.has_sdk for wheel in group)).lower(),
        }
        for name, group in groups(wheels).items()
    ]


def jobs_of_tests(tests: Sequence[TestTarget]) -> list[Row]:
    """The jobs that test a platform.

    ``orders``: as of wheels; ``wheel``, ``sdk``: whether one takes wheels, and more of the SDK than its description;
    ``valgrind``: whether one counts instructions
    """
    return [
        _job(name, group)
        | {
            "orders": _text([replace(test.order, minutes=budget([test], 1)) for test in group]),
            "wheel": str(any(test.needs_wheel for test in group)).lower(),
            "sdk": str(any(test.suite not in _DESCRIPTION_ONLY for test in group)).lower(),
            "valgrind": str(any(test.suite == PERFORMANCE for test in group)).lower(),
        }
        for name, group in groups(tests).items()
    ]


def _text(orders: object) -> str:
    return msgspec.json.encode(orders).decode()


def _job(name: str, targets: Sequence[Target]) -> Row:
    pythons = dict.fromkeys((target.python or DEFAULT_PYTHON).version for target in targets)
    return {
        "name": name,
        "targets": " ".join(target.name for target in targets),
        "versions": "\n".join(pythons),
        "minutes": str(timeout(targets)),
        "budget": str(budget(targets)),
    }


def groups(targets: Sequence[T]) -> dict[str, Sequence[T]]:
    """The targets of each job, by the job's name: neighbours, no longer than :data:`LONGEST_JOB` together.

    What is required shares no job with what is experimental, and so does not wait for it, nor fail with it.
    """
    found: dict[str, Sequence[T]] = {}
    for required in (True, False):
        mine = [target for target in targets if target.required is required]
        count = min(len(mine), math.ceil(expected_minutes(mine) / LONGEST_JOB))
        bounds = [number * len(mine) // count for number in range(count + 1)] if mine else []
        for number, (begin, end) in enumerate(pairwise(bounds), 1):
            words = [*([] if required else [EXPERIMENTAL]), *([str(number)] if count > 1 else [])]
            found[group_name(mine[0].runtime.name, *words)] = mine[begin:end]
    return found


def expected_minutes(targets: Iterable[Target], cores: int = CORES) -> float:
    """What a job is expected to work on its targets, one after the other; by default on the weakest hosted runner."""
    return sum(MINUTES_A_TARGET + core_minutes(target) / cores for target in targets)


def core_minutes(target: Target) -> float:
    """Processor time of a wheel's build, or of a test, as its project says."""
    project = target.configuration.about
    if isinstance(target, WheelTarget):
        return project.profile(target.profile).core_minutes
    return project.suite_core_minutes.get(target.suite, CORE_MINUTES[target.suite])


def budget(targets: Collection[Target], hangs: int = HANGS) -> int:
    """Minutes that a job works on targets at most: of several, so many may hang, and the others are still made."""
    return hangs * TARGET_MINUTES + math.ceil(SLOWER * expected_minutes(targets))


def timeout(targets: Collection[Target]) -> int:
    """Minutes after which GitHub ends a job, with all that it made: more than it needs to begin and to hand over."""
    return budget(targets) + BESIDE


def _as_json(rows: Sequence[Row]) -> str:
    """A matrix of jobs, each with its ``index``, by which its output and artifacts are told from the others'."""
    numbered = [row | {"index": str(index)} for index, row in enumerate(rows)]
    return json.dumps(github_matrix(numbered, limit=MAX_HANDED_OVER), separators=(",", ":")) if rows else ""


def github_matrix(rows: Sequence[Row], *, limit: int = MAX_JOBS) -> Mapping[str, Sequence[Row]]:
    """``strategy.matrix`` of GitHub Actions. :raises UsageError: ``option-invalid``"""
    if len(rows) > limit:
        raise UsageError(
            "option-invalid",
            f"{len(rows)} jobs; one matrix takes {limit}",
            remedy="split the matrix with --only",
        )
    return {"include": rows}
