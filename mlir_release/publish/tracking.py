"""One issue for each required target that fails: opened, updated and closed by itself.

Snapshots and numbered releases are tracked apart: a target may be broken at upstream's head and well in LLVM 22.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlir_release.publish.draft import fetch, find_release, missing, origin_of, read_reports
from mlir_release.publish.manifest import MANIFEST_NAME, Manifest
from mlir_release.publish.names import order_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.forge.base import Forge, Issue, Tracker
    from mlir_release.publish.assets import Report
    from mlir_release.targets import Matrix

#: Names of failed tests that an issue lists at most: GitHub cuts bodies off at 65536 characters.
MAX_NAMES = 50

_LAST = re.compile(r"^Last failed in: `(?P<tag>[^`]+)`", re.MULTILINE)
_FIRST = re.compile(r"^First failed in: `(?P<tag>[^`]+)`", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """How the required targets of one release fare. A target that is in neither is waived, or could not be tried."""

    tag: str
    failing: Mapping[str, str]  #: name of a wheel's or a test's target -> why, Markdown
    passing: frozenset[str]


def examine(forge: Forge, tag: str, matrix: Matrix) -> Findings:
    """Look at a release's draft, or at its manifest once it is published. One that was given up says nothing."""
    origin = origin_of(forge, tag)
    matrix = matrix.due(origin.tag)
    if origin.abandoned and not any(release.tag == tag and not release.draft for release in forge.releases()):
        return Findings(tag=tag, failing={}, passing=frozenset())
    release = find_release(forge, tag)
    with tempfile.TemporaryDirectory(prefix="mlir-release-track-") as name:
        folder = Path(name)
        if not release.draft:
            asset = release.asset(MANIFEST_NAME)
            if asset is None:
                return Findings(tag=tag, failing={}, passing=frozenset())
            manifest = Manifest.from_text(fetch(forge, release, asset, folder).read_bytes(), where=asset.url)
            passing = {wheel.target for wheel in manifest.wheels} | {test.name for test in manifest.tests}
            return Findings(tag=tag, failing={}, passing=frozenset(passing))
        lacking = missing(forge, tag, matrix)
        return judge_draft(
            tag,
            matrix,
            wheels=lacking.wheels,
            tests=lacking.tests,
            reports=read_reports(forge, release, folder),
        )


def judge_draft(
    tag: str, matrix: Matrix, *, wheels: Sequence[str], tests: Sequence[str], reports: Mapping[str, Report]
) -> Findings:
    """What a draft's gaps mean for its required targets.

    :param wheels, tests: what it lacks, as :func:`~mlir_release.publish.draft.missing` says
    :param reports: the test reports that it has, by target
    """
    failing = {wheel.name: "There is no wheel." for wheel in matrix.wheels if wheel.required and wheel.name in wheels}
    passing = {wheel.name for wheel in matrix.wheels if wheel.name not in wheels}
    for test in matrix.tests:
        if test.name not in tests:
            passing.add(test.name)
        elif test.required and not all(name in wheels for name in test.wheels):
            failing[test.name] = _why(reports.get(test.name))
    return Findings(tag=tag, failing=failing, passing=frozenset(passing))


