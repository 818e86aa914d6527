"""The kit for downstreams as GitHub runs it: cibuildwheel builds our example on a release, in a container, with uv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mlir_release.downstream.write import write_kit
from mlir_release.forge.local.forge import LocalForge
from mlir_release.index.generate import generate
from mlir_release.rehearsal.downstream import EXTENSION
from mlir_release.wheels.inspect import inspect
from tests.serving import serve

if TYPE_CHECKING:
    from mlir_release.host.pythons import Python
    from tests.e2e.conftest import Rehearsed
    from tests.podman import image as podman

#: What a container must know of this machine to reach PyPI from it. Hosted runners need none of it.
NETWORK = ("SSL_CERT_FILE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "UV_DEFAULT_INDEX")
CERTIFICATES = "/etc/ssl/certs"


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
        write_kit(forge, project, tag=rehearsed.report.tag, kind="extension", site=f"{served.url}/pages")
        run_cibuildwheel(container, project)
        assert served.paths(rehearsed.wheel.name) != []
    (path,) = (project / "wheelhouse").glob("*.whl")
    report = inspect(path)
    (needed,) = map(Requirement, report.requires_dist)
    assert (needed.name, needed.specifier) == ("mlir", SpecifierSet(f"=={inspect(rehearsed.wheel).version}"))
    assert all("-abi3-manylinux" in tag for tag in report.tags)
    assert report.external == ("libMLIRPythonCAPI.so",)  # which is in mlir, where the kit's repair leaves it


def run_cibuildwheel(container: podman.Image, project: Path) -> None:
    """As the kit's workflow does; only the image, and the way out of the container, are those of this machine."""
    here = {
        "CIBW_CONTAINER_ENGINE": f"podman; create_args: --volume={CERTIFICATES}:{CERTIFICATES}:ro",
        "CIBW_ENVIRONMENT_PASS_LINUX": " ".join(NETWORK),
        "CIBW_DEPENDENCY_VERSIONS": "latest",  # of abi3audit: an index here may not have yet what cibuildwheel pins
    }
    command = container.command([Path(sys.executable).with_name("cibuildwheel"), "--platform", "linux"])
    done = subprocess.run(
        command, env=os.environ | container.environment | here, cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
