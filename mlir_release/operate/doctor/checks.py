"""The table of checks, in the order in which a person would fix their findings; and its runner.

A check of a repository on GitHub is a pure function of observations. A setting that the token may not see becomes an
unknown finding, with the permission that would show it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.git.repository import Git
from mlir_release.operate.doctor import actions, files, index, integrate, lint, releases, rules, settings
from mlir_release.operate.doctor.files import Repository
from mlir_release.operate.doctor.projects import examine_projects
from mlir_release.operate.doctor.pythons import examine_pythons, examine_runners
from mlir_release.operate.doctor.results import Finding, Hidden, of_error, ok, problem, unknown
from mlir_release.release.forge.files import DEFAULT_BRANCH, head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mlir_release.operate.doctor.results import Answer
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.observations import Observations
    from mlir_release.release.model.matrix import Matrix


class Check(NamedTuple):
    """A row of the table."""

    name: str  #: of its findings, unless one says otherwise
    run: Callable[[Repository], Iterator[Answer]]
    title: str = ""  #: the fact that it reads, as a finding names it where the token may not see it
    asked: str = ""  #: the part of the address that tells it; else the files of the branch do
    permission: str = ""  #: that usually shows it


_ADMIN = "administration: read"

#: Of every repository.
GENERAL = (
    Check("token", settings.token),
    Check("files", files.found, "the files of the branch", "contents", "contents: read"),
    Check("archived", settings.archived),
    Check("default-branch", settings.default_branch),
    Check("actions", actions.enabled, "whether Actions is enabled", "permissions", _ADMIN),
    Check("allowed-actions", actions.allowed, "which actions may run", "selected-actions", _ADMIN),
    Check("pinned-actions", actions.pinned, "whether a commit must be named", "permissions", _ADMIN),
    Check("action-runtimes", actions.runtimes),
    Check("action-files", actions.unread),
    Check("workflows", actions.active_workflows, "which workflows are active", "workflows", "actions: read"),
    Check("default-permissions", actions.defaults, "the default permissions of jobs", "workflow", _ADMIN),
)

#: Of those that release.
RELEASES = (
    Check("triggers", files.triggers),
    Check("job-permissions", files.job_permissions),
    Check("workflow-lint", lint.lint),
    Check("protected-branch", rules.protected_branch, "the rules for the branch", "rules", "metadata: read"),
    Check("pin-branch", rules.pin_branches, "the rules for the branches of pins", "rules", "metadata: read"),
    Check("tag-rules", rules.tags, "the rulesets", "rulesets", "metadata: read"),
    Check("immutable-releases", settings.immutable, "whether releases are immutable", "immutable-releases", _ADMIN),
    Check("issues", settings.issues),
    Check("pages", settings.pages, "the settings of Pages", "pages", "pages: read"),
    Check("code-owners", settings.code_owners, "whether the owners in CODEOWNERS have access", "codeowners",
          "contents: read"),
    Check("security-policy", settings.security_policy),
    Check("private-reports", settings.private_reports, "whether vulnerabilities can be reported in private",
          "private-vulnerability-reporting", _ADMIN),
    Check("signer", files.signer),
    Check("first-run", files.first_run),
    Check("schedule", settings.schedule, f"the variable {settings.SCHEDULE_VARIABLE}", "variables", "variables: read"),
)  # fmt: skip

#: Of those whose releases go to PyPI.
UPLOADS = (Check("environment", settings.environment, "the environments", "environments", "actions: read"),)

#: Of those that integrate runs in.
INTEGRATES = (
    Check("pull-request-token", integrate.pull_request_token),
    Check("pull-request-creation", integrate.pull_request_creation, "whether jobs may create pull requests", "workflow",
          _ADMIN),
    Check("integrate-caller", integrate.callers),
    Check("roller", integrate.roller),
    Check("export-token", integrate.export_token),
)  # fmt: skip


def look(seen: Observations, read: actions.Read) -> Repository:
    """The findings about a repository's files.

    :param read: the files of actions that the workflows use
    """
    contents = files.Contents() if seen.files is None else files.read_files(seen.files, branch=seen.branch)
    used = actions.all_uses(contents.workflows, repository=seen.repository, branch=seen.branch, read=read)
    return Repository(seen=seen, contents=contents, used=used)


def run_checks(repository: Repository) -> list[Finding]:
    """The findings of every check in the tables that the repository needs."""
    contents, found = repository.contents, []
    tables = (GENERAL, *([RELEASES] if contents.releases else []), *([UPLOADS] if index.goes_to_pypi(contents) else []),
              *([INTEGRATES] if contents.integrates else []))  # fmt: skip
    for check in chain.from_iterable(tables):
        for answer in check.run(repository):
            fact = answer or Hidden(check.title, check.asked, check.permission)
            finding = fact if isinstance(fact, Finding) else _hidden(repository.seen, fact)
            found.append(replace(finding, check=finding.check or check.name))
    return found


def _hidden(seen: Observations, fact: Hidden) -> Finding:
    """That the token may not see a fact, and the permission that would show it."""
    refusal = next((refusal for path, refusal in seen.refusals.items() if fact.asked in path.split("/")), None)
    if refusal is not None and refusal.by_plan:
        return unknown(f"{fact.title}: {refusal.said}", "make the repository public, or upgrade its owner's plan")
    permission = refusal.permissions.replace("=", ": ").replace("_", " ") if refusal else ""
    remedy = f"use a token that has {permission or fact.permission}"
    return unknown(f"{fact.title}: this token may not see it", remedy)


def check_forge(
    forge: Forge, *, branch: str | None = None, index_url: str | None = "", owners: Sequence[str] = ()
) -> list[Finding]:
    """Observe a release repository and run every check that applies to it.

    :param branch: that the toolkit comes from; None: the default branch
    :param index_url: the simple index to ask about our project; empty: PyPI's; None: ask none
    :param owners: users or organizations that must own the project there; none: those of the repository's variable
    :raises UsageError: ``branch-missing``
    """
    services = forge.services
    if services is None:
        return list(_local(forge, branch or DEFAULT_BRANCH))
    if branch:
        head_of(forge, branch)  # a misspelt branch is one error, not a finding for everything that it lacks
    seen = services.settings(files.FILES, branch)
    repository = look(seen, lambda name, path, ref: services.file_of(name, path, ref=ref))
    contents, found = repository.contents, run_checks(repository)
    if contents.matrix is not None:
        found += releases.green_checks(contents.matrix.release)
        if contents.releases:
            found += _of_releases(forge, contents.matrix, seen.branch)
    if index_url is not None and contents.releases:
        found += index.ask_index(forge, contents, seen.variables, index_url, owners)
    return found


def _of_releases(forge: Forge, matrix: Matrix, branch: str) -> Iterator[Finding]:
    """The checks on a forge of any kind."""
    yield releases.newest_pin(forge, matrix.release)
    if forge.services is not None:
        yield from releases.pointer(forge, matrix.release)
    yield from examine_projects(matrix)
    yield from examine_pythons(matrix, today=forge.now().date())
    if forge.services is not None:
        yield from examine_runners((runtime.runner for runtime in matrix.runtimes), today=forge.now().date())
    yield from releases.targets_of_newest(forge)
    yield from releases.proven(forge, matrix)
    yield from releases.lines(forge, branch)


def _local(forge: Forge, branch: str) -> Iterator[Finding]:
    """Every check of a forge without settings: of git, the branch and the files."""
    try:
        yield releases.check_git(Git(Path()).text("--version"))
        commit = head_of(forge, branch)
    except ReleaseError as error:
        yield of_error("branch" if error.id == "branch-missing" else "git", error)
        return
    yield ok(f"{branch} is at {commit[:12]}", check="branch")
    found = {path: content for path in files.FILES if (content := forge.read(path, commit=commit)) is not None}
    contents = files.read_files(found, branch=branch, github=False)
    yield from (replace(finding, check="files") for finding in contents.found)
    if contents.matrix is None:
        return
    yield from _of_releases(forge, contents.matrix, branch)
    named = contents.matrix.release.branch
    if named != branch:
        text = f"targets.toml names {named} as its branch, but this is {branch}"
        remedy = "correct branch in [release], or examine the other branch with --branch"
        yield problem(text, remedy, check="default-branch")
