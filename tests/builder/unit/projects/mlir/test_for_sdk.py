"""Static libraries and CMake packages of an SDK of MLIR, from a made-up prefix with every quirk of the real ones."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.cmake_exports import Target
from mlir_release.builder.projects.mlir.python_groups import EXPORTS, OPT_OUT, is_python_group
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.storage.cache import cache_directory
from tests.prefix_factory import EPOCH, REVISION, make_archive
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk


def run(prefix: Path, source: Path, output: Path) -> Sdk:
    return import_sdk(prefix, source=source, output=output, revision=REVISION, source_epoch=EPOCH)


def test_no_path_of_any_machine_is_left(sdk: Sdk) -> None:
    for file in sdk.cmake_dir.rglob("*.cmake"):
        assert not re.search(r'[" ;]/(usr|build|tmp|opt|home)\b', file.read_text()), file
        assert str(sdk.root.parent) not in file.read_text()


def test_the_shared_libraries_become_interfaces_for_the_static_ones(sdk: Sdk) -> None:
    llvm = cmake_exports.read(sdk.cmake_dir / "llvm" / "LLVMExports.cmake")
    mlir = cmake_exports.read(sdk.cmake_dir / "mlir" / "MLIRTargets.cmake")
    assert (llvm["LLVM"].kind, llvm["LLVM"].links) == ("INTERFACE", ["LLVMDemangle", "LLVMSupport", "LLVMCore"])
    # What links libMLIR.so is not in it; the C API is not, either.
    assert (mlir["MLIR"].kind, mlir["MLIR"].links) == ("INTERFACE", ["MLIRSupport", "MLIRIR"])
    config = (sdk.cmake_dir / "llvm" / "LLVMConfig.cmake").read_text()
    assert "set(LLVM_LINK_LLVM_DYLIB OFF)" in config
    assert "find_package(" not in config


def test_what_cannot_be_carried_is_left_out_with_what_needs_it(sdk: Sdk) -> None:
    llvm = cmake_exports.read(sdk.cmake_dir / "llvm" / "LLVMExports.cmake")
    # libcurl; Polly is in no package, LLVMExtensions needs it, LLVMLTO needs that; modules and absent programs.
    assert llvm.keys() == {
        "LLVMDemangle", "LLVMSupport", "LLVMCore", "LLVM", "FileCheck", "mlir_sdk_zlib", "mlir_sdk_zstd",
    }  # fmt: skip
    assert llvm["LLVMSupport"].links == ["rt", "dl", "m", "mlir_sdk_zlib", "mlir_sdk_zstd", "LLVMDemangle"]
    config = (sdk.cmake_dir / "llvm" / "LLVMConfig.cmake").read_text()
    assert "set(LLVM_AVAILABLE_LIBS LLVMDemangle;LLVMSupport;LLVMCore;LLVM)" in config


def test_the_c_api_gets_its_object_libraries(sdk: Sdk) -> None:
    mlir = cmake_exports.read(sdk.cmake_dir / "mlir" / "MLIRTargets.cmake")
    assert mlir["obj.MLIRCAPIIR"].kind == "OBJECT"
    files = mlir["obj.MLIRCAPIIR"].files
    assert files == ["lib/objects/MLIRCAPIIR/IR.cpp.o", "lib/objects/MLIRCAPIIR/Support.cpp.o"]
    assert (sdk.root / files[0]).read_text().strip() == "libMLIRCAPIIR.a IR.cpp.o"
    assert "AGGREGATE_OBJECTS ON" in (sdk.cmake_dir / "mlir" / "MLIRConfig.cmake").read_text()


def test_installed_object_libraries_are_preferred(prefix: Path, source: Path, tmp_path: Path) -> None:
    folder = prefix / "lib" / "objects-Release" / "obj.MLIRCAPIIR"
    folder.mkdir(parents=True)
    (folder / "Installed.cpp.o").write_text("object")
    sdk = run(prefix, source, tmp_path / "sdk")
    mlir = cmake_exports.read(sdk.cmake_dir / "mlir" / "MLIRTargets.cmake")
    assert mlir["obj.MLIRCAPIIR"].files == ["lib/objects/MLIRCAPIIR/Installed.cpp.o"]


def test_a_library_folder_of_another_name_is_normalised(prefix: Path, source: Path, tmp_path: Path) -> None:
    (prefix / "lib").rename(prefix / "lib64")
    for file in (prefix / "lib64").rglob("*.cmake"):
        file.write_text(file.read_text().replace("_IMPORT_PREFIX}/lib/", "_IMPORT_PREFIX}/lib64/"))
    sdk = run(prefix, source, tmp_path / "sdk")
    llvm = cmake_exports.read(sdk.cmake_dir / "llvm" / "LLVMExports.cmake")
    assert llvm["LLVMCore"].files == ["lib/libLLVMCore.a"]
    assert (sdk.root / "lib" / "libLLVMCore.a").is_file()


@pytest.mark.parametrize(
    ("library", "option"),
    [
        ("/usr/lib/x86_64-linux-gnu/libicuuc.so", "-DLLVM_ENABLE_ICU=OFF"),
        ("/opt/lib/libiconv.dylib", "-DLLVM_ENABLE_ICONV=OFF"),
        ("C:/Program Files/DIA SDK/lib/amd64/diaguids.lib", "-DLLVM_ENABLE_DIA_SDK=OFF"),
        ("/usr/lib/libsecret.so", ""),
        ("LibXml2::LibXml2", "-DLLVM_ENABLE_LIBXML2=OFF"),
    ],
)
def test_a_library_that_llvm_itself_links_and_that_is_not_carried_is_named(
    prefix: Path, source: Path, tmp_path: Path, library: str, option: str
) -> None:
    exports = prefix / "lib" / "cmake" / "llvm" / "LLVMExports.cmake"
    exports.write_text(exports.read_text().replace("/usr/lib/x86_64-linux-gnu/libz3.so", library))
    error = refused(lambda: run(prefix, source, tmp_path / "sdk"), "llvm-unsuitable", ", which an SDK does not carry")
    assert library in error.what
    assert f"LLVMSupport links {library}" in error.why
    assert option in error.remedy


def test_a_library_that_one_part_of_the_c_api_needs_is_named_too(prefix: Path, source: Path, tmp_path: Path) -> None:
    """It would be missed only when a wheel is linked, hours later."""
    exports = prefix / "lib" / "cmake" / "mlir" / "MLIRTargets.cmake"
    exports.write_text(
        exports.read_text().replace('"MLIRIR;LLVM"\n  MLIR_AGG', '"MLIRIR;LLVM;/opt/libgpu.so"\n  MLIR_AGG')
    )
    error = refused(lambda: run(prefix, source, tmp_path / "sdk"), "llvm-unsuitable")
    assert "MLIRCAPIIR links /opt/libgpu.so" in error.why


def test_a_static_library_that_is_exported_but_not_installed_is_named(
    prefix: Path, source: Path, tmp_path: Path
) -> None:
    (prefix / "lib" / "libLLVMDemangle.a").unlink()  # LLVMSupport links it
    error = refused(lambda: run(prefix, source, tmp_path / "sdk"), "llvm-unsuitable", "cannot be taken from this LLVM")
    assert error.what.startswith("LLVMDemangle cannot")


def test_nothing_is_left_out_silently(
    prefix: Path, source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(prefix, source, tmp_path / "sdk")
    said = capfd.readouterr().err
    assert "CURL::libcurl (LLVMDebuginfod)" in said
    assert "Polly (LLVMExtensions, LLVMLTO)" in said


def test_archive_members_of_one_name(prefix: Path, source: Path, tmp_path: Path) -> None:
    archive = prefix / "lib" / "libMLIRCAPIIR.a"
    archive.unlink()
    make_archive(archive, ["IR.cpp.o", "IR.cpp.o"])
    refused(lambda: run(prefix, source, tmp_path / "sdk"), "program-failed")


def test_a_corrupt_archive(prefix: Path, source: Path, tmp_path: Path) -> None:
    (prefix / "lib" / "libMLIRCAPIIR.a").write_text("no archive")
    refused(lambda: run(prefix, source, tmp_path / "sdk"), "tool-missing", "is not a readable static library")


DOWNSTREAM = """\
cmake_minimum_required(VERSION 3.20)
project(downstream LANGUAGES NONE)
find_package(MLIR REQUIRED CONFIG)
if(TARGET MLIRPythonSources.Core)
  get_target_property(sources MLIRPythonSources.Core INTERFACE_SOURCES)
