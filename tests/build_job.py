"""The build of a wheel, as far as its configuration needs one: nothing of it exists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.projects.mlir import PROJECT
from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.wheels.backends import BuildJob
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.pythons import Python

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIREMENTS = (*BUILD_TOOLS, "nanobind==2.9.2")
DEPENDENCIES = (
    "numpy<3,>=1.19.5", "ml_dtypes>=0.1; python_version < '3.12'", "ml_dtypes>=0.5; python_version >= '3.12'",
)  # fmt: skip


def make_job(
    folder: Path,
    *,
    platform: str = "linux-x86_64",
    python: CPython = CPython(3, 12),  # noqa: B008
    slots: Mapping[str, str] | None = None,
) -> BuildJob:
    """The build of ``mlir-core`` in ``folder``."""
    info = SdkInfo(
        revision="0" * 40, llvm_version="22.1.8", provider="debian", configuration="release",
        platform=Platform.parse(platform),
        code_generators=("X86",), native_code_generator="X86", binding_library="nanobind", binding_requirements=(),
        runtime_requirements=("numpy>=1.19.5",), minimum_python="3.10", source_epoch=1, linked=(), file_count=0, size=0,
        digest="sha256:0",
    )  # fmt: skip
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (project / "pyproject.toml").touch()
    return BuildJob(
        sdk=Sdk(root=folder / "sdk", info=info),
        python=Python(cpython=python, version=f"{python.marker}.1", executable=Path("/x/python")),
        project=project,
        smoke=PROJECT.smoke,
        requirements=REQUIREMENTS,
        dependencies=DEPENDENCIES,
        profile="core",
        workdir=folder,
        cache=folder / "cache",
        log=folder / "log",
        slots=slots or {},
    )
