"""The machine's C++ compiler. On Windows, Visual Studio's libraries and linker, with Clang where it is there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.platforms import Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlir_release.ground.programs.process import Captured

#: A C++ compiler's usual names; ``CXX`` comes first, as for CMake.
NAMES = ("c++", "g++", "clang++")

#: Those for Windows, in the order in which they are taken: llvm/eudsl's wheels are built with the first.
WINDOWS_NAMES = ("clang-cl", "cl")

#: Our names of architectures -> those of Visual Studio's folders and variables.
_ARCHITECTURES = {"x86_64": "x64", "arm64": "arm64"}


def find_compiler() -> None:
    """Make sure that there is a compiler. On Windows, always activate Visual Studio's environment and name its compiler
    in ``CC`` and ``CXX``: CMake would take whatever comes first on the PATH, on GitHub's runners MinGW's GCC.

    :raises MachineError: ``tool-missing``
    """
    windows = sys.platform == "win32"
    if windows:
        os.environ.update(activated(os.environ, Platform.of_host().arch))
    wanted = os.environ.get("CXX", "")
    # A path may have spaces, and a command may have options.
    candidates = (wanted, wanted.split(" ")[0]) if wanted else WINDOWS_NAMES if windows else NAMES
    if any(shutil.which(candidate) for candidate in candidates):
        return
    raise MachineError(
        "tool-missing",
        "there is no C++ compiler on this machine",
        where=f"CXX={wanted}" if wanted else "",
        why=f"none of these is on the PATH: {', '.join(dict.fromkeys(candidates))}",
        remedy="install one (Debian: apt install g++; macOS: xcode-select --install; Windows: Visual Studio's Build "
        "Tools), or set CXX",
    )


def activated(environ: Mapping[str, str], arch: str, run: Callable[..., Captured] = capture) -> dict[str, str]:
    """The variables to set on Windows: those of Visual Studio, unless it is active already, and the compiler's."""
    found = {} if is_active(environ, arch) else _visual_studio(environ, arch, run)
    return found | choose_compiler({**environ, **found}, arch, lambda name, path: shutil.which(name, path=path))


def is_active(environ: Mapping[str, str], arch: str) -> bool:
    """Whether this is Visual Studio's command prompt for that architecture."""
    return environ.get("VSCMD_ARG_TGT_ARCH") == _ARCHITECTURES[arch]


def choose_compiler(environ: Mapping[str, str], arch: str, find: Callable[[str, str], str | None]) -> dict[str, str]:
    """``CC`` and ``CXX`` (and the PATH, if it lacks the compiler's folder), unless a person has chosen.

    Visual Studio's own Clang comes first: it is one that Visual Studio's headers accept.

    :param find: the program of a name on a PATH
    """
    if environ.get("CC") or environ.get("CXX"):
        return {}
    own = Path(environ.get("VCINSTALLDIR", ""), "Tools", "Llvm", _ARCHITECTURES[arch], "bin")
    path = (
        os.pathsep.join([str(own), environ.get("PATH", "")]) if environ.get("VCINSTALLDIR") else environ.get("PATH", "")
    )
    for name in WINDOWS_NAMES:
        if program := find(name, path):
            inside = Path(program).parent == own
            return {"CC": name, "CXX": name} | ({"PATH": path} if inside else {})
    return {}


def _visual_studio(environ: Mapping[str, str], arch: str, run: Callable[..., Captured]) -> dict[str, str]:
    """The variables that the newest Visual Studio's ``vcvarsall.bat`` sets; empty where it is not installed.

    Source: vswhere's README, and Microsoft's "Use the Microsoft C++ toolset from the command line".
    """
    vswhere = Path(environ.get("ProgramFiles(x86)", ""), "Microsoft Visual Studio", "Installer", "vswhere.exe")
    if not vswhere.is_file():
        return {}
    component = "Microsoft.VisualStudio.Component.VC.Tools." + ("ARM64" if arch == "arm64" else "x86.x64")
    options = ["-latest", "-products", "*", "-requires", component, "-property", "installationPath", "-utf8"]
    found = run([vswhere, *options], encoding="utf-8")
    script = Path(found.stdout.strip(), "VC", "Auxiliary", "Build", "vcvarsall.bat")
    if not found.ok or not script.is_file():
        return {}
    return changed(run(activation(str(script), _ARCHITECTURES[arch]), encoding="utf-8").stdout, environ)


def activation(script: str, arch: str) -> str:
    """The command that prints the environment after Visual Studio's ``script``, in UTF-8; nothing if that fails.

    With ``/s``, ``cmd`` takes what is between the first and the last quotation mark as it is (``cmd /?``).
    """
    return f'cmd /d /s /c "chcp 65001 >nul & call "{script}" {arch} >nul && set"'


def changed(printed: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in the output of ``set`` (``NAME=value`` lines) that are not in ``environ`` as they are."""
    # cmd keeps each drive's folder in a variable whose name begins with "=".
    pairs = (line.split("=", 1) for line in printed.splitlines() if "=" in line and not line.startswith("="))
    return {name.upper(): value for name, value in pairs if environ.get(name.upper()) != value}
