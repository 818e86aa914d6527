"""Questions that only GitHub can answer, asked on a scratch repository by ``first-run.yml``.

Usage: ``python -m tools.first_run --help``, in a checkout of the toolkit and with its environment. They go through the
code that releases use. A run first records itself, by a tag; what recorded runs made is deleted before and after, so
that the next run cleans up after a killed one. Nothing else is deleted, whatever its name.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import click
import msgspec

from mlir_release.builder.tools.compiler import find_compiler
from mlir_release.cli.app import main
from mlir_release.cli.options import (
    EXISTING_FOLDER,
    PATH,
    branch_option,
    dry_run_option,
    forge_option,
    json_option,
    repository_option,
)
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.decode import MalformedError, convert, parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ForgeError, ReleaseError, UsageError
from mlir_release.ground.storage.files import read_document, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.operate.commands.doctor import finish
from mlir_release.operate.doctor.files import FirstRun
from mlir_release.operate.doctor.results import Examination, Finding, of_error, ok, problem, unknown, verdict
from mlir_release.release.forge.checkout import matrix_of_checkout
from mlir_release.release.forge.files import head_of, matrix_of_branch
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.github.issues import LABEL
from mlir_release.release.forge.github.refusals import NotFound
from mlir_release.release.forge.services import BAD_ENDS
from mlir_release.release.pinning.green import select
from mlir_release.release.pinning.state import ABANDONED_PREFIX, TagState, abandon_tag, find_state, read_states
from mlir_release.release.transaction.attest import read_handed_over
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.request import default_request_id
from mlir_release.release.transaction.start import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from mlir_release.ground.llvm.upstream import Revision
    from mlir_release.release.forge.base import Forge, Tag
    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.matrix import Matrix

Seen = TypeVar("Seen")

#: Dispatched on the tag in the place of ``release.yml``; fails in its first attempt, and passes in the second.
WORKFLOW = "first-run.yml"

#: Its issue. A run's tag is ``first-run/RUN``, its branches are below it, and its snapshot's request is first-run-RUN.
NAME = "first-run"

#: The message of that tag, which no other tag has: the record that the run's names are its own.
RECORD = "This first run made the branches below the name of this tag, and deletes them."
_RUN = re.compile(rf"{NAME}/(run-\d+|local-[0-9a-f]{{16}})")

#: The file with the answers of :func:`ask_github`.
GITHUB_ANSWERS = "github.json"

#: The step of :data:`WORKFLOW` that runs only if GitHub refused a second artifact of one name.
REFUSED_STEP = "An artifact of that name was refused"

#: The job of :data:`WORKFLOW` that needs one which runs out of time.
AFTER = "checks: first run, after one that ran out of time"

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
    if not isinstance(forge, GitHubForge):
        raise UsageError(
            "needs-github",
            "this needs a repository on GitHub",
            where=forge.description,
            remedy="name one: --forge github:OWNER/NAME",
        )
    ours = {f"{NAME}-{run}-older" for run in recorded(forge.tags())}
    if not anyway and any(not row.draft and row.tag not in ours for row in Ledger(forge).rows):
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


class _GitHub:
    """Writes that no release needs. Each method raises ForgeError where GitHub refuses."""

    def __init__(self, forge: Forge) -> None:
        assert isinstance(forge, GitHubForge), forge
        self.client = forge.client

    def create_ref(self, name: str, commit: str) -> None:
        """Create ``heads/NAME`` or ``tags/NAME``."""
        body = {"ref": f"refs/{name}", "sha": commit}
        self.client.write(lambda: self.client.request("POST", "/git/refs", input=body), about=name)

    def delete_ref(self, name: str) -> None:
        """Delete ``heads/NAME`` or ``tags/NAME``, by its whole name."""
        self.client.write(lambda: self.client.request("DELETE", f"/git/refs/{quote(name)}"), about=name)

    def before_newest_change(self, path: str, branch: str) -> str | None:
        """The commit before the newest one of a branch that changed a file or folder; None without such a commit."""
        asked = {"path": path, "sha": branch, "per_page": "1"}
        rows = self.client.read(lambda: self.client.request("GET", "/commits", parameters=asked), about=path)[1]
        parents = rows[0]["parents"] if rows else ()
        return str(parents[0]["sha"]) if parents else None

    def delete_release(self, tag: str) -> None:
        """Delete the published release of a tag, if there is one."""
        try:
            row = self.client.read(lambda: self.client.request("GET", f"/releases/tags/{quote(tag)}"), about=tag)[1]
        except NotFound:
            return
        self.client.write(lambda: self.client.request("DELETE", f"/releases/{row['id']}"), about=tag)

    def rerun_failed(self, run: str) -> None:
        """Run the failed jobs of a run again. ``run``: its id"""
        path = f"/actions/runs/{run}/rerun-failed-jobs"
        self.client.write(lambda: self.client.request("POST", path), about=f"run {run}")

    def label_is_ours(self) -> bool:
        """Whether issues have the label, and all of them, open or closed, are of first runs."""
        pages = self.client.pages("/issues", state="all", labels=LABEL)
        bodies = [str(row["body"]) for page in pages for row in page]
        return bool(bodies) and all(f"<!-- mlir-release: {NAME} -->" in body for body in bodies)

    def delete_label(self) -> None:
        """Delete the label of issues."""
        self.client.write(lambda: self.client.request("DELETE", f"/labels/{LABEL}"), about=LABEL)


@dataclass
class _FirstRun:
    """The questions. Each method is one, and returns GitHub's answer."""

    forge: Forge
    revision: Revision
    matrix: Matrix
    pause: Callable[[float], None]
    tag: str = field(default="", init=False)
    run: str = field(default_factory=default_request_id, init=False)
    is_recorded: bool = field(default=False, init=False)

    def ask(self) -> Iterator[Finding]:
        yield self.attempt(self.fresh_ref)
        yield self.attempt(self.issue_label)
        if not self.is_recorded:  # nobody would delete what the others make
            return
        yield self.attempt(self.other_workflows)
        yield self.attempt(self.publish_older)
        yield self.attempt(self.transaction)
        if self.tag:
            yield self.attempt(self.draft)
            yield self.attempt(self.rerun)
            yield self.attempt(self.out_of_time)
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
        """Whether a tag is there as soon as it is made, by REST and by git. It is the record of the run."""
        forge, name = self.forge, f"{NAME}/{self.run}"
        forge.create_tag(name, head_of(forge, self.matrix.release.branch), f"{name}\n\n{RECORD}\n")
        self.is_recorded = True
        rest, _ = self.looks(lambda: forge.tag(name))
        git, _ = self.looks(lambda: any(tag.name == name for tag in forge.tags()))
        text = f"a new tag is seen by REST at look {rest or 'none'}, by git at look {git or 'none'}, a second apart"
        return verdict(bool(rest and git), text, _TELL)

    def other_workflows(self) -> Finding:
        """Whether a job may create a ref at a commit whose workflows are not those of the default branch."""
        github = _GitHub(self.forge)
        commit = github.before_newest_change(".github/workflows", self.matrix.release.branch)
        if commit is None:
            remedy = "change a workflow on the default branch, and run this again"
            return unknown("every commit has the same workflows", remedy)
        try:
            github.create_ref(f"heads/{NAME}/{self.run}/old", commit)
        except ForgeError as error:
            return ok(f"GitHub refuses a ref at a commit with other workflows: {error.why}")
        return ok("GitHub lets a job create a ref at a commit with other workflows")

    def publish_older(self) -> Finding:
        """Whether a job may publish a draft whose tag has other workflows than the default branch, as after a merge."""
        github, name = _GitHub(self.forge), f"{NAME}-{self.run}-older"
        commit = github.before_newest_change(".github/workflows", self.matrix.release.branch)
        if commit is None:
            return unknown(
                "every commit has the same workflows", "change one on the default branch, and run this again"
            )
        try:
            github.create_ref(f"tags/{name}", commit)
        except ForgeError as error:
            return unknown(f"GitHub refuses a tag at a commit with other workflows: {error.why}", _TELL)
        draft = self.forge.create_draft(name, title=name, body="The first run deletes this release.\n", prerelease=True)
        try:
            self.forge.publish(draft)
        except ForgeError as error:
            text = f"GitHub refuses to publish a release whose tag has other workflows: {error.why}"
            return problem(
                text, "let workflows rest while a snapshot is built, and abandon it if one was merged meanwhile"
            )
        return ok("GitHub lets a job publish a release whose tag has other workflows")

    def issue_label(self) -> Finding:
        """Whether an issue gets the label by which it is found again."""
        tracker = self.forge.services.tracker
        made = tracker.open(NAME, "First run", "The first run opened this issue, and closes it.")
        looks, _ = self.looks(lambda: any(issue.number == made.number for issue in tracker.open_issues()))
        tracker.close(made, "The first run is over.")
        text = f"a new issue is found by its label at look {looks}" if looks else "a new issue has no label"
        return verdict(bool(looks), text, _TELL)

    def transaction(self) -> Finding:
        """Whether a snapshot can do its steps: branch, pin commit, tag, draft, dispatch."""
        release = msgspec.structs.replace(self.matrix.release, pins=f"{NAME}/{self.run}/pins", workflow=WORKFLOW)
        matrix = replace(self.matrix, release=release)
        made = start(self.forge, self.revision, matrix, request_id=f"{NAME}-{self.run}", force=True)
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
        looks, runs = self.looks(lambda: self.forge.runs(WORKFLOW, ref=self.tag))
        if not looks:
            return problem(f"no run of {WORKFLOW} on {self.tag} is listed", _TELL)
        first = self.watch(lambda run: run.status == "completed")
        if first is None or first.conclusion not in BAD_ENDS:
            text = f"{runs[0].url} did not end with a failure, but: {first.conclusion if first else 'not at all'}"
            return problem(text, _TELL)
        _GitHub(self.forge).rerun_failed(first.id)
        second = self.watch(lambda run: run.conclusion == "success")
        if second is None:
            return problem(f"{first.url} did not pass when its failed jobs were run again", _TELL)
        steps = {step.name: step.conclusion for job in self.forge.services.runs.jobs(second) for step in job.steps}
        refused = steps.get(REFUSED_STEP) == "success"
        text = (
            f"a run is listed at look {looks}; its failed jobs passed when they were run again; an artifact of the "
            f"first attempt's name is {'refused (409)' if refused else 'taken'} without `overwrite`, and taken with it"
        )
        return ok(text)

    def out_of_time(self) -> Finding:
        """Whether a job whose condition is ``!cancelled()`` runs after one that ran out of time."""
        runs = self.forge.runs(WORKFLOW, ref=self.tag)
        jobs = [job for run in runs for job in self.forge.services.runs.jobs(run)]
        ran = any(job.name == AFTER and job.conclusion == "success" for job in jobs)
        text = f"a job with `!cancelled()` {'runs' if ran else 'is skipped'} after one that ran out of time"
        return verdict(ran, text, "run release.yml on the tag again where a platform's job ran out of time")

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


