"""Evidence for a release's failures: the tests that failed, how their job ended, and the part of its log that matters.

Nothing here fails: where jobs or logs can't be read (they expire after some weeks), the evidence says so.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.foreign import code, code_block, link, markdown, visible
from mlir_release.ground.job_names import GROUPED, read_heading, split_job_name
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.services import BAD_ENDS
from mlir_release.release.judging.scorecard import merge_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.services import WorkflowRuns
    from mlir_release.release.judging.standing import Standing

#: The newest runs of a release that are looked at: each builds only what the one before it left missing.
MAX_RUNS = 5

#: Lines of a log that are quoted at most: of errors, and before the end of the step that failed; and their length.
MAX_ERRORS = 20
TAIL = 40
MAX_LINE = 500

#: Names of failed tests that are listed at most, and their length.
MAX_NAMES, MAX_NAME = 50, 300

#: Targets of a log that are told apart at most: more than a job has.
MAX_PARTS = 300

_TIME = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ?")
#: Escape sequences of terminals (ECMA-48: CSI, OSC, and the short ones), then what is left of control characters.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])|[\x00-\x08\x0b-\x1f\x7f]")

#: What a person has to do about an error, by words of GitHub's that do not say it.
_ADVICE = {
    "Artifact storage quota has been hit": "The account has no room for artifacts. Delete those of old runs, or raise "
    "its budget (Settings > Billing), wait until GitHub has counted again, and run the failed jobs again.",
}

_ERROR = "##[error]"
#: What the runner says when a step's command fails. Clean-up steps come after it.
_STEP_FAILED = "##[error]Process completed with exit code"


def failed_tests(row: Standing) -> str:
    """The names of the tests that failed, in Markdown; empty if none is known."""
    if row.report is None or row.state == "stale":
        return ""
    failed = row.report.failed
    shown = [name[:MAX_NAME] for name in failed[:MAX_NAMES]]
    more = [f"… and {len(failed) - len(shown)} more"] if len(failed) > len(shown) else []
    return code_block([*shown, *more]) if shown else ""


def latest_jobs(forge: Forge, logs: WorkflowRuns, tag: str, workflow: str) -> dict[str, RunJob]:
    """The latest job of each name in the runs of ``workflow`` on ``tag``; empty if the forge does not tell.

    See :func:`merge_jobs`.
    """
    seen: list[Sequence[RunJob]] = []
    try:
        for run in forge.runs(workflow, ref=tag)[:MAX_RUNS]:
            seen.append(logs.jobs(run))
    except ReleaseError as error:
        console.warn(f"the jobs of {workflow} on {tag} can't be read: {error.what} ({error.why})")
    return merge_jobs(seen)


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """The part of a log that tells of a failure, without times and escape sequences."""

    errors: tuple[str, ...]  #: the runner's and the tools' error lines, each once
    tail: tuple[str, ...]  #: the end of the step that failed, or of the log


def excerpts(lines: Iterable[str]) -> dict[str, Excerpt]:
    """Read a log of GitHub's: as a whole, by "", and the part of each target that it has a heading for."""
    parts, target = {"": _Part()}, ""
    for line in map(clean, lines):
        target = read_heading(line) or target
        for name in {"", target}:
            if name in parts or len(parts) < MAX_PARTS:
                parts.setdefault(name, _Part()).add(line)
    return {name: part.excerpt() for name, part in parts.items()}


class _Part:
    """Some lines of a log, of which only those are kept that may be quoted."""

    def __init__(self) -> None:
        self.recent: deque[str] = deque(maxlen=TAIL)
        self.errors: dict[str, None] = {}
        self.last_error: tuple[str, ...] = ()
        self.step: tuple[str, ...] = ()

    def add(self, line: str) -> None:
        self.recent.append(line)
        if line.startswith(_STEP_FAILED):
            self.step = self.step or tuple(self.recent)
        elif line.startswith(_ERROR):
            self.last_error = tuple(self.recent)
            if len(self.errors) < MAX_ERRORS:
                self.errors[line.removeprefix(_ERROR)] = None

    def excerpt(self) -> Excerpt:
        return Excerpt(errors=tuple(self.errors), tail=self.step or self.last_error or tuple(self.recent))


def clean(line: str) -> str:
    """A line of a log without its time, escape sequences and what was overwritten on the terminal."""
    line = _TIME.sub("", line).rstrip().rpartition("\r")[2]
    line = _ESCAPES.sub("", line).rstrip()
    return line if len(line) <= MAX_LINE else line[:MAX_LINE] + " …"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The job behind a failure."""

    job: RunJob
    excerpt: Excerpt | None = None
    problem: str = ""  #: why there is no excerpt

    def markdown(self, room: int) -> str:
        """A paragraph, and what the log says, in at most ``room`` characters (the paragraph is always there)."""
        name, end = link(code(self.job.name), self.job.url), markdown(self.job.conclusion or self.job.status)
        parts = [f"Its job {name} ended as *{end}*."]
        if self.problem:
            parts.append(markdown(self.problem))
        if self.excerpt is not None:
            said = "\n".join(self.excerpt.errors)
            parts += [advice for words, advice in _ADVICE.items() if words in said]
            left = room - sum(len(part) + 2 for part in parts)
            errors = _fenced(self.excerpt.errors, left // 3)
            if errors:
                parts.append(errors)
                left -= len(errors) + 2
            around = "<details><summary>The end of the step that failed</summary>\n\n", "\n\n</details>"
            tail = _fenced(self.excerpt.tail, left - sum(map(len, around)))
            if tail:
                parts.append(tail.join(around))
        return "\n\n".join(parts)


def _fenced(lines: tuple[str, ...], room: int) -> str:
    """The last of ``lines`` that there is room for, as a block of code."""
    kept: deque[str] = deque()
    for line in map(visible, reversed(lines)):
        kept.appendleft(line)
        if len(code_block(kept)) > room:
            kept.popleft()
            break
    return code_block(kept) if kept else ""


@dataclass(frozen=True, kw_only=True)
class Log:
    """A job's log, as :func:`excerpts` read it; or why it can't be."""

    parts: Mapping[str, Excerpt] = field(default_factory=dict)
    problem: str = ""


def read_log(logs: WorkflowRuns, job: RunJob) -> Log:
    """Read the log of a job."""
    try:
        with scratch_folder("log") as folder:
            path = folder / "log"
            logs.log(job, path)
            with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
                return Log(parts=excerpts(lines))
    except ReleaseError as error:
        return Log(problem=f"Its log can't be read (any more): {error.what}.")


def gather(row: Standing, jobs: Mapping[str, RunJob], read: Callable[[RunJob], Log]) -> Evidence | None:
    """The job behind a failure, with what its log says of it if it failed; None if there was no such job.

    :param read: :func:`read_log`, with a memory: a job works on several targets
    """
    mine = [job for name in row.jobs if (job := jobs.get(name)) is not None]
    bad = [job for job in mine if job.conclusion in BAD_ENDS]
    for job in bad:
        log = read(job)
        part = log.parts.get(row.name)
        of_one = split_job_name(job.name)[0] not in GROUPED or len(log.parts) < 2  # it ended before its first target
        if part is not None or of_one:
            return Evidence(job=job, excerpt=part or log.parts.get(""), problem=log.problem)
    other = next((job for job in mine if job not in bad), None)
    if other is None:
        return Evidence(job=bad[0], excerpt=read(bad[0]).parts[""]) if bad else None
    if other.conclusion is None:
        return Evidence(job=other, problem="It has not ended yet.")
    return Evidence(job=other, problem="So what went wrong came after it: see the run's other jobs.")
