"""What an SDK of MLIR is made of: headers, archives, CMake packages, programs, and the sources of the bindings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.projects.mlir import LLVM_CONFIG, PROJECT, PYTHON_SOURCES, cmake_packages, llvm_config
from mlir_release.builder.projects.mlir.components import PROGRAMS, RUNNER_LIBRARIES, TOOL_FOLDERS, components
from mlir_release.builder.projects.mlir.python_groups import add_python_sources
from mlir_release.builder.sdk.importer import add_third_party, link_tree
from mlir_release.builder.sdk.parts import LINKERS
from mlir_release.builder.sdk.port import Bindings, Recipe
from mlir_release.builder.sdk.prefix import missing_pieces
from mlir_release.builder.sdk.programs import link_or_copy
from mlir_release.builder.sdk.regalloc_model import ADVISOR_SOURCES
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import capture

if TYPE_CHECKING:
    from mlir_release.builder.projects.mlir.cmake_packages import Packages
    from mlir_release.builder.sdk.port import LinkedLibrary
    from mlir_release.builder.sdk.prefix import Prefix
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts

_HERE = Path(__file__).parent


def _fill(prefix: Prefix, source: Path, output: Path) -> list[LinkedLibrary]:
    """Add archives, CMake packages, the C API's objects, groups of Python sources, and ``llvm-config``."""
    system = prefix.platform.system
    there = [name for name in PROGRAMS if (output / "bin" / system.program(name)).is_file()]
    packages = cmake_packages.read_packages(prefix, there)
    if packages.left_out:
        causes = (f"{library} ({', '.join(targets)})" for library, targets in packages.left_out.items())
        console.say(f"    not carried, and left out with the targets that need it: {'; '.join(causes)}")
    linked = add_third_party(prefix, output, zlib=packages.uses_zlib, zstd=packages.uses_zstd)
    for file in (*packages.static_libraries, *packages.import_libraries):
        target = output / "lib" / Path(file).name
        if not target.exists():
            link_or_copy(prefix.root / file, target)
    objects = _add_objects(prefix, packages, output)
    for exported in packages.targets:  # an SDK has its libraries in lib/, whatever the prefix calls the folder
        for key, value in exported.properties.items():
            exported.properties[key] = value.replace("${_IMPORT_PREFIX}/lib64/", "${_IMPORT_PREFIX}/lib/")
    cmake_packages.add_object_libraries(packages, objects)
    cmake_packages.write_packages(prefix, packages, output)
    add_python_sources(output)
    llvm_config.add_llvm_config(output, source, system)
    return linked


def _add_objects(prefix: Prefix, packages: Packages, output: Path) -> dict[str, list[str]]:
    """The objects of each C API library, as the prefix installed them or out of the archives, into ``lib/objects/``."""
    found: dict[str, list[str]] = {}
    installed = {path.name: path for path in prefix.libraries.glob("objects-*/obj.*")}
    for library in packages.c_api_libraries:
        folder = output / "lib" / "objects" / library.name
        folder.mkdir(parents=True)
        if f"obj.{library.name}" in installed:
            link_tree(installed[f"obj.{library.name}"], folder)
        elif not library.files:
            raise missing_pieces(prefix.root, [f"the library of {library.name}"])
        else:
            archive = prefix.root / library.files[0]
            command = shutil.which("ar") or shutil.which(str(prefix.tool("llvm-ar")))
            if command is None:
                raise MachineError(
                    "tool-missing",
                    "there is no `ar` to open the static libraries with",
                    remedy="install binutils (on Debian: `apt-get install binutils`)",
                )
            members = _run_archiver([command, "t", str(archive)], folder).split()
            if len(set(members)) != len(members):
                raise MachineError(
                    "program-failed",
                    f"{archive.name} has several members of one name, which cannot be taken out side by side",
                    where=str(archive),
                    remedy="build an SDK from source: `mlir-release sdk build`",
                )
            _run_archiver([command, "x", str(archive.resolve())], folder)
            for path in folder.iterdir():
                path.chmod(0o644)
        found[library.name] = sorted(
            path.relative_to(output).as_posix() for path in folder.rglob("*") if path.is_file()
        )
    return found


def _run_archiver(command: list[str], folder: Path) -> str:
    done = capture(command, cwd=folder)
    if not done.ok:
        raise MachineError(
            "tool-missing",
            f"{Path(command[-1]).name} is not a readable static library",
            where=command[-1],
            why=done.complaint,
            remedy="install the package that it comes from again",
        )
    return done.stdout


