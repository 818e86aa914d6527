"""What may be published: a pure judgement over the build matrix, the wheels, the reports and the waivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.model.manifest import LeftOut
from mlir_release.model.targets import OVERRIDES_NEED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.model.manifest import Waiver
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.names import WheelKey
    from mlir_release.model.test_report import TestReport
    from mlir_release.model.wheel_target import WheelTarget
    from mlir_release.release.assets import Built


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What is published, what is left out, and what prevents publication (nothing, if ``problems`` is empty)."""

    wheels: tuple[Built, ...]
    reports: tuple[TestReport, ...]  #: the passing runs that the wheels rest on
    waivers: tuple[Waiver, ...]  #: the ones that were needed
    left_out: tuple[LeftOut, ...]  #: experimental targets that fell short, and excluded ones
    excluded: tuple[Built, ...]  #: wheels of experimental or waived targets that failed their tests
    problems: tuple[str, ...]


def judge(
    matrix: Matrix, wheels: Mapping[WheelKey, Built], reports: Mapping[str, TestReport], waivers: Mapping[str, Waiver]
) -> Judgement:
    """Weigh a draft's content.

    A required target must have its wheel, and the wheel a passing report from each suite of its row, about the very
    bytes in the draft; each is forgiven by a waiver. An experimental target that falls short is left out, and so is one
    that the revision can't be made into. A required one that only the tag leaves out (:attr:`Excluded.claimed`) is
    missing: nobody signs a tag's message. A wheel that serves several CPythons is judged for each: it is published if
    it is good for one of them, and whatever of the others is not required is named as left out.
    """
    accepted: list[Built] = []
    excluded: list[Built] = []
    left_out: list[LeftOut] = []
    problems: list[str] = []
    used: dict[str, Waiver] = {}
    evidence: dict[str, TestReport] = {}
    known = {target.slot for target in matrix.wheels}

    for row in matrix.excluded:
        if not (row.claimed and row.wheel.required):
            left_out.append(LeftOut(target=row.name, reason=row.reason))
        elif waiver := waivers.get(row.name):
            used[waiver.target] = waiver
        else:
            problems.append(f"{row.name}: only the tag leaves it out ({row.reason}), and that is not confirmed")
    for slot, wheel in wheels.items():
        if slot not in known:
            problems.append(f"{wheel.filename}: no target of the build matrix makes such a wheel")
    for target in matrix.wheels:
        found = wheels.get(target.slot)
        if found is not None and found.target != target.name:
            problems.append(f"{found.filename}: says that its target is {found.target}; here it is {target.name}")
            continue
        good = False
        for part in target.parts:
            if found is None:
                shortfalls = [f"{target.name}: there is no wheel"]
            else:
                shortfalls = [*_unasked(target, found), *_shortfalls(part, found, reports, waivers)]
            if found is not None and not shortfalls:
                good = True
                for name in (test.name for test in part.tests):
                    if name in waivers and (name not in reports or _shortfall(found, reports[name])):
                        used[name] = waivers[name]
                    else:
                        evidence[name] = reports[name]
            elif waiver := waivers.get(part.name) or waivers.get(target.name):
                used[waiver.target] = waiver
            elif part.required:
                problems += shortfalls
            else:
                left_out.append(_left_out(part, reports))
        if found is not None:
            (accepted if good else excluded).append(found)
    if not accepted and not problems:
        problems.append("nothing is left to publish: every target is left out or waived")
    return Judgement(
        wheels=tuple(accepted),
        reports=tuple(evidence.values()),
        waivers=tuple(used.values()),
        left_out=tuple(left_out),
        excluded=tuple(excluded),
        problems=tuple(dict.fromkeys(problems)),
    )


def _left_out(target: WheelTarget, reports: Mapping[str, TestReport]) -> LeftOut:
    """Why an experimental target is left out: from the reports alone, for its wheel may be deleted already."""
    failed = [
        f"{name}: {_shortfall(None, reports[name])}"
        for name in (test.name for test in target.tests)
        if name in reports and not reports[name].passed
    ]
    return LeftOut(target=target.name, reason="; ".join(failed) or "there is no tested wheel")


def _shortfalls(
    target: WheelTarget, wheel: Built, reports: Mapping[str, TestReport], waivers: Mapping[str, Waiver]
) -> list[str]:
    found = []
    for name in (test.name for test in target.tests):
        if name not in waivers:
            why = _shortfall(wheel, reports[name]) if name in reports else "was not run"
            if why:
                found.append(f"{name}: {why}")
    return found


def _unasked(target: WheelTarget, wheel: Built) -> list[str]:
    """Requirements that a wheel relaxes and its target does not: it was built with another ``targets.toml``."""
    asked = {override.name for override in target.overrides}
    return [
        f"{target.name}: its wheel requires {row.requirement}, where upstream requires {row.upstream}; "
        "targets.toml has no such override"
        for row in wheel.info.relaxed
        if row.name not in asked
    ]


def _shortfall(wheel: Built | None, report: TestReport) -> str:
    """Why a report does not speak for a wheel; empty if it does."""
    if report.needs_wheel and not report.wheel:
        return "does not say which wheel it tested"
    if wheel is not None and report.wheel and report.wheel_sha256 != wheel.sha256:
        return "tested another build of the wheel than the draft has"
    if not report.passed:
        names = ", ".join(report.failed[:3]) + (" …" if len(report.failed) > 3 else "")
        return f"failed{f' ({names})' if names else ''}"
    if wheel is not None and OVERRIDES_NEED in report.suite.split("+"):
        return _untested(wheel, report)
    return ""


def _untested(wheel: Built, report: TestReport) -> str:
    """Which relaxed requirement of a wheel a report says nothing about; empty if there is none."""
    for name in dict.fromkeys(row.name for row in wheel.info.relaxed):
        version = report.installed.get(name)
        if version is None:
            return f"does not say which {name} it ran with, though the wheel relaxes upstream's requirement"
        if not any(row.admits(version) for row in wheel.info.relaxed if row.name == name):
            return f"ran with {name} {version}, which the wheel does not admit"
    return ""
