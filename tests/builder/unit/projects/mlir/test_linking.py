"""What a wheel links, and that it needs nothing else: the wheel project's own CMake files, on small real archives."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.regalloc_model import ADVISOR
from mlir_release.builder.projects.mlir import WHEEL
from mlir_release.builder.sdk.regalloc_model import ModelFolder
from tests.regalloc_factory import add_advisor, make_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF only"),
    pytest.mark.skipif(not all(map(shutil.which, ("cc", "c++", "cmake"))), reason="needs a compiler and CMake"),
]

GENERATORS = ("X86", "NVPTX", "SPIRV")
PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter")

#: As llvm/Support/TargetSelect.h declares and calls them.
TARGET_SELECT = "".join(
    f"#define LLVM_TARGET(TargetName) void LLVMInitialize##TargetName##{part}(void);\n" for part in PARTS * 2
)

#: MLIR refers to the initializers of every code generator, and (since LLVM 23) to one more function of SPIRV's.
LIBRARY = "\n".join(
    [
        *(f"void LLVMInitialize{name}{part}(void);" for name in GENERATORS for part in PARTS),
        "int spirv_instructions(void);",
        "int mlir(void) {",
        *(f"  LLVMInitialize{name}{part}();" for name in GENERATORS for part in PARTS),
        "  return spirv_instructions();",
        "}",
    ]
)

OF_CODE_GENERATORS = """
cmake_minimum_required(VERSION 3.20)
set(CMAKE_C_COMPILER_WORKS 1)
project(wheel LANGUAGES C)
set(MLIR_RELEASE_SDK {sdk})
set(LLVM_NATIVE_ARCH X86)
set(LLVM_TARGETS_TO_BUILD {generators})
function(llvm_map_components_to_libnames variable)
endfunction()
include({module})
add_library(mlir_c_api SHARED mlir.c)
mlir_release_leave_out_code_generators(mlir_c_api)
target_link_libraries(mlir_c_api PRIVATE {archives})
set_target_properties(mlir_c_api PROPERTIES LINK_FLAGS "-Wl,-z,defs")
"""


def make_archive(root: Path, generator: str) -> Path:
    """One member an initializer, each with a function of its own beside it."""
    objects = []
    for part in PARTS:
        source = root / f"{generator}{part}.c"
        neighbour = "int spirv_instructions(void) { return 1; }" if (generator, part) == ("SPIRV", "TargetMC") else ""
        source.write_text(
            f"int real_{generator}_{part};\nvoid LLVMInitialize{generator}{part}(void) "
            f"{{ real_{generator}_{part} = 1; }}\n{neighbour}\n"
        )
        objects.append(source.with_suffix(".o"))
        subprocess.run(["cc", "-c", "-fPIC", str(source), "-o", str(objects[-1])], check=True)
    archive = root / f"libLLVM{generator}.a"
    subprocess.run(["ar", "rcs", str(archive), *map(str, objects)], check=True)
    return archive


@pytest.fixture
def of_code_generators(tmp_path: Path) -> Path:
    """A project that links made-up code generators by way of the wheel project's CMake file."""
    archives = [make_archive(tmp_path, generator) for generator in GENERATORS]
    header = tmp_path / "sdk" / "include" / "llvm" / "Support" / "TargetSelect.h"
    header.parent.mkdir(parents=True)
    header.write_text(TARGET_SELECT)
    root = tmp_path / "project"
    shutil.copytree(WHEEL / "src", root / "src")
    for name in ("left_out_optimizer.cpp", "compile.cpp"):
        (root / "src" / name).write_text("")  # the real ones need LLVM's headers
    (root / "mlir.c").write_text(LIBRARY)
    (root / "CMakeLists.txt").write_text(
        OF_CODE_GENERATORS.format(
            sdk=tmp_path / "sdk",
            generators=" ".join(GENERATORS),
            module=WHEEL / "cmake" / "MLIRReleaseCodeGenerators.cmake",
            archives=" ".join(map(str, archives)),
        )
    )
    return root