def _bindings(facts: LlvmFacts) -> Bindings:
    return Bindings(
        minimum_python=facts.minimum_python,
        library=facts.binding_library,
        building=facts.binding_requirements,
        running=facts.runtime_requirements,
    )


RECIPE = Recipe(
    project=PROJECT,
    # To build the bindings, the test dialect and the runner libraries, to run mlir/test, and to compile a model into
    # the register allocator.
    kept_sources=(
        "LICENSE.TXT",
        "cmake",
        "llvm/LICENSE.TXT",
        "llvm/cmake",
        *ADVISOR_SOURCES,
        "mlir/CMakeLists.txt",
        "mlir/LICENSE.TXT",
        "mlir/cmake",
        "mlir/include",
        "mlir/lib/Bindings",
        "mlir/lib/CAPI",
        "mlir/lib/ExecutionEngine",
        "mlir/python",
        "mlir/test",
        "mlir/utils",
    ),
    needed_sources=(
        "LICENSE.TXT",
        "cmake/Modules",
        "mlir/CMakeLists.txt",
        "mlir/cmake/modules",
        "mlir/include",
        "mlir/lib/Bindings",
        "mlir/lib/ExecutionEngine",
        "mlir/python/requirements.txt",
        "mlir/test/lit.site.cfg.py.in",
        "mlir/test/python",
    ),
    needed_to_build=(
        "lld/CMakeLists.txt",
        "llvm/CMakeLists.txt",
        "llvm/include",
        "llvm/lib",
        "llvm/tools",
        "llvm/utils",
        "mlir/lib/IR",
        "mlir/tools",
        "third-party",
    ),
    tools=TOOL_FOLDERS,
    components=components,
    settings={
        "MLIR_ENABLE_BINDINGS_PYTHON": "OFF",
        "MLIR_ENABLE_EXECUTION_ENGINE": "ON",
        "MLIR_INSTALL_AGGREGATE_OBJECTS": "ON",  # add_mlir_aggregate needs the C API's object libraries
    },
    code_generators=("host", "NVPTX", "AMDGPU"),  # the execution engine needs the host's
    # The shared libraries serve the tools; the wheels link the static ones.
    packages=(
        "libmlir-{v}-dev",
        "libmlir-{v}",
        "mlir-{v}-tools",
        "llvm-{v}-dev",
        "llvm-{v}-tools",
        "llvm-{v}",
        "llvm-{v}-runtime",
        "llvm-{v}-linker-tools",
        "libllvm{v}",
        "lld-{v}",
        "libzstd-dev",
        "zlib1g-dev",
    ),
    # Wheels could not be built without these, or built but not tested.
    pieces={
        "bin/mlir-tblgen": "mlir-{v}-tools",
        "bin/mlir-opt": "mlir-{v}-tools",
        "bin/mlir-translate": "mlir-{v}-tools",
        "bin/FileCheck": "llvm-{v}-tools",
        "bin/not": "llvm-{v}-tools",
        "bin/count": "llvm-{v}-tools",
        "bin/ld.lld": "lld-{v}",
        "bin/mlir-runner|mlir-cpu-runner": "mlir-{v}-tools",
        "lib/LLVMSupport": "llvm-{v}-dev",
        "lib/MLIRIR": "libmlir-{v}-dev",
        "lib/cmake/mlir/MLIRConfig.cmake": "libmlir-{v}-dev",
        "include/llvm": "llvm-{v}-dev",
        "include/llvm-c": "llvm-{v}-dev",
        "include/mlir": "libmlir-{v}-dev",
        "include/mlir-c": "libmlir-{v}-dev",
    },
    programs=PROGRAMS,
    loaded=RUNNER_LIBRARIES,
    fill=_fill,
    for_builds=(
        # The generators that MLIRConfig.cmake names, and the linker.
        *("llvm-tblgen", "mlir-irdl-to-cpp", "mlir-linalg-ods-yaml-gen", "mlir-pdll", "mlir-src-sharder"),
        *("mlir-tblgen", *sorted(LINKERS), llvm_config.NAME, llvm_config.STARTER),
    ),
    for_tests=("mlir/test", "mlir/utils"),
    bindings=_bindings,
    code=(
        *(_HERE / f"{name}.py" for name in (
            "__init__", "cmake_exports", "cmake_packages", "components", "for_sdk", "llvm_config", "python_groups",
        )),
        LLVM_CONFIG,
        PYTHON_SOURCES,
    ),
)  # fmt: skip
