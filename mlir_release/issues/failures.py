"""The state of a release's targets: what fails, why, and what can't be published because of it.

A platform whose SDK fails is one failure, not one for each of the wheels that it takes down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.foreign import code_block
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.manifest import MANIFEST_NAME
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.release.release_assets import fetch_manifest
from mlir_release.release.scorecard import score_published

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.forge.services import RunJob
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.wheel_target import TestTarget
    from mlir_release.release.draft import Draft
    from mlir_release.release.scorecard import Scorecard, Standing

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
    if draft.release.draft:
        card = draft.card(jobs=jobs)
    elif draft.release.asset(MANIFEST_NAME) is None:
        return Findings(tag=draft.tag, failing={}, passing=frozenset())
    else:
        card = _of_published(draft, jobs)
    return replace(failing_targets(draft.tag, card), targets=_names(draft.matrix))


def _of_published(draft: Draft, jobs: Mapping[str, RunJob] | None) -> Scorecard:
    """What a release was published without. Its wheels that failed are deleted; their reports say why."""
    with scratch_folder("track") as folder:
        manifest = fetch_manifest(draft.forge, draft.release, folder)
    passed = {test.name for test in manifest.tests}
    assets = {test.name: draft.release.asset(test.name + REPORT_SUFFIX) for test in draft.due.tests}
    reports = {
        name: draft.report(asset)
        for name, asset in assets.items()
        if name not in passed and asset is not None and asset.complete
    }
    return score_published(draft.due, manifest, reports=reports, waivers=draft.waived(), jobs=jobs)


def _names(matrix: Matrix) -> frozenset[str]:
    """Of everything that can fail."""
    wheels, tests = {wheel.name for wheel in matrix.wheels}, {test.name for test in matrix.tests}
    return frozenset(wheels | tests | {f"sdk-{runtime.name}" for runtime in matrix.runtimes})


def failing_targets(tag: str, card: Scorecard) -> Findings:
    """What a scorecard says fails and passes. What could not be tested is neither, nor what is waived and not good."""
    down = {name for name, row in card.sdks.items() if row.state == "failed"}
    passing = set(card.files) | {row.name for row in card.sdks.values() if row.state == "good"}
    taken: dict[str, list[tuple[str, bool]]] = {name: [] for name in down}
    failing: dict[str, Failure] = {}
    tried, lacking = set(card.files), set(card.lacking_wheels)
    for wheel in card.matrix.wheels:
        if wheel.name not in lacking:
            continue
        if any(test.needs_wheel and card.tests[test.name].state == "failed" for test in wheel.tests):
            tried.add(wheel.name)  # the wheel is deleted, and the report of its test says why
        elif wheel.runtime.name in down:
            taken[wheel.runtime.name].append((wheel.name, card.is_required(wheel)))
        else:
            failing[wheel.name] = Failure(
                name=wheel.name,
                summary="there is no wheel",
                required=card.is_required(wheel),
                jobs=card.members[wheel.parts[0].name].jobs,
            )
    for test in card.matrix.tests:
        row = card.tests[test.name]
        if row.state == "waived" or not tried.intersection(test.wheels):
            continue
        if row.state == "good":
            passing.add(test.name)
        elif row.platform in down and row.state != "failed":
            taken[row.platform].append((test.name, row.required))
        else:
            failing[test.name] = _failed_test(test, row)
    let_off = {row.platform for row in card.members.values() if row.required and row.state == "waived"}
    for name, targets in taken.items():
        required = tuple(target for target, needed in targets if needed)
        if targets and (required or name not in let_off):  # else the required ones are waived: nothing new is known
            sdk = card.sdks[name]
            failing[sdk.name] = Failure(
                name=sdk.name,
                summary=sdk.reasons[0],
                required=bool(required),
                takes_down=required,
                leaves_out=tuple(target for target, needed in targets if not needed),
                jobs=sdk.jobs,
            )
    return Findings(tag=tag, failing=failing, passing=frozenset(passing))


def _failed_test(test: TestTarget, row: Standing) -> Failure:
    summary, detail, report = "it was not run, or ended without a report", "", row.report
    if row.state == "stale":
        summary = "the report tells of another build of the wheel than the draft has"
    elif report is not None:
        count = len(report.failures)
        summary = f"{count} test{'' if count == 1 else 's'} failed" if count else "the run failed as a whole"
        shown = [failure[:MAX_NAME] for failure in report.failed[:MAX_NAMES]]
        more = [f"… and {count - len(shown)} more"] if count > len(shown) else []
        detail = code_block([*shown, *more]) if shown else ""
    return Failure(
        name=test.name,
        summary=summary,
        detail=detail,
        required=row.required,
        wheel=test.wheels[0] if len(test.wheels) == 1 else "",
        jobs=row.jobs,
    )