def configure(project: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    words = [f"-DMLIR_RELEASE_{name}={value}" for name, value in settings.items()]
    command: list[str | Path] = ["cmake", "-S", project, "-B", project / "build", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def link(project: Path, **settings: str) -> Path:
    """The library of a project, which must be configured and built well."""
    done = configure(project, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["cmake", "--build", project / "build"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (library,) = (project / "build").glob("libmlir_c_api.*")
    return library


def symbols(library: Path, *options: str) -> list[str]:
    return subprocess.run(["nm", *options, library], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(("profile", "generators"), [("core", ()), ("host", ("X86",)), ("all", GENERATORS)])
def test_a_left_out_generator_is_linked_only_where_something_else_needs_a_part_of_it(
    of_code_generators: Path, profile: str, generators: tuple[str, ...]
) -> None:
    whole = {f"{generator}_{part}" for generator in generators for part in PARTS}
    names = symbols(link(of_code_generators, PROFILE=profile))
    linked = {name.removeprefix("real_") for name in names if name.startswith("real_")}
    assert linked == whole | {"SPIRV_TargetMC"}


def test_a_profile_that_wants_a_generator_which_the_sdk_lacks_is_refused(of_code_generators: Path) -> None:
    done = configure(of_code_generators, PROFILE="full")
    assert done.returncode != 0
    assert "needs the code generator AMDGPU" in " ".join(done.stderr.split())


def test_a_header_that_names_no_initializers_is_refused(of_code_generators: Path) -> None:
    (header,) = of_code_generators.parent.glob("sdk/include/llvm/Support/TargetSelect.h")
    header.write_text("// moved\n")
    done = configure(of_code_generators, PROFILE="host")
    assert done.returncode != 0
    assert "no longer names the initializers" in " ".join(done.stderr.split())


WITH_A_MODEL = """
cmake_minimum_required(VERSION 3.20)
project(wheel LANGUAGES CXX)
include({module})
add_library(llvm_code_gen STATIC archived.cpp)
set_target_properties(llvm_code_gen PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(mlir_c_api SHARED mlir.cpp)
target_link_libraries(mlir_c_api PRIVATE llvm_code_gen)
mlir_release_add_regalloc_model(mlir_c_api)
"""


def choice(project: Path, **settings: str) -> int:
    """What the advisor of the linked library says."""
    library = link(project, **settings)
    assert not [name for name in symbols(library, "-D", "--defined-only") if "RegAllocEvictModel" in name], (
        "it is hidden"
    )
    return int(ctypes.CDLL(str(library)).ask())


@pytest.fixture
def with_a_model(tmp_path: Path) -> Path:
    """A library that asks an advisor, of an archive whose own one answers 1, and the model 7."""
    root = tmp_path / "project"
    add_advisor(root / "upstream")
    ModelFolder.load(make_model(tmp_path / "evict")).copy_to(root / "regalloc")
    (root / "src").mkdir()
    (root / "src" / "llvm_option.cpp").write_text("")  # the real one needs LLVM's headers
    (root / "archived.cpp").write_text("int advisor() { return 1; }\n")
    (root / "mlir.cpp").write_text('int advisor();\nextern "C" int ask() { return advisor(); }\n')
    module = WHEEL / "cmake" / "MLIRReleaseRegallocModel.cmake"
    (root / "CMakeLists.txt").write_text(WITH_A_MODEL.format(module=module))
    return root


def test_the_advisor_with_the_model_takes_the_place_of_the_archives(with_a_model: Path) -> None:
    assert choice(with_a_model, REGALLOC_MODEL="a" * 64) == 7


def test_without_a_model_the_archives_advisor_stays(with_a_model: Path) -> None:
    assert choice(with_a_model) == 1


def test_an_sdk_that_has_the_model_needs_no_other_advisor(with_a_model: Path) -> None:
    shutil.rmtree(with_a_model / "regalloc")
    (with_a_model / "upstream" / ADVISOR).unlink()
    assert choice(with_a_model, REGALLOC_MODEL="a" * 64) == 1


def make_library(folder: Path, name: str, *needs: Path) -> Path:
    folder.mkdir(exist_ok=True)
    source, library = folder.parent / f"{name}.c", folder / f"lib{name}.so"
    source.write_text(f"int {name}(void) {{ return 1; }}")
    options = ["-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-Wl,--no-as-needed"]
    subprocess.run(["cc", *options, source, "-o", library, *needs], check=True)
    return library


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, WHEEL / "cmake" / "check_needed.py", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_runtime_and_neighbours_may_be_needed(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    make_library(folder, "user", make_library(folder, "neighbour"))
    done = check(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 libraries need only each other")


def test_a_library_that_the_wheel_does_not_carry_is_named_with_who_needs_it(tmp_path: Path) -> None:
    folder, system = tmp_path / "package", tmp_path / "system"
    make_library(folder, "bindings", make_library(system, "LLVM"))
    done = check(folder)
    assert done.returncode != 0
    assert "libbindings.so needs libLLVM.so" in done.stderr


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert check(tmp_path).returncode != 0
