"""Questions that only GitHub can answer, asked on a scratch repository by ``first-run.yml``.

They go through the code that releases use. Their leftovers are deleted before and after, so that the next run cleans up
after a killed one.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mlir_release.console import format_bytes
from mlir_release.doctor.results import Finding, of_error, ok, problem, unknown, verdict
from mlir_release.errors import ForgeError, ReleaseError, UsageError
from mlir_release.forge.base import need_services
from mlir_release.forge.files import head_of
from mlir_release.host.compiler import find_compiler
from mlir_release.host.files import read_document, write_atomically
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.decode import MalformedError, convert, parse_json
from mlir_release.model.digests import sha256_of
from mlir_release.pinning.state import ABANDONED_PREFIX, abandon_tag, find_state, read_states
from mlir_release.release.attest import read_handed_over
from mlir_release.release.ledger import Ledger
from mlir_release.release.request import default_request_id
from mlir_release.release.start import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mlir_release.forge.base import Forge
    from mlir_release.forge.services import Run
    from mlir_release.model.matrix import Matrix
    from mlir_release.pinning.upstream import Revision

Seen = TypeVar("Seen")

#: Dispatched on the tag in the place of ``release.yml``; fails in its first attempt, and passes in the second.
WORKFLOW = "first-run.yml"

#: The branch of its pins; its other refs, its requests and its issue begin with the same name.
NAME = "first-run"

#: The file with the answers of :func:`ask_github`.
GITHUB_ANSWERS = "github.json"

#: The step of :data:`WORKFLOW` that runs only if GitHub refused a second artifact of one name.
REFUSED_STEP = "An artifact of that name was refused"

#: How often a new ref, draft or run is looked for, a second apart.
LOOKS = 30

#: How often a run is looked at until it has ended, so many seconds apart: half an hour in all.
WATCHES, WATCH = 120, 15.0

#: The programs that builds of each system start with.
_COMPILERS = {"Linux": ("docker",), "Darwin": ("clang", "xcrun"), "Windows": ("clang-cl",)}


def check_scratch(forge: Forge, *, anyway: bool = False) -> None:
    """Refuse a repository that people use.

    :param anyway: accept it
    :raises UsageError: ``release-unsuitable``, ``needs-github``
    """
    need_services(forge)
    if not anyway and any(not row.draft for row in Ledger(forge).rows):
        raise UsageError(
            "release-unsuitable",
            "this repository has published releases",
            where=forge.description,
            why="a first run makes and deletes tags, drafts and issues",
            remedy="run it on a scratch repository, or choose `anyway`",
        )


def ask_github(
    forge: Forge, revision: Revision, matrix: Matrix, *, pause: Callable[[float], None] = time.sleep
) -> list[Finding]:
    """Ask everything that needs a job's token, and clean up."""
    clean(forge)
    findings = list(_FirstRun(forge, revision, matrix, pause).ask())
    return [*findings, clean(forge)]


