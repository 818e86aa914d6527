"""The repository's settings: its branches, immutable releases, issues, Pages, and the environment for PyPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, hidden, verdict
from mlir_release.doctor.rules import SAMPLE_TAGS
from mlir_release.forge.github.observations import matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.forge.github.observations import Environment, Observations

#: The environment that the job which uploads to PyPI runs in.
PYPI_ENVIRONMENT = "pypi"

#: The repository variable without which snapshot.yml does nothing on its schedule: the push that brings it starts that.
SCHEDULE_VARIABLE = "MLIR_RELEASE_SCHEDULE"

#: The tag of a release candidate, to apply rules to.
SAMPLE_CANDIDATE = "llvm-23.1rc1.01"

#: The one that GitHub itself deploys Pages through.
PAGES_ENVIRONMENT = "github-pages"


def examine_branches(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """Whether the branch is the default branch and the one in targets.toml, and can be written to."""
    if seen.archived:
        remedy = "Settings > General > Unarchive this repository"
        yield Finding("archived", "problem", "the repository is archived: nothing can be written", remedy)
    if contents.releases and seen.branch != seen.default_branch:
        text = f"the toolkit is on {seen.branch}, but the default branch is {seen.default_branch}"
        remedy = (
            "schedules and dispatches run from the default branch, and tags are checked against it: make the two the "
            "same (Settings > General)"
        )
        yield Finding("default-branch", "problem", text, remedy)
    if contents.matrix is not None and contents.matrix.release.branch != seen.branch:
        text = f"targets.toml names {contents.matrix.release.branch} as its branch, but this is {seen.branch}"
        remedy = f'set branch = "{seen.default_branch}" in its [release], or examine the other branch with --branch'
        yield Finding("default-branch", "problem", text, remedy)


def examine_releases(seen: Observations) -> Iterator[Finding]:
    """Whether releases are immutable, failures can be reported as issues, and Pages can serve the index."""
    if seen.immutable is None:
        what = "whether releases are immutable"
        yield hidden(seen, "immutable-releases", what, asked="immutable-releases", usual="administration: read")
    else:
        yield verdict(
            "immutable-releases",
            seen.immutable,
            f"releases are {'' if seen.immutable else 'not '}immutable once they are published",
            "Settings > General > Releases: enable release immutability",
        )
    yield verdict(
        "issues",
        seen.issues,
        f"issues are {'enabled' if seen.issues else 'disabled: failing targets can not be reported'}",
        "Settings > General > Features: Issues",
    )
    if seen.pages is None:
        yield hidden(seen, "pages", "the settings of Pages", asked="pages", usual="pages: read")
    else:
        ways = {"workflow": "Pages are deployed by a workflow", "": "Pages are off"}
        text = ways.get(seen.pages, "Pages are built from a branch")
        yield verdict("pages", seen.pages == "workflow", text, "Settings > Pages > Source: GitHub Actions")
    found = (seen.environments or {}).get(PAGES_ENVIRONMENT)
    if found is not None:  # else the first deployment makes it
        # GitHub makes it for the branch that is the default at that time, and keeps it when that is renamed.
        admitted = found.refs != "selected" or any(matches(pattern, seen.default_branch) for pattern in found.branches)
        yield verdict(
            "pages-environment",
            admitted,
            f"{seen.default_branch} {'may' if admitted else 'may not'} deploy to the environment {PAGES_ENVIRONMENT}",
            f"Settings > Environments > {PAGES_ENVIRONMENT} > Deployment branches and tags: add {seen.default_branch}",
        )


def examine_schedule(seen: Observations) -> Finding:
    """Whether snapshots are made on schedule; a repository is set up before they are."""
    check, value = "schedule", seen.variables.seen.get(SCHEDULE_VARIABLE)
    if value is None and not seen.variables.complete:
        return hidden(seen, check, f"the variable {SCHEDULE_VARIABLE}", asked="variables", usual="variables: read")
    return verdict(
        check,
        value == "on",
        f"snapshot.yml {'runs' if value == 'on' else 'does nothing'} on its schedule",
        f"Settings > Secrets and variables > Actions > Variables: {SCHEDULE_VARIABLE}, with the value on",
    )


def examine_environment(seen: Observations, *, candidates: bool = False) -> Iterator[Finding]:
    """Whether the environment that trusted publishing is bound to admits numbered releases, and people approve them.

    Whoever may push can make a tag whose ``release.yml`` is their own; PyPI can't tell its identity from ours.

    :param candidates: whether release candidates go to PyPI, too
    """
    if seen.environments is None:
        yield hidden(seen, "environment", "the environments", asked="environments", usual="actions: read")
        return
    remedy = (
        f"Settings > Environments > {PYPI_ENVIRONMENT}: Deployment branches and tags > Selected, "
        "add the tag rule llvm-*, no branch; add required reviewers"
    )
    found = seen.environments.get(PYPI_ENVIRONMENT)
    if found is None:
        text = f"there is no environment {PYPI_ENVIRONMENT}, which trusted publishing is bound to"
        yield Finding("environment", "problem", text, remedy)
        return
    snapshot, *numbered = (
        any(matches(pattern, tag) for pattern in found.tags)
        for tag in (*SAMPLE_TAGS, *((SAMPLE_CANDIDATE,) if candidates else ()))
    )
    strict = found.refs == "selected" and all(numbered) and not snapshot and not found.branches
    wanted = ", and release candidates are to go to PyPI" if candidates else ""
    text = f"the environment {PYPI_ENVIRONMENT} is open to {_allowed(found)}{wanted}"
    yield verdict("environment", strict, text, remedy)
    who = "a reviewer approves" if found.reviewed else "nobody has to approve"
    yield verdict("environment-reviewers", found.reviewed, f"{who} what goes to PyPI", remedy)


def _allowed(environment: Environment) -> str:
    if environment.refs == "any":
        return "any branch or tag"
    if environment.refs == "protected":
        return "protected branches"
    tags = [f"tags {pattern}" for pattern in environment.tags]
    return ", ".join([*tags, *(f"branches {pattern}" for pattern in environment.branches)]) or "nothing"
