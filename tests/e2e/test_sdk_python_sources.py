"""The groups of Python sources in a real SDK: equal to those of upstream's own build, and of use to downstreams."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.for_wheels import pin_binding_library
from mlir_release.builder.projects.mlir.python_groups import EXPORTS, is_python_group
from mlir_release.builder.sdk.provision import LLVM_PROJECT
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.builder.sdk.sources.upstream import UpstreamSource
    from mlir_release.ground.python.venv import VirtualEnvironment

USE_STANDALONE = """\
from mlir_standalone.ir import Context, Module
from mlir_standalone.dialects import standalone_nanobind as standalone
with Context() as context:
    standalone.register_dialects()
    print(Module.parse("%0 = arith.constant 2 : i32\\n%1 = standalone.foo %0 : i32"))
"""


@pytest.fixture(scope="module")
def source(release: LlvmRelease) -> UpstreamSource:
    """All of llvm-project."""
    return fetch_source(release, cache=cache_directory(), directory=None, upstream=LLVM_PROJECT, whole=True)


@pytest.fixture(scope="module")
def environment(source: UpstreamSource) -> VirtualEnvironment:
    """What upstream's bindings are built with."""
    others = [line for line in source.facts.binding_requirements if not line.startswith(("nanobind", "pybind11"))]
    wanted = [pin_binding_library(source.facts.binding_requirements), *others, *source.facts.runtime_requirements]
    return venv.cached(cache_directory() / "environments", Path(sys.executable), wanted)


def configure(source: Path, build: Path, environment: VirtualEnvironment, **settings: object) -> None:
    cmake, ninja = cmake_and_ninja(cache_directory())
    settings |= {"CMAKE_MAKE_PROGRAM": ninja, "CMAKE_BUILD_TYPE": "Release"}
    settings |= {"Python3_EXECUTABLE": environment.python, "Python_EXECUTABLE": environment.python}
    run(cmake, "-G", "Ninja", "-S", source, "-B", build, *(f"-D{name}={value}" for name, value in settings.items()))


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_they_are_the_ones_that_upstreams_own_install_exports(
    sdk: Sdk, source: UpstreamSource, environment: VirtualEnvironment, tmp_path: Path
) -> None:
    """Every group, with every property. CMake writes the exports when it configures: nothing is compiled."""
    off = ("MLIR_INCLUDE_TESTS", "LLVM_INCLUDE_TESTS", "LLVM_INCLUDE_EXAMPLES", "LLVM_INCLUDE_BENCHMARKS",
           "MLIR_PYTHON_STUBGEN_ENABLED", "LLVM_ENABLE_ZLIB", "LLVM_ENABLE_ZSTD", "LLVM_ENABLE_LIBXML2")  # fmt: skip
    on = {"LLVM_ENABLE_PROJECTS": "mlir", "LLVM_TARGETS_TO_BUILD": "host", "MLIR_ENABLE_BINDINGS_PYTHON": "ON"}
    configure(source.root / "llvm", tmp_path, environment, **on, **dict.fromkeys(off, "OFF"))
    (exports,) = tmp_path.glob("tools/mlir/cmake/modules/CMakeFiles/Export/*/MLIRTargets.cmake")
    upstream = {name: target for name, target in cmake_exports.read(exports).items() if is_python_group(target)}
    assert "MLIRPythonSources.Core" in upstream
    assert cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS) == upstream


def test_every_source_is_there(sdk: Sdk) -> None:
    groups = cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS).values()
    sources = [file for group in groups for file in group.properties.get("INTERFACE_SOURCES", "").split(";") if file]
    assert len(sources) > 200
    lost = [file for file in sources if not (sdk.root / file.removeprefix(cmake_exports.PREFIX)).is_file()]
    assert lost == []


@pytest.mark.slow
def test_upstreams_standalone_example_builds_its_python_package(
    sdk: Sdk, source: UpstreamSource, environment: VirtualEnvironment, tmp_path: Path
) -> None:
    """Downstream projects begin as copies of it. It has a Python package where the SDK says that bindings are on."""
    project = tmp_path / "standalone"
    shutil.copytree(source.root / "mlir" / "examples" / "standalone", project)
    build = tmp_path / "build"
    configure(project, build, environment, CMAKE_PREFIX_PATH=sdk.root, MLIR_PYTHON_STUBGEN_ENABLED="OFF")
    cmake, _ = cmake_and_ninja(cache_directory())
    run(cmake, "--build", build, "--target", "StandalonePythonModules")
    (package,) = build.glob("python_packages/*/mlir_standalone")
    printed = run(
        environment.python, "-c", f"import sys; sys.path.insert(0, {str(package.parent)!r})\n{USE_STANDALONE}"
    )
    assert "standalone.foo" in printed
