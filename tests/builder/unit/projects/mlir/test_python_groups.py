from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.python_groups import EXPORTS, OPT_OUT, is_python_group
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.storage.cache import cache_directory
from tests.prefix_factory import EPOCH, REVISION, make_prefix, make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk

DOWNSTREAM = """\
cmake_minimum_required(VERSION 3.20)
project(downstream LANGUAGES NONE)
find_package(MLIR REQUIRED CONFIG)
if(TARGET MLIRPythonSources.Core)
  get_target_property(sources MLIRPythonSources.Core INTERFACE_SOURCES)
endif()
message(STATUS "bindings ${MLIR_ENABLE_BINDINGS_PYTHON}, sources ${sources}")
"""


def run(tmp_path: Path) -> Sdk:
    prefix, source = tmp_path / "usr" / "lib" / "llvm-22", tmp_path / "llvm-project"
    if not prefix.exists():
        make_prefix(prefix)
        make_source(source)
    return import_sdk(prefix, source=source, output=tmp_path / "sdk", revision=REVISION, source_epoch=EPOCH)


def test_upstreams_own_file_declares_the_groups(tmp_path: Path) -> None:
    sdk = run(tmp_path)
    groups = cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS)
    assert groups["MLIRPythonSources"].properties["mlir_python_DEPENDS"] == "MLIRPythonSources.Core"
    assert groups["MLIRPythonSources.Core"].properties["mlir_python_SOURCES_TYPE"] == "pure"
    assert (sdk.root / "src" / "python" / "MLIRPythonSources.Core" / "ir.py").is_file()


def test_groups_of_the_prefix_are_replaced(tmp_path: Path) -> None:
    """Their sources may be in no package, and an LLVM without any is to give the same SDK."""
    sdk = run(tmp_path)
    mlir = cmake_exports.read(sdk.cmake_dir / "mlir" / "MLIRTargets.cmake")
    assert not [name for name, target in mlir.items() if is_python_group(target)]
    assert set(cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS)) == {"MLIRPythonSources", "MLIRPythonSources.Core"}


@pytest.mark.parametrize("declares_them_itself", [False, True])
def test_a_downstream_project_finds_them_unless_it_declares_them(tmp_path: Path, declares_them_itself: bool) -> None:
    sdk = run(tmp_path)
    project = tmp_path / "downstream"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(DOWNSTREAM)
    cmake, _ = cmake_and_ninja(cache_directory())
    words = [f"-DCMAKE_PREFIX_PATH={sdk.root}", f"-D{OPT_OUT}={'ON' if declares_them_itself else 'OFF'}"]
    done = subprocess.run([cmake, "-S", project, "-B", project / "b", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sources = "" if declares_them_itself else f"{sdk.root}/src/python/MLIRPythonSources.Core/ir.py"
    assert f"-- bindings ON, sources {sources}\n" in done.stdout


def test_sources_that_lack_a_piece(tmp_path: Path) -> None:
    make_prefix(tmp_path / "usr" / "lib" / "llvm-22")
    source = make_source(tmp_path / "llvm-project")
    (source / "mlir" / "python" / "mlir" / "ir.py").unlink()
    error = refused(lambda: run(tmp_path), "build-failed")
    assert "ir.py" in error.why
    assert not (tmp_path / "sdk").exists()
