"""All checks, in the order in which a person would fix what they find."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mlir_release.doctor.actions import examine_actions
from mlir_release.doctor.green import examine_green
from mlir_release.doctor.index import configured_owners, examine_names, examine_project, goes_to_pypi
from mlir_release.doctor.latest import examine_latest
from mlir_release.doctor.local import examine_local
from mlir_release.doctor.pin_branch import examine_newest_pin
from mlir_release.doctor.pins import examine_pins
from mlir_release.doctor.pull_requests import examine_pull_requests
from mlir_release.doctor.pythons import examine_newest_snapshot, examine_pythons
from mlir_release.doctor.repository_files import FILES, Contents, examine_workflows, read_files
from mlir_release.doctor.results import hidden
from mlir_release.doctor.reviews import examine_reviews
from mlir_release.doctor.rules import examine_branch, examine_pin_branches, examine_tags
from mlir_release.doctor.settings import examine_branches, examine_environment, examine_releases, examine_schedule
from mlir_release.doctor.signer import examine_signer
from mlir_release.doctor.token import examine_token
from mlir_release.doctor.uses import all_uses
from mlir_release.forge.files import DEFAULT_BRANCH, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.doctor.results import Finding
    from mlir_release.doctor.uses import Read
    from mlir_release.forge.base import Forge
    from mlir_release.forge.github.observations import Observations


def examine_forge(
    forge: Forge, *, branch: str | None = None, index_url: str | None = "", owners: Sequence[str] = ()
) -> list[Finding]:
    """Observe a release repository and run every check that applies to it.

    :param branch: that the toolkit comes from; None: the default branch
    :param index_url: the simple index to ask about our project; empty: PyPI's; None: ask none
    :param owners: users or organizations that must own the project there; none: those of the repository's variable
    :raises UsageError: ``branch-missing``
    """
    if forge.services is None:
        return list(examine_local(forge, branch or DEFAULT_BRANCH))
    if branch:
        head_of(forge, branch)  # a misspelt branch is one error, not a finding for everything that it lacks
    seen = forge.services.settings(FILES, branch)
    services = forge.services
    contents, findings = examine(seen, lambda repository, path, ref: services.file_of(repository, path, ref=ref))
    findings += tuple(examine_green(contents, os.environ))
    if contents.releases and contents.matrix is not None:
        findings += (examine_newest_pin(forge, contents.matrix.release),)
        findings += tuple(examine_latest(forge, contents.matrix.release))
        findings += (*examine_pythons(contents.matrix, today=forge.now().date()), *examine_newest_snapshot(forge))
    if index_url is not None and contents.releases:
        known = owners or configured_owners(seen.variables)
        if goes_to_pypi(contents):
            findings += tuple(examine_project(forge, index_url, owners=known))
        findings += tuple(examine_names(contents, index_url, owners=known))
    return list(findings)


def examine(seen: Observations, read: Read) -> tuple[Contents, tuple[Finding, ...]]:
    """The contents of a repository's files, and all findings but those that need more than observations.

    :param read: the files of actions that the workflows use
    """
    files: tuple[Finding, ...]
    if seen.files is None:
        what = f"the files of {seen.branch}"
        contents, files = Contents(), (hidden(seen, "files", what, asked="contents", usual="contents: read"),)
    else:
        contents, files = read_files(seen.files, branch=seen.branch)
    used = all_uses(contents, repository=seen.repository, branch=seen.branch, read=read)
    findings = [
        *examine_token(seen.token, private=seen.private, integrates=contents.integrates),
        *files,
        *examine_branches(seen, contents),
        *examine_workflows(contents, default_write=seen.defaults.write if seen.defaults else None),
        *examine_actions(seen, contents, used),
        *examine_pins(seen, used),
        *(_examine_release_side(seen, contents) if contents.releases else ()),
        *examine_pull_requests(seen, contents),
    ]
    return contents, tuple(findings)


def _examine_release_side(seen: Observations, contents: Contents) -> Iterator[Finding]:
    """Checks that only a release repository needs."""
    yield from examine_branch(seen)
    yield from examine_pin_branches(seen)
    yield from examine_tags(seen)
    yield from examine_releases(seen)
    yield from examine_reviews(seen)
    yield from examine_signer(seen, contents)
    if goes_to_pypi(contents):
        candidates = contents.matrix is not None and contents.matrix.release.pypi_candidates
        yield from examine_environment(seen, candidates=candidates)
    yield examine_schedule(seen)
