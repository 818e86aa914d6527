"""A model is linked ahead of the SDK's archives: the wheel project's own CMake file, on a small real archive."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.regalloc_model import ADVISOR
from mlir_release.builder.projects.mlir import WHEEL
from mlir_release.builder.sdk.regalloc_model import ModelFolder
from tests.regalloc_factory import add_advisor, make_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler"),
    pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake"),
]

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(wheel LANGUAGES CXX)
include({module})
add_library(llvm_code_gen STATIC archived.cpp)
set_target_properties(llvm_code_gen PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(mlir_c_api SHARED mlir.cpp)
target_link_libraries(mlir_c_api PRIVATE llvm_code_gen)
mlir_release_add_regalloc_model(mlir_c_api)
"""


def choice(project: Path, *options: str) -> int:
    """What the advisor of the linked library says."""
    build = project / "build"
    for words in (["-S", str(project), "-B", str(build), *options], ["--build", str(build)]):
        done = subprocess.run(["cmake", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (library,) = build.glob("libmlir_c_api.*")
    names = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    assert "RegAllocEvictModel" not in names.stdout, "it is hidden"
    return int(ctypes.CDLL(str(library)).ask())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A library that asks an advisor, of an archive whose own one answers 1, and the model 7."""
    root = tmp_path / "project"
    add_advisor(root / "upstream")
    ModelFolder.load(make_model(tmp_path / "evict")).copy_to(root / "regalloc")
    (root / "src").mkdir()
    (root / "src" / "llvm_option.cpp").write_text("")  # the real one needs LLVM's headers
    (root / "archived.cpp").write_text("int advisor() { return 1; }\n")
    (root / "mlir.cpp").write_text('int advisor();\nextern "C" int ask() { return advisor(); }\n')
    module = WHEEL / "cmake" / "MLIRReleaseRegallocModel.cmake"
    (root / "CMakeLists.txt").write_text(PROJECT.format(module=module))
    return root


def test_the_advisor_with_the_model_takes_the_place_of_the_archives(project: Path) -> None:
    assert choice(project, "-DMLIR_RELEASE_REGALLOC_MODEL=" + "a" * 64) == 7


def test_without_a_model_the_archives_advisor_stays(project: Path) -> None:
    assert choice(project) == 1


def test_an_sdk_that_has_the_model_needs_no_other_advisor(project: Path) -> None:
    shutil.rmtree(project / "regalloc")
    (project / "upstream" / ADVISOR).unlink()
    assert choice(project, "-DMLIR_RELEASE_REGALLOC_MODEL=" + "a" * 64) == 1
