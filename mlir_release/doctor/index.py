"""Whether the project on PyPI is ours, and has room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from mlir_release.console import format_bytes
from mlir_release.doctor.results import Finding, of_error, verdict
from mlir_release.errors import NeedsPersonError, ReleaseError
from mlir_release.pypi.publish import DISTRIBUTION, PROJECT_LIMIT, check_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.pypi.project import Project

#: The repository variable that the job which uploads takes the project's owners from.
OWNER_VARIABLE = "MLIR_RELEASE_PYPI_OWNER"

#: The part of the budget from which on we warn.
WARNING = 0.8


def goes_to_pypi(contents: Contents) -> bool:
    """Whether numbered releases do: if targets.toml makes the one distribution that is there, or can't be read."""
    return contents.releases and (
        contents.matrix is None
        or any(canonicalize_name(wheel.distribution) == DISTRIBUTION for wheel in contents.matrix.wheels)
    )


def examine_index(
    answer: Project | ReleaseError, *, owners: Collection[str] | None, ours: Collection[str] = ()
) -> Iterator[Finding]:
    """Every check of the project.

    :param answer: what the index knows of it, or why it could not be asked
    :param owners: users or organisations that the upload job takes for ours; None: that is hidden
    :param ours: the wheel versions that our tags allocated
    """
    if isinstance(answer, ReleaseError):
        yield of_error("pypi", answer, about=answer.where, level="unknown")
        return
    yield _owner(answer, owners, ours)
    check = "pypi-storage"
    if answer.size is None:
        text = f"the index does not say how large {answer.name} is"
        remedy = "look at the project's settings there"
        yield Finding(check=check, level="unknown", text=text, remedy=remedy)
        return
    yield verdict(
        check,
        answer.size < PROJECT_LIMIT * WARNING,
        f"{answer.name} takes {format_bytes(answer.size)} of PyPI's {format_bytes(PROJECT_LIMIT)} a project",
        "ask PyPI for more before it is full (https://docs.pypi.org/project-management/storage-limits)",
    )


def _owner(project: Project, owners: Collection[str] | None, ours: Collection[str]) -> Finding:
    check = "pypi-owner"
    if not project.files and project.owners is None:
        return verdict(check, True, f"nobody has a project {project.name} there: the first upload takes the name", "")
    if project.owners is not None and owners is None:
        return Finding(
            check=check,
            level="unknown",
            text=f"{project.name} belongs to {', '.join(sorted(project.owners)) or 'nobody'}; whether that is us",
            remedy=f"name the owner: --owner, or the variable {OWNER_VARIABLE}",
        )
    try:
        check_name(project, owners or (), ours=ours)
    except NeedsPersonError as error:
        return of_error(check, error)
    if project.owners is None:
        return verdict(check, True, f"all versions of {project.name} are ours", "")
    return verdict(check, True, f"{project.name} belongs to {', '.join(sorted(project.owners))}", "")
