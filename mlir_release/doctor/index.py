"""Whether the project on PyPI is ours, and has storage left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from mlir_release.console import format_bytes
from mlir_release.doctor.results import Finding, of_error, verdict
from mlir_release.errors import NeedsPersonError, ReleaseError
from mlir_release.pypi.project import PYPI_UPLOAD, read_project, simple_url
from mlir_release.pypi.publish import DISTRIBUTION, PROJECT_LIMIT, check_name, our_versions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mlir_release.doctor.repository_files import Contents
    from mlir_release.forge.base import Forge
    from mlir_release.forge.github.observations import Names
    from mlir_release.pypi.project import IndexProject

#: The repository variable that the job which uploads takes the project's owners from.
OWNER_VARIABLE = "MLIR_RELEASE_PYPI_OWNER"

#: The share of the storage limit from which on this is a problem.
WARNING = 0.8


def goes_to_pypi(contents: Contents) -> bool:
    """Whether numbered releases do: if targets.toml builds the distribution that is there, or can't be read."""
    return contents.releases and (
        contents.matrix is None
        or any(canonicalize_name(wheel.distribution) == DISTRIBUTION for wheel in contents.matrix.wheels)
    )


def configured_owners(variables: Names) -> list[str] | None:
    """The owners that the repository's variable names; None if the variables are hidden."""
    owners = variables.seen.get(OWNER_VARIABLE, "").split()
    return owners if owners or variables.complete else None


def examine_project(forge: Forge, index_url: str, *, owners: Collection[str] | None) -> Iterator[Finding]:
    """Ask an index about our project, and check what it answers. ``index_url``: empty for PyPI's."""
    answer: IndexProject | ReleaseError
    ours: Collection[str] = ()
    try:
        answer = read_project(index_url or simple_url(PYPI_UPLOAD), DISTRIBUTION)
        if answer.owners is None and answer.files:  # the index names no owners: the versions show whether it is ours
            ours = our_versions(forge)
    except ReleaseError as error:
        answer = error
    return examine_index(answer, owners=owners, ours=ours)


def examine_index(
    answer: IndexProject | ReleaseError, *, owners: Collection[str] | None, ours: Collection[str] = ()
) -> Iterator[Finding]:
    """Every check of the project.

    :param answer: what the index returned, or why the request failed
    :param owners: users or organizations that the upload job accepts as ours; None: they are hidden
    :param ours: the wheel versions that our tags allocated
    """
    if isinstance(answer, ReleaseError):
        yield of_error("pypi", answer, about=answer.where, level="unknown")
        return
    yield _owner(answer, owners, ours)
    check = "pypi-storage"
    if answer.size is None:
        text = f"the index does not report the size of {answer.name}"
        remedy = "check the project's settings there"
        yield Finding(check, "unknown", text, remedy)
        return
    yield verdict(
        check,
        answer.size < PROJECT_LIMIT * WARNING,
        f"{answer.name} uses {format_bytes(answer.size)} of the {format_bytes(PROJECT_LIMIT)} that PyPI allows",
        "request a higher limit before it is reached (https://docs.pypi.org/project-management/storage-limits)",
    )


def _owner(project: IndexProject, owners: Collection[str] | None, ours: Collection[str]) -> Finding:
    check = "pypi-owner"
    if not project.files and project.owners is None:
        return Finding(check, "ok", f"the name {project.name} is free: the first upload takes it")
    if project.owners is not None and owners is None:
        owner = ", ".join(sorted(project.owners)) or "nobody"
        return Finding(
            check,
            "unknown",
            f"{project.name} belongs to {owner}, which may or may not be us",
            f"name the owner with --owner or the variable {OWNER_VARIABLE}",
        )
    try:
        check_name(project, owners or (), ours=ours)
    except NeedsPersonError as error:
        return of_error(check, error)
    if project.owners is None:
        return Finding(check, "ok", f"all versions of {project.name} are ours")
    return Finding(check, "ok", f"{project.name} belongs to {', '.join(sorted(project.owners))}")
