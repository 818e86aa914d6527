"""What installing and importing a wheel in an environment of its own takes: pip, and a few lines of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.llvm.projects import known_profile, known_project
from mlir_release.ground.programs.process import Captured, capture
from mlir_release.ground.programs.surroundings import foreign_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.model.manifest import WheelEntry


def clean_environment() -> dict[str, str]:
    """The harmless variables of this process, without anything that would change what pip or Python do."""
    return {
        key: value
        for key, value in foreign_environment().items()
        if not key.startswith(("PIP_", "PYTHON")) and key not in {"VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    }


def run_pip(python: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Captured:
    """Run an environment's own pip without asking questions; the result is the caller's to judge."""
    command = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    return capture(command, environment=env or clean_environment())


def best_wheel(wheels: Iterable[WheelEntry], python: Python) -> WheelEntry | None:
    """The wheel that pip takes for ``python`` on this machine; None: none fits.

    One for the stable ABI would fit any later CPython, too, but for its Requires-Python.
    """
    from packaging.specifiers import SpecifierSet

    ranks = (
        (python.wheel_rank(wheel.filename), wheel.filename, wheel)
        for wheel in wheels
        if SpecifierSet(wheel.requires_python).contains(python.version)
    )
    return min((row for row in ranks if row[0] is not None), default=(None, "", None))[2]


def fits_machine(wheel: WheelEntry) -> bool:
    """Whether a wheel is for this machine, whatever its CPython."""
    from packaging.tags import platform_tags

    return not {*platform_tags(), "any"}.isdisjoint(wheel.platforms)


#: Imports what there is, on any CPython ≥ 3.8. Without dependencies, a module that lacks one of them is passed over.
#: The package is the one that has the release's word on itself: no project need be known for that.
_IMPORTS = """\
import importlib, importlib.metadata, importlib.util, json
files = importlib.metadata.files({distribution!r}) or ()
(place,) = [each for each in files if each.name == "_release.json" and len(each.parts) == 2]
info = json.loads(place.read_text())
assert (info["tag"], info["revision"]) == ({tag!r}, {revision!r}), info
importlib.import_module(place.parts[0])
print(place.parts[0])
if {entry!r} and importlib.util.find_spec({entry!r}):
    try:
        importlib.import_module({entry!r})
    except ModuleNotFoundError as error:
        if not {optional} or (error.name or place.parts[0]).split(".")[0] == place.parts[0]:
            raise
    else:
        exec("import {entry}\\n" + {check!r})
        print({entry!r})
"""


def check_import(python: Path, wheel: WheelEntry, *, tag: str, revision: str, lenient: bool) -> Captured:
    """Import an installed wheel's modules; their names are the output.

    :param lenient: the wheel's dependencies are not installed, so modules that need them are passed over
    """
    project, profile = known_project(wheel.project), known_profile(wheel.project, wheel.profile)
    has_entry = project is not None and (profile is None or profile.makes in ("each-python", "any-python"))
    code = _IMPORTS.format(
        distribution=wheel.distribution,
        tag=tag,
        revision=revision,
        optional=lenient,
        entry=project.entry if project is not None and has_entry else "",
        check=project.check if project is not None else "",
    )
    command = [str(python), "-I", "-c", code]
    return capture(command, environment=clean_environment())
