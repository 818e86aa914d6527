"""The files of a repository: which must exist, their content, and the rights that their jobs request.

zizmor and actionlint find mistakes that any workflow can have. These checks are about releases only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from mlir_release.ground.documents.decode import MalformedError, convert, parse_json
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.llvm.pin import PIN_FILE, parse_pin
from mlir_release.integrate.config import CONFIG_FILE, Config, read_config
from mlir_release.operate.doctor.results import Finding, Hidden, of_error, ok, problem, unknown, verdict
from mlir_release.release.forge.checkout import SIGNER
from mlir_release.release.forge.codeowners import CODEOWNERS_FILE
from mlir_release.release.forge.files import DEFAULT_BRANCH
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mlir_release.operate.doctor.results import Answer
    from mlir_release.release.forge.observations import Observations

Thing = TypeVar("Thing")

#: The policy for people who found a vulnerability; and zizmor's settings.
SECURITY_FILE, LINT_FILE = "SECURITY.md", ".github/zizmor.yml"

#: GitHub's answers to ``first-run.yml``, where somebody has kept them.
FIRST_RUN_FILE = ".github/first-run.json"

#: The files of a release repository besides workflows; only the first two are always needed.
RELEASE_FILES = (PIN_FILE, TARGETS_FILE)
FILES = (*RELEASE_FILES, CONFIG_FILE, CODEOWNERS_FILE, SECURITY_FILE, LINT_FILE, FIRST_RUN_FILE)

WORKFLOW_FOLDER = ".github/workflows/"

#: The workflows of a release repository: their triggers, and the write permissions that at least one job of each must
#: have. ``targets.toml`` may name another ``release.yml``.
WORKFLOWS: Mapping[str, tuple[set[str], tuple[str, ...]]] = {
    "snapshot.yml": ({"schedule", "workflow_dispatch"}, ("contents", "actions")),
    "release.yml": ({"workflow_dispatch"}, ("contents", "actions", "issues", "id-token", "attestations")),
    "platform.yml": ({"workflow_call"}, ("contents", "id-token", "attestations")),
    "attest.yml": ({"workflow_call"}, ("id-token", "attestations")),
    "latest.yml": ({"workflow_dispatch"}, ("contents", "id-token", "attestations")),
    "compiler-caches.yml": ({"workflow_dispatch"}, ()),
    "numbered-release.yml": ({"workflow_dispatch"}, ("contents", "actions")),
    "pages.yml": ({"workflow_dispatch"}, ("pages", "id-token", "actions")),
    "probe.yml": ({"workflow_dispatch"}, ()),
    "canary.yml": ({"workflow_dispatch"}, ("contents", "actions")),
    "conda.yml": ({"workflow_dispatch"}, ("id-token",)),
}

REQUIRED = (*RELEASE_FILES, *(WORKFLOW_FOLDER + name for name in WORKFLOWS))

_SIGNER_CALL = re.compile(rf"(?P<repository>[^/]+/[^/]+)/{re.escape(SIGNER)}@(?P<ref>.+)")


class WorkflowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a job or of a composite action."""

    id: str | int = ""
    uses: str = ""
    inputs: dict[Any, Any] | None = msgspec.field(default=None, name="with")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, or the call of another workflow."""

    uses: str = ""  #: the workflow that it calls; empty for an ordinary job
    permissions: dict[str, str] | str | None = None  #: None: those of the workflow
    environment: dict[str, Any] | str | None = None
    inputs: dict[Any, Any] | None = msgspec.field(default=None, name="with")  #: for the workflow that it calls
    secrets: dict[Any, Any] | str | None = None  #: ``inherit``: all secrets of its caller
    steps: list[WorkflowStep] | None = None
    needs: list[str] | str | None = None


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow's file, as far as it decides whether the workflow can do its work."""

    on: dict[str, Any] | list[str] | str
    jobs: dict[str, Job]
    permissions: dict[str, str] | str | None = None

    def dispatch_inputs(self) -> set[str]:
        """The inputs of a dispatch."""
        dispatch = self.on.get("workflow_dispatch") if isinstance(self.on, dict) else None
        inputs = dispatch.get("inputs") if isinstance(dispatch, dict) else None
        return {str(name) for name in inputs or ()}

    def triggers(self) -> set[str]:
        """The events that start it."""
        return {self.on} if isinstance(self.on, str) else set(self.on)

    def access(self, job: Job, permission: str) -> str | None:
        """A job's right: ``write``, ``read`` or ``none``; None: the repository's default."""
        given = self.permissions if job.permissions is None else job.permissions
        if given is None or isinstance(given, str):
            return {"read-all": "read", "write-all": "write"}.get(given or "")
        return given.get(permission, "none")


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """The commands of an action."""

    using: str  #: ``node24``, ``composite``, ``docker``
    steps: list[WorkflowStep] | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action's own file."""

    runs: Runs


