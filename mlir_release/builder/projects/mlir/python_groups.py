"""Upstream's groups of Python sources (``MLIRPythonSources`` and the like), which downstream bindings are made of.

An LLVM build with bindings exports them (component ``mlir-python-sources``); distributions leave them out. So an SDK
always makes its own, in one way for every LLVM: upstream's ``mlir/python/CMakeLists.txt`` declares them in a small
CMake project (``builder/projects/mlir/python_sources``), and what CMake installs is put into the SDK.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.projects.mlir import PYTHON_SOURCES, cmake_exports
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from mlir_release.builder.projects.mlir.cmake_exports import Target

#: The file beside ``MLIRTargets.cmake``, which includes it.
EXPORTS = "MLIRPythonTargets.cmake"

#: A project that declares the groups itself, as the wheel project does, sets this variable.
OPT_OUT = "MLIR_SDK_WITHOUT_PYTHON_SOURCES"


def is_python_group(target: Target) -> bool:
    """Whether a target of MLIR's exports is a group of Python sources."""
    return "mlir_python_SOURCES_TYPE" in target.properties


def add_python_sources(root: Path) -> None:
    """Add ``src/python/`` and :data:`EXPORTS` to an SDK that has everything else.

    :raises VerificationError: ``build-failed`` if upstream's files do not configure, or a source is not
        generated
    :raises MachineError: what :func:`~mlir_release.builder.tools.build_tools.cmake_and_ninja` raises
    """
    cmake, ninja = cmake_and_ninja(cache_directory())
    with scratch_folder("python-sources") as scratch:
        settings = {
            "CMAKE_MAKE_PROGRAM": ninja,
            "CMAKE_INSTALL_PREFIX": scratch / "prefix",
            "MLIR_RELEASE_SDK": root,
            "MLIR_RELEASE_SOURCE": root / "source",
        }
        build = scratch / "build"
        words = [f"-D{name}={value}" for name, value in settings.items()]
        _run(cmake, "-G", "Ninja", "-S", PYTHON_SOURCES, "-B", build, *words)
        _run(cmake, "--build", build, "--target", "mlir-python-sources")
        _run(cmake, "--install", build)
        package = Path("lib", "cmake", "mlir", EXPORTS)
        groups = cmake_exports.read(scratch / "prefix" / package)
        (root / package).write_text(
            cmake_exports.write(groups.values(), origin="Upstream's groups of Python sources."), encoding="utf-8"
        )
        shutil.move(scratch / "prefix" / "src", root / "src")


def _run(*command: str | Path) -> None:
    done = capture(command)
    if not done.ok:
        raise VerificationError(
            "build-failed",
            "the groups of Python sources cannot be made of these sources and this LLVM",
            where=" ".join(map(str, command[:3])),
            why="\n".join((done.stdout + done.stderr).strip().splitlines()[-25:]),
            remedy="check that the source tree is complete (mlir/python, mlir/lib/Bindings, mlir/include)",
        )