def recorded(tags: Iterable[Tag]) -> Iterator[str]:
    """The first runs that have left their record: the part of their names that tells one from another."""
    for tag in tags:
        match = _RUN.fullmatch(tag.name)
        if match is not None and tag.message.strip() == f"{tag.name}\n\n{RECORD}":
            yield match[1]


def clean(forge: Forge, *, dry_run: bool = False) -> Finding:
    """Delete what recorded first runs left: drafts, tags and branches by their whole names; issues, their label.

    Rules can protect tags. Such a tag is abandoned, so that no sweep continues it. A run's record goes last.
    """
    github, tracker = _GitHub(forge), forge.services.tracker
    kept, planned = dict[str, None](), list[str]()

    def attempt(what: str, delete: Callable[..., object], *arguments: object) -> bool:
        if dry_run:
            planned.append(what)
            return True
        try:
            delete(*arguments)
        except ForgeError as error:
            kept[f"{what} ({error.why})"] = None
            return False
        return True

    def snapshot(state: TagState) -> bool:
        done = [attempt(f"a draft of {state.name}", forge.delete_draft, draft) for draft in forge.drafts(state.name)]
        if attempt(state.name, github.delete_ref, f"tags/{state.name}"):
            record = ABANDONED_PREFIX + state.name
            done.append(record not in names or attempt(record, github.delete_ref, f"tags/{record}"))
        else:
            done.append(attempt(state.name, abandon, state))
        return all(done)

    def abandon(state: TagState) -> None:
        abandon_tag(forge, state, reason=NAME, by=forge.whoami())

    issues = [issue for issue in tracker.open_issues() if issue.key == NAME]
    for issue in issues:
        attempt(f"the issue {issue.url}", tracker.close, issue, "The first run is over.")
    if github.label_is_ours():
        attempt(f"the label {LABEL}", github.delete_label)
    tags = forge.tags()
    names, states = {tag.name for tag in tags}, read_states(tags, ())
    for run in recorded(tags):
        done = [snapshot(state) for state in states if state.request_id == f"{NAME}-{run}"]
        branches = [f"{NAME}/{run}/{name}" for name in ("pins", "old")]
        done += [attempt(name, github.delete_ref, f"heads/{name}") for name in branches if forge.head(name) is not None]
        if (older := f"{NAME}-{run}-older") in names:
            done += [attempt(f"a draft of {older}", forge.delete_draft, draft) for draft in forge.drafts(older)]
            done.append(attempt(f"the release {older}", github.delete_release, older))
            done.append(attempt(older, github.delete_ref, f"tags/{older}"))
        if all(done):
            attempt(f"{NAME}/{run}", github.delete_ref, f"tags/{NAME}/{run}")
    if planned:
        return ok(f"would delete {', '.join(planned)}", check="clean-up")
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


