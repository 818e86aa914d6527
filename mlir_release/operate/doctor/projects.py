"""Whether each project of the build matrix has what its jobs will import, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.llvm.projects import Room, find_project
from mlir_release.ground.plugins import PROJECTS, plugins
from mlir_release.operate.doctor.results import Finding, of_error, ok

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.release.model.matrix import Matrix

_CHECK = "projects"


def examine_projects(matrix: Matrix) -> Iterator[Finding]:
    """A finding for each project: that its modules can be imported, with its distributions.

    Its smoke test and its list of known failures are there, or the matrix could not have been read.
    """
    wheels = [*matrix.wheels, *(row.wheel for row in matrix.excluded)]
    names: dict[str, dict[str, bool]] = {}
    for wheel in wheels:
        row = names.setdefault(wheel.configuration.project, {})
        row[wheel.distribution] = row.get(wheel.distribution, False) or wheel.required
    for name, distributions in names.items():
        try:
            for room in get_args(Room):
                find_project(name).room(room)
        except ReleaseError as error:
            yield of_error(_CHECK, error)
            continue
        owner = plugins(PROJECTS)[name][0]
        text = f"{name} makes {', '.join(distributions)}"
        if not any(distributions.values()):
            text += "; no release waits for it"
        if not owner.is_ours:
            text += f"; it comes from {owner.distribution}, which jobs have if requirements/toolkit.txt names it"
        yield ok(text, check=_CHECK)
