"""The runtimes of ``targets.toml``, and the names that other tools have for their platforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cibuildwheel.options import CommandLineArguments, Options

from mlir_release.builder.tools.containers import Engine, image_name
from mlir_release.builder.wheels.cibuildwheel import configuration, identifier
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from cibuildwheel.options import BuildOptions

    from mlir_release.builder.wheels.backends import BuildJob
    from mlir_release.ground.python.cpython import CPython
    from mlir_release.release.model.targets import Runtime

ROOT = Path(__file__).parents[2]
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))

#: One runtime of each platform that wheels are built for: what its SDK has changes neither names nor what is installed.
RUNTIMES = {
    wheel.runtime.name: wheel.runtime
    for wheel in MATRIX.wheels
    if wheel.runtime.project == DEFAULT_PROJECT
    and not wheel.runtime.assertions
    and wheel.runtime.code_generators == "usual"
}

#: uv's name of each platform (``--python-platform``), at its runtime's floor.
UV_PLATFORMS = {
    "linux-x86_64": "x86_64-manylinux_2_28",
    "linux-aarch64": "aarch64-manylinux_2_28",
    "macos-arm64": "aarch64-apple-darwin",
    "macos-x86_64": "x86_64-apple-darwin",
    "windows-x64": "x86_64-pc-windows-msvc",
}


def pythons_of(runtime: Runtime) -> list[CPython]:
    """Every CPython that wheels of a runtime are built for, in all its rows."""
    return sorted({python for wheel in MATRIX.wheels if wheel.runtime.name == runtime.name for python in wheel.pythons})


def make_wheels(folder: Path) -> Path:
    """Write a small wheel for each target of the distribution ``mlir``; returns the folder."""
    for target in MATRIX.wheels:
        if target.distribution == "mlir" and not target.is_source:
            make_wheel(folder, python=target.interpreter, platform=str(target.runtime.tag), target=target.name)
    return folder


def read_options(job: BuildJob, runtime: Runtime) -> tuple[Options, BuildOptions]:
    """What cibuildwheel would do for a job, as it reads its configuration itself."""
    linux = runtime.os == "linux"
    engine = Engine(name="docker") if linux else None
    image = image_name(runtime.platform.arch, environment={}) if linux else ""
    config = job.workdir / "cibuildwheel.toml"
    config.write_text(configuration(job, engine, image, job.workdir / "wheelhouse"), encoding="utf-8")
    arguments = CommandLineArguments.defaults()
    arguments.package_dir = job.project
    arguments.config_file = str(config)
    arguments.only = identifier(job)
    system = {"linux": "linux", "macos": "macos", "windows": "windows"}[runtime.os]
    options = Options(platform=system, command_line_arguments=arguments, env={})  # type: ignore[arg-type]
    return options, options.build_options(identifier(job))
