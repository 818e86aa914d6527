"""The function by which a wheel's library sets LLVM's options, with the stock LLVM."""

from __future__ import annotations

import ctypes
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import WHEEL

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.sources.debian import DebianPackages

#: A library with an option of its own, of the kind of the advisor's.
LIBRARY = """
#include "llvm/Support/CommandLine.h"
enum Kind { Default, Release };
static llvm::cl::opt<Kind> Mode("made-up-advisor", llvm::cl::init(Default),
  llvm::cl::values(clEnumValN(Default, "default", ""), clEnumValN(Release, "release", "")));
extern "C" int mode() { return Mode; }
"""


@pytest.fixture
def library(packages: DebianPackages, tmp_path: Path) -> ctypes.CDLL:
    prefix = packages.unpack(max(packages.versions()))
    (tmp_path / "library.cpp").write_text(LIBRARY)
    command: list[str | Path] = [
        "c++", "-std=c++17", "-shared", "-fPIC", f"-I{prefix}/include", WHEEL / "src" / "llvm_option.cpp",
        tmp_path / "library.cpp", f"-L{prefix}/lib", "-lLLVMSupport", "-lLLVMDemangle", "-lz", "-lzstd",
        "-o", tmp_path / "library.so",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    found = ctypes.CDLL(str(tmp_path / "library.so"))
    found.mlirReleaseSetLLVMOption.restype = ctypes.c_bool
    return found


def test_an_option_is_set_as_often_as_one_likes(library: ctypes.CDLL) -> None:
    seen = [library.mode()]
    for value in (b"release", b"default", b"release"):
        assert library.mlirReleaseSetLLVMOption(b"made-up-advisor", value)
        seen.append(library.mode())
    assert seen == [0, 1, 0, 1]


@pytest.mark.parametrize(("name", "value"), [(b"no-such-option", b"release"), (b"made-up-advisor", b"fast")])
def test_what_llvm_does_not_know_is_refused(name: bytes, value: bytes, library: ctypes.CDLL) -> None:
    assert not library.mlirReleaseSetLLVMOption(name, value)
    assert library.mode() == 0
