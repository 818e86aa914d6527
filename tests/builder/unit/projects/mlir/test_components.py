"""What upstream's tests run, what an SDK carries, and what a build from source makes are held together."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.components import PROGRAMS, TOOL_FOLDERS
from mlir_release.builder.sdk.components import components, not_installed
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.python.platforms import SYSTEMS
from tests.prefix_factory import make_source
from tests.upstream_tools import WAIVED, WANTED, not_built

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.sources.upstream import UpstreamSource

LINUX, MACOS, WINDOWS = (SYSTEMS[name] for name in ("linux", "macos", "windows"))

#: Names that a component of another name installs as links.
LINKS = {"ld.lld": "lld", "ld64.lld": "lld", "lld-link": "lld", "wasm-ld": "lld"}

#: Carried where a prefix has them, and not built.
NOT_BUILT = {
    "lli-child-target": "only lli -jit-kind=mcjit -remote-mcjit runs it; no test of MLIR does",
    "mlir-cat": "an example (LLVM_BUILD_EXAMPLES)",
}


@pytest.fixture
def source(tmp_path: Path) -> UpstreamSource:
    """A tree that has every tool, and every library that tests load."""
    root = make_source(tmp_path / "llvm-project")
    for folder in TOOL_FOLDERS.values():
        (root / folder).mkdir(parents=True, exist_ok=True)
    libraries = sorted(name for name in WANTED if name.startswith("mlir_"))
    declared = "".join(f"  add_mlir_library({name}\n" for name in ("MLIRExecutionEngine", *libraries))
    (root / "mlir" / "lib" / "ExecutionEngine" / "CMakeLists.txt").write_text(declared)
    return read_source(root)


def test_only_what_the_version_has_is_asked_for(tmp_path: Path) -> None:
    root = make_source(tmp_path / "llvm-project")
    for folder in ("llvm/utils/FileCheck", "llvm/tools/llc", "mlir/tools/mlir-opt", "mlir/tools/mlir-runner"):
        (root / folder).mkdir(parents=True)
    (root / "mlir" / "lib" / "ExecutionEngine" / "CMakeLists.txt").write_text(
        "add_mlir_library(MLIRExecutionEngine\n"
        "  add_mlir_library(mlir_runner_utils\n"
        "    add_mlir_library(mlir_cuda_runtime\n"
    )
    found = components(read_source(root), LINUX)
    assert found[6:] == ["mlir_runner_utils", "FileCheck", "llc", "mlir-opt", "mlir-runner"]
    assert "llvm-libraries" in found


#: Commands that add a program, in upstream's words; whether the program is a component.
ADDED = {
    "add_llvm_utility(NAME\n  a.cpp\n  )\n": True,
    "add_mlir_tool(NAME\n  a.cpp\n  )\n": True,
    # LLVM 22
    "add_llvm_executable(NAME\n  a.cpp\n  )\nsetup_host_tool(NAME SOME SOME_EXE SOME_TARGET)\n": False,
    "add_tablegen(NAME SOME\n  a.cpp\n\n  DEPENDS\n  ${LIBS}\n  )\n": False,
    # LLVM 23
    "add_llvm_executable(NAME\n  a.cpp\n  )\nadd_llvm_install_targets(install-NAME DEPENDS NAME)\n": True,
    'add_tablegen(NAME SOME\n  DESTINATION "${MLIR_TOOLS_INSTALL_DIR}"\n  EXPORT MLIR\n  a.cpp)\n': True,
}


@pytest.mark.parametrize(("text", "installed"), ADDED.items())
def test_a_tool_without_a_component_is_built_by_name(source: UpstreamSource, text: str, installed: bool) -> None:
    name = "mlir-irdl-to-cpp"
    (source.root / TOOL_FOLDERS[name] / "CMakeLists.txt").write_text(text.replace("NAME", name))
    assert (name in components(source, LINUX)) is installed
    assert not_installed(source) == ([] if installed else [name])


def test_what_upstreams_tests_run_is_built(source: UpstreamSource) -> None:
    assert not_built(WANTED, components(source, LINUX)) == []


def test_what_is_waived_is_wanted_and_not_built(source: UpstreamSource) -> None:
    built = components(source, LINUX)
    for pattern in WAIVED:
        assert any(fnmatch(name, pattern) for name in WANTED), pattern
        assert not any(fnmatch(name, pattern) for name in built), pattern


def test_tests_of_waived_programs_are_known_failures() -> None:
    known = (resources.files("mlir_release.builder.projects.mlir") / "known_failures.toml").read_text(encoding="utf-8")
    assert '"CAPI/*.c"' in known


def test_what_an_sdk_carries_is_built(source: UpstreamSource) -> None:
    wanted = {LINKS.get(name, name) for name in PROGRAMS} - set(NOT_BUILT)
    assert not_built(wanted, components(source, LINUX)) == []


def test_what_is_built_is_carried_by_the_sdk() -> None:
    carried = {LINKS.get(name, name) for name in PROGRAMS}
    assert set(TOOL_FOLDERS) <= carried


#: How upstream says where a library is built: LLVM 22, and the shorter form of its other files.
CONDITIONS = """
if(LLVM_ENABLE_PIC)
  add_mlir_library(mlir_float16_utils
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux" OR CMAKE_SYSTEM_NAME STREQUAL "Darwin")
    # Not built on Windows, which has no weak symbols
    add_mlir_library(mlir_apfloat_wrappers
  endif()
  if(NOT WIN32)
    add_mlir_library(mlir_unix_only
  endif()
  if(MSVC) # a comment with add_mlir_library(
    set(SOME thing)
  else()
    set(SOME other)
  endif(MSVC)
  add_mlir_library(mlir_async_runtime
endif()
"""


def test_libraries_that_upstream_has_on_some_systems_only(source: UpstreamSource) -> None:
    file = source.root / "mlir" / "lib" / "ExecutionEngine" / "CMakeLists.txt"
    file.write_text(CONDITIONS)
    everywhere, some = {"mlir_float16_utils", "mlir_async_runtime"}, {"mlir_apfloat_wrappers", "mlir_unix_only"}
    for system, expected in ((LINUX, everywhere | some), (MACOS, everywhere | some), (WINDOWS, everywhere)):
        assert {name for name in components(source, system) if name.startswith("mlir_")} == expected
