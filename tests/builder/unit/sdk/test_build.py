"""Builds from source: their settings, that they resume, and how they end."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

from mlir_release.builder.sdk import build
from mlir_release.builder.sdk.components import SdkSpec, cmake_settings
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.progress import StageLog
from mlir_release.builder.sdk.regalloc_model import ModelFolder
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError
from tests.prefix_factory import EPOCH, make_prefix, make_source
from tests.refusals import refused
from tests.regalloc_factory import add_advisor, make_model

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.build import BuildTree


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "llvm-project", whole=True)


def prepare(source: Path, output: Path, *, disk: int = 0, **spec: Any) -> BuildTree:
    return build.prepare(source, SdkSpec(**spec), output=output, source_epoch=EPOCH, jobs=2, disk=disk)


def test_the_same_build_resumes_and_another_has_its_own_folder(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "sdk"
    first = prepare(source, output)
    assert prepare(source, output).root == first.root
    assert prepare(source, output, configuration="release+asserts").root != first.root
    reduced = prepare(source, output, code_generators=("host",))
    assert reduced.root != first.root
    assert not output.exists()


def test_the_estimate_grows_with_steps_and_shrinks_with_cores() -> None:
    assert build.estimate(4000, 4) == pytest.approx(2 * build.estimate(2000, 4))
    assert build.estimate(4000, 8) == pytest.approx(build.estimate(4000, 4) / 2)


def test_an_unknown_configuration(source: Path, tmp_path: Path) -> None:
    refused(lambda: prepare(source, tmp_path / "sdk", configuration="debug"), "option-invalid")


def test_sources_that_are_only_a_part(tmp_path: Path) -> None:
    part, said = make_source(tmp_path / "part"), "LLVM can't be built from these sources"
    error = refused(lambda: prepare(part, tmp_path / "sdk"), "input-invalid", said)
    assert "missing: lld/CMakeLists.txt, llvm/CMakeLists.txt, " in error.why


def test_no_compiler(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/opt/no-such-compiler -m64")
    error = refused(lambda: prepare(source, tmp_path / "sdk"), "tool-missing")
    assert "/opt/no-such-compiler" in error.where


def test_no_disk_space(source: Path, tmp_path: Path) -> None:
    error = refused(lambda: prepare(source, tmp_path / "sdk", disk=10**18), "disk-full")
    assert "are free, about 1000000000000.0 MB are needed" in error.why


def write_project(source: Path, sources: dict[str, str]) -> None:
    """In LLVM's place a project of one library, ``some``, and the targets that a build asks for."""
    folder = source / "llvm"
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(llvm LANGUAGES CXX)\n"
        f"add_library(some STATIC {' '.join(sources)})\n"
        "add_custom_target(distribution DEPENDS some)\n"
        f"add_custom_target({build.INSTALL} DEPENDS distribution)\n"
    )
    for name, text in sources.items():
        (folder / name).write_text(text)


def outcomes(output: Path) -> list[tuple[str, str]]:
    return [(stage.name, stage.outcome) for stage in StageLog(output).stages]


