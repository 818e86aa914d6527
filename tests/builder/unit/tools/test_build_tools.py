"""Which compiler cache is used."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from mlir_release.builder.tools import build_tools
from mlir_release.builder.tools.build_tools import compiler_launchers

PROJECT = Path(__file__).parents[4] / "mlir_release" / "builder" / "projects" / "mlir" / "wheel"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes programs of shell scripts")

C, CXX = "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(C, raising=False)
    monkeypatch.delenv(CXX, raising=False)
    return tmp_path


def add(path: Path, name: str) -> str:
    (path / name).write_text("#!/bin/sh\n")
    (path / name).chmod(0o755)
    return str(path / name)


def test_no_cache(path: Path) -> None:
    assert compiler_launchers() == {}


def test_ccache_before_sccache_before_none(path: Path) -> None:
    own = Path("/tools/sccache")
    sccache = add(path, "sccache")
    assert compiler_launchers() == {C: sccache, CXX: sccache}
    assert compiler_launchers(own) == {C: str(own), CXX: str(own)}
    ccache = add(path, "ccache")
    assert compiler_launchers() == compiler_launchers(own) == {C: ccache, CXX: ccache}


def test_the_environment_wins_even_with_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ccache = add(path, "ccache")
    monkeypatch.setenv(CXX, "mine")
    assert compiler_launchers() == {C: ccache, CXX: "mine"}
    monkeypatch.setenv(C, "")
    assert compiler_launchers() == {C: "", CXX: "mine"}


def test_windows_takes_sccache_though_there_is_a_ccache(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a runner's image may be too old for Microsoft's compilers."""
    add(path, "ccache")
    assert compiler_launchers(system="win32") == {}
    own = Path("/tools/sccache.exe")
    assert compiler_launchers(own, system="win32") == {C: str(own), CXX: str(own)}
    sccache = add(path, "sccache")
    assert compiler_launchers(system="win32") == {C: sccache, CXX: sccache}
    monkeypatch.setenv(C, "mine")
    assert compiler_launchers(own, system="win32") == {C: "mine", CXX: str(own)}


def test_wheels_ask_for_the_same_cmake_as_the_toolkit() -> None:
    backend = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    assert backend["cmake"]["version"] == f">={'.'.join(map(str, build_tools.OLDEST_CMAKE))}"