def _why(report: Report | None) -> str:
    if report is None:
        return "It was not run, or ended without a report."
    if report.passed:
        return "The report tells of another build of the wheel than the draft has."
    shown = [name.replace("`", "'") for name in report.failures[:MAX_NAMES]]
    more = len(report.failures) - len(shown)
    lines = ["Failed:", "", "```text", *shown, *([f"… and {more} more"] if more else []), "```"]
    return "\n".join(lines) if shown else "The run failed as a whole."


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing to do to the issues."""

    action: Literal["open", "update", "close"]
    key: str
    title: str = ""
    text: str = ""  #: the body, or what is said on closing
    issue: Issue | None = None  #: None for one that is to be opened


def plan(findings: Findings, issues: Sequence[Issue], *, log_url: str = "") -> tuple[Step, ...]:
    """What makes the open issues say what was found; empty if they do.

    An issue whose last failure is in a newer release than this one is left alone: a release that is run again says
    nothing about those that came after it.
    """
    order = order_of(findings.tag)
    kind = order.kind if order else ""
    steps: list[Step] = []
    mine: dict[str, Issue] = {}
    for issue in sorted(issues, key=lambda issue: issue.number):
        if issue.key in mine:
            text = f"The same as #{mine[issue.key].number}."
            steps.append(Step(action="close", key=issue.key, text=text, issue=issue))
        else:
            mine[issue.key] = issue
    for target, why in findings.failing.items():
        key = f"{kind}/{target}"
        known = mine.get(key)
        title = f"{target} fails" + (" in numbered releases" if kind == "numbered" else "")
        if known is None:
            text = _body(findings.tag, findings.tag, target, why, log_url)
            steps.append(Step(action="open", key=key, title=title, text=text))
        elif not _newer(known, findings.tag):
            first = match["tag"] if (match := _FIRST.search(known.body)) else findings.tag
            text = _body(first, findings.tag, target, why, log_url)
            if (known.title, known.body.rstrip()) != (title, text):
                steps.append(Step(action="update", key=key, title=title, text=text, issue=known))
    for target in sorted(findings.passing):
        known = mine.get(f"{kind}/{target}")
        if known is not None and not _newer(known, findings.tag):
            steps.append(Step(action="close", key=known.key, text=f"Well again in `{findings.tag}`.", issue=known))
    return tuple(steps)


def _newer(issue: Issue, tag: str) -> bool:
    """Whether an issue's last failure is in a newer release than ``tag``."""
    match = _LAST.search(issue.body)
    last, this = order_of(match["tag"]) if match else None, order_of(tag)
    return last is not None and this is not None and last.kind == this.kind and last > this


def _body(first: str, last: str, target: str, why: str, log_url: str) -> str:
    lines = [
        f"The required target `{target}` keeps `{last}` from being published.",
        "",
        f"First failed in: `{first}`",
        f"Last failed in: `{last}`" + (f" ([log]({log_url}))" if log_url else ""),
        "",
        why,
        "",
        "To go without it this once, with a reason that everybody sees:",
        "",
        "```sh",
        f"mlir-release release waive {last} {target} --reason '…'",
        "```",
        "",
        "This issue is kept by `mlir-release release track`, and closed by it when the target is well again.",
    ]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """What became of the issues."""

    findings: Findings
    steps: tuple[Step, ...]
    urls: Mapping[str, str]  #: key -> the issue's address, of what was opened or changed
    dry_run: bool

    def text(self) -> str:
        """For people."""
        would = "would " if self.dry_run else ""
        lines = [f"{self.findings.tag}: {len(self.findings.failing)} required targets fail"]
        lines += [f"  {name}" for name in self.findings.failing]
        lines += [
            f"  {would}{step.action} the issue of {step.key} {self.urls.get(step.key, '')}" for step in self.steps
        ]
        return "\n".join(line.rstrip() for line in lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.findings.tag,
            "failing": dict(self.findings.failing),
            "steps": [{"action": s.action, "key": s.key, "url": self.urls.get(s.key, "")} for s in self.steps],
            "dry_run": self.dry_run,
        }


def track(
    forge: Forge, tracker: Tracker, tag: str, matrix: Matrix, *, log_url: str = "", dry_run: bool = False
) -> Tracked:
    """Make the issues say how the required targets of ``tag`` fare. Safe to repeat, and to run twice at once.

    :param log_url: of the workflow run, for the issues
    """
    findings = examine(forge, tag, matrix)
    steps = plan(findings, tracker.open_issues(), log_url=log_url)
    urls = {step.key: step.issue.url for step in steps if step.issue is not None}
    if not dry_run:
        urls |= _carry_out(tracker, steps)
        if any(step.action == "open" for step in steps):
            # Another run may have opened the same meanwhile: the older one stays.
            again = plan(findings, tracker.open_issues(), log_url=log_url)
            _carry_out(tracker, [step for step in again if step.action == "close"])
    return Tracked(findings=findings, steps=steps, urls=urls, dry_run=dry_run)


def _carry_out(tracker: Tracker, steps: Sequence[Step]) -> dict[str, str]:
    opened = {}
    for step in steps:
        if step.issue is None:
            opened[step.key] = tracker.open(step.key, step.title, step.text).url
        elif step.action == "update":
            tracker.update(step.issue, step.title, step.text)
        else:
            tracker.close(step.issue, step.text)
    return opened
