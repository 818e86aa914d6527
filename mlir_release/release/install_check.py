"""What installing and importing a wheel in an environment of its own takes: pip, and a few lines of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.host.process import Captured, capture
from mlir_release.host.surroundings import foreign_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mlir_release.host.pythons import Python
    from mlir_release.model.manifest import WheelEntry


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
_IMPORTS = """\
import importlib, importlib.util, json, pathlib
release = importlib.import_module("mlir._release")
info = json.loads(pathlib.Path(release.__file__).with_name("_release.json").read_text())
assert (info["tag"], info["revision"]) == ({tag!r}, {revision!r}), info
print("mlir._release")
if importlib.util.find_spec("mlir.ir"):
    try:
        ir = importlib.import_module("mlir.ir")
    except ModuleNotFoundError as error:
        if not {optional} or (error.name or "mlir").split(".")[0] == "mlir":
            raise
    else:
        with ir.Context():
            ir.Module.parse("module {{}}").operation.verify()
        print("mlir.ir")
"""


def check_import(python: Path, *, tag: str, revision: str, lenient: bool) -> Captured:
    """Import an installed wheel's modules; their names are the output.

    :param lenient: the wheel's dependencies are not installed, so modules that need them are passed over
    """
    code = _IMPORTS.format(tag=tag, revision=revision, optional=lenient)
    command = [str(python), "-I", "-c", code]
    return capture(command, environment=clean_environment())
