from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.pythons import Python, describe, find_executable, find_pythons, installed
from tests.refusals import refused

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes interpreters of shell scripts")


def fake(path: Path, version: tuple[int, int, int], **facts: Any) -> Path:
    """A program that answers our question as an interpreter of this kind would."""
    answer = {
        "implementation": "CPython",
        "version": version,
        "final": True,
        "threads": False,
        "headers": True,
        "base": None,
        **facts,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose CPythons are those that a test makes, on the PATH in ``bin``, in pyenv and in uv."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").write_text('#!/bin/sh\necho "$UV_PYTHON_INSTALL_DIR"\n')
    (tmp_path / "bin" / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    for name in ("executable", "_base_executable"):
        monkeypatch.setattr(sys, name, str(tmp_path / "none"), raising=False)
    return tmp_path


def test_found_on_the_path_in_pyenv_and_in_uv_newest_first(machine: Path) -> None:
    fake(machine / "uv" / "cpython-3.14.2+freethreaded-linux-x86_64-gnu" / "bin" / "python", (3, 14, 2), threads=True)
    fake(machine / "bin" / "python3.11", (3, 11, 9))
    fake(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", (3, 12, 1))
    fake(machine / "pyenv" / "versions" / "3.12.7" / "bin" / "python", (3, 12, 7))
    fake(machine / "bin" / "python3.13t", (3, 13, 0), threads=True)
    fake(machine / "bin" / "python3-config", (3, 10, 0))
    assert [(python.tag, python.version) for python in installed()] == [
        ("cp314t", "3.14.2"), ("cp313t", "3.13.0"), ("cp312", "3.12.7"), ("cp311", "3.11.9"),
    ]  # fmt: skip


def test_shims_prereleases_and_other_implementations_are_left_out(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(machine / "pyenv" / "shims" / "python3.11", (3, 11, 9))
    monkeypatch.setenv("PATH", f"{machine / 'pyenv' / 'shims'}:{machine / 'bin'}")
    fake(machine / "bin" / "python3.14", (3, 14, 0), final=False)
    fake(machine / "bin" / "python3.10", (3, 10, 9), implementation="PyPy")
    (machine / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (machine / "bin" / "python3").chmod(0o755)
    assert installed() == []


def test_no_uv_and_no_folder_are_no_failure(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "bin" / "uv").unlink()
    monkeypatch.setenv("PATH", f"{fake(machine / 'file', (3, 12, 1))}:{machine / 'none'}:{machine / 'bin'}")
    fake(machine / "bin" / "python3.11", (3, 11, 9))
    fake(machine / "uv" / "cpython-3.12" / "bin" / "python", (3, 12, 1))
    assert [python.tag for python in installed()] == ["cp311"]


def test_the_one_with_headers_wins(machine: Path) -> None:
    fake(machine / "bin" / "python3.12", (3, 12, 9), headers=False)
    with_headers = fake(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", (3, 12, 1))
    assert [python.executable for python in find_pythons()] == [with_headers]


def test_an_exact_version_is_found_beside_a_newer_one(machine: Path) -> None:
    fake(machine / "bin" / "python3.12", (3, 12, 7))
    fake(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", (3, 12, 1))
    assert find_pythons(["3.12.1"])[0].version == "3.12.1"
    assert find_pythons(["3.12"])[0].version == "3.12.7"


def test_free_threaded_ones_are_another_kind(machine: Path) -> None:
    fake(machine / "bin" / "python3.13t", (3, 13, 0), threads=True)
    assert find_pythons(["3.13t"])[0].tag == "cp313t"
    error = refused(lambda: find_pythons(["3.13"]), kind=UsageError)
    assert error.what == "there is no CPython 3.13 on this machine"


def test_the_order_asked_for_and_no_repetition(machine: Path) -> None:
    fake(machine / "bin" / "python3.12", (3, 12, 1))
    fake(machine / "bin" / "python3.11", (3, 11, 1))
    assert [python.tag for python in find_pythons(["cp311", "3.12", "3.11"])] == ["cp311", "cp312"]


def test_a_version_that_is_not_there_says_what_is(machine: Path) -> None:
    fake(machine / "bin" / "python3.12", (3, 12, 1))
    error = refused(lambda: find_pythons(["3.14"]), kind=UsageError)
    assert error.what == "there is no CPython 3.14 on this machine"
    assert "3.12.1" in error.why


@pytest.mark.parametrize("text", ["3.9", "cp38", "3.6"])
def test_one_that_is_too_old(machine: Path, text: str) -> None:
    error = refused(lambda: find_pythons([text]), "python-missing", "need CPython")
    assert "3.10" in error.what


def test_a_path_of_one_that_is_too_old(machine: Path) -> None:
    path = fake(machine / "old" / "python", (3, 9, 18))
    refused(lambda: find_pythons([str(path)]), "python-missing", "need CPython")


def test_a_path(machine: Path) -> None:
    path = fake(machine / "mine" / "python", (3, 12, 1))
    assert find_pythons([str(path)]) == [Python(cpython=CPython(3, 12), version="3.12.1", executable=path)]


@pytest.mark.parametrize("text", ["pypy", "2.7", "four", ""])
def test_what_is_no_version(machine: Path, text: str) -> None:
    refused(
        lambda: find_pythons([text]), "python-missing", "is neither a CPython version nor the path of an interpreter"
    )


def test_a_path_that_is_not_there(machine: Path) -> None:
    error = refused(
        lambda: find_pythons([str(machine / "nothing" / "python3.12")]),
        said="there is no working CPython at",
        kind=UsageError,
    )
    assert "no such file" in error.why


def test_no_headers(machine: Path) -> None:
    fake(machine / "bin" / "python3.12", (3, 12, 1), headers=False)
    refused(lambda: find_pythons(["3.12"]), "no-python", "has no headers, so nothing can be compiled for it")
    refused(find_pythons, "no-python", "or newer with its headers on this machine")


def test_a_virtual_environment_stands_for_what_it_was_made_with(machine: Path) -> None:
    base = fake(machine / "base" / "python", (3, 12, 1))
    environment = fake(machine / "venv" / "python", (3, 12, 1), base=str(base))
    assert describe(environment).executable == base


def test_this_very_interpreter() -> None:
    found = describe(Path(sys.executable))
    assert found.order == sys.version_info[:3]
    assert found.short_version == f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize("text", ["3.12", "cp312", "3.12.1"])
def test_what_runs_or_is_installed_into_can_be_named_by_version_too(machine: Path, text: str) -> None:
    path = fake(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", (3, 12, 1), headers=False)
    assert find_executable(text) == path


def test_of_a_version_the_active_environment_s_interpreter_comes_first(machine: Path) -> None:
    base = fake(machine / "pyenv" / "versions" / "3.12.7" / "bin" / "python", (3, 12, 7))
    older = fake(machine / "pyenv" / "versions" / "3.12.1" / "bin" / "python", (3, 12, 1))
    active = fake(machine / "bin" / "python", (3, 12, 1), base=str(older))
    assert find_executable("3.12") == active
    assert find_executable("3.12.7") == base
    refused(lambda: find_executable("3.11"), "python-missing", "3.11")


def test_a_command_of_path_is_that_command_and_no_version(machine: Path) -> None:
    fake(machine / "pyenv" / "versions" / "3.12.7" / "bin" / "python", (3, 12, 7))
    command = fake(machine / "bin" / "python3.12", (3, 12, 1))
    assert find_executable("python3.12") == command
    assert find_executable(str(machine / "none" / "python")) == machine / "none" / "python"
    refused(lambda: find_executable("pypy"), "python-missing", "neither a CPython version")