endif()
message(STATUS "bindings ${MLIR_ENABLE_BINDINGS_PYTHON}, sources ${sources}")
"""


def test_upstreams_own_file_declares_the_groups(sdk: Sdk) -> None:
    groups = cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS)
    assert groups["MLIRPythonSources"].properties["mlir_python_DEPENDS"] == "MLIRPythonSources.Core"
    assert groups["MLIRPythonSources.Core"].properties["mlir_python_SOURCES_TYPE"] == "pure"
    assert (sdk.root / "src" / "python" / "MLIRPythonSources.Core" / "ir.py").is_file()


def test_groups_of_the_prefix_are_replaced(sdk: Sdk) -> None:
    """Their sources may be in no package, and an LLVM without any is to give the same SDK."""
    mlir = cmake_exports.read(sdk.cmake_dir / "mlir" / "MLIRTargets.cmake")
    assert not [name for name, target in mlir.items() if is_python_group(target)]
    assert set(cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS)) == {"MLIRPythonSources", "MLIRPythonSources.Core"}


@pytest.mark.parametrize("declares_them_itself", [False, True])
def test_a_downstream_project_finds_them_unless_it_declares_them(
    sdk: Sdk, tmp_path: Path, declares_them_itself: bool
) -> None:
    project = tmp_path / "downstream"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(DOWNSTREAM)
    cmake, _ = cmake_and_ninja(cache_directory())
    words = [f"-DCMAKE_PREFIX_PATH={sdk.root}", f"-D{OPT_OUT}={'ON' if declares_them_itself else 'OFF'}"]
    done = subprocess.run([cmake, "-S", project, "-B", project / "b", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sources = "" if declares_them_itself else f"{sdk.root}/src/python/MLIRPythonSources.Core/ir.py"
    assert f"-- bindings ON, sources {sources}\n" in done.stdout


def test_sources_that_lack_a_piece(prefix: Path, source: Path, tmp_path: Path) -> None:
    (source / "mlir" / "python" / "mlir" / "ir.py").unlink()
    error = refused(lambda: run(prefix, source, tmp_path / "sdk"), "build-failed")
    assert "ir.py" in error.why
    assert not (tmp_path / "sdk").exists()


#: A file of exports, as CMake writes it, for the reader and writer of such files.
MAIN = r"""
# add_library(NotThis STATIC IMPORTED)
add_library(One STATIC IMPORTED)

