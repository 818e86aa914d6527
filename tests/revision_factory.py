"""Upstream commits that no upstream has, and what their trees would say."""

from __future__ import annotations

from mlir_release.ground.llvm.llvm_facts import LlvmFacts
from mlir_release.ground.llvm.projects import all_projects
from mlir_release.ground.llvm.upstream import Revision

UPSTREAM = "llvm/llvm-project"

#: As of LLVM 22.1.8, but without requirements at run time: making a tag would ask an index about them.
FACTS = LlvmFacts(
    version="22.1.8",
    minimum_python="3.10",
    binding_requirements=("nanobind>=2.9, <3.0", "PyYAML>=5.4.0, <=6.0.1", "typing_extensions>=4.12.2"),
    runtime_requirements=(),
    has_stable_abi=False,
    has_python_sources=True,
    build_tools=("CMake>=3.20.0", "Python>=3.8", "GNU>=7.4", "Clang>=5.0", "AppleClang>=10.0", "MSVC>=19.28"),
)


#: The files that facts are read from, as in 23.1.1, cut down to the lines that count.
LLVM_FILES = {
    "cmake/Modules/LLVMVersion.cmake": """\
if(NOT DEFINED LLVM_VERSION_MAJOR)
  set(LLVM_VERSION_MAJOR 23)
endif()
if(NOT DEFINED LLVM_VERSION_MINOR)
  set(LLVM_VERSION_MINOR 1)
endif()
if(NOT DEFINED LLVM_VERSION_PATCH)
  set(LLVM_VERSION_PATCH 1)
endif()
if(NOT DEFINED LLVM_VERSION_SUFFIX)
  set(LLVM_VERSION_SUFFIX)
endif()
""",
    "mlir/cmake/modules/MLIRDetectPythonEnv.cmake": "set(MLIR_MINIMUM_PYTHON_VERSION 3.10)\n",
    "mlir/CMakeLists.txt": "set(MLIR_ENABLE_PYTHON_STABLE_ABI 0 CACHE BOOL\n",
    "llvm/CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.20.0)
  set(LLVM_MINIMUM_PYTHON_VERSION 3.8)
find_package(Python3 ${LLVM_MINIMUM_PYTHON_VERSION} REQUIRED
    COMPONENTS Interpreter)
""",
    "llvm/cmake/modules/CheckCompilerVersion.cmake": """\
set(GCC_MIN 7.4)
set(GCC_SOFT_ERROR 7.4)
set(CLANG_MIN 5.0)
set(CLANG_SOFT_ERROR 5.0)
set(APPLECLANG_MIN 10.0)
set(APPLECLANG_SOFT_ERROR 10.0)
set(MSVC_MIN 19.28)
set(MSVC_SOFT_ERROR 19.28)
""",
    "mlir/python/CMakeLists.txt": 'add_custom_target("mlir-python-sources" DEPENDS ${mlir_python_sources_deps})\n',
    "mlir/python/requirements.txt": """\
# BUILD dependencies
nanobind>=2.9, <3.0
PyYAML>=5.4.0, <=6.0.1
typing_extensions>=4.12.2
# RUN dependencies
numpy>=2.1.0, <=2.1.2
ml_dtypes>=0.5.0, <=0.6.0   # provides several NumPy dtype extensions, including the bf16
""",
}

LLVM_FILES |= {project.needs: "\n" for project in all_projects() if project.needs not in LLVM_FILES}

#: The same, as a commit takes them.
LLVM_TREE = {path: text.encode() for path, text in LLVM_FILES.items()}


def make_revision(sha: str, *, subject: str = "[mlir] Do something (#1)", facts: LlvmFacts = FACTS) -> Revision:
    """A commit of 2026."""
    return Revision(sha=sha, epoch=1_790_000_000, subject=subject, facts=lambda: facts)