def parse(content: bytes, kind: type[Thing], *, where: str) -> Thing:
    """Read the file of a workflow or of an action.

    :raises UsageError: ``config-invalid``
    """
    try:
        data = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if isinstance(data, dict):  # YAML 1.1 reads `on` as a boolean
            data = {"on" if key is True else key: value for key, value in data.items()}
        return convert(data, kind, table="a table")
    except (yaml.YAMLError, ValueError) as error:
        why = str(error) if isinstance(error, MalformedError) else "it is not YAML: " + " ".join(str(error).split())
        raise UsageError(
            "config-invalid",
            "it is not a workflow that GitHub can run",
            where=where,
            why=why,
            remedy=f"fix {where}, or copy it again from the toolkit's repository (actionlint reports more)",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of the files; None, or absent, for one that is missing or invalid."""

    matrix: Matrix | None = None
    config: Config | None = None
    workflows: Mapping[str, Workflow] = field(default_factory=dict)  #: by path
    integrates: bool = False  #: whether integrate runs there: there is an integrate.toml
    releases: bool = True  #: whether it is a release repository, not only a downstream
    found: Sequence[Finding] = ()  #: of the check ``files``

    @property
    def required(self) -> tuple[str, ...]:
        """Paths that a repository on GitHub must have."""
        return tuple(self.path(name) for name in REQUIRED) if self.releases else (CONFIG_FILE,)

    def path(self, standard: str) -> str:
        """Where a file is, if ``targets.toml`` gives ``release.yml`` another name."""
        named = self.matrix is not None and standard == WORKFLOW_FOLDER + "release.yml"
        return WORKFLOW_FOLDER + self.matrix.release.workflow if named and self.matrix else standard


class FirstRun(msgspec.Struct, frozen=True, kw_only=True):
    """:data:`FIRST_RUN_FILE`, as ``tools/first_run.py`` writes it."""

    asked: date
    answers: tuple[Finding, ...]


def first_run(repository: Repository) -> Iterator[Answer]:
    """The answers of GitHub's that the toolkit can't work with, if a first run was kept."""
    content = (repository.seen.files or {}).get(FIRST_RUN_FILE)
    if content is None:
        return
    try:
        kept = convert(parse_json(content), FirstRun)
    except MalformedError as error:
        yield problem(
            f"{FIRST_RUN_FILE} can't be read: {error}", "run first-run.yml again, and keep its file first-run.json"
        )
        return
    problems = [answer for answer in kept.answers if answer.level == "problem"]
    yield from (problem(f"GitHub answered on {kept.asked}: {answer.text}", answer.remedy) for answer in problems)
    if not problems:
        yield ok(f"all {len(kept.answers)} answers of GitHub's to the first run of {kept.asked} are as they should be")


@dataclass(frozen=True, kw_only=True)
class UsedAction:
    """An action, or a workflow that is called."""

    name: str  #: as it is written: ``OWNER/NAME/PATH@REF``; of the repository itself: ``./PATH``, ``$/PATH``
    repository: str
    path: str  #: the folder of an action; the file of a workflow
    ref: str
    inside: str = ""  #: the action or workflow of another repository that uses it
    runtime: str | None = None  #: of an action: ``node24``, ``composite``, ``docker``; None: its file can't be read

    @property
    def foreign(self) -> bool:
        """Whether it is named with a repository."""
        return "@" in self.name

    @property
    def is_action(self) -> bool:
        """Whether it is an action of others. Workflows that are called need not be named by their commit."""
        return self.foreign and not self.path.startswith(WORKFLOW_FOLDER)

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.name} (inside {self.inside})" if self.inside else self.name


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository on GitHub, as far as the token may see it."""

    seen: Observations
    contents: Contents
    used: tuple[UsedAction, ...]  #: by its workflows, nested actions too


def read_files(files: Mapping[str, bytes], *, branch: str, github: bool = True) -> Contents:
    """Read every file that exists; one finding for each invalid one.

    :param github: whether the repository is on GitHub, and so must have workflows
    """
    findings: list[Finding] = []

    def attempt(path: str, read: Callable[[bytes], Thing]) -> Thing | None:
        if path not in files:
            return None
        try:
            return read(files[path])
        except ReleaseError as error:
            findings.append(of_error("", error, about=path))
            return None

    attempt(PIN_FILE, lambda content: parse_pin(content, where=PIN_FILE))
    matrix = attempt(TARGETS_FILE, lambda content: Matrix.parse(content.decode("utf-8", errors="replace")))
    config = attempt(CONFIG_FILE, lambda content: read_config(content, where=CONFIG_FILE))
    paths = sorted(path for path in files if github and path.startswith(WORKFLOW_FOLDER))
    read = {path: attempt(path, lambda content, path=path: parse(content, Workflow, where=path)) for path in paths}  # type: ignore[misc]
    contents = Contents(
        matrix=matrix,
        config=config,
        workflows={path: workflow for path, workflow in read.items() if workflow is not None},
        integrates=CONFIG_FILE in files,
        releases=CONFIG_FILE not in files or bool({TARGETS_FILE, WORKFLOW_FOLDER + "snapshot.yml"} & files.keys()),
        found=findings,
    )
    names = contents.required if github else RELEASE_FILES
    missing = [path for path in names if path not in files]
    if missing:
        remedy = "copy them from the toolkit's repository, and commit them to the default branch"
        findings.insert(0, problem(f"{branch} lacks {', '.join(missing)}", remedy))
    if not findings:
        number = sum(path in files for path in {*names, CONFIG_FILE}) + len(contents.workflows.keys() - set(names))
        findings.append(ok(f"{branch} has all files; {number} were read"))
    return contents


def found(repository: Repository) -> Iterator[Answer]:
    """The findings of reading the files."""
    yield from repository.contents.found
    if repository.seen.files is None:
        yield Hidden(f"the files of {repository.seen.branch}", "contents", "contents: read")


def triggers(repository: Repository) -> Iterator[Answer]:
    """Whether each workflow has the triggers that it needs."""
    started = []
    for standard, (wanted, _) in WORKFLOWS.items():
        path = repository.contents.path(WORKFLOW_FOLDER + standard)
        workflow = repository.contents.workflows.get(path)
        if workflow is None:
            continue
        missing = ", ".join(sorted(wanted - workflow.triggers()))
        started.append(not missing)
        if missing:
            text = f"{path} is not started by {missing.replace(', ', ' and ')}"
            yield problem(text, f"add {missing} to its triggers (on)")
    if started and all(started):
        yield ok("every workflow has its triggers")


def job_permissions(repository: Repository) -> Iterator[Answer]:
    """Whether the jobs of each workflow have the rights that they need. No default grants ``id-token``."""
    defaults = repository.seen.defaults
    for standard, (_, wanted) in WORKFLOWS.items():
        path = repository.contents.path(WORKFLOW_FOLDER + standard)
        workflow = repository.contents.workflows.get(path)
        if workflow is None:
            continue
        given = {right: {workflow.access(job, right) for job in workflow.jobs.values()} for right in wanted}
        absent = [right for right in wanted if "write" not in given[right]]
        by_default = [right for right in absent if None in given[right] and right != "id-token"]
        lacking = [right for right in absent if right not in by_default or (defaults and not defaults.write)]
        unclear = [] if lacking or defaults else by_default
        asked, name = ", ".join(f"{right}: write" for right in lacking or unclear), path.removeprefix(WORKFLOW_FOLDER)
        remedy = f"add {asked} to the permissions of the job that needs it, as in the toolkit's own {name}"
        if lacking:
            yield problem(f"no job of {path} has {asked}", remedy)
        elif unclear:
            yield unknown(f"no job of {path} has {asked} of its own, and the default permissions are hidden", remedy)
        else:
            yield ok(f"the jobs of {name} have the permissions that they need")


def signer(repository: Repository) -> Iterator[Answer]:
    """Whether ``attest.yml`` of this very repository signs, at the branch that signatures must name.

    GitHub allows no expression in ``uses``, so the repository's name is written in the workflows themselves.
    """
    name = repository.seen.repository
    calls = {
        (path.removeprefix(WORKFLOW_FOLDER), job.uses)
        for path, workflow in repository.contents.workflows.items()
        for job in workflow.jobs.values()
        if job.uses.partition("@")[0].endswith(SIGNER)
    }
    wrong = []
    for caller, uses in sorted(calls):
        match = _SIGNER_CALL.fullmatch(uses)  # none for ./… and $/…, which are the caller's own commit
        if match is None or (match["repository"].lower(), match["ref"]) != (name.lower(), DEFAULT_BRANCH):
            wrong.append(f"{caller} calls {uses}")
    if calls:
        yield verdict(
            not wrong,
            f"{'; '.join(wrong)}: its signatures would be refused"
            if wrong
            else f"releases are signed by {name}/{SIGNER}@{DEFAULT_BRANCH}",
            adopt_command(name),
        )


def adopt_command(repository: str) -> str:
    """The remedy for files that are not this repository's own."""
    return f"in a checkout: mlir-release forge adopt {repository} @ORGANISATION/TEAM; then commit that"
