"""A made-up LLVM with MLIR as LLVM's own build installs it on any platform: what ``sdk build`` makes, file by file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.prefix_factory import ADD_MLIR_PYTHON, VERSION, make_archive

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.python.platforms import Platform

TOOLS = ("mlir-opt", "mlir-tblgen", "mlir-translate", "mlir-runner", "FileCheck", "not", "count")
#: One program by several names: links, or copies on Windows.
LINKERS = ("lld", "ld.lld", "ld64.lld", "lld-link")
ARCHIVES = ("LLVMDemangle", "LLVMSupport", "LLVMCore", "MLIRSupport", "MLIRIR", "MLIRCAPIIR")
RUNNER_LIBRARY = "mlir_c_runner_utils"

#: What LLVMSupport links, as CMake's own ``install(EXPORT)`` writes upstream's llvm/lib/Support/CMakeLists.txt.
SYSTEM_LIBRARIES = {
    "linux": "rt;dl;-lpthread;m",
    "macos": "m",
    "windows": r"psapi;shell32;ole32;uuid;advapi32;ws2_32;ntdll;\$<\$<NOT:\$<LINK_LANGUAGE:Swift>>:delayimp;"
    "-delayload:shell32.dll;-delayload:ole32.dll>",
}

#: The first bytes of programs that are not read.
MAGIC = {"macos": b"\xcf\xfa\xed\xfe", "windows": b"MZ\x90\x00"}

LLVM_CONFIG = """\
get_filename_component(LLVM_INSTALL_PREFIX "${{CMAKE_CURRENT_LIST_FILE}}" PATH)
set(CMAKE_MSVC_RUNTIME_LIBRARY {runtime})
set(LLVM_VERSION_MAJOR 22)
set(LLVM_PACKAGE_VERSION {version})
set(LLVM_BUILD_TYPE Release)
set(LLVM_AVAILABLE_LIBS LLVMDemangle;LLVMSupport;LLVMCore)
set(LLVM_TARGETS_TO_BUILD X86;NVPTX;AMDGPU)
set(LLVM_NATIVE_ARCH X86)
set(LLVM_HOST_TRIPLE "{triple}")
set(LLVM_CMAKE_DIR "${{LLVM_INSTALL_PREFIX}}/lib/cmake/llvm")
"""

MLIR_CONFIG = """\
get_filename_component(MLIR_INSTALL_PREFIX "${{CMAKE_CURRENT_LIST_FILE}}" PATH)
set(MLIR_CMAKE_DIR "${{CMAKE_CURRENT_LIST_DIR}}")
set(LLVM_CMAKE_DIR "${{CMAKE_CURRENT_LIST_DIR}}/../llvm")
include("${{MLIR_CMAKE_DIR}}/MLIRTargets.cmake")
set(LLVM_VERSION {version})
"""


def make_installed(root: Path, platform: Platform, *, version: str = VERSION) -> Path:
    """An installed LLVM for ``platform`` at ``root``. Its programs do nothing."""
    system = platform.system
    (root / "bin").mkdir(parents=True)
    for name in (*TOOLS, LINKERS[0]):
        _write_binary(root / "bin" / system.program(name), platform)
    for name in LINKERS[1:]:
        link = root / "bin" / system.program(name)
        if platform.os == "windows":
            link.write_bytes((root / "bin" / system.program(LINKERS[0])).read_bytes())
        else:
            link.symlink_to(LINKERS[0])
    for name in ARCHIVES:
        (root / "lib").mkdir(exist_ok=True)
        make_archive(root / "lib" / system.static_library(name), ["one.o"])
    objects = root / "lib" / "objects-Release" / "obj.MLIRCAPIIR"
    objects.mkdir(parents=True)
    (objects / ("IR.cpp.obj" if platform.os == "windows" else "IR.cpp.o")).write_bytes(b"object")
    for folder in ("llvm", "llvm-c", "mlir", "mlir-c"):
        (root / "include" / folder / "IR").mkdir(parents=True)
        (root / "include" / folder / "IR" / "Header.h").write_text(f"// {folder}\n")
    _write_packages(root, platform, version)
    return root


def _write_binary(path: Path, platform: Platform) -> None:
    """A program or shared library: a real one where the importer reads it, though for this machine."""
    if platform.os == "linux":
        shutil.copy("/bin/true", path)
    else:
        path.write_bytes(MAGIC[platform.os] + path.name.encode())


def runner_library(platform: Platform) -> str:
    """Path of the runner library in a prefix or an SDK."""
    system = platform.system
    return f"{system.shared_folder}/{system.library_prefix}{RUNNER_LIBRARY}{system.shared_suffix}"


def _write_packages(root: Path, platform: Platform, version: str) -> None:
    _write_binary(root / runner_library(platform), platform)
    location = {"IMPORTED_LOCATION": runner_library(platform)}
    if platform.os == "windows":
        make_archive(root / "lib" / f"{RUNNER_LIBRARY}.lib", ["import.obj"])
        location["IMPORTED_IMPLIB"] = f"lib/{RUNNER_LIBRARY}.lib"
    llvm = [
        _static("LLVMDemangle", platform),
        _static("LLVMSupport", platform, f"{SYSTEM_LIBRARIES[platform.os]};LLVMDemangle"),
        _static("LLVMCore", platform, "LLVMSupport"),
        _target("add_executable(FileCheck IMPORTED)", "FileCheck", {}),
    ]
    mlir = [
        _target("add_executable(mlir-opt IMPORTED)", "mlir-opt", {}),
        _static("MLIRSupport", platform, "LLVMSupport"),
        _static("MLIRIR", platform, "MLIRSupport"),
        _target(f"add_library({RUNNER_LIBRARY} SHARED IMPORTED)", RUNNER_LIBRARY, location),
        _static(
            "MLIRCAPIIR", platform, "MLIRIR",
            'MLIR_AGGREGATE_DEP_LIBS_IMPORTED "MLIRIR"', 'MLIR_AGGREGATE_OBJECT_LIB_IMPORTED "obj.MLIRCAPIIR"',
        ),
    ]  # fmt: skip
    triple = f"{platform.triple}24.1.0" if platform.os == "macos" else platform.triple
    runtime = "MultiThreaded" if platform.os == "windows" else ""
    files = {
        "llvm/LLVMConfig.cmake": LLVM_CONFIG.format(version=version, triple=triple, runtime=runtime),
        "llvm/LLVMExports.cmake": "\n".join(llvm),
        **dict.fromkeys(("llvm/AddLLVM.cmake", "llvm/TableGen.cmake", "mlir/AddMLIR.cmake"), "# helpers\n"),
        "mlir/MLIRConfig.cmake": MLIR_CONFIG.format(version=version),
        "mlir/MLIRTargets.cmake": "\n".join(mlir),
        "mlir/AddMLIRPython.cmake": ADD_MLIR_PYTHON,
    }
    for name, text in files.items():
        path = root / "lib" / "cmake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _static(name: str, platform: Platform, links: str = "", *properties: str) -> str:
    linked = [f'INTERFACE_LINK_LIBRARIES "{links}"'] if links else []
    location = {"IMPORTED_LOCATION": f"lib/{platform.system.static_library(name)}"}
    return _target(f"add_library({name} STATIC IMPORTED)", name, location, *linked, *properties)


def _target(declared: str, name: str, files: dict[str, str], *properties: str) -> str:
    lines = [declared]
    words = [*properties, *(f'{key} "${{_IMPORT_PREFIX}}/{path}"' for key, path in files.items())]
    if words:
        lines += [f"set_target_properties({name} PROPERTIES", *(f"  {word}" for word in words), ")"]
    return "\n".join(lines) + "\n"
