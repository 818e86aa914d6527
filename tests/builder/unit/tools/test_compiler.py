from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mlir_release.builder.tools.compiler import (
    activated,
    activation,
    changed,
    choose_compiler,
    find_compiler,
    is_active,
)
from mlir_release.ground.programs.process import Captured

#: As GitHub's runners are: MinGW's GCC, and LLVM's own installation, before anything of Visual Studio is active.
RUNNER = {"PATH": os.pathsep.join(["mingw64", "LLVM"])}

#: What ``vcvarsall.bat x64`` adds, in part, as ``set`` prints it.
PRINTED = (
    "=C:=C:\\a\r\nINCLUDE=C:\\VC\\include\r\nPath=C:\\VC\\bin\\Hostx64\\x64;C:\\mingw64\\bin\r\n"
    "USERNAME=José\r\nVCINSTALLDIR=C:\\VS\\VC\\\r\nVSCMD_ARG_TGT_ARCH=x64\r\n"
)


@pytest.mark.skipif(sys.platform == "win32", reason="makes programs of shell scripts")
@pytest.mark.parametrize("options", ["", " -m64"])
def test_a_compiler_whose_path_has_spaces(options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / ("Program Files" if not options else "bin") / "clang-cl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", f"{program}{options}")
    find_compiler()


def test_what_visual_studio_sets() -> None:
    assert changed(PRINTED + "malformed\r\n", {"USERNAME": "José", "INCLUDE": "other"}) == {
        "PATH": "C:\\VC\\bin\\Hostx64\\x64;C:\\mingw64\\bin",
        "INCLUDE": "C:\\VC\\include",
        "VCINSTALLDIR": "C:\\VS\\VC\\",
        "VSCMD_ARG_TGT_ARCH": "x64",
    }


def test_no_visual_studio(tmp_path: Path) -> None:
    assert activated({"ProgramFiles(x86)": str(tmp_path), "CC": "mine"}, "x86_64") == {}


def test_the_command_that_activates_it() -> None:
    script = "C:\\Program Files\\Microsoft Visual Studio\\2022\\Enterprise\\VC\\Auxiliary\\Build\\vcvarsall.bat"
    command = activation(script, "x64")
    assert command.startswith("cmd /d /s /c ")
    inner = command.partition('"')[2].rpartition('"')[0]  # what cmd runs
    assert inner == f'chcp 65001 >nul & call "{script}" x64 >nul && set'


def find_in(*programs: str) -> object:
    """Like :func:`shutil.which` on a machine that has these programs."""

    def find(name: str, path: str) -> str | None:
        files = (str(Path(folder, name)) for folder in path.split(os.pathsep))
        return next((file for file in files if file in programs), None)

    return find


OWN = str(Path("VC", "Tools", "Llvm", "x64", "bin", "clang-cl"))
LLVM = str(Path("LLVM", "clang-cl"))
CL = str(Path("MSVC", "cl"))


@pytest.mark.parametrize(
    ("programs", "named", "compiler_name", "adds_to_path"),
    [
        ((OWN, LLVM, CL), {}, "clang-cl", True),
        ((LLVM, CL), {}, "clang-cl", False),
        ((CL,), {}, "cl", False),
        ((), {}, None, False),
        ((OWN, CL), {"CXX": "mine"}, None, False),
        ((OWN, CL), {"CC": "mine"}, None, False),
    ],
)
def test_clang_before_cl_and_never_whatever_is_first_on_the_path(
    programs: tuple[str, ...], named: dict[str, str], compiler_name: str | None, adds_to_path: bool
) -> None:
    path = os.pathsep.join(["MSVC", RUNNER["PATH"]])
    environ = {"VCINSTALLDIR": "VC", "PATH": path, **named}
    chosen = choose_compiler(environ, "x86_64", find_in(*programs))  # type: ignore[arg-type]
    assert chosen.get("CC") == chosen.get("CXX") == compiler_name
    assert chosen.get("PATH", path) == (os.pathsep.join([str(Path(OWN).parent), path]) if adds_to_path else path)


def test_visual_studio_is_activated_beside_mingw(tmp_path: Path) -> None:
    """On a runner, where ``g++`` is on the PATH: the fault was to take that and activate nothing."""
    installer = tmp_path / "Microsoft Visual Studio" / "Installer"
    script = tmp_path / "2022" / "VC" / "Auxiliary" / "Build" / "vcvarsall.bat"
    cl = tmp_path / "Hostx64" / ("cl.exe" if sys.platform == "win32" else "cl")
    for file in (installer / "vswhere.exe", script, cl):
        file.parent.mkdir(parents=True)
        file.touch(0o755)
    commands: list[object] = []

    def run(command: object, **_: object) -> Captured:
        commands.append(command)
        printed = (
            PRINTED.replace("C:\\VC\\bin\\Hostx64\\x64;C:\\mingw64\\bin", str(cl.parent))
            if isinstance(command, str)
            else f"{tmp_path / '2022'}\r\n"
        )
        return Captured(returncode=0, stdout=printed, stderr="", ending="")

    environ = {**RUNNER, "ProgramFiles(x86)": str(tmp_path), "USERNAME": "José"}
    found = activated(environ, "x86_64", run)
    assert (found["CC"], found["CXX"], found["INCLUDE"]) == ("cl", "cl", "C:\\VC\\include")
    assert commands[1] == activation(str(script), "x64")
    commands.clear()
    again = activated({**environ, **found}, "x86_64", run)
    assert (again, commands) == ({}, []), "it is active already, and the compiler is named"
    assert not is_active({"VSCMD_ARG_TGT_ARCH": "x86"}, "x86_64")