def test_a_build_that_fails_shows_the_compilers_error_and_its_stages(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    console.in_actions = True
    good = {f"good{number}.cpp": f"int good{number};\n" for number in range(5)}
    write_project(source, {**good, "bad.cpp": "int f() { return undeclared; }\n"})
    tree = prepare(source, tmp_path / "sdk")
    error = refused(lambda: build.build_sdk(tree, revision="c" * 40), "program-failed")
    lines = error.why.splitlines()
    assert lines[0].startswith("FAILED: ")
    assert "bad.cpp" in lines[0]
    assert "error:" in lines[1]
    assert "undeclared" in lines[1]
    assert not any("-o CMakeFiles" in line for line in lines), "the command is in the log"
    assert error.where == str(tree.root / "build.log")
    assert "undeclared" in (tree.root / "build.log").read_text()
    assert not (tmp_path / "sdk").exists()
    assert outcomes(tmp_path / "sdk") == [("configure", "done"), ("build", "failed")]
    shown = capsys.readouterr()
    assert "configure" in shown.out
    assert "::group::output of the failing step" in shown.err
    assert "| build |" in (tmp_path / "summary.md").read_text()


def test_a_build_that_failed_resumes(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(source, {"a.cpp": "int a;\n", "b.cpp": "int b = no;\n"})
    tree = prepare(source, tmp_path / "sdk")
    with pytest.raises(MachineError):
        build.build_until(tree, "some")
    (source / "llvm" / "b.cpp").write_text("int b;\n")
    build.build_until(tree, "some")
    built = StageLog(tmp_path / "sdk").stages[-1]
    assert (built.name, built.outcome) == ("build some", "done")
    assert built.steps == 2, "b.cpp and the library"
    assert "of disk are needed" in capsys.readouterr().err


#: How LLVM's own build asks for a model. Source: llvm/CMakeLists.txt, llvm/cmake/modules/TensorFlowCompile.cmake.
TAKES_MODEL = """
cmake_minimum_required(VERSION 3.20)
project(llvm LANGUAGES CXX)
add_subdirectory(${TENSORFLOW_AOT_PATH}/xla_aot_runtime_src ${CMAKE_BINARY_DIR}/tf_runtime)
foreach(_file IN ITEMS HEADER OBJECT)
  if(NOT EXISTS "${LLVM_OVERRIDE_MODEL_${_file}_REGALLOCEVICTMODEL}")
    message(FATAL_ERROR "no ${_file}")
  endif()
endforeach()
configure_file(${LLVM_OVERRIDE_MODEL_HEADER_REGALLOCEVICTMODEL} RegAllocEvictModel.h COPYONLY)
configure_file(${LLVM_OVERRIDE_MODEL_OBJECT_REGALLOCEVICTMODEL} RegAllocEvictModel.o COPYONLY)
add_executable(some advisor.cpp ${CMAKE_CURRENT_BINARY_DIR}/RegAllocEvictModel.o)
target_include_directories(some PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
add_dependencies(some tf_xla_runtime)
target_link_libraries(some PRIVATE tf_xla_runtime)
"""


def test_a_model_is_compiled_before_llvm_is_configured_with_it(source: Path, tmp_path: Path) -> None:
    regalloc = ModelFolder.load(make_model(tmp_path / "evict"))
    add_advisor(source)
    (source / "llvm" / "CMakeLists.txt").write_text(TAKES_MODEL)
    (source / "llvm" / "advisor.cpp").write_text(
        '#include "RegAllocEvictModel.h"\nint main() { return llvm::RegAllocEvictModel().choice(); }\n'
    )
    tree = prepare(source, tmp_path / "sdk", regalloc=regalloc)
    assert tree.root != prepare(source, tmp_path / "sdk").root
    build.build_until(tree, "some")
    assert subprocess.run([tree.build_dir / "some"], check=False).returncode == 7


def test_a_second_build_of_the_same_takes_what_the_first_made(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock is held by another thread, which finishes the SDK and removes the build folder, as a process would."""
    tree = prepare(source, tmp_path / "sdk")
    revision = "c" * 40
    prefix = make_prefix(tmp_path / "usr" / "lib" / "llvm-22")

    held = threading.Event()

    def finish() -> None:
        with FileLock(tree.root.with_name(f"{tree.root.name}.lock")):
            held.set()
            time.sleep(0.5)
            import_sdk(prefix, source=source, output=tree.output, revision=revision, source_epoch=EPOCH)
            shutil.rmtree(tree.root)

    thread = threading.Thread(target=finish)
    thread.start()
    assert held.wait(timeout=30)
    made = build.build_sdk(tree, revision=revision)
    thread.join()
    assert made == Sdk.load(tree.output)
    assert "another build of this SDK is running" in capsys.readouterr().err
    assert outcomes(tree.output) == []


def settings_of(source: Path, **spec: Any) -> dict[str, str]:
    return cmake_settings(read_source(source), SdkSpec(**spec))


def test_nothing_of_one_machine_only(source: Path) -> None:
    settings = settings_of(source, floor="manylinux_2_28")
    for name in ("ZLIB", "ZSTD", "LIBXML2", "ICU", "ICONV", "DIA_SDK"):
        assert settings[f"LLVM_ENABLE_{name}"] == "OFF"
    assert settings["CMAKE_DISABLE_PRECOMPILE_HEADERS"] == "ON"


def test_code_generators_are_those_asked_for(source: Path) -> None:
    assert settings_of(source)["LLVM_TARGETS_TO_BUILD"] == "host;NVPTX;AMDGPU"
    assert settings_of(source, code_generators=("host",))["LLVM_TARGETS_TO_BUILD"] == "host"


def test_windows_has_a_static_c_runtime_no_times_and_no_library_of_all_of_llvm(source: Path) -> None:
    windows, macos, linux = (
        settings_of(source, floor=floor) for floor in ("win_amd64", "macosx_13_0", "manylinux_2_28")
    )
    assert windows["CMAKE_MSVC_RUNTIME_LIBRARY"] == "MultiThreaded"
    assert "CMAKE_MSVC_RUNTIME_LIBRARY" not in macos.keys() | linux.keys()
    for kind in ("EXE", "SHARED", "MODULE"):
        name = f"CMAKE_{kind}_LINKER_FLAGS_RELEASE"
        assert windows[name].split() == ["/INCREMENTAL:NO", "/Brepro"]
        assert name not in macos
    for name in ("LLVM_BUILD_LLVM_C_DYLIB", "LLVM_TOOL_LTO_BUILD", "LLVM_TOOL_REMARKS_SHLIB_BUILD"):
        assert windows[name] == "OFF"
