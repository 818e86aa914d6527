"""Add ``llvm-config`` to an SDK, which Makefiles and Cargo ask how to compile and link.

It is a program of ours, which reads the SDK's CMake packages. Upstream's would be wrong about most SDKs: it says what
LLVM was built as (Debian's: shared, with z3 and libxml2), names archives that an SDK leaves out, and prints flags with
folders of the machine that built it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.builder.projects.mlir import LLVM_CONFIG
from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.python.platforms import System

#: The program, and what starts it on Windows.
NAME, STARTER = "llvm-config", "llvm-config.cmd"

_START = '@python "%~dp0llvm-config" %*\r\n'

_STANDARD = re.compile(r"^\s*set\(CMAKE_CXX_STANDARD (\d+)\b", re.MULTILINE)


def add_llvm_config(output: Path, source: Path, system: System) -> None:
    """Write the program, and note in ``LLVMConfig.cmake`` which C++ upstream's headers need.

    :param source: upstream's tree at the same version; ``mlir/CMakeLists.txt`` has the standard
    """
    program = output / "bin" / NAME
    program.write_bytes(LLVM_CONFIG.read_bytes())
    program.chmod(0o755)
    if system.name == "windows":
        program.with_name(STARTER).write_text(_START, encoding="utf-8", newline="")
    found = _STANDARD.search(read_text(source / "mlir" / "CMakeLists.txt", errors="surrogateescape"))
    if found is not None:
        with (output / "lib" / "cmake" / "llvm" / "LLVMConfig.cmake").open("a", encoding="utf-8") as file:
            file.write(f"\nset(MLIR_SDK_CXX_STANDARD {found[1]})\n")
