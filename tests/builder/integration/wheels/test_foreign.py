"""What foreign code sees when the toolkit runs it as it does in production: a build backend, CMake files, tests."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_release.builder.sdk.build_environment import Native
from mlir_release.builder.sdk.progress import run_step
from mlir_release.builder.testing.lit import find_lit, run_lit
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.builder.wheels.backends import BuildBackend
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.pythons import Python
from mlir_release.ground.storage.cache import cache_directory
from tests.build_job import make_job

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


def test_a_build_backend_sees_no_secret(tmp_path: Path) -> None:
    made = make_job(tmp_path, platform="macos-arm64")  # whose wheels need no repair
    (made.project / "pyproject.toml").write_text(PROJECT)
    (made.project / "backend.py").write_text(BACKEND)
    ours = Python(cpython=CPython(*sys.version_info[:2]), version="3", executable=Path(sys.executable))
    job = replace(made, python=ours, requirements=(), dependencies=())
    environment = venv.cached(job.cache / "environments", job.python.executable, job.requirements)
    tests = venv.VirtualEnvironment(root=Path(sys.prefix))  # has pypa/build
    (environment.site_packages() / "tests.pth").write_text(f"{tests.site_packages()}\n")
    job.sdk.root.mkdir()
    wheel, _ = BuildBackend().build(job)
    assert wheel.name == "x-1-py3-none-any.whl"
    seen = json.loads((job.sdk.root / "seen.json").read_text())
    assert seen["MLIR_RELEASE_SDK"] == str(job.sdk.root)
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
