"""The machine's C++ compiler."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError
from mlir_release.host.process import capture

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A C++ compiler's usual names; ``CXX`` comes first, as for CMake.
NAMES = ("c++", "g++", "clang++", "cl")


def find_compiler() -> None:
    """Make sure that there is a compiler. Visual Studio's, which is not on the PATH by default, is added to it.

    :raises MachineError: ``no-compiler``
    """
    wanted = os.environ.get("CXX", "").split(" ")[0]
    candidates = (wanted,) if wanted else NAMES
    if any(shutil.which(candidate) for candidate in candidates):
        return
    if sys.platform == "win32" and not wanted:
        os.environ.update(_visual_studio(os.environ))
        if shutil.which("cl"):
            return
    raise MachineError(
        "no-compiler",
        "there is no C++ compiler on this machine",
        where=f"CXX={wanted}" if wanted else "",
        why=f"none of these is on the PATH: {', '.join(candidates)}",
        remedy="install one (Debian: apt install g++; macOS: xcode-select --install; Windows: Visual Studio's Build "
        "Tools), or set CXX",
    )


def _visual_studio(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that ``vcvars64.bat`` of the newest Visual Studio sets; none if there is none.

    Source: vswhere's README, and Microsoft's "Use the Microsoft C++ toolset from the command line".
    """
    vswhere = Path(environ.get("ProgramFiles(x86)", ""), "Microsoft Visual Studio", "Installer", "vswhere.exe")
    if not vswhere.is_file():
        return {}
    component = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
    options = ["-latest", "-products", "*", "-requires", component, "-property", "installationPath", "-utf8"]
    found = capture([vswhere, *options], encoding="utf-8")
    script = Path(found.stdout.strip(), "VC", "Auxiliary", "Build", "vcvars64.bat")
    if not found.ok or not script.is_file():
        return {}
    return changed(capture(f'cmd /c ""{script}" >nul && set"').stdout, environ)


def changed(printed: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in the output of ``set`` (``NAME=value`` lines) that are not in ``environ`` as they are."""
    # cmd keeps each drive's folder in a variable whose name begins with "=".
    pairs = (line.split("=", 1) for line in printed.splitlines() if "=" in line and not line.startswith("="))
    return {name.upper(): value for name, value in pairs if environ.get(name.upper()) != value}
