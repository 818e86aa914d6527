"""Which SDK a source distribution is built against, and what it says without one: by CMake itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import SDK_WHEEL, WHEEL
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.storage.cache import cache_directory

if TYPE_CHECKING:
    from pathlib import Path

TAG, REVISION = "snapshot-20261120.02", "a" * 40

PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(finds LANGUAGES NONE)
set(MLIR_RELEASE_SDK "$ENV{MLIR_RELEASE_SDK}" CACHE PATH "")
include(FIND)
message(STATUS "found ${MLIR_RELEASE_SDK}")
"""


def configure(folder: Path, *, installed: Path | None = None, named: Path | None = None) -> str:
    """Configure a project that looks for an SDK; returns what CMake said, in one line."""
    project = folder / "project"
    (project / "mlir").mkdir(parents=True)
    (project / "mlir" / "_release.json").write_text(json.dumps({"tag": TAG, "revision": REVISION}))
    find = (WHEEL / "cmake" / "MLIRReleaseFindSdk.cmake").as_posix()
    (project / "CMakeLists.txt").write_text(PROJECT.replace("FIND", f'"{find}"'))
    cmake, ninja = cmake_and_ninja(cache_directory())
    words = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DPython_EXECUTABLE={sys.executable}")
    environment = dict(os.environ) | {"PYTHONPATH": str(installed or folder), "MLIR_RELEASE_SDK": str(named or "")}
    command: list[str | Path] = [cmake, *words, "-S", project, "-B", folder / "build"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return " ".join((done.stdout + done.stderr).split())


def install(folder: Path, revision: str) -> Path:
    """A folder with the package ``mlir_sdk`` as it is installed."""
    package = folder / "mlir_sdk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes((SDK_WHEEL / "mlir_sdk" / "__init__.py").read_bytes())
    (package / "_mlir_sdk.json").write_text(json.dumps({"version": "20261120.2", "revision": revision}))
    return folder


def test_the_installed_one_is_found(tmp_path: Path) -> None:
    said = configure(tmp_path, installed=install(tmp_path / "site", REVISION))
    assert f"found {tmp_path / 'site' / 'mlir_sdk'}" in said


def test_without_one_the_message_says_how_to_get_it(tmp_path: Path) -> None:
    said = configure(tmp_path)
    assert "[source-needs-sdk]" in said
    assert "None is installed, or the build is isolated" in said
    assert f"from the page of the release {TAG}" in said
    assert "--no-build-isolation" in said
    assert "--extra-index-url" not in said


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    said = configure(tmp_path, named=tmp_path / "nowhere")
    assert f"There is none at '{tmp_path / 'nowhere'}'" in said


def test_one_of_another_revision_is_refused(tmp_path: Path) -> None:
    said = configure(tmp_path, installed=install(tmp_path / "site", "b" * 40))
    assert "[source-other-sdk]" in said
    assert f"install the mlir-sdk of the release {TAG}" in said


@pytest.mark.parametrize("description", ["sdk.json", "_mlir_sdk.json"])
def test_one_that_is_named(tmp_path: Path, description: str) -> None:
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / description).write_text(json.dumps({"revision": REVISION, "version": "1"}))
    assert f"found {sdk}" in configure(tmp_path, named=sdk, installed=install(tmp_path / "site", "b" * 40))