@dataclass
class _FirstRun:
    """The questions. Each method is one, and returns GitHub's answer."""

    forge: Forge
    revision: Revision
    matrix: Matrix
    pause: Callable[[float], None]
    tag: str = field(default="", init=False)

    def ask(self) -> Iterator[Finding]:
        yield self.attempt(self.fresh_ref)
        yield self.attempt(self.other_workflows)
        yield self.attempt(self.issue_label)
        yield self.attempt(self.transaction)
        if self.tag:
            yield self.attempt(self.draft)
            yield self.attempt(self.rerun)
            yield self.attempt(self.abandon)

    def attempt(self, question: Callable[[], Finding]) -> Finding:
        check = question.__name__.replace("_", "-")
        try:
            return replace(question(), check=check)
        except ReleaseError as error:
            return of_error(check, error)

    def looks(self, look: Callable[[], Seen]) -> tuple[int, Seen]:
        """How many looks it takes, a second apart, until something is seen, and what; 0: it is not."""
        for number in range(1, LOOKS + 1):
            if seen := look():
                return number, seen
            self.pause(1)
        return 0, seen

    def fresh_ref(self) -> Finding:
        """Whether a tag is there as soon as it is made, by REST and by git."""
        forge, name = self.forge, f"{NAME}/{default_request_id()}"
        forge.create_tag(name, head_of(forge, self.matrix.release.branch), f"{name}\n")
        rest, _ = self.looks(lambda: forge.tag(name))
        git, _ = self.looks(lambda: any(tag.name == name for tag in forge.tags()))
        text = f"a new tag is seen by REST at look {rest or 'none'}, by git at look {git or 'none'}, a second apart"
        return verdict(bool(rest and git), text, _TELL)

    def other_workflows(self) -> Finding:
        """Whether a job may create a ref at a commit whose workflows are not those of the default branch."""
        scratch = need_services(self.forge).scratch
        commit = scratch.before_newest_change(".github/workflows", self.matrix.release.branch)
        if commit is None:
            remedy = "change a workflow on the default branch, and run this again"
            return unknown("every commit has the same workflows", remedy)
        try:
            scratch.create_ref(f"heads/{NAME}-old", commit)
        except ForgeError as error:
            return ok(f"GitHub refuses a ref at a commit with other workflows: {error.why}")
        return ok("GitHub lets a job create a ref at a commit with other workflows")

    def issue_label(self) -> Finding:
        """Whether an issue gets the label by which it is found again."""
        tracker = need_services(self.forge).tracker
        made = tracker.open(NAME, "First run", "The first run opened this issue, and closes it.")
        looks, _ = self.looks(lambda: any(issue.number == made.number for issue in tracker.open_issues()))
        tracker.close(made, "The first run is over.")
        text = f"a new issue is found by its label at look {looks}" if looks else "a new issue has no label"
        return verdict(bool(looks), text, _TELL)

    def transaction(self) -> Finding:
        """Whether a snapshot can do its steps: branch, pin commit, tag, draft, dispatch."""
        release = msgspec.structs.replace(self.matrix.release, pins=NAME, workflow=WORKFLOW)
        request = f"{NAME}-{default_request_id()}"
        matrix = replace(self.matrix, release=release)
        made = start(self.forge, self.revision, matrix, request_id=request, force=True)
        self.tag = made.tag
        return ok(f"{made.tag}: {'; '.join(made.steps)}")

    def draft(self) -> Finding:
        """Whether a draft is listed, changed, and given a file whose digest GitHub tells."""
        forge = self.forge
        looks, drafts = self.looks(lambda: forge.drafts(self.tag))
        if not looks:
            return problem(f"the draft of {self.tag} is not listed", _TELL)
        draft = forge.edit_release(drafts[0], title=self.tag, body="The first run deletes this draft.\n")
        with scratch_folder(NAME) as folder:
            (folder / "answer.txt").write_text(f"{self.tag}\n", encoding="utf-8")
            asset = forge.upload(draft, "answer.txt", folder / "answer.txt")
            same = asset.sha256 == sha256_of(folder / "answer.txt")
        forge.delete_asset(draft, asset)
        told = "right" if same else asset.sha256 or "not told"
        text = f"a new draft is listed at look {looks}; the digest of a file in it is {told}"
        return verdict(same, text, _TELL)

    def rerun(self) -> Finding:
        """Whether the dispatched run is listed, fails as it is to, and passes once its failed jobs are run again."""
        services = need_services(self.forge)
        looks, runs = self.looks(lambda: self.forge.runs(WORKFLOW, ref=self.tag))
        if not looks:
            return problem(f"no run of {WORKFLOW} on {self.tag} is listed", _TELL)
        first = self.watch(lambda run: run.status == "completed")
        if first is None or first.conclusion != "failure":
            text = f"{runs[0].url} did not end with a failure, but: {first.conclusion if first else 'not at all'}"
            return problem(text, _TELL)
        services.scratch.rerun_failed(first.id)
        second = self.watch(lambda run: run.conclusion == "success")
        if second is None:
            return problem(f"{first.url} did not pass when its failed jobs were run again", _TELL)
        steps = {step.name: step.conclusion for job in services.runs.jobs(second) for step in job.steps}
        refused = steps.get(REFUSED_STEP) == "success"
        text = (
            f"a run is listed at look {looks}; its failed jobs passed when they were run again; an artifact of the "
            f"first attempt's name is {'refused (409)' if refused else 'taken'} without `overwrite`, and taken with it"
        )
        return ok(text)

    def watch(self, ended: Callable[[Run], bool]) -> Run | None:
        """The dispatched run once it has ended; None if it takes too long."""
        for _ in range(WATCHES):
            run = next(iter(self.forge.runs(WORKFLOW, ref=self.tag)), None)
            if run is not None and ended(run):
                return run
            self.pause(WATCH)
        return None

    def abandon(self) -> Finding:
        """Whether a job may abandon the snapshot."""
        abandon_tag(self.forge, find_state(self.forge, self.tag), reason=NAME, by=self.forge.whoami())
        return ok(f"{self.tag} is abandoned, and its draft deleted")


