"""Whether a repository on GitHub is set up for releases: findings, each with its remedy, from what was observed.

Pure: :mod:`mlir_release.forge.github_setup` observes. What a token may not see is said to be unknown, not well.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from mlir_release.console import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: A tag of each kind, that rules are tried on.
SAMPLE_TAGS = ("snapshot-20261120.01", "llvm-22.1.8.01")

#: The environment that the job which uploads to PyPI runs in.
PYPI_ENVIRONMENT = "pypi"

#: What a project may take on PyPI, bytes (pypi.org/help), and the part of it from which on we warn.
PYPI_LIMIT = 10 * 1024**3
PYPI_WARNING = 0.8

#: Files of the default branch that the release side needs; workflows at their places.
REQUIRED_FILES = (
    "llvm-project.version",
    "targets.toml",
    ".github/workflows/snapshot.yml",
    ".github/workflows/release.yml",
    ".github/workflows/numbered-release.yml",
    ".github/workflows/pages.yml",
)

#: Rules (and fields of classic branch protection) that keep a bot from updating a branch directly.
BLOCKING = frozenset(
    {
        "update",
        "pull_request",
        "required_status_checks",
        "required_signatures",
        "merge_queue",
        "workflows",
        "required_deployments",
        "required_pull_request_reviews",
        "restrictions",
        "lock_branch",
    }
)

Level = Literal["ok", "problem", "unknown"]


@dataclass(frozen=True, kw_only=True)
class TagRule:
    """A rule of an active ruleset for tags."""

    kind: str  #: ``creation``, ``update``, ``deletion``, …
    include: tuple[str, ...]  #: ``refs/tags/…`` patterns, or ``~ALL``
    exclude: tuple[str, ...] = ()
    bypassed: bool = False  #: by the one who asks

    def covers(self, tag: str) -> bool:
        """Whether the rule is about a tag."""
        ref = f"refs/tags/{tag}"
        return any(p == "~ALL" or fnmatchcase(ref, p) for p in self.include) and not any(
            fnmatchcase(ref, p) for p in self.exclude
        )


@dataclass(frozen=True, kw_only=True)
class Observations:
    """What one token sees of a repository. None: it may not see it."""

    repository: str
    branch: str  #: that holds the pin
    default_branch: str
    may_push: bool | None
    scopes: frozenset[str] | None  #: of a classic token; None for every other kind
    files: frozenset[str]  #: of :data:`REQUIRED_FILES` and ``integrate.toml``, those that the branch has
    actions_enabled: bool | None
    workflows: Mapping[str, str] | None  #: path -> ``active``, ``disabled_inactivity``, …
    immutable: bool | None  #: whether releases are immutable
    tag_rules: tuple[TagRule, ...] | None
    branch_rules: frozenset[str] | None  #: rules of the pin's branch that do not let the one who asks pass
    issues: bool  #: whether the repository has issues
    pages: str | None  #: how Pages are built: ``workflow``, ``legacy``; empty: there are none
    environments: Mapping[str, tuple[str, ...] | None] | None  #: name -> its tag patterns; None: any ref may deploy
    secrets: frozenset[str] | None  #: names of the repository's secrets
    pypi_owners: frozenset[str] | None = None  #: of the project ``mlir``; None: PyPI does not say
    pypi_bytes: int | None = None  #: that it takes
    pypi_asked: bool = False


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check's answer."""

    check: str  #: stable, kebab-case
    level: Level
    text: str
    remedy: str = ""


