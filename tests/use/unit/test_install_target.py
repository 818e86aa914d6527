"""Where a release may be installed: real interpreters, in folders that look like a system's, a conda's, a person's."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from mlir_release.ground.llvm.projects import find_project
from mlir_release.ground.python import venv
from mlir_release.use.install_target import find_target
from tests.refusals import refused

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="moves a CPython as it is laid out on Linux")

#: How a folder is marked, and what it is then.
MARKS: dict[str, tuple[str, ...]] = {
    "no environment": (),
    "a conda environment": ("conda-meta/history",),
    "conda's base environment": ("conda-meta/history", "condabin/conda"),
}


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """The running CPython in a prefix of its own, where files can be added."""
    prefix, stdlib = tmp_path / "prefix", Path(sysconfig.get_path("stdlib"))
    place = prefix / "lib" / stdlib.name
    (place / "site-packages").mkdir(parents=True)
    for entry in stdlib.iterdir():
        if entry.name not in ("site-packages", "EXTERNALLY-MANAGED"):
            (place / entry.name).symlink_to(entry)
    (prefix / "bin").mkdir()
    shutil.copy(os.path.realpath(sys.executable), prefix / "bin" / "python")
    for library in Path(sys.base_prefix, "lib").glob("libpython*"):
        (prefix / "lib" / library.name).symlink_to(library)
    return prefix


def mark(prefix: Path, *names: str) -> None:
    for name in names:
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).touch()


@pytest.mark.parametrize("kind", MARKS)
def test_only_an_environment_is_taken_without_being_named(
    moved: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(moved, *MARKS[kind])
    monkeypatch.setenv("PATH", str(moved / "bin"))
    named = find_target(moved / "bin" / "python")
    assert (named.kind, named.prefix, named.owners) == (kind, str(moved), {})
    if kind == "a conda environment":
        assert find_target(None) == named
    else:
        refused(lambda: find_target(None), "option-invalid", kind)


def test_what_the_system_manages_is_not_changed_even_if_it_is_named(
    moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdlib = next((moved / "lib").glob("python3*"))
    mark(stdlib, "EXTERNALLY-MANAGED")
    python = moved / "bin" / "python"
    error = refused(lambda: find_target(python), "option-invalid", "the system manages this Python")
    assert "-m venv" in error.remedy
    monkeypatch.setenv("PIP_BREAK_SYSTEM_PACKAGES", "1")  # pip's own way to insist
    assert find_target(python).kind == "no environment"
    monkeypatch.delenv("PIP_BREAK_SYSTEM_PACKAGES")
    environment = venv.create(moved.parent / "environment", python)
    assert find_target(environment.python).kind == "a virtual environment"


def test_conda_forge_s_package_of_the_bindings_is_seen(moved: Path) -> None:
    mark(moved, "conda-meta/history", "conda-meta/mlir-python-bindings-21.1.8-py311h1234567_0.json")
    target = find_target(moved / "bin" / "python")
    assert target.in_conda["mlir-python-bindings"] == "21.1.8"
    packages = find_project("mlir").conda_packages
    refused(lambda: target.check_alone("mlir", "mlir", packages), "install-failed", "mlir-python-bindings 21.1.8")
    target.check_alone("libclang", "clang")  # another package


def test_a_folder_that_may_not_be_written_to_is_refused(moved: Path) -> None:
    (site,) = moved.glob("lib/python3*/site-packages")
    site.rmdir()  # root may write into every folder that is there
    refused(lambda: find_target(moved / "bin" / "python"), "option-invalid", "can't write")


def test_without_any_pip_its_installation_is_the_remedy(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    error = refused(lambda: find_target(moved / "bin" / "python"), "tool-missing", "no pip")
    assert "ensurepip" in error.remedy


def test_something_else_than_an_interpreter_is_refused(tmp_path: Path) -> None:
    refused(lambda: find_target(tmp_path / "none"), "python-missing")
    refused(lambda: find_target("3.9"), "python-missing", "need CPython 3.10")
