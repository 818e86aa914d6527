"""Build projects with the wheels that a release's page links: upstream's standalone example, and our extension.

Upstream's has an MLIR of its own, made of the wheels of the SDK. Ours works on contexts of the installed ``mlir``.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.model.sdk_wheel_info import SDK
from mlir_release.ground.console import format_bytes
from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.programs.process import StepFailed, capture, run_logged, tail, whole_log
from mlir_release.ground.python import venv
from mlir_release.ground.storage.files import copy_alike, read_document, read_text
from mlir_release.ground.storage.shipped import SHIPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlir_release.builder.sdk.sources.upstream import UpstreamSource
    from mlir_release.ground.python.pythons import Python
    from mlir_release.ground.python.venv import VirtualEnvironment
    from mlir_release.release.rehearsal.report import RehearsalReport

#: Upstream's example, in llvm-project's layout.
_STANDALONE = Path("mlir") / "examples" / "standalone"

#: Our example.
EXTENSION = SHIPPED / "examples" / "extension"

#: Later ones refuse what LLVM 22's standalone example has: a version that is dynamic, and nothing that provides it.
_OLDER_BACKEND = "scikit-build-core<0.12\n"

#: Uses the standalone example beside ``mlir``, in one process.
STANDALONE_PROGRAM = """\
import mlir.ir, mlir_standalone.ir
from mlir_standalone.dialects import standalone_nanobind as standalone
with mlir_standalone.ir.Context():
    standalone.register_dialects()
    print(mlir_standalone.ir.Module.parse("%0 = arith.constant 2 : i32\\n%1 = standalone.foo %0 : i32"))
with mlir.ir.Context() as context:
    mlir.ir.Module.parse("module {}")
    try:
        mlir_standalone.ir.Module.parse("module {}", context)
    except TypeError:
        print("two kinds of contexts")
"""

#: Runs a pass of the extension in a pipeline of ``mlir``.
EXTENSION_PROGRAM = """\
import mlir_extension_example as example
from mlir.ir import Context, Module
from mlir.passmanager import PassManager
with Context():
    module = Module.parse("func.func @one() { return }")
    manager = PassManager.parse("builtin.module(canonicalize)")
    example.add_counting_pass(manager)
    manager.run(module.operation)
    print("operations:", module.operation.attributes["example.operations"])
"""


def build_downstream(
    report: RehearsalReport,
    folder: Path,
    page: Path,
    *,
    version: str,
    python: Python,
    find_source: Callable[[], UpstreamSource],
) -> None:
    """Install a release in an empty environment, build both projects on it, and run them, each step in ``report``.

    :param folder: where all of it is done
    :param page: folder of the release's page, which has all that is known of the release here
    :param find_source: finds the sources of llvm-project that the release was made from
    :raises VerificationError: ``build-failed``, ``tests-failed``
    """
    with report.step("pip install mlir mlir-sdk from the release's page alone") as results:
        environment = venv.create(folder / "environment", python.executable)
        names = [f"{name}=={version}" for name in ("mlir", SDK)]
        environment.install("--no-index", "--no-deps", "--find-links", page / "index.html", *names)
        environment.install(*names)  # they are there; what they require comes from PyPI
        results.append(", ".join(f"{name} {found}" for name, found in sorted(environment.installed().items())))
    with report.step("build upstream's standalone example, unchanged") as results:
        standalone = copy_standalone(find_source().root, folder / "standalone")
        variables = sdk_variables(environment) | backend_constraint(standalone, folder)
        results.append(_build_and_install(environment, standalone, variables))
    with report.step("build examples/extension") as results:
        extension = copy_extension(version, folder / "extension")
        pinned = page / f"requirements-{page.name}.txt"
        results.append(_build_and_install(environment, extension, {"PIP_BUILD_CONSTRAINT": str(pinned)}))
    for name, program in (("the standalone example", STANDALONE_PROGRAM), ("the extension", EXTENSION_PROGRAM)):
        with report.step(f"run {name}") as results:
            results.append(" ".join(run_program(environment, name, program).split()))


def _build_and_install(environment: VirtualEnvironment, project: Path, variables: Mapping[str, str]) -> str:
    """Returns its wheel's name and size."""
    output = project.with_name(f"{project.name}-wheel")
    shutil.rmtree(output, ignore_errors=True)  # of an earlier run
    output.mkdir()
    wheel = build_project(environment, project, output, variables)
    environment.install("--no-deps", wheel)
    return f"{wheel.name}, {format_bytes(wheel.stat().st_size)}"


def copy_standalone(tree: Path, folder: Path) -> Path:
    """Copy upstream's example, unchanged, out of the source tree of llvm-project to ``folder``."""
    return _copy(tree / _STANDALONE, folder)


def copy_extension(version: str, folder: Path) -> Path:
    """Copy our example to ``folder``, with another ``version`` of ``mlir`` in the two lines that name it."""
    _copy(EXTENSION, folder)
    file = folder / "pyproject.toml"
    text, count = re.subn(r"mlir>=[\w.]+", f"mlir=={version}", read_text(file))
    assert count == 2
    file.write_text(text, encoding="utf-8")
    return folder


def _copy(origin: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return shutil.copytree(origin, folder, copy_function=copy_alike)


def sdk_variables(environment: VirtualEnvironment) -> dict[str, str]:
    """The variables by which a build finds the installed ``mlir-sdk``."""
    asked = {"MLIR_DIR": ("--cmakedir",), "CMAKE_PREFIX_PATH": ()}
    return {
        name: capture([environment.python, "-m", "mlir_sdk", *options]).stdout.strip()
        for name, options in asked.items()
    }


def backend_constraint(project: Path, folder: Path) -> dict[str, str]:
    """The variable by which pip takes a build backend that accepts a project, where the newest one does not.

    :param folder: where a file is written that it names
    """
    metadata = parse_toml(read_document(project / "pyproject.toml"))["project"]
    if "version" not in metadata.get("dynamic", []):
        return {}
    file = folder / "constraints.txt"
    file.write_text(_OLDER_BACKEND, encoding="utf-8")
    return {"PIP_BUILD_CONSTRAINT": str(file)}


def build_project(environment: VirtualEnvironment, project: Path, folder: Path, variables: Mapping[str, str]) -> Path:
    """Build the wheel of a project by pip, for the CPython of ``environment``, and return it.

    :param folder: an empty one, for the log and the wheel
    :param variables: that are set from outside
    :raises VerificationError: ``build-failed``
    """
    log = folder / "build.log"
    pip = (sys.executable, "-m", "pip", "--python", environment.python, "wheel", "--no-input", "--verbose")
    try:
        run_logged([*pip, "--no-deps", "-w", folder, project], log=log, environment=environment.variables(variables))
    except StepFailed as error:
        raise VerificationError(
            "build-failed",
            f"{project.name} can't be built on what was released",
            where=str(project),
            why=tail(log),
            remedy=f"the last lines are above; {whole_log(log)}",
        ) from error
    return next(folder.glob("*.whl"))


def run_program(environment: VirtualEnvironment, project: str, program: str) -> str:
    """Run a first program on what was built; returns what it prints.

    :raises VerificationError: ``tests-failed``
    """
    done = capture([environment.python, "-I", "-c", program], environment=environment.variables())
    if not done.ok:
        raise VerificationError(
            "tests-failed",
            f"{project} was built on what was released, and does not work",
            where=str(environment.root),
            why=done.complaint,
            remedy="the release's mlir and mlir-sdk are in this environment, too: try the program there",
        )
    return done.stdout
