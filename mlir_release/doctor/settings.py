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

#: The one that GitHub itself deploys Pages through.
PAGES_ENVIRONMENT = "github-pages"


def examine_branches(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """Whether the branch that is looked at is the one that everything happens on, and anything can happen there."""
    if seen.archived:
        remedy = "Settings > General > Unarchive this repository"
        yield verdict("archived", False, "the repository is archived: nothing can be written", remedy)
    if contents.releases and seen.branch != seen.default_branch:
        yield Finding(
            check="default-branch",
            level="problem",
            text=f"the pin is on {seen.branch}, and the default branch is {seen.default_branch}",
            remedy="schedules and dispatches run from the default branch: make the two the same (Settings > General)",
        )
    if contents.matrix is not None and contents.matrix.release.branch != seen.branch:
        yield Finding(
            check="default-branch",
            level="problem",
            text=f"targets.toml has the pin committed to {contents.matrix.release.branch}, and this is {seen.branch}",
            remedy=f'say branch = "{seen.default_branch}" in its [release], or look at the other one with --branch',
        )


def examine_releases(seen: Observations) -> Iterator[Finding]:
    """Whether what is published stays, failures have a place to be told, and the index a place to stand."""
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
        f"issues are {'enabled' if seen.issues else 'disabled: failing targets have nowhere to be told'}",
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
        # GitHub makes it for the branch that is the default one then; it stays so when that is renamed.
        well = found.refs != "selected" or any(matches(pattern, seen.default_branch) for pattern in found.branches)
        yield verdict(
            "pages-environment",
            well,
            f"{seen.default_branch} {'may' if well else 'may not'} deploy to the environment {PAGES_ENVIRONMENT}",
            f"Settings > Environments > {PAGES_ENVIRONMENT} > Deployment branches and tags: add {seen.default_branch}",
        )


def examine_environment(seen: Observations) -> Iterator[Finding]:
    """Whether the environment that trusted publishing is bound to lets final releases in, and nothing else."""
    if seen.environments is None:
        yield hidden(seen, "environment", "the environments", asked="environments", usual="actions: read")
        return
    remedy = (
        f"Settings > Environments > {PYPI_ENVIRONMENT}: Deployment branches and tags > Selected, "
        "add the tag rule llvm-*, no branch; add required reviewers if people should confirm each upload"
    )
    found = seen.environments.get(PYPI_ENVIRONMENT)
    if found is None:
        text = f"there is no environment {PYPI_ENVIRONMENT}, which trusted publishing is bound to"
        yield verdict("environment", False, text, remedy)
        return
    snapshot, numbered = (any(matches(pattern, tag) for pattern in found.tags) for tag in SAMPLE_TAGS)
    well = found.refs == "selected" and numbered and not snapshot and not found.branches
    yield verdict("environment", well, f"the environment {PYPI_ENVIRONMENT} is open to {_allowed(found)}", remedy)


def _allowed(environment: Environment) -> str:
    if environment.refs == "any":
        return "any branch or tag"
    if environment.refs == "protected":
        return "protected branches"
    tags = [f"tags {pattern}" for pattern in environment.tags]
    return ", ".join([*tags, *(f"branches {pattern}" for pattern in environment.branches)]) or "nothing"
