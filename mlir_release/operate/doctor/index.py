"""Whether the names of our distributions on PyPI are ours, and the projects that we upload to have storage left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from mlir_release.ground.console import format_bytes
from mlir_release.ground.errors import NeedsPersonError, ReleaseError
from mlir_release.ground.plugins import TOOLKIT
from mlir_release.operate.doctor.results import Answer, Finding, of_error, ok, problem, unknown, verdict
from mlir_release.release.pypi.project import PROJECT_LIMIT, PYPI_UPLOAD, read_project, read_publishers, simple_url
from mlir_release.release.pypi.publish import check_name, our_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from mlir_release.operate.doctor.files import Examined
    from mlir_release.release.pypi.project import IndexProject

#: The repository variable that the job which uploads takes the project's owners from.
OWNER_VARIABLE = "MLIR_RELEASE_PYPI_OWNER"

#: The workflow that publishes the toolkit's own distribution.
TOOLKIT_PUBLISHER = "github.com/llvm/mlir-release/release-toolkit.yml"

#: The share of the storage limit from which on this is a problem.
WARNING = 0.8


def projects(known: Examined) -> Iterator[Answer]:
    """Whether the projects that we upload to are ours, and have storage left."""
    for name in known.contents.matrix.on_pypi if known.contents.matrix else ():
        answer, ours = _ask(known, name), frozenset[str]()
        # Where the index names no owners, the versions show whether it is ours.
        if not isinstance(answer, ReleaseError) and answer.owners is None and answer.files:
            try:
                ours = our_versions(known.place)
            except ReleaseError as error:
                answer = error
        yield from judge_project(answer, owners=_owners(known), ours=ours)


def names(known: Examined) -> Iterator[Answer]:
    """Whether the names of distributions that are never uploaded belong to us there."""
    matrix = known.contents.matrix
    found = {canonicalize_name(wheel.distribution) for wheel in matrix.wheels} - set(matrix.on_pypi) if matrix else ()
    for name in sorted(found):
        yield judge_name(_ask(known, name), owners=_owners(known))


def toolkit(known: Examined) -> Iterator[Answer]:
    """Whether the toolkit's own name leads to the toolkit."""
    yield judge_toolkit(_ask(known, TOOLKIT))


def _ask(known: Examined, name: str) -> IndexProject | ReleaseError:
    try:
        return read_project(known.index_url or simple_url(PYPI_UPLOAD), name)
    except ReleaseError as error:
        return error


def _owners(known: Examined) -> Collection[str] | None:
    """Who must own our projects: as the command names them, else the repository's variable; None: that is hidden."""
    variables = known.seen.variables
    named = variables.seen.get(OWNER_VARIABLE, "").split()
    return known.owners or (named if named or variables.complete else None)


def judge_toolkit(answer: IndexProject | ReleaseError, ask: Callable[..., frozenset[str]] = read_publishers) -> Finding:
    """Whether the toolkit's name leads to the toolkit: by ``ask``, we published every file of the newest version."""
    check = "toolkit-name"
    try:
        if isinstance(answer, ReleaseError):
            raise answer
        newest = max(answer.versions, key=_order, default="")
        files = [file for file in answer.files.values() if file.version == newest]
        foreign = next((file.filename for file in files if ask(file) != {TOOLKIT_PUBLISHER}), None)
    except ReleaseError as error:
        return of_error(check, error, about=error.where, level="unknown")
    if not files and not answer.owners:
        return ok(f"nobody has the name {TOOLKIT}: install the toolkit from a checkout, not by its name", check=check)
    what = f"that {TOOLKIT_PUBLISHER} published {foreign or f'anything of {TOOLKIT}'}"
    return verdict(
        bool(files) and foreign is None,
        f"{TOOLKIT_PUBLISHER} published {TOOLKIT} {newest}" if files and foreign is None else f"nothing shows {what}",
        f"never install {TOOLKIT} by its name, and remove what came from there; ask PyPI for the name (PEP 541)",
        check=check,
    )


def _order(version: str) -> tuple[bool, Version]:
    """Of versions on an index, of which pip takes the last; what can't be read counts as the newest."""
    try:
        return False, Version(version)
    except InvalidVersion:
        return True, Version("0")


def judge_name(answer: IndexProject | ReleaseError, *, owners: Collection[str] | None) -> Finding:
    """Whether pip can find somebody else's wheels by the name of ours, which are not on that index."""
    check = "pypi-names"
    if isinstance(answer, ReleaseError):
        return of_error(check, answer, about=answer.where, level="unknown")
    exposed = f"who installs it with -f or --extra-index-url gets the highest version of any {answer.name} there"
    recommend = "meanwhile, recommend only the forms by URL and hash, or by an explicit index"
    if not answer.files and not answer.owners:
        remedy = f"take the name {answer.name} with a placeholder of your organization's; {recommend}"
        return problem(f"the name {answer.name} is free for anyone to take: {exposed}", remedy, check=check)
    if answer.owners is not None and owners and answer.owners & set(owners):
        return ok(f"{answer.name} belongs to {', '.join(sorted(answer.owners))}", check=check)
    known = ", ".join(sorted(answer.owners or ()))
    versions = ", ".join(sorted(answer.versions)) or "no files"
    return (problem if known and owners else unknown)(
        f"{answer.name} belongs to {known or 'an owner that the index does not tell'} ({versions}): {exposed}",
        f"if it is yours, name the owner with --owner or the variable {OWNER_VARIABLE}; {recommend}",
        check=check,
    )


def judge_project(
    answer: IndexProject | ReleaseError, *, owners: Collection[str] | None, ours: Collection[str] = ()
) -> Iterator[Finding]:
    """Every check of the project.

    :param answer: the index's answer, or why the request failed
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
        yield unknown(text, "check the project's settings there", check=check)
        return
    yield verdict(
        answer.size < PROJECT_LIMIT * WARNING,
        f"{answer.name} uses {format_bytes(answer.size)} of the {format_bytes(PROJECT_LIMIT)} that PyPI allows",
        "request a higher limit before it is reached (https://docs.pypi.org/project-management/storage-limits)",
        check=check,
    )


def _owner(project: IndexProject, owners: Collection[str] | None, ours: Collection[str]) -> Finding:
    check, belongs = "pypi-owner", f"{project.name} belongs to {', '.join(sorted(project.owners or ())) or 'nobody'}"
    if not project.files and project.owners is None:
        return ok(f"the name {project.name} is free: the first upload takes it", check=check)
    if project.owners is not None and owners is None:
        remedy = f"name the owner with --owner or the variable {OWNER_VARIABLE}"
        return unknown(f"{belongs}, which may or may not be us", remedy, check=check)
    try:
        check_name(project, owners or (), ours=ours)
    except NeedsPersonError as error:
        return of_error(check, error)
    return ok(f"all versions of {project.name} are ours" if project.owners is None else belongs, check=check)
