"""The check that runs at the end of every wheel's build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import WHEEL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF only"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


def make_library(folder: Path, name: str, *needs: Path) -> Path:
    source = folder.parent / f"{name}.c"
    source.write_text(f"int {name}(void) {{ return 1; }}")
    library = folder / f"lib{name}.so"
    soname = f"-Wl,-soname,{library.name}"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(library),
        soname,
        "-Wl,--no-as-needed",
        *map(str, needs),
    ]
    subprocess.run(command, check=True)
    return library


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(WHEEL / "cmake" / "check_needed.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_runtime_and_neighbours_may_be_needed(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    make_library(folder, "user", make_library(folder, "neighbour"))
    done = check(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 libraries need only each other")


def test_a_library_that_the_wheel_does_not_carry_is_named_with_who_needs_it(tmp_path: Path) -> None:
    folder, system = tmp_path / "package", tmp_path / "system"
    folder.mkdir()
    system.mkdir()
    make_library(folder, "bindings", make_library(system, "LLVM"))
    done = check(folder)
    assert done.returncode != 0
    assert "libbindings.so needs libLLVM.so" in done.stderr


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert check(tmp_path).returncode != 0
