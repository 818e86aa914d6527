"""The kit for downstreams as GitHub runs it: cibuildwheel builds examples on a release, in a container, with uv."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mlir_release.builder.sdk.provision import LLVM_PROJECT
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.extras.downstream.kit import KitOptions, write_kit
from mlir_release.extras.downstream.projects import EXTENSION, copy_standalone
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.rehearsal.run import Options, rehearse
from tests.processes import run
from tests.serving import serve

if TYPE_CHECKING:
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python
    from tests.e2e.conftest import Rehearsed
    from tests.podman import image as podman

#: What a container must know of this machine to reach PyPI from it. Hosted runners need none of it.
NETWORK = ("SSL_CERT_FILE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "UV_DEFAULT_INDEX")
CERTIFICATES = "/etc/ssl/certs"

#: What only the project can say: upstream's own file has the same.
BUNDLE = """
[tool.scikit-build.build]
targets = ["StandalonePythonModules"]

[tool.scikit-build.install]
components = ["StandalonePythonModules"]

[tool.scikit-build.cmake.define]
CMAKE_CXX_VISIBILITY_PRESET = "hidden"
MLIR_ENABLE_BINDINGS_PYTHON = "ON"
MLIR_BINDINGS_PYTHON_NB_DOMAIN = "mlir_standalone"
MLIR_PYTHON_PACKAGE_PREFIX = "mlir_standalone"
MLIR_BINDINGS_PYTHON_INSTALL_PREFIX = "mlir_standalone"
"""


def test_cibuildwheel_builds_and_tests_an_extension(
    rehearsed: Rehearsed, container: podman.Image, contained: Python, tmp_path: Path
) -> None:
    """The release, its pages, the sources and the tools are real; the image stands for manylinux's."""
    if contained.tag not in rehearsed.wheel.name:
        pytest.skip(f"no CPython of the rehearsed wheel's version can be copied into a container: {contained.version}")
    project = tmp_path / "mlir-extension-example"
    (tmp_path / "forge").symlink_to(rehearsed.options.workspace / "forge")
    with serve(tmp_path) as served:
        forge = LocalForge(tmp_path / "forge", base_url=f"{served.url}/forge/releases")
        generate(forge, tmp_path / "pages", base_url=f"{served.url}/pages")
        shutil.copytree(EXTENSION, project, ignore=shutil.ignore_patterns("pyproject.toml"))  # the kit writes its own
        asked = KitOptions(tag=rehearsed.report.tag, kind="extension", site=f"{served.url}/pages")
        write_kit(forge, project, asked)
        run_cibuildwheel(container, project)
        assert served.paths(rehearsed.wheel.name) != []
    (path,) = (project / "wheelhouse").glob("*.whl")
    report = inspect(path)
    (needed,) = map(Requirement, report.requires_dist)
    assert (needed.name, needed.specifier) == ("mlir", SpecifierSet(f"=={inspect(rehearsed.wheel).version}"))
    assert all("-abi3-manylinux" in tag for tag in report.tags)
    # The library is in mlir, where the kit's repair leaves it.
    assert report.external == ("libMLIRPythonCAPI-mlir_release.so",)


@pytest.mark.slow  # it compiles upstream's bindings, without a compiler cache
def test_cibuildwheel_builds_and_tests_a_bundle(
    release: LlvmRelease, container: podman.Image, contained: Python, tmp_path: Path
) -> None:
    """Upstream's standalone example, but with the kit's ``pyproject.toml``: the pinned ``mlir-sdk`` is all its LLVM."""
    options = Options(
        workspace=tmp_path / "rehearsal", pythons=(str(contained.executable),), profiles=("host", "sdk", "sdk-tools")
    )
    tag = rehearse(options).tag
    tree = fetch_source(release, cache=cache_directory(), directory=None, upstream=LLVM_PROJECT, whole=True)
    project = copy_standalone(tree.root, tmp_path / "mlir-standalone")
    (project / "pyproject.toml").unlink()
    (released,) = (options.workspace / "dist" / tag).glob("mlir_sdk-*.whl")
    (tmp_path / "forge").symlink_to(options.workspace / "forge")
    with serve(tmp_path) as served:
        forge = LocalForge(tmp_path / "forge", base_url=f"{served.url}/forge/releases")
        generate(forge, tmp_path / "pages", base_url=f"{served.url}/pages")
        write_kit(forge, project, KitOptions(tag=tag, kind="bundle", site=f"{served.url}/pages"))
        with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(BUNDLE)
        run_cibuildwheel(container, project)
        assert served.paths(released.name) != []
    (path,) = (project / "wheelhouse").glob("*.whl")
    report = inspect(path)
    assert (report.problems, report.external) == ((), ())
    assert report.sdk is not None
    assert report.sdk.version == inspect(released).version
    environment = venv.create(tmp_path / "environment", contained.executable)
    environment.install(path, "numpy", "ml_dtypes")
    program = "from mlir_standalone.ir import Context, Module; Module.parse('module {}', Context())"
    run(environment.python, "-I", "-c", program)


def run_cibuildwheel(container: podman.Image, project: Path) -> None:
    """As the kit's workflow does; only the image, and the way out of the container, are those of this machine."""
    here = {
        "CIBW_CONTAINER_ENGINE": f"podman; create_args: --volume={CERTIFICATES}:{CERTIFICATES}:ro",
        "CIBW_ENVIRONMENT_PASS_LINUX": " ".join(NETWORK),
        "CIBW_DEPENDENCY_VERSIONS": "latest",  # of abi3audit: an index here may not have yet what cibuildwheel pins
    }
    command = container.command([Path(sys.executable).with_name("cibuildwheel"), "--platform", "linux"])
    run(*command, variables=os.environ | container.environment | here, cwd=project)
