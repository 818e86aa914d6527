"""One issue for each target, or platform, that fails: opened, updated and closed by itself.

One of an experimental target says in its title that nothing waits for it.
Snapshots and numbered releases are tracked apart: a target may be broken at upstream's head and well in LLVM 22.
What the next command has to know of an issue is in a marker in its body (:class:`IssueRecord`); the rest is for people.
A job's page has its log, so that the job is linked and nothing of the log is quoted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.console import console
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.foreign import code, code_block, link, markdown
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.release.forge.services import BAD_ENDS
from mlir_release.release.judging.scorecard import Standing, merge_jobs
from mlir_release.release.judging.status import EXPERIMENTAL, IssueRecord, read_record
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.pinning.state import find_state
from mlir_release.release.transaction.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mlir_release.ground.hosting import Issue, RunJob, Tracker
    from mlir_release.release.forge.base import Forge

#: The newest runs of a release that are looked at: each builds only what the one before it left missing.
MAX_RUNS = 5

#: Names of failed tests that are listed at most, and their length: GitHub refuses an issue of over 65536 characters.
MAX_NAMES, MAX_NAME = 50, 300


@dataclass(frozen=True, kw_only=True)
class IssuePlace:
    """The place of the release, for the links and the commands in the issues."""

    forge: str = ""  #: for ``--forge``
    repository: str = ""  #: for ``gh --repo``: HOST/OWNER/NAME
    workflow: str = "release.yml"
    log_url: str = ""  #: of the workflow run


@dataclass(frozen=True, kw_only=True)
class IssueChange:
    """One thing to do to the issues."""

    action: Literal["open", "update", "close"]
    key: str
    title: str = ""
    text: str = ""  #: the body, or what is said on closing
    issue: Issue | None = None  #: None for one that is to be opened


def plan_changes(
    tag: str,
    issues: Sequence[Issue],
    *,
    failing: Mapping[str, Standing],
    passing: Collection[str],
    targets: Collection[str] = (),
    jobs: Mapping[str, RunJob] | None = None,
    place: IssuePlace | None = None,
) -> tuple[IssueChange, ...]:
    """The changes after which the open issues agree with the findings; empty if they agree already.

    An issue whose last failure is in a newer release than this one is left alone: a release that is run again says
    nothing about those that came after it.

    :param targets: all names that the release's matrix has, also if they are not due; empty: not known
    :param jobs: the latest of each name
    """
    parsed = parse_tag(tag)
    kind = parsed.kind if parsed else ""
    steps: list[IssueChange] = []
    mine: dict[str, Issue] = {}
    for issue in sorted(issues, key=lambda issue: issue.number):
        if issue.key in mine:
            text = f"The same as #{mine[issue.key].number}."
            steps.append(IssueChange(action="close", key=issue.key, text=text, issue=issue))
        else:
            mine[issue.key] = issue
    for name, row in failing.items():
        key = f"{kind}/{name}"
        known = mine.get(key)
        if known is not None and _is_newer(known, tag):
            continue
        title = f"{name} fails" + (" in numbered releases" if kind == "numbered" else "")
        title += "" if row.required else EXPERIMENTAL
        before = read_record(known) if known else None
        record = IssueRecord(first=before.first if before else tag, last=tag, required=row.required)
        text = _body(row, record, jobs=jobs or {}, place=place or IssuePlace())
        if known is None:
            steps.append(IssueChange(action="open", key=key, title=title, text=text))
        elif (known.title, known.body.rstrip()) != (title, text):
            steps.append(IssueChange(action="update", key=key, title=title, text=text, issue=known))
    for name in sorted(passing):
        known = mine.get(f"{kind}/{name}")
        if known is not None and not _is_newer(known, tag):
            steps.append(IssueChange(action="close", key=known.key, text=f"Works again in {code(tag)}.", issue=known))
    for key, known in mine.items():
        name = key.removeprefix(f"{kind}/")
        if targets and name not in {key, *targets} and not _is_newer(known, tag):
            text = f"{code(tag)} has no such target any more."
            steps.append(IssueChange(action="close", key=key, text=text, issue=known))
    return tuple(steps)


def _is_newer(issue: Issue, tag: str) -> bool:
    """Whether an issue's last failure is in a newer release than ``tag``."""
    record = read_record(issue)
    last, this = parse_tag(record.last) if record else None, parse_tag(tag)
    return last is not None and this is not None and last.kind == this.kind and last > this