_TELL = "keep this answer: it decides how the toolkit has to ask (docs/first-release-repository.md, 'The first run')"


def clean(forge: Forge) -> Finding:
    """Delete the leftovers of first runs: drafts, tags, branches, issues, the label.

    Rules can protect tags. Such a tag is abandoned, so that no sweep continues it.
    """
    services = need_services(forge)
    scratch, tracker, kept = services.scratch, services.tracker, dict[str, None]()

    def attempt(what: str, delete: Callable[..., object], *arguments: object) -> None:
        try:
            delete(*arguments)
        except ForgeError as error:
            kept[f"{what} ({error.why})"] = None

    for state in read_states(forge.tags(), ()):
        if not state.request_id.startswith(f"{NAME}-"):
            continue
        for draft in forge.drafts(state.name):
            attempt("a draft", forge.delete_draft, draft)
        attempt(state.name, scratch.delete_ref, f"tags/{state.name}")
        if forge.tag(state.name) is not None:
            attempt(state.name, partial(abandon_tag, reason=NAME, by=forge.whoami()), forge, state)
        else:
            attempt(state.name, scratch.delete_ref, f"tags/{ABANDONED_PREFIX}{state.name}")
    for ref in (*scratch.refs(f"heads/{NAME}"), *scratch.refs(f"tags/{NAME}")):
        attempt(ref, scratch.delete_ref, ref)
    issues = tracker.open_issues()
    for issue in issues:
        if issue.key == NAME:
            attempt("an issue", tracker.close, issue, "The first run is over.")
    if all(issue.key == NAME for issue in issues):
        attempt("the label of issues", tracker.delete_label)
    if not kept:
        return ok("nothing is left of first runs", check="clean-up")
    remedy = "delete them by hand, if they are in the way; no sweep continues them"
    return unknown(f"GitHub keeps {'; '.join(kept)}", remedy, check="clean-up")


def ask_runner(runner: str) -> list[Finding]:
    """List a runner's programs for builds. The toolkit itself runs there, because this does.

    :param runner: its label
    """
    find_compiler()
    found = {name: shutil.which(name) for name in (*_COMPILERS[platform.system()], "python3", "cmake", "ninja", "git")}
    missing = [name for name in _COMPILERS[platform.system()] if not found[name]]
    shown = ", ".join(f"{name} at {place or 'no place'}" for name, place in found.items())
    room = format_bytes(shutil.disk_usage(os.curdir).free)
    text = f"{runner}: the toolkit runs on CPython {platform.python_version()} ({sys.executable}); {shown}; {room} free"
    remedy = f"builds on {runner} need {', '.join(missing)}"
    return [verdict(not missing, text, remedy, check="runner")]


def write_answers(findings: list[Finding], file: Path) -> None:
    """Keep findings for :func:`read_answers`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, msgspec.json.encode(findings))


def read_answers(folder: Path, handed_over: str, matrix: Matrix) -> list[Finding]:
    """The findings of all jobs, and whether the jobs of a matrix handed over a digest each, that of their file.

    :param handed_over: outputs of the runners' jobs, as JSON
    :raises UsageError: ``option-invalid``, ``input-invalid``
    """
    findings: list[Finding] = []
    made = {runner: job.files for job in read_handed_over(handed_over) for runner in job.targets}
    if not (folder / GITHUB_ANSWERS).is_file():
        text = "the job that asks GitHub left no answers"
        findings.append(problem(text, "look at its log, and run first-run.yml again", check="github"))
    there: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            content = read_document(path)
            findings += convert(parse_json(content), list[Finding])
        except (OSError, MalformedError) as error:
            raise UsageError(
                "input-invalid",
                "the answers of a job can't be read",
                where=str(path),
                why=str(error),
                remedy="run first-run.yml again",
            ) from None
        there.setdefault(path.name, []).append(sha256_of(content))
    for runner in sorted({runtime.runner for runtime in matrix.runtimes}):
        files = made.get(runner, ())
        right = bool(files) and all(there.get(file.name) == [file.sha256] for file in files)
        text = f"the job of {runner} handed over {'the digest of its file' if right else 'no digest, or another one'}"
        findings.append(verdict(right, text, f"look at the log of the job of {runner}", check="handed-over"))
    return findings