def examine(seen: Observations, *, owners: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """Every check's answer, in the order in which somebody would put things right.

    :param owners: users and organizations on PyPI, one of which must own ``mlir``; empty: nothing is said of PyPI
    """
    return tuple(finding for check in _CHECKS for finding in check(seen)) + tuple(_pypi(seen, owners))


def _unknown(check: str, what: str, permission: str) -> Finding:
    return Finding(
        check=check,
        level="unknown",
        text=f"{what}: this token may not see it",
        remedy=f"run this with a token that has {permission}",
    )


def _token(seen: Observations) -> Iterator[Finding]:
    if seen.scopes is not None and not seen.scopes & {"repo", "public_repo"}:
        yield Finding(
            check="token",
            level="problem",
            text=f"the token's scopes are {', '.join(sorted(seen.scopes)) or 'none'}",
            remedy="give it the scope repo; better, use a fine-grained token or the workflow's own",
        )
    elif seen.may_push is None:
        yield _unknown("token", "whether it may write", "contents: write")
    elif seen.may_push:
        yield Finding(check="token", level="ok", text="the token may write to the repository")
    else:
        yield Finding(
            check="token",
            level="problem",
            text="the token may only read",
            remedy="give it contents: write, actions: write and issues: write "
            "(in a workflow: its job's permissions; the workflows here set them)",
        )


def _files(seen: Observations) -> Iterator[Finding]:
    missing = [path for path in REQUIRED_FILES if path not in seen.files]
    if missing:
        yield Finding(
            check="files",
            level="problem",
            text=f"{seen.branch} lacks {', '.join(missing)}",
            remedy="copy them from the toolkit's repository, and commit them to the default branch",
        )
    else:
        yield Finding(check="files", level="ok", text=f"{seen.branch} has all {len(REQUIRED_FILES)} files")
    if seen.branch != seen.default_branch:
        yield Finding(
            check="default-branch",
            level="problem",
            text=f"the pin is on {seen.branch}, and the default branch is {seen.default_branch}",
            remedy="schedules and dispatches run from the default branch: make the two the same (Settings > General)",
        )


def _actions(seen: Observations) -> Iterator[Finding]:
    if seen.actions_enabled is None:
        yield _unknown("actions", "whether Actions is enabled", "administration: read")
    else:
        yield Finding(
            check="actions",
            level="ok" if seen.actions_enabled else "problem",
            text=f"Actions is {'enabled' if seen.actions_enabled else 'disabled'}",
            remedy="" if seen.actions_enabled else "Settings > Actions > General: allow actions",
        )
    if seen.workflows is None:
        yield _unknown("workflows", "which workflows are active", "actions: read")
        return
    asleep = [path for path, state in sorted(seen.workflows.items()) if state != "active" and path in REQUIRED_FILES]
    yield Finding(
        check="workflows",
        level="problem" if asleep else "ok",
        text=f"disabled: {', '.join(asleep)}" if asleep else "no workflow is disabled",
        remedy="Actions > the workflow > Enable workflow (GitHub disables schedules after 60 days without activity)"
        if asleep
        else "",
    )


def _branch(seen: Observations) -> Iterator[Finding]:
    if seen.branch_rules is None:
        yield _unknown("pin-branch", f"what protects {seen.branch}", "administration: read")
        return
    blocking = sorted(seen.branch_rules & BLOCKING)
    yield Finding(
        check="pin-branch",
        level="problem" if blocking else "ok",
        text=f"{seen.branch} is closed to the bot by {', '.join(blocking)}"
        if blocking
        else f"the bot may commit the pin to {seen.branch}",
        remedy="let the bot bypass that rule (Settings > Rules > the ruleset > Bypass list), or use a branch of its own"
        if blocking
        else "",
    )


def _tags(seen: Observations) -> Iterator[Finding]:
    if seen.tag_rules is None:
        yield _unknown("tag-rules", "the rulesets", "administration: read")
        return
    for sample in SAMPLE_TAGS:
        pattern = sample.partition("-")[0] + "-*"
        rules = [rule for rule in seen.tag_rules if rule.covers(sample)]
        kinds = {rule.kind for rule in rules}
        open_to = [word for kind, word in (("update", "moved"), ("deletion", "deleted")) if kind not in kinds]
        if any(rule.kind == "creation" and not rule.bypassed for rule in rules):
            yield Finding(
                check="tag-creation",
                level="problem",
                text=f"a rule keeps the bot from creating {pattern}",
                remedy="put the bot on that ruleset's bypass list, or take `Restrict creations` out",
            )
        yield Finding(
            check="tag-rules",
            level="problem" if open_to else "ok",
            text=f"{pattern} can be {' and '.join(open_to)}" if open_to else f"{pattern} can't be moved or deleted",
            remedy=f"Settings > Rules > New tag ruleset: target {pattern}, restrict updates and deletions, no bypass"
            if open_to
            else "",
        )


def _immutable(seen: Observations) -> Iterator[Finding]:
    if seen.immutable is None:
        yield _unknown("immutable-releases", "whether releases are immutable", "administration: read")
    else:
        yield Finding(
            check="immutable-releases",
            level="ok" if seen.immutable else "problem",
            text=f"releases are {'' if seen.immutable else 'not '}immutable once they are published",
            remedy="" if seen.immutable else "Settings > General > Releases: enable release immutability",
        )


def _issues(seen: Observations) -> Iterator[Finding]:
    yield Finding(
        check="issues",
        level="ok" if seen.issues else "problem",
        text=f"issues are {'enabled' if seen.issues else 'disabled: failing targets have nowhere to be told'}",
        remedy="" if seen.issues else "Settings > General > Features: Issues",
    )


def _pages(seen: Observations) -> Iterator[Finding]:
    if seen.pages is None:
        yield _unknown("pages", "the settings of Pages", "pages: read")
    else:
        well = seen.pages == "workflow"
        yield Finding(
            check="pages",
            level="ok" if well else "problem",
            text="Pages are deployed by a workflow"
            if well
            else ("Pages are built from a branch" if seen.pages else "Pages are off"),
            remedy="" if well else "Settings > Pages > Source: GitHub Actions",
        )


def _environments(seen: Observations) -> Iterator[Finding]:
    if seen.environments is None:
        yield _unknown("environment", "the environments", "actions: read")
        return
    remedy = (
        f"Settings > Environments > {PYPI_ENVIRONMENT}: Deployment branches and tags > Selected, "
        "add the tag rule llvm-*, no branch; add required reviewers if people should confirm each upload"
    )
    if PYPI_ENVIRONMENT not in seen.environments:
        text = f"there is no environment {PYPI_ENVIRONMENT}, which trusted publishing is bound to"
        yield Finding(check="environment", level="problem", text=text, remedy=remedy)
        return
    patterns = seen.environments[PYPI_ENVIRONMENT]
    snapshot, numbered = SAMPLE_TAGS
    well = patterns is not None and _any(patterns, numbered) and not _any(patterns, snapshot)
    allowed = "any branch or tag" if patterns is None else ", ".join(patterns) or "nothing"
    yield Finding(
        check="environment",
        level="ok" if well else "problem",
        text=f"the environment {PYPI_ENVIRONMENT} is open to {allowed}",
        remedy="" if well else remedy,
    )


def _any(patterns: tuple[str, ...], tag: str) -> bool:
    return any(fnmatchcase(tag, pattern) for pattern in patterns)


def _pull_requests(seen: Observations) -> Iterator[Finding]:
    if "integrate.toml" not in seen.files:
        return
    if seen.secrets is None:
        yield _unknown("pull-request-token", "the names of the secrets", "secrets: read")
        return
    named = ", ".join(sorted(seen.secrets))
    yield Finding(
        check="pull-request-token",
        level="ok" if seen.secrets else "problem",
        text=f"secrets for integrate's pull requests: {named}" if named else "integrate has no token of its own",
        remedy=""
        if named
        else "what the workflow's own token pushes starts no CI: make an App with contents and pull requests: write, "
        "store its token as a secret, and hand it to integrate.yml as app-token",
    )


def _pypi(seen: Observations, owners: frozenset[str]) -> Iterator[Finding]:
    if not seen.pypi_asked:
        return
    if owners:
        if seen.pypi_owners is None:
            text = "PyPI does not say who owns the project mlir"
            yield Finding(check="pypi-owner", level="unknown", text=text, remedy="look at pypi.org/project/mlir")
        else:
            well = bool(seen.pypi_owners & owners)
            yield Finding(
                check="pypi-owner",
                level="ok" if well else "problem",
                text=f"mlir on PyPI belongs to {', '.join(sorted(seen.pypi_owners)) or 'nobody'}",
                remedy="" if well else "ask for the name (PEP 541), then add a trusted publisher to the project",
            )
    if seen.pypi_bytes is None:
        text = "PyPI does not say how large the project mlir is"
        yield Finding(check="pypi-storage", level="unknown", text=text, remedy="look at the project's settings on PyPI")
    else:
        well = seen.pypi_bytes < PYPI_LIMIT * PYPI_WARNING
        yield Finding(
            check="pypi-storage",
            level="ok" if well else "problem",
            text=f"mlir takes {format_bytes(seen.pypi_bytes)} of PyPI's {format_bytes(PYPI_LIMIT)}",
            remedy="" if well else "ask PyPI for a higher limit (pypi.org/help/#project-size-limit) before it is full",
        )


_CHECKS: tuple[Callable[[Observations], Iterator[Finding]], ...] = (
    _token,
    _files,
    _actions,
    _branch,
    _tags,
    _immutable,
    _issues,
    _pages,
    _environments,
    _pull_requests,
)
