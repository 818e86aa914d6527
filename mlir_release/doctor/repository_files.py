"""The files of a release repository: whether they exist, can be read, and request the permissions they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from mlir_release.doctor.results import Finding, of_error
from mlir_release.doctor.reviews import SECURITY_FILE
from mlir_release.doctor.workflows import Workflow, parse_workflow
from mlir_release.errors import ReleaseError
from mlir_release.forge.codeowners import CODEOWNERS_FILE
from mlir_release.integrate.config import CONFIG_FILE, Config, read_config
from mlir_release.model.matrix import Matrix
from mlir_release.model.pin import PIN_FILE, parse_pin
from mlir_release.model.targets import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Thing = TypeVar("Thing")

#: The files of a release repository besides workflows; only the first two are always needed.
RELEASE_FILES = (PIN_FILE, TARGETS_FILE)
FILES = (*RELEASE_FILES, CONFIG_FILE, CODEOWNERS_FILE, SECURITY_FILE)

_FOLDER = ".github/workflows/"

#: The workflows of a release repository: their triggers, and the write permissions that at least one job of each must
#: have. ``targets.toml`` may name another ``release.yml``.
WORKFLOWS: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "snapshot.yml": (frozenset({"schedule", "workflow_dispatch"}), ("contents", "actions")),
    "release.yml": (
        frozenset({"workflow_dispatch"}),
        ("contents", "actions", "issues", "id-token", "attestations"),
    ),
    "platform.yml": (frozenset({"workflow_call"}), ("contents", "id-token", "attestations")),
    "attest.yml": (frozenset({"workflow_call"}), ("id-token", "attestations")),
    "latest.yml": (frozenset({"workflow_dispatch"}), ("contents", "id-token", "attestations")),
    "compiler-caches.yml": (frozenset({"workflow_dispatch"}), ()),
    "numbered-release.yml": (frozenset({"workflow_dispatch"}), ("contents", "actions")),
    "pages.yml": (frozenset({"workflow_dispatch"}), ("pages", "id-token", "actions")),
    "probe.yml": (frozenset({"workflow_dispatch"}), ()),
}

REQUIRED = (*RELEASE_FILES, *(_FOLDER + name for name in WORKFLOWS))

#: Files that only a release repository has.
_OF_RELEASES = frozenset({TARGETS_FILE, _FOLDER + "snapshot.yml"})

#: Permissions that no repository grants by default.
_NEVER_BY_DEFAULT = frozenset({"id-token"})


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of the files; None, or absent, for one that is missing or invalid."""

    matrix: Matrix | None = None
    config: Config | None = None
    workflows: Mapping[str, Workflow] = field(default_factory=dict)  #: by path
    integrates: bool = False  #: whether integrate runs there: there is an integrate.toml
    releases: bool = True  #: whether it is a release repository, not only a downstream


def read_files(files: Mapping[str, bytes], *, branch: str, github: bool = True) -> tuple[Contents, tuple[Finding, ...]]:
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
            findings.append(of_error("files", error, about=path))
            return None

    attempt(PIN_FILE, lambda content: parse_pin(content, where=PIN_FILE))
    matrix = attempt(TARGETS_FILE, lambda content: Matrix.parse(content.decode("utf-8", errors="replace")))
    config = attempt(CONFIG_FILE, lambda content: read_config(content, where=CONFIG_FILE))
    workflows = {}
    if github:
        for path in sorted(path for path in files if path.startswith(_FOLDER)):
            found = attempt(path, lambda content, path=path: parse_workflow(content, path=path))  # type: ignore[misc]
            if found is not None:
                workflows[path] = found
    contents = Contents(
        matrix=matrix,
        config=config,
        workflows=workflows,
        integrates=CONFIG_FILE in files,
        releases=CONFIG_FILE not in files or bool(_OF_RELEASES & files.keys()),
    )
    names = required(contents) if github else RELEASE_FILES
    missing = [path for path in names if path not in files]
    if missing:
        text = f"{branch} lacks {', '.join(missing)}"
        remedy = "copy them from the toolkit's repository, and commit them to the default branch"
        findings.insert(0, Finding("files", "problem", text, remedy))
    if not findings:
        read = sum(path in files for path in {*names, CONFIG_FILE}) + len(workflows.keys() - set(names))
        findings.append(Finding("files", "ok", f"{branch} has all files; {read} were read"))
    return contents, tuple(findings)


def required(contents: Contents) -> tuple[str, ...]:
    """Paths that a repository on GitHub must have."""
    if not contents.releases:
        return (CONFIG_FILE,)
    release = contents.matrix.release.workflow if contents.matrix else "release.yml"
    return tuple(_FOLDER + release if path == _FOLDER + "release.yml" else path for path in REQUIRED)


def examine_workflows(contents: Contents, *, default_write: bool | None) -> Iterator[Finding]:
    """Whether the workflows have their triggers, and their jobs the permissions that they need.

    :param default_write: whether a job without permissions of its own may write; None: this is hidden
    """
    if not contents.releases:
        return
    release = contents.matrix.release.workflow if contents.matrix else "release.yml"
    started = []
    for standard, (triggers, writes) in WORKFLOWS.items():
        name = release if standard == "release.yml" else standard
        workflow = contents.workflows.get(_FOLDER + name)
        if workflow is None:
            continue
        missing = sorted(triggers - workflow.triggers)
        started.append(not missing)
        if missing:
            text = f"{workflow.path} is not started by {' and '.join(missing)}"
            yield Finding("triggers", "problem", text, f"add {', '.join(missing)} to its triggers (on)")
        yield from _permissions(workflow, writes, default_write)
    if started and all(started):
        yield Finding("triggers", "ok", "every workflow has its triggers")


def _permissions(workflow: Workflow, wanted: tuple[str, ...], default_write: bool | None) -> Iterator[Finding]:
    lacking, unclear = [], []
    for permission in wanted:
        given = {job.may(permission) for job in workflow.jobs}
        if "write" in given:
            continue
        by_default = default_write if None in given and permission not in _NEVER_BY_DEFAULT else False
        if by_default is None:
            unclear.append(permission)
        elif not by_default:
            lacking.append(permission)
    asked = ", ".join(f"{permission}: write" for permission in lacking or unclear)
    remedy = f"add {asked} to the permissions of the job that needs it, as in the toolkit's own {workflow.name}"
    if lacking:
        yield Finding("job-permissions", "problem", f"no job of {workflow.path} has {asked}", remedy)
    elif unclear:
        text = f"no job of {workflow.path} has {asked} of its own, and the default permissions are hidden"
        yield Finding("job-permissions", "unknown", text, remedy)
    else:
        yield Finding("job-permissions", "ok", f"the jobs of {workflow.name} have the permissions that they need")