def _body(row: Standing, record: IssueRecord, *, jobs: Mapping[str, RunJob], place: IssuePlace) -> str:
    mine = [job for name in row.jobs if (job := jobs.get(name)) is not None]
    shown = [job for job in mine if job.conclusion in BAD_ENDS] or mine[:1]
    ends = []
    for job in shown:  # its page has its log
        linked = link(code(job.name), job.url)
        after = "" if job.conclusion in BAD_ENDS else " So what went wrong came after it: see the run's other jobs."
        ended = f"ended as *{markdown(job.conclusion)}*.{after}" if job.conclusion is not None else "has not ended yet."
        ends.append(f"Its job {linked} {ended}\n")
    tag, kind = record.last, "platform" if row.kind == "sdk" else "target"
    name = code(row.name.removeprefix("sdk-"))
    if row.project != DEFAULT_PROJECT:
        name = f"{name} of the project {code(row.project)}"
    headline = f"The {kind} {name} keeps {code(tag)} from being published: {row.summary}."
    if not row.required:
        headline = (
            f"The experimental {kind} {name} is not part of {code(tag)}: {row.summary}. **Nothing is blocked**: "
            "releases are published without it, and their notes say so."
        )
    lines = [
        record.marker(),
        headline,
        "",
        f"First failed in: {code(record.first)}",
        f"Last failed in: {code(tag)}" + (f" ({link('log', place.log_url)})" if place.log_url else ""),
        "",
        *ends,
    ]
    if names := failed_tests(row):
        lines += [names, ""]
    if row.takes_down:
        lines += ["Required targets that it takes down:", "", *(f"- {code(name)}" for name in row.takes_down), ""]
    if row.leaves_out:
        lines += ["Experimental targets that it takes down:", "", *(f"- {code(name)}" for name in row.leaves_out), ""]
    # The commands for a person, as text that can be copied.
    release = "mlir-release release"
    again = [f"export MLIR_RELEASE_FORGE={place.forge}"] if place.forge else []
    again.append(f"{release} dispatch {place.workflow} --ref {tag}")
    if shown and place.repository:
        again.append(f"gh run rerun {shown[0].run_id} --failed --repo {place.repository}   # or so")
    lines += ["To try again (what is complete in the draft is kept):", "", code_block(again, "sh"), ""]
    if row.wheel:
        discard = f"mlir-release publish {tag} --discard {row.wheel}"
        lines += ["To build the wheel anew before that:", "", code_block([discard], "sh"), ""]
    if row.required:
        what = f"--only 'runtime={row.platform}'" if row.kind == "sdk" else row.name
        waive = f"{release} waive {tag} {what} --reason '…'"
        why = "To publish without it this once, with a reason that is shown to everyone (then try again, or wait):"
        lines += [why, "", code_block([waive], "sh"), "", "To abandon this release; the next one is not affected:", ""]
        lines += [code_block([f"{release} abandon {tag} --reason '…'"], "sh"), ""]
    return "\n".join([*lines, _KEPT])


def failed_tests(row: Standing) -> str:
    """The names of the tests that failed, in Markdown; empty if none is known."""
    if row.report is None or row.state == "stale":
        return ""
    failed = row.report.failed
    shown = [name[:MAX_NAME] for name in failed[:MAX_NAMES]]
    more = [f"… and {len(failed) - len(shown)} more"] if len(failed) > len(shown) else []
    return code_block([*shown, *more]) if shown else ""


_KEPT = "This issue is maintained by `mlir-release release track`, which closes it when everything works again."


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """The changes to the issues, and the findings that they are about."""

    tag: str
    failing: Mapping[str, Standing]
    passing: Collection[str]
    steps: tuple[IssueChange, ...]
    urls: Mapping[str, str]  #: key -> the issue's address, of what was opened or changed
    dry_run: bool

    def text(self) -> str:
        """For people."""
        would = "would " if self.dry_run else ""
        lines = [f"{self.tag}: failing: {len(self.failing)}, passing: {len(self.passing)}"]
        for row in self.failing.values():
            mark = "" if row.required else EXPERIMENTAL
            lines.append(f"  fails: {row.name}{mark}: {row.summary}")
            lines += [f"    takes down {name}" for name in row.takes_down]
            lines += [f"    takes down {name}{EXPERIMENTAL}" for name in row.leaves_out]
        lines += [
            f"  {would}{step.action} the issue of {step.key} {self.urls.get(step.key, '')}" for step in self.steps
        ]
        return "\n".join(line.rstrip() for line in lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.tag,
            "failing": {
                name: {
                    "summary": row.summary,
                    "detail": failed_tests(row),
                    "required": row.required,
                    "project": row.project,
                    "takes_down": row.takes_down,
                    "leaves_out": row.leaves_out,
                }
                for name, row in self.failing.items()
            },
            "passing": sorted(self.passing),
            "steps": [{"action": s.action, "key": s.key, "url": self.urls.get(s.key, "")} for s in self.steps],
            "dry_run": self.dry_run,
        }


