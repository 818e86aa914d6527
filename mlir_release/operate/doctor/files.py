"""What checks judge, one record of settings, files and releases; and the checks of files.

zizmor and actionlint find mistakes that any workflow can have. These checks are about releases only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from mlir_release.ground.documents.decode import MalformedError, convert, parse_json
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.llvm.pin import PIN_FILE, parse_pin
from mlir_release.integrate.config import CONFIG_FILE, Config, read_config
from mlir_release.operate.doctor.results import Answer, Finding, Hidden, of_error, ok, problem, unknown, verdict
from mlir_release.release.forge.checkout import SIGNER
from mlir_release.release.forge.codeowners import CODEOWNERS_FILE
from mlir_release.release.forge.files import DEFAULT_BRANCH, read_yanks
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.observations import Observations
    from mlir_release.release.pinning.state import TagState

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


def first_run(known: Examined) -> Iterator[Answer]:
    """The answers of GitHub's that the toolkit can't work with, if a first run was kept."""
    content = (known.seen.files or {}).get(FIRST_RUN_FILE)
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
class Examined:
    """A release repository. What is known of its releases is read once, when a check first needs it."""

    seen: Observations  #: the settings, as far as the token may see them; of a folder, only the files
    contents: Contents
    used: tuple[UsedAction, ...] = ()  #: by its workflows, nested actions too
    forge: Forge | None = None  #: None: nothing is asked about releases
    index_url: str | None = None  #: the simple index to ask about distributions; empty: PyPI's; None: ask none
    owners: Sequence[str] = ()  #: who must own them there; none: those of the repository's variable

    @property
    def hosted(self) -> bool:
        """Whether it is on GitHub, with settings and workflows."""
        return bool(self.seen.repository)

    @property
    def releases(self) -> bool:
        """Whether its workflows release."""
        return self.hosted and self.contents.releases

    @property
    def asks(self) -> bool:
        """Whether its releases are looked at: without a matrix, nothing says what they have to be."""
        return self.forge is not None and self.contents.matrix is not None and self.contents.releases

    @property
    def uploads(self) -> bool:
        """Whether numbered releases go to PyPI: targets.toml names a distribution for it, or can't be read."""
        return self.contents.matrix is None or bool(self.contents.matrix.on_pypi)

    @property
    def matrix(self) -> Matrix:
        """The build matrix, of a repository that has a valid one."""
        assert self.contents.matrix is not None
        return self.contents.matrix

    @property
    def place(self) -> Forge:
        """The forge, of a repository that is asked about its releases."""
        assert self.forge is not None
        return self.forge

    @cached_property
    def today(self) -> date:
        """The forge's date."""
        return self.place.now().date()

    @cached_property
    def ledger(self) -> Ledger:
        """The releases."""
        return Ledger(self.place)

    @cached_property
    def newest(self) -> Sequence[TagState]:
        """The newest ten of each kind."""
        return self.ledger.newest(10)

    @cached_property
    def newest_published(self) -> str:
        """The tag of the newest snapshot that is published and not yanked; empty without one."""
        return self.ledger.newest_published(read_yanks(self.place, self.matrix.release.branch))


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


def found(known: Examined) -> Iterator[Answer]:
    """The findings of reading the files."""
    yield from known.contents.found
    if known.seen.files is None and known.hosted:
        yield Hidden(f"the files of {known.seen.branch}", "contents", "contents: read")


def triggers(known: Examined) -> Iterator[Answer]:
    """Whether each workflow has the triggers that it needs."""
    started = []
    for standard, (wanted, _) in WORKFLOWS.items():
        path = known.contents.path(WORKFLOW_FOLDER + standard)
        workflow = known.contents.workflows.get(path)
        if workflow is None:
            continue
        missing = ", ".join(sorted(wanted - workflow.triggers()))
        started.append(not missing)
        if missing:
            text = f"{path} is not started by {missing.replace(', ', ' and ')}"
            yield problem(text, f"add {missing} to its triggers (on)")
    if started and all(started):
        yield ok("every workflow has its triggers")


def job_permissions(known: Examined) -> Iterator[Answer]:
    """Whether the jobs of each workflow have the rights that they need. No default grants ``id-token``."""
    defaults = known.seen.defaults
    for standard, (_, wanted) in WORKFLOWS.items():
        path = known.contents.path(WORKFLOW_FOLDER + standard)
        workflow = known.contents.workflows.get(path)
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


def signer(known: Examined) -> Iterator[Answer]:
    """Whether ``attest.yml`` of this very repository signs, at the branch that signatures must name.

    GitHub allows no expression in ``uses``, so the repository's name is written in the workflows themselves.
    """
    name = known.seen.repository
    calls = {
        (path.removeprefix(WORKFLOW_FOLDER), job.uses)
        for path, workflow in known.contents.workflows.items()
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
