"""What foreign code sees when the toolkit runs it as it does in production: a build backend, CMake files, tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mlir_release.builder.projects import mlir
from mlir_release.builder.sdk.build_environment import Native
from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.sdk.progress import run_step
from mlir_release.builder.testing.lit import find_lit, run_lit
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.builder.wheels.backends import BuildBackend, BuildJob
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.pythons import Python
from mlir_release.ground.storage.cache import cache_directory

SECRET = "not for foreign code"
NAMES = (
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_RUNTIME_TOKEN", "GH_TOKEN", "GITHUB_ENV",
    "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_STATE", "GITHUB_TOKEN", "TWINE_PASSWORD",
)  # fmt: skip

BACKEND = """
import json, os, zipfile
from pathlib import Path

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    Path(os.environ["MLIR_RELEASE_SDK"], "seen.json").write_text(json.dumps(dict(os.environ)))
    name = "x-1-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        wheel.writestr("x-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: x\\nVersion: 1\\n")
        wheel.writestr("x-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("x-1.dist-info/RECORD", "")
    return name
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "x"
version = "1"
"""
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(x NONE)
execute_process(COMMAND "${CMAKE_COMMAND}" -E environment OUTPUT_FILE "${CMAKE_BINARY_DIR}/seen")
"""


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, str(tmp_path / SECRET))
    (tmp_path / SECRET).touch()


def make_job(tmp_path: Path) -> BuildJob:
    info = SdkInfo(
        revision="0" * 40, llvm_version="22.1.8", provider="debian", configuration="release",
        platform=Platform("macos", "arm64"),  # whose wheels need no repair
        code_generators=("X86",), native_code_generator="X86", binding_library="nanobind", binding_requirements=(),
        runtime_requirements=(), minimum_python="3.10", source_epoch=1, linked=(), file_count=0, size=0, digest="x",
    )  # fmt: skip
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "backend.py").write_text(BACKEND)
    return BuildJob(
        sdk=Sdk(root=tmp_path, info=info),
        python=Python(cpython=CPython(*sys.version_info[:2]), version="3", executable=Path(sys.executable)),
        project=project,
        smoke=mlir.PROJECT.smoke,
        profile="core",
        workdir=tmp_path,
        cache=tmp_path / "cache",
        log=tmp_path / "log",
    )


def test_a_build_backend_sees_no_secret(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    environment = venv.cached(job.cache / "environments", job.python.executable, job.requirements)
    ours = venv.VirtualEnvironment(root=Path(sys.prefix))  # has pypa/build
    (environment.site_packages() / "ours.pth").write_text(f"{ours.site_packages()}\n")
    wheel, _ = BuildBackend().build(job)
    assert wheel.name == "x-1-py3-none-any.whl"
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["MLIR_RELEASE_SDK"] == str(tmp_path)
    assert not [name for name, value in seen.items() if SECRET in value]


def test_cmake_files_see_no_secret(tmp_path: Path) -> None:
    cmake, _ = cmake_and_ninja(cache_directory())
    source, build = tmp_path / "source", tmp_path / "build"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(CMAKE)
    environment = Native(source=source, root=build, tools=venv.VirtualEnvironment(root=Path(sys.prefix)))
    run_step(
        [str(cmake), "-S", str(source), "-B", str(build)],
        environment=environment.variables(), log=tmp_path / "log", what="CMake failed",
    )  # fmt: skip
    seen = (build / "seen").read_text()
    assert "PATH=" in seen
    assert SECRET not in seen


def test_upstreams_tests_see_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "test"
    folder.mkdir()
    (folder / "lit.cfg.py").write_text(
        "import os, lit.formats\nconfig.name = 'x'\nconfig.suffixes = ['.txt']\n"
        "config.test_format = lit.formats.ShTest()\nconfig.environment = dict(os.environ)\n"
    )
    (folder / "a.txt").write_text(f"RUN: sh -c env > {tmp_path / 'seen'}\n")
    environment = venv.VirtualEnvironment(root=Path(sys.prefix)).variables()
    (result,) = run_lit(folder, lit=find_lit(), environment=environment, title="a test")
    assert result.outcome.good
    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert SECRET not in seen
