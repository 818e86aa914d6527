"""Which generator of CMake's a wheel is built with, as scikit-build-core itself decides on each platform; from here.

Visual Studio's, its default on Windows, has a folder for each configuration: modules would be built into ``Release``,
where the steps that follow don't look.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.backends import BuildBackend, build_variables
from mlir_release.builder.wheels.cibuildwheel import CibuildwheelBackend
from mlir_release.ground.programs.process import Usage
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import describe
from mlir_release.ground.storage.cache import cache_directory
from tests.build_job import make_job
from tests.platforms.runtimes import RUNTIMES
from tests.processes import run
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Prints what scikit-build-core chooses where CPython is Windows' own, and CMake's default is Visual Studio.
PROGRAM = """
import os, sysconfig
sysconfig.get_platform = lambda: "win-amd64"
from scikit_build_core.builder import generator
from scikit_build_core.settings.skbuild_model import NinjaSettings
generator.get_default_from_cmake = lambda cmake: "Visual Studio 17 2022"
environment = dict(os.environ)
chosen = generator.resolve_generator([], {}, environment)
generator.set_environment_for_gen(chosen, None, environment, NinjaSettings())
print(environment["CMAKE_GENERATOR"])
"""


def chosen_on_windows(**variables: str) -> str:
    requirements = ("scikit-build-core", "ninja")
    environment = venv.cached(cache_directory() / "environments", Path(sys.executable), requirements)
    return run(environment.python, "-c", PROGRAM, variables=environment.variables(variables)).strip()


def test_scikit_build_core_takes_ninja_on_windows_if_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CMAKE_GENERATOR", raising=False)
    told = build_variables(make_job(tmp_path, platform="windows-x64"))["CMAKE_GENERATOR"]
    assert chosen_on_windows(CMAKE_GENERATOR=told) == "Ninja"
    assert chosen_on_windows() == "Visual Studio 17 2022"  # else there would be nothing to tell


class Program:
    """In the place of the program that builds: it makes a wheel. ``seen``: its environment."""

    def __call__(self, command: list[str | Path], *, environment: Mapping[str, str], **others: object) -> Usage:
        self.seen = environment
        make_wheel(Path(command[command.index("--outdir" if "--outdir" in command else "--output-dir") + 1]))
        return Usage(wall=0, cpu=0)


@pytest.mark.parametrize(
    "backend",
    [BuildBackend(run=Program()), CibuildwheelBackend(engine=None, run=Program())],
    ids=lambda backend: backend.name,
)
@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if not name.startswith("linux")])
def test_each_way_to_build_says_so_on_windows_only(
    backend: BuildBackend | CibuildwheelBackend, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CMAKE_GENERATOR", raising=False)
    job = make_job(tmp_path, platform=str(RUNTIMES[runtime].platform))
    job = replace(job, python=describe(Path(sys.executable)), requirements=())
    job.log.touch()
    backend.build(job)
    assert isinstance(backend.run, Program)
    seen = backend.run.seen
    assert seen["MLIR_RELEASE_SDK"] == str(job.sdk.root)
    assert seen.get("CMAKE_GENERATOR") == ("Ninja" if runtime.startswith("windows") else None)