set_target_properties(One PROPERTIES
  INTERFACE_LINK_LIBRARIES "Two;\$<LINK_ONLY:LLVM>;-lpthread"
  INTERFACE_COMPILE_DEFINITIONS "TEXT=\"a;b)\""
)
add_library(Two INTERFACE IMPORTED)
add_executable(tool IMPORTED)
set_property(TARGET tool PROPERTY ENABLE_EXPORTS 1)
"""

PER_TYPE = """
set_property(TARGET One APPEND PROPERTY IMPORTED_CONFIGURATIONS {type})
set_target_properties(One PROPERTIES
  IMPORTED_LINK_INTERFACE_LANGUAGES_{type} "CXX"
  IMPORTED_LOCATION_{type} "${{_IMPORT_PREFIX}}/lib/{folder}/libOne.a"
  )
"""


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    main = tmp_path / "Exports.cmake"
    main.write_text(MAIN)
    for build_type in ("debug", "release"):
        text = PER_TYPE.format(type=build_type.upper(), folder=build_type)
        (tmp_path / f"Exports-{build_type}.cmake").write_text(text)
    return main


def test_targets_are_read_with_kind_and_properties(exports: Path) -> None:
    targets = cmake_exports.read(exports)
    assert {name: target.kind for name, target in targets.items()} == {
        "One": "STATIC",
        "Two": "INTERFACE",
        "tool": "EXECUTABLE",
    }
    assert targets["One"].links == ["Two", r"\$<LINK_ONLY:LLVM>", "-lpthread"]
    assert targets["One"].properties["INTERFACE_COMPILE_DEFINITIONS"] == r"TEXT=\"a;b)\""
    assert targets["tool"].properties == {"ENABLE_EXPORTS": "1"}


def test_release_is_taken_before_debug(exports: Path) -> None:
    assert cmake_exports.read(exports)["One"].files == ["lib/release/libOne.a"]


def test_what_is_written_reads_back_the_same(exports: Path, tmp_path: Path) -> None:
    targets = cmake_exports.read(exports)
    again = tmp_path / "again" / "Exports.cmake"
    again.parent.mkdir()
    again.write_text(cmake_exports.write(targets.values(), origin="A test."))
    assert cmake_exports.read(again) == targets


def test_links_are_renamed_inside_link_only_and_dropped() -> None:
    target = Target(
        name="X",
        kind="STATIC",
        properties={
            "INTERFACE_LINK_LIBRARIES": r"A;\$<LINK_ONLY:A>;B;C",
            "MLIR_AGGREGATE_DEP_LIBS_IMPORTED": "A;B",
        },
    )
    cmake_exports.replace_links(target, {"A": "Z", "B": None})
    assert target.links == ["Z", r"\$<LINK_ONLY:Z>", "C"]
    assert target.properties["MLIR_AGGREGATE_DEP_LIBS_IMPORTED"] == "Z"
