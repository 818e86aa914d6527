from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace as replace_fields

from mlir_release.builder.wheels.backends import BuildBackend
from mlir_release.builder.wheels.cross import Cross
from mlir_release.ground.python.platforms import Platform
from tests.build_job import make_job
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.backends import BuildJob

HERE, THERE = Platform.parse("linux-x86_64"), Platform.parse("linux-aarch64")


@pytest.fixture
def job(tmp_path: Path) -> BuildJob:
    return make_job(tmp_path, platform=str(THERE))


@pytest.fixture
def tools(job: BuildJob) -> Sdk:
    return replace(job.sdk, root=job.workdir / "tools", info=replace_fields(job.sdk.info, platform=HERE))


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A prefix as Debian's packages make it."""
    prefix = tmp_path / "usr"
    for name in ("include/python3.12/Python.h", "lib/python3.12/_sysconfigdata__aarch64-linux-gnu.py"):
        (prefix / name).parent.mkdir(parents=True)
        (prefix / name).write_text("build_time_vars = {}\n")
    return prefix


@pytest.fixture
def cross(job: BuildJob, tools: Sdk, python: Path) -> Cross:
    found = Cross.to(job.sdk, host=HERE, tools=tools, python=python)
    assert found is not None
    return found


def no_cross(
    said: str, sdk: Sdk, *, host: Platform = HERE, tools: Sdk | None = None, python: Path | None = None
) -> str:
    """The whole error about an SDK for which nothing can be built with these."""
    return str(refused(lambda: Cross.to(sdk, host=host, tools=tools, python=python), "sdk-mismatch", said))


def test_nothing_is_needed_on_the_machine_itself(job: BuildJob) -> None:
    assert Cross.to(job.sdk, host=THERE, tools=None, python=None) is None


def test_an_sdk_of_another_platform_needs_more(job: BuildJob, tools: Sdk, python: Path) -> None:
    said = no_cross("and this machine is", job.sdk)
    assert "Linux aarch64" in said
    assert "Linux x86_64" in said
    no_cross("and this machine is", job.sdk, tools=tools)
    no_cross("and this machine is", job.sdk, python=python)


@pytest.mark.parametrize(("there", "here"), [("macos-arm64", "linux-x86_64"), ("linux-x86_64", "windows-x64")])
def test_only_from_linux_to_linux(there: str, here: str, tmp_path: Path, python: Path) -> None:
    job = make_job(tmp_path, platform=there)
    no_cross("can't be built on", job.sdk, host=Platform.parse(here), tools=job.sdk, python=python)


def test_programs_of_another_llvm_or_another_machine(job: BuildJob, tools: Sdk, python: Path) -> None:
    other = replace(tools, info=replace_fields(tools.info, llvm_version="22.1.7"))
    assert "LLVM 22.1.7 for linux-x86_64" in no_cross("must be of the same LLVM", job.sdk, tools=other, python=python)
    no_cross("must be of the same LLVM", job.sdk, tools=job.sdk, python=python)


def test_the_interpreter_answers_as_the_other_platform_s(cross: Cross, job: BuildJob, tmp_path: Path) -> None:
    folder = tmp_path / "cross"
    folder.mkdir()
    variables = cross.variables(job.python, folder)
    assert variables["_PYTHON_SYSCONFIGDATA_NAME"] == "_sysconfigdata__aarch64-linux-gnu"
    assert variables["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    # Only the build settings are on its path, nothing else of the other's library.
    assert variables["PYTHONPATH"] == str(folder)
    assert {path.name for path in folder.iterdir()} == {"_sysconfigdata__aarch64-linux-gnu.py", "toolchain.cmake"}
    assert variables["MLIR_RELEASE_TOOLS"] == str(cross.tools.root)


@pytest.mark.skipif(sys.platform == "win32", reason="wheels are cross-compiled on Linux")
def test_the_toolchain(cross: Cross, python: Path) -> None:
    text = cross.toolchain(python / "include/python3.12")
    assert "set(CMAKE_SYSTEM_PROCESSOR aarch64)" in text
    assert "set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)" in text
    assert f'set(Python_INCLUDE_DIR "{python}/include/python3.12" CACHE PATH "" FORCE)' in text


@pytest.mark.parametrize(
    "missing", ["include/python3.12/Python.h", "lib/python3.12/_sysconfigdata__aarch64-linux-gnu.py"]
)
def test_a_cpython_without_headers_or_settings(missing: str, cross: Cross, job: BuildJob, python: Path) -> None:
    (python / missing).unlink()
    error = refused(lambda: cross.variables(job.python, job.workdir), "no-python")
    assert "3.12" in str(error)


def test_no_compiler(cross: Cross, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    error = refused(lambda: BuildBackend(cross=cross).check(), "tool-missing")
    assert "aarch64-linux-gnu-gcc, aarch64-linux-gnu-g++" in error.why
    assert "apt install g++-aarch64-linux-gnu" in error.remedy


def test_this_machine_s_glibc_says_nothing_about_the_other(cross: Cross) -> None:
    assert BuildBackend(cross=cross).floor("manylinux_2_28_aarch64") == "manylinux_2_28_aarch64"