def track_release(forge: Forge, tag: str, *, log_url: str | None = None, dry_run: bool = False) -> Tracked:
    """As :func:`track`, with the issues of the forge itself.

    :param log_url: linked in the issues; None: the workflow run that this is part of
    """
    place = IssuePlace(log_url=workflow_run_url(os.environ) if log_url is None else log_url)
    place = replace(place, forge=forge.services.address, repository=forge.services.location)
    return track(forge, forge.services.tracker, tag, place=place, dry_run=dry_run)


def workflow_run_url(environ: Mapping[str, str]) -> str:
    """The address of the GitHub workflow run that this process is part of; empty elsewhere."""
    parts = [environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else ""


def track(
    forge: Forge,
    tracker: Tracker,
    tag: str,
    *,
    place: IssuePlace | None = None,
    dry_run: bool = False,
) -> Tracked:
    """Make the issues say how the targets of ``tag`` fare. Safe to repeat, and to run twice at once.

    An abandoned tag says nothing about its targets.

    :param tracker: its issues
    """
    place = place or IssuePlace()
    state = find_state(forge, tag)
    jobs: Mapping[str, RunJob] = {}
    failing: Mapping[str, Standing] = {}
    passing, targets = frozenset[str](), frozenset[str]()
    if state.state != "abandoned":
        draft = Draft.of(forge, state)
        place = replace(place, workflow=draft.matrix.release.workflow)
        runs: list[Sequence[RunJob]] = []
        try:
            for run in forge.runs(place.workflow, ref=tag)[:MAX_RUNS]:
                runs.append(forge.services.runs.jobs(run))
        except ReleaseError as error:
            console.warn(f"the jobs of {place.workflow} on {tag} can't be read: {error.what} ({error.why})")
        jobs = merge_jobs(runs)
        if draft.release.draft or draft.release.asset(MANIFEST_NAME) is not None:  # else published by hand
            card = draft.card(jobs=jobs)
            failing, passing = card.failing, card.passing
            matrix = draft.matrix
            wheels, tests = {wheel.name for wheel in matrix.wheels}, {test.name for test in matrix.tests}
            targets = frozenset(wheels | tests | {f"sdk-{runtime.name}" for runtime in matrix.runtimes})
    plan = partial(plan_changes, tag, failing=failing, passing=passing, targets=targets, jobs=jobs, place=place)
    steps = plan(tracker.open_issues())
    urls = {step.key: step.issue.url for step in steps if step.issue is not None}
    if not dry_run:
        urls |= _carry_out(tracker, steps)
        if any(step.action == "open" for step in steps):
            # Another run may have opened the same meanwhile: the older one stays.
            _carry_out(tracker, [step for step in plan(tracker.open_issues()) if step.action == "close"])
    return Tracked(tag=tag, failing=failing, passing=passing, steps=steps, urls=urls, dry_run=dry_run)


#: Key of the issue about the revisions that no snapshot can be made of: it belongs to no tag.
_NO_SNAPSHOT = "no-snapshot"


def track_refusal(forge: Forge, revision: str, error: ReleaseError | None) -> None:
    """Keep one issue as long as no snapshot can be made of what upstream offers.

    An issue that can't be kept is a warning: what became of the snapshot counts.

    :param revision: that was selected
    :param error: why no snapshot of it can be made; None: one is there, or under way
    """
    tracker, log_url = forge.services.tracker, workflow_run_url(os.environ)
    try:
        known = [issue for issue in tracker.open_issues() if issue.key == _NO_SNAPSHOT]
        steps = [IssueChange(action="close", key=_NO_SNAPSHOT, issue=issue) for issue in known]
        if error is None:
            text = f"A snapshot of {code(revision[:12])} can be made."
            steps = [replace(step, text=text) for step in steps]
        else:
            lines = [
                f"No snapshot can be made of upstream's {code(revision)}"
                + (f" ({link('log', log_url)})." if log_url else "."),
                "There is no tag and no draft of it; each scheduled run tries the newest revision again.",
                "",
                code_block([f"error[{error.id}]: {error}"]),
                "",
                "This issue is maintained by `mlir-release snapshot --track`, which closes it with the next snapshot.",
            ]
            title, text = "No snapshot can be made", "\n".join(lines)
            kept = IssueChange(action="open", key=_NO_SNAPSHOT, title=title, text=text)
            if known:
                kept = replace(kept, action="update", issue=known[0])
            # Two runs at once may each have opened one.
            steps = [kept, *(replace(step, text=f"The same as #{known[0].number}.") for step in steps[1:])]
        _carry_out(tracker, steps)
    except ReleaseError as problem:
        console.warn(f"the issue about refused snapshots is not up to date: {problem.what}")


def _carry_out(tracker: Tracker, steps: Sequence[IssueChange]) -> dict[str, str]:
    opened = {}
    for step in steps:
        if step.issue is None:
            opened[step.key] = tracker.open(step.key, step.title, step.text).url
        elif step.action == "update":
            tracker.update(step.issue, step.title, step.text)
        else:
            tracker.close(step.issue, step.text)
    return opened
