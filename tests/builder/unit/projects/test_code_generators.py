"""Which code generators a wheel links: the wheel project's own CMake file, on small real archives."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import WHEEL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake"),
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

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(wheel LANGUAGES C)
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
def project(tmp_path: Path) -> Path:
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
        PROJECT.format(
            generators=" ".join(GENERATORS),
            module=WHEEL / "cmake" / "MLIRReleaseCodeGenerators.cmake",
            archives=" ".join(map(str, archives)),
        )
    )
    return root


def configure(project: Path, profile: str) -> subprocess.CompletedProcess[str]:
    command = [
        "cmake", "-S", str(project), "-B", str(project / "build"),
        "-DCMAKE_C_COMPILER_WORKS=1",
        f"-DMLIR_RELEASE_PROFILE={profile}", f"-DMLIR_RELEASE_SDK={project.parent / 'sdk'}",
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False)


def linked(project: Path, profile: str) -> set[str]:
    """The real parts of code generators that the library links."""
    assert configure(project, profile).returncode == 0
    done = subprocess.run(["cmake", "--build", str(project / "build")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    symbols = subprocess.run(
        ["nm", str(project / "build" / "libmlir_c_api.so")], capture_output=True, text=True, check=True
    ).stdout.split()
    return {name.removeprefix("real_") for name in symbols if name.startswith("real_")}


@pytest.mark.parametrize(("profile", "generators"), [("core", ()), ("host", ("X86",)), ("all", GENERATORS)])
def test_a_left_out_generator_is_linked_only_where_something_else_needs_a_part_of_it(
    project: Path, profile: str, generators: tuple[str, ...]
) -> None:
    whole = {f"{generator}_{part}" for generator in generators for part in PARTS}
    assert linked(project, profile) == whole | {"SPIRV_TargetMC"}


def test_a_profile_that_wants_a_generator_which_the_sdk_lacks_is_refused(project: Path) -> None:
    done = configure(project, "full")
    assert done.returncode != 0
    assert "needs the code generator AMDGPU" in " ".join(done.stderr.split())


def test_a_header_that_names_no_initializers_is_refused(project: Path) -> None:
    (project.parent / "sdk" / "include" / "llvm" / "Support" / "TargetSelect.h").write_text("// moved\n")
    done = configure(project, "host")
    assert done.returncode != 0
    assert "no longer names the initializers" in " ".join(done.stderr.split())
