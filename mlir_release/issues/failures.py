"""The state of a release's targets: what fails, why, and what can't be published because of it.

A platform whose SDK fails is one failure, not one for each of the wheels that it takes down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.foreign import code_block
from mlir_release.forge.base import BAD_ENDS
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.job_names import sdk_jobs, split_job_name
from mlir_release.model.manifest import MANIFEST_NAME
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.release.release_assets import fetch_manifest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mlir_release.forge.base import RunJob
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.targets import Runtime
    from mlir_release.model.test_report import TestReport
    from mlir_release.model.wheel_target import TestTarget, WheelTarget
    from mlir_release.release.draft import Draft

#: Names of failed tests that are listed at most, and their length: GitHub refuses an issue of over 65536 characters.
MAX_NAMES = 50
MAX_NAME = 300


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that keeps a release from being published, or an experimental target out of it."""

    name: str  #: a wheel's or a test's target, or ``sdk-<platform>``
    summary: str  #: one line
    detail: str = ""  #: Markdown, if there is more to say
    required: bool = True  #: False: nothing waits for it
    takes_down: tuple[str, ...] = ()  #: of a platform: its required targets that are missing for want of an SDK
    leaves_out: tuple[str, ...] = ()  #: and its experimental ones
    wheel: str = ""  #: of a test of one wheel: that wheel's target
    jobs: tuple[str, ...] = ()  #: names of the jobs that can tell more, the likeliest first


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The state of the targets of one release. What is in neither is waived, or could not be tested."""

    tag: str
    failing: Mapping[str, Failure]  #: by their names
    passing: frozenset[str]  #: names of wheels, tests and ``sdk-<platform>``
    targets: frozenset[str] = frozenset()  #: all names that there are, also if they are not due; empty: not known


def examine(draft: Draft, jobs: Mapping[str, RunJob] | None = None) -> Findings:
    """Look at a release's draft, or at its manifest once it is published.

    :param jobs: the latest of each name that the release's runs had, where the forge can tell
    """
    if not draft.release.draft:
        return _of_published(draft, jobs)
    lacking = draft.missing()
    found = judge_draft(
        draft.tag,
        draft.due,
        wheels=lacking.wheels,
        tests=lacking.tests,
        reports=draft.reports(),
        waived=draft.waived(),
        jobs=jobs,
    )
    return replace(found, targets=_names(draft.matrix))


def _of_published(draft: Draft, jobs: Mapping[str, RunJob] | None) -> Findings:
    """What a release was published without. Its wheels that failed are deleted; their reports say why."""
    if draft.release.asset(MANIFEST_NAME) is None:
        return Findings(tag=draft.tag, failing={}, passing=frozenset())
    with scratch_folder("track") as folder:
        manifest = fetch_manifest(draft.forge, draft.release, folder)
    published, passed = {wheel.target for wheel in manifest.wheels}, {test.name for test in manifest.tests}
    assets = {test.name: draft.release.asset(test.name + REPORT_SUFFIX) for test in draft.due.tests}
    reports = {
        name: draft.report(asset)
        for name, asset in assets.items()
        if name not in passed and asset is not None and asset.complete
    }
    failed = {name for name, report in reports.items() if not report.passed}
    found = judge_draft(
        draft.tag,
        draft.due,
        wheels=[
            wheel.name
            for wheel in draft.due.wheels
            if wheel.name not in published and not any(test.name in failed for test in wheel.tests)
        ],
        tests=[name for name in assets if name not in passed],
        reports=reports,
        waived=draft.waived(),
        jobs=jobs,
    )
    return replace(found, targets=_names(draft.matrix))


def _names(matrix: Matrix) -> frozenset[str]:
    """Of everything that can fail."""
    wheels, tests = {wheel.name for wheel in matrix.wheels}, {test.name for test in matrix.tests}
    return frozenset(wheels | tests | {f"sdk-{runtime.name}" for runtime in matrix.runtimes})


def judge_draft(
    tag: str,
    matrix: Matrix,
    *,
    wheels: Collection[str],
    tests: Collection[str],
    reports: Mapping[str, TestReport],
    waived: Collection[str] = (),
    jobs: Mapping[str, RunJob] | None = None,
) -> Findings:
    """What a draft's gaps mean for its targets.

    :param wheels, tests: what it lacks, as :meth:`~mlir_release.release.draft.Draft.missing` says
    :param reports: the test reports that it has, by target
    :param waived: targets that a person let off
    :param jobs: the latest of each name
    """
    there = {wheel.name for wheel in matrix.wheels if wheel.name not in wheels and not wheel.is_waived(waived)}
    down = {runtime.name for runtime in matrix.runtimes if _is_down(runtime, matrix, wheels, there, jobs or {})}
    passing = there | {
        f"sdk-{wheel.runtime.name}"
        for wheel in matrix.wheels
        if wheel.runtime.name not in down and (wheel.name in there or _is_built(wheel.runtime, jobs or {}))
    }
    taken: dict[str, list[WheelTarget | TestTarget]] = {name: [] for name in down}
    failing: dict[str, Failure] = {}
    for wheel in matrix.wheels:
        if wheel.name not in wheels:
            continue
        if wheel.runtime.name in down:
            taken[wheel.runtime.name].append(wheel)
        else:
            failing[wheel.name] = Failure(
                name=wheel.name,
                summary="there is no wheel",
                required=wheel.required,
                jobs=_working_on("wheels", wheel.runtime, jobs or {}),
            )
    for test in matrix.tests:
        report = reports.get(test.name)
        if not any(name in there for name in test.wheels) or test.is_waived(waived):
            continue  # it could not be tested, or is waived
        if test.name not in tests:
            passing.add(test.name)
        elif test.runtime.name in down and (report is None or report.passed):
            taken[test.runtime.name].append(test)
        else:
            failing[test.name] = _failed_test(test, report, jobs or {})
    let_off = {wheel.runtime.name for wheel in matrix.wheels if wheel.required and wheel.is_waived(waived)}
    for name, targets in taken.items():
        required = tuple(target.name for target in targets if target.required)
        if targets and (required or name not in let_off):  # else the required ones are waived: nothing new is known
            failing[f"sdk-{name}"] = _platform(name, targets, required, jobs or {})
    return Findings(tag=tag, failing=failing, passing=frozenset(passing))


def _platform(
    name: str, targets: Iterable[WheelTarget | TestTarget], required: tuple[str, ...], jobs: Mapping[str, RunJob]
) -> Failure:
    """The failure of a platform. ``targets``: what is missing for want of its SDK; ``required``: of these"""
    first, second = sdk_jobs(name)
    return Failure(
        name=f"sdk-{name}",
        summary="there is no SDK" if first in jobs else "there is no wheel of this platform at all",
        required=bool(required),
        takes_down=required,
        leaves_out=tuple(target.name for target in targets if not target.required),
        jobs=(second, first),
    )


def _is_down(
    runtime: Runtime, matrix: Matrix, wheels: Collection[str], there: Collection[str], jobs: Mapping[str, RunJob]
) -> bool:
    """Whether a platform has no SDK. If no job tells: whether several of its wheels are missing, and none is there."""
    first, second = map(jobs.get, sdk_jobs(runtime.name))
    if first is not None and first.conclusion is not None:
        return any(job is not None and job.conclusion in BAD_ENDS for job in (first, second))
    mine = [wheel.name for wheel in matrix.wheels if wheel.runtime.name == runtime.name]
    return sum(name in wheels for name in mine) > 1 and not any(name in there for name in mine)


def _is_built(runtime: Runtime, jobs: Mapping[str, RunJob]) -> bool:
    """Whether the jobs say that a platform has its SDK: the second is skipped if the first one finished it."""
    first, second = map(jobs.get, sdk_jobs(runtime.name))
    if first is None or second is None:
        return False
    return first.conclusion == "success" and second.conclusion in ("success", "skipped")


def _failed_test(test: TestTarget, report: TestReport | None, jobs: Mapping[str, RunJob]) -> Failure:
    summary, detail = "it was not run, or ended without a report", ""
    if report is not None and report.passed:
        summary = "the report tells of another build of the wheel than the draft has"
    elif report is not None:
        count = len(report.failures)
        summary = f"{count} test{'' if count == 1 else 's'} failed" if count else "the run failed as a whole"
        shown = [failure[:MAX_NAME] for failure in report.failed[:MAX_NAMES]]
        more = [f"… and {count - len(shown)} more"] if count > len(shown) else []
        detail = code_block([*shown, *more]) if shown else ""
    wheel = test.wheels[0] if len(test.wheels) == 1 else ""
    return Failure(
        name=test.name,
        summary=summary,
        detail=detail,
        required=test.required,
        wheel=wheel,
        jobs=_working_on("tests", test.runtime, jobs),
    )


def _working_on(stage: str, runtime: Runtime, jobs: Mapping[str, RunJob]) -> tuple[str, ...]:
    """The jobs that work on a platform's targets; the log of each says which those are."""
    return tuple(name for name in jobs if split_job_name(name) == (stage, runtime.name))
