"""Installing wheels in empty environments: the last check before they are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import VerificationError
from mlir_release.host import venv
from mlir_release.host.process import Captured, capture
from mlir_release.host.pythons import Python, describe
from mlir_release.host.surroundings import without_secrets
from mlir_release.host.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.model.manifest import WheelEntry
    from mlir_release.release.assets import Wheel


@dataclass(frozen=True, kw_only=True)
class InstallCheck:
    """A wheel that was installed and imported."""

    filename: str
    python: str  #: ``3.12.1``
    imported: tuple[str, ...]  #: modules

    def text(self) -> str:
        """For people."""
        return f"{self.filename}: installed with CPython {self.python}, imported {', '.join(self.imported)}"


def clean_environment() -> dict[str, str]:
    """The process environment without secrets, and without anything that would change what pip or Python do."""
    return {
        key: value
        for key, value in without_secrets().items()
        if not key.startswith(("PIP_", "PYTHON")) and key not in {"VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    }


def run_pip(python: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Captured:
    """Run an environment's own pip without asking questions; the result is the caller's to judge."""
    command = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    return capture(command, environment=env or clean_environment())


def check_installs(
    wheels: Sequence[Wheel], *, version: str, pythons: Sequence[Path], dependencies: Sequence[str] | None
) -> tuple[InstallCheck, ...]:
    """Install each wheel that fits one of ``pythons`` with ``--no-index`` in an empty environment, and import it.

    :param dependencies: pip's options for the wheels' own requirements (an index, a folder); None: leave them out
    :raises VerificationError: ``wheel-not-installable``, ``wheel-not-importable``
    """
    installs = []
    for interpreter in map(describe, pythons):
        for wheel in wheels:
            if interpreter.wheel_rank(wheel.filename) is not None:
                installs.append(_check_install(wheel, version, interpreter, dependencies))
    return tuple(installs)


def best_wheel(wheels: Iterable[WheelEntry], python: Python) -> WheelEntry | None:
    """The wheel that pip takes for ``python`` on this machine; None: none fits."""
    ranks = ((python.wheel_rank(wheel.filename), wheel.filename, wheel) for wheel in wheels)
    return min((row for row in ranks if row[0] is not None), default=(None, "", None))[2]


def dependency_options(place: str) -> list[str]:
    """pip's options for installing dependencies from a folder of wheels, or from an index."""
    return ["--index-url", place] if "://" in place else ["--no-index", "--find-links", place]


def _check_install(wheel: Wheel, version: str, interpreter: Python, dependencies: Sequence[str] | None) -> InstallCheck:
    with scratch_folder("install") as folder:
        python = venv.create(folder / "environment", interpreter.executable, pip=True).python
        options = ["--isolated", "install", "--no-index", "--find-links", str(wheel.path.parent), "--no-deps"]
        done = run_pip(python, *options, f"{wheel.distribution}=={version}")
        _check("wheel-not-installable", wheel, interpreter, done, "pip does not install it")
        if dependencies is not None and wheel.requires_dist:
            # The surroundings may say where packages come from (an index, certificates), so pip is not isolated here.
            done = run_pip(python, "install", *dependencies, *wheel.requires_dist, env=without_secrets())
            _check("wheel-not-installable", wheel, interpreter, done, "its dependencies can't be installed")
        done = check_import(python, tag=wheel.info.tag, revision=wheel.info.revision, lenient=dependencies is None)
        _check("wheel-not-importable", wheel, interpreter, done, "it can't be imported")
        return InstallCheck(filename=wheel.filename, python=interpreter.name, imported=tuple(done.stdout.split()))


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


def _check(id: str, wheel: Wheel, interpreter: Python, done: Captured, problem: str) -> None:
    if done.returncode != 0:
        raise VerificationError(
            id,
            f"{wheel.filename} with CPython {interpreter.name}: {problem}",
            where=str(wheel.path),
            why=(done.stdout + done.stderr).strip()[-3000:],
            remedy="nothing was published; fix the wheel's build, then start its target over: "
            f"mlir-release publish {wheel.info.tag} --discard {wheel.target}",
        )
