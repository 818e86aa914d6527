"""All checks, in the order in which somebody would put things right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.actions import examine_actions
from mlir_release.doctor.index import goes_to_pypi
from mlir_release.doctor.pull_requests import examine_pull_requests
from mlir_release.doctor.repository_files import Contents, examine_workflows, read_files
from mlir_release.doctor.results import hidden
from mlir_release.doctor.rules import examine_branch, examine_tags
from mlir_release.doctor.settings import examine_branches, examine_environment, examine_releases
from mlir_release.doctor.token import examine_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.doctor.results import Finding
    from mlir_release.forge.github.observations import Observations


def examine(seen: Observations) -> tuple[Contents, tuple[Finding, ...]]:
    """What a repository's files say, and every check of it; PyPI apart (:mod:`.index`)."""
    files: tuple[Finding, ...]
    if seen.files is None:
        what = f"the files of {seen.branch}"
        contents, files = Contents(), (hidden(seen, "files", what, asked="contents", usual="contents: read"),)
    else:
        contents, files = read_files(seen.files, branch=seen.branch)
    findings = [
        *examine_token(seen.token, private=seen.private, integrates=contents.integrates),
        *files,
        *examine_branches(seen, contents),
        *examine_workflows(contents, default_write=seen.defaults.write if seen.defaults else None),
        *examine_actions(seen, contents),
        *(_examine_release_side(seen, contents) if contents.releases else ()),
        *examine_pull_requests(seen, contents),
    ]
    return contents, tuple(findings)


def _examine_release_side(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """What only a release repository needs."""
    yield from examine_branch(seen)
    yield from examine_tags(seen)
    yield from examine_releases(seen)
    if goes_to_pypi(contents):
        yield from examine_environment(seen)
