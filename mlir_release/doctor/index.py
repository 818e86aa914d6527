"""Whether the names of our distributions on PyPI are ours, and the project that we upload to has storage left."""

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
    answer = _ask(index_url, DISTRIBUTION)
    ours: Collection[str] = ()
    # Where the index names no owners, the versions show whether it is ours.
    if not isinstance(answer, ReleaseError) and answer.owners is None and answer.files:
        try:
            ours = our_versions(forge)
        except ReleaseError as error:
            answer = error
    return examine_index(answer, owners=owners, ours=ours)


def examine_names(contents: Contents, index_url: str, *, owners: Collection[str] | None) -> Iterator[Finding]:
    """Who has the names of the distributions that are never uploaded; pip asks the index for them all the same.

    :param index_url: empty for PyPI's
    :param owners: as of :func:`examine_index`
    """
    wheels = contents.matrix.wheels if contents.matrix is not None else ()
    uploaded = {DISTRIBUTION} if goes_to_pypi(contents) else set()
    for name in sorted({canonicalize_name(wheel.distribution) for wheel in wheels} - uploaded):
        yield examine_name(_ask(index_url, name), owners=owners)


def examine_name(answer: IndexProject | ReleaseError, *, owners: Collection[str] | None) -> Finding:
    """Whether somebody else's wheels can be installed in the place of ours, which are not on that index."""
    check = "pypi-names"
    if isinstance(answer, ReleaseError):
        return of_error(check, answer, about=answer.where, level="unknown")
    exposed = f"who installs it with -f or --extra-index-url gets the highest version of any {answer.name} there"
    recommend = "meanwhile, recommend only the forms by URL and hash, or by an explicit index"
    if not answer.files and not answer.owners:
        remedy = f"take the name {answer.name} with a placeholder of your organization's; {recommend}"
        return Finding(check, "problem", f"the name {answer.name} is free for anyone to take: {exposed}", remedy)
    if answer.owners is not None and owners and answer.owners & set(owners):
        return Finding(check, "ok", f"{answer.name} belongs to {', '.join(sorted(answer.owners))}")
    known = ", ".join(sorted(answer.owners or ()))
    versions = ", ".join(sorted(answer.versions)) or "no files"
    return Finding(
        check,
        "problem" if known and owners else "unknown",
        f"{answer.name} belongs to {known or 'an owner that the index does not tell'} ({versions}): {exposed}",
        f"if it is yours, name the owner with --owner or the variable {OWNER_VARIABLE}; {recommend}",
    )


def _ask(index_url: str, name: str) -> IndexProject | ReleaseError:
    try:
        return read_project(index_url or simple_url(PYPI_UPLOAD), name)
    except ReleaseError as error:
        return error


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