# -- the commands ---------------------------------------------------------------------------------------------------

anyway_option = click.option("--anyway", is_flag=True, help="Also where releases are published.")
output_option = click.option("--output", type=PATH, help="Also write the answers into this file, for `report`.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def first_run() -> None:
    """Ask GitHub on a scratch repository what only it can answer, before anything is built.

    first-run.yml runs these commands: start it with Actions > First run > Run workflow.
    """


def _finish(ctx: click.Context, findings: Sequence[Finding], place: str) -> None:
    finish(ctx, Examination(findings, heading=place, whole=True), title=f"{place}: first run")


@first_run.command("github")
@forge_option
@branch_option
@click.option("--policy", default="head", show_default=True, help="The revision to pin, as of `snapshot`.")
@anyway_option
@output_option
@json_option
@click.pass_context
def github(ctx: click.Context, forge: Forge, branch: str, policy: str, anyway: bool, output: Path | None) -> None:
    """Ask what a job's token may do: a snapshot up to its dispatch, issues, refs, a re-run; then delete all of it."""
    check_scratch(forge, anyway=anyway)
    matrix = matrix_of_branch(forge, branch)
    findings = ask_github(forge, select(matrix.release, policy), matrix)
    if output is not None:
        write_answers(findings, output)
    _finish(ctx, findings, forge.description)


@first_run.command("clean")
@forge_option
@anyway_option
@dry_run_option
@json_option
def clean_command(forge: Forge, anyway: bool, dry_run: bool) -> None:
    """Delete what recorded first runs left: drafts, tags, branches, issues, their label."""
    check_scratch(forge, anyway=anyway)
    found = clean(forge, dry_run=dry_run)
    console.result(found.text, found)


@first_run.command("runner")
@click.argument("runner")
@output_option
@json_option
@click.pass_context
def runner(ctx: click.Context, runner: str, output: Path | None) -> None:
    """Tell what this machine, called RUNNER, has for builds."""
    findings = ask_runner(runner)
    if output is not None:
        write_answers(findings, output)
        console.output("file", f"{sha256_of(output)} {output.name}")
    _finish(ctx, findings, runner)


@first_run.command("report")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--handed-over", required=True, metavar="JSON", help="Outputs of the jobs of the runners.")
@click.option("--record", type=PATH, help="Also write them into this file, which the doctor reads in .github/.")
@repository_option
@json_option
@click.pass_context
def report(ctx: click.Context, folder: Path, handed_over: str, record: Path | None, repository: Path) -> None:
    """Show the answers of all jobs in one table. Exit code 7 if one is a problem."""
    findings = read_answers(folder, handed_over, matrix_of_checkout(repository))
    if record is not None:
        kept = FirstRun(asked=datetime.now(UTC).date(), answers=tuple(findings))
        write_atomically(record, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
    _finish(ctx, findings, "GitHub")


if __name__ == "__main__":
    main(first_run, "python -m tools.first_run")
