"""The table of checks, in the order in which a person would fix their findings; and its runner.

A check is a pure function of what is known. A setting that the token may not see becomes an unknown finding, with the
permission that would show it; so does what the forge or an index refuses to tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.ground.errors import ReleaseError
from mlir_release.operate.doctor import actions, files, index, integrate, releases, settings
from mlir_release.operate.doctor.files import Contents, Examined, read_files
from mlir_release.operate.doctor.results import Answer, Examination, Finding, Hidden, Level, of_error, unknown
from mlir_release.release.forge.files import head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.observations import Observations


class Check(NamedTuple):
    """A row of the table."""

    name: str  #: of its findings, unless one says otherwise
    run: Callable[[Examined], Iterator[Answer]]
    title: str = ""  #: the fact that it reads, as a finding names it where the token may not see it
    asked: str = ""  #: the part of the address that tells it; else the files of the branch do
    permission: str = ""  #: that usually shows it
    reads: str = ""  #: the observation without which it finds nothing
    refused: Level = "unknown"  #: what an error means


_ADMIN, _META, _ACTIONS = "administration: read", "metadata: read", "actions: read"

#: Whom checks are about, and those checks.
TABLE: tuple[tuple[Callable[[Examined], bool], tuple[Check, ...]], ...] = (
    (lambda known: not known.hosted, (
        Check("git", releases.git, refused="problem"),
        Check("branch", settings.branch, refused="problem"),
    )),
    (lambda known: known.hosted, (
        Check("token", settings.token),
        Check("files", files.found, "the files of the branch", "contents", "contents: read"),
        Check("archived", settings.archived),
        Check("default-branch", settings.default_branch),
        Check("actions", actions.enabled, "whether Actions is enabled", "permissions", _ADMIN, "actions_enabled"),
        Check("allowed-actions", actions.allowed, "which actions may run", "selected-actions", _ADMIN),
        Check("pinned-actions", actions.pinned, "whether a commit must be named", "permissions", _ADMIN),
        Check("action-runtimes", actions.runtimes),
        Check("action-files", actions.unread),
        Check("workflows", actions.active, "which workflows are active", "workflows", _ACTIONS, "workflows"),
        Check("default-permissions", actions.defaults, "the default permissions of jobs", "workflow", _ADMIN,
              "defaults"),
    )),
    (lambda known: known.releases, (
        Check("triggers", files.triggers),
        Check("job-permissions", files.job_permissions),
        Check("workflow-lint", actions.lint),
        Check("protected-branch", settings.protected_branch),
        Check("pin-branch", settings.pin_branches),
        Check("tag-rules", settings.tags, "the rulesets", "rulesets", _META, "tag_rules"),
        Check("immutable-releases", settings.immutable, "whether releases are immutable", "immutable-releases", _ADMIN,
              "immutable"),
        Check("issues", settings.issues),
        Check("pages", settings.pages, "the settings of Pages", "pages", "pages: read"),
        Check("code-owners", settings.code_owners, "whether the owners in CODEOWNERS have access", "codeowners",
              "contents: read"),
        Check("security-policy", settings.security_policy),
        Check("private-reports", settings.private_reports, "whether vulnerabilities can be reported in private",
              "private-vulnerability-reporting", _ADMIN),
        Check("signer", files.signer),
        Check("first-run", files.first_run),
        Check("schedule", settings.schedule, f"the variable {settings.SCHEDULE_VARIABLE}", "variables",
              "variables: read"),
    )),
    (lambda known: known.releases and known.uploads, (
        Check("environment", settings.environment, "the environments", "environments", _ACTIONS, "environments"),
    )),
    (lambda known: known.hosted and known.contents.integrates, (
        Check("pull-request-token", integrate.pull_request_token),
        Check("pull-request-creation", integrate.pull_request_creation, "whether jobs may create pull requests",
              "workflow", _ADMIN),
        Check("integrate-caller", integrate.callers),
        Check("roller", integrate.roller),
        Check("export-token", integrate.export_token),
    )),
    (lambda known: not known.hosted, (
        Check("files", files.found),
        Check("default-branch", settings.default_branch),
    )),
    (lambda known: known.asks, (
        Check("pins", releases.pins),
        Check("projects", releases.projects),
        Check("cpython", releases.pythons),
        Check("excluded", releases.excluded),
        Check("proven", releases.proven),
        Check("lines", releases.lines),
    )),
    (lambda known: known.asks and known.hosted, (
        Check("green-checks", releases.green_checks),
        Check("latest", releases.pointer, refused="problem"),
        Check("newest-snapshot", releases.newest),
        Check("runners", releases.runners),
    )),
    (lambda known: known.releases and known.index_url is not None, (
        Check("pypi", index.projects),
        Check("pypi-names", index.names),
        Check("toolkit-name", index.toolkit),
    )),
)  # fmt: skip


def run_checks(known: Examined) -> list[Finding]:
    """The findings of every check that is about such a repository."""
    return [row for applies, checks in TABLE if applies(known) for check in checks for row in ask(check, known)]


def ask(check: Check, known: Examined) -> list[Finding]:
    """The findings of one check."""
    found: list[Finding] = []
    try:
        hidden = check.reads and getattr(known.seen, check.reads) is None
        for answer in [None] if hidden else check.run(known):
            if isinstance(answer, Finding):
                found.append(answer)
                continue
            fact, refusals = answer or Hidden(check.title, check.asked, check.permission), known.seen.refusals
            refusal = next((refusal for path, refusal in refusals.items() if fact.asked in path.split("/")), None)
            if refusal is not None and refusal.by_plan:
                remedy = "make the repository public, or upgrade its owner's plan"
                found.append(unknown(f"{fact.title}: {refusal.said}", remedy))
                continue
            permission = refusal.permissions.replace("=", ": ").replace("_", " ") if refusal else ""
            remedy = f"use a token that has {permission or fact.permission}"
            found.append(unknown(f"{fact.title}: this token may not see it", remedy))
    except ReleaseError as error:
        found.append(of_error("", error, level=check.refused))
    return [replace(finding, check=finding.check or check.name) for finding in found]


def look(seen: Observations, read: actions.Read) -> Examined:
    """What a repository's settings and files tell.

    :param read: the files of actions that the workflows use
    """
    contents = Contents()
    if seen.files is not None:
        contents = read_files(seen.files, branch=seen.branch, github=bool(seen.repository))
    own = {(seen.repository, path, seen.branch): content for path, content in (seen.files or {}).items()}
    used = actions.all_uses(
        contents.workflows,
        repository=seen.repository,
        branch=seen.branch,
        read=lambda *asked: own.get(asked) or read(*asked),
    )
    return Examined(seen=seen, contents=contents, used=used)


def check_forge(
    forge: Forge, *, branch: str | None = None, index_url: str | None = "", owners: Sequence[str] = ()
) -> Examination:
    """Observe a release repository and run every check that applies to it.

    :param branch: that the toolkit comes from; None: the default branch
    :param index_url: the simple index to ask about our project; empty: PyPI's; None: ask none
    :param owners: users or organizations that must own the project there; none: those of the repository's variable
    :raises UsageError: ``branch-missing``
    """
    if branch and forge.services.url:
        head_of(forge, branch)  # a misspelt branch is one error, not a finding for everything that it lacks
    seen = forge.services.settings(files.FILES, branch)
    read = forge.services.file_of
    known = look(seen, lambda name, path, ref: read(name, path, ref=ref))
    found = run_checks(replace(known, forge=forge, index_url=index_url, owners=tuple(owners)))
    return Examination(found, heading=forge.description)
