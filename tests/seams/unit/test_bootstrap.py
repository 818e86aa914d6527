from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import PROGRAMS
from tools import install
from tools.bootstrap import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bootstrap() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes programs, shell scripts, which are all that the PATH has."""
    if os.name == "nt":
        pytest.skip("shell scripts")
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(**scripts: str) -> None:
        for name, script in scripts.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    return make


def test_errors_look_like_the_toolkits(bootstrap: ModuleType) -> None:
    error = bootstrap.SetupError("some-id", "it is missing", why="nobody installed it", remedy="install it")
    assert str(error) == "error[some-id]: it is missing\n  why: nobody installed it\n  to do: install it"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate ...", "the certificate of"),
        ("OSError: Could not find a suitable TLS CA certificate bundle, invalid path: /x", "the certificate of"),
        ("ERROR: No matching distribution found for rich>=13", "the toolkit could not be"),
        ("", "the toolkit could not be"),
    ],
)
def test_what_pip_says_decides_the_message(bootstrap: ModuleType, said: str, expected: str) -> None:
    with pytest.raises(bootstrap.SetupError, match=rf"^error\[[a-z-]+\]: {expected}"):
        bootstrap.explain(said, Path(".venv"))


def test_a_browser_of_any_name_is_one(bootstrap: ModuleType, programs: Callable[..., None]) -> None:
    programs(google_chrome="")
    assert bootstrap.is_installed("chromium")
    assert set(PROGRAMS) == set(bootstrap.PROGRAMS["chromium"])


def test_a_failed_installation_leaves_no_environment(bootstrap: ModuleType, tmp_path: Path) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], environment: object = None) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (tmp_path / "venv").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, int("--editable" in command), "WARNING: x\nERROR: no space left\n")

    with pytest.raises(bootstrap.SetupError, match="why: ERROR: no space left\n"):
        bootstrap.make_environment(tmp_path / "venv", bootstrap.LOCK, "--editable", str(ROOT), run=run)
    assert [Path(command[0]).name for command in commands[1:]] == ["python", "python", "uv", "python"]
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("broken", [("podman",), ("g++",), ("g++", "podman")])
def test_only_packages_that_the_rehearsal_needs_are_required(
    bootstrap: ModuleType, programs: Callable[..., None], capsys: pytest.CaptureFixture[str], broken: tuple[str, ...]
) -> None:
    install = f'for word; do case $word in {"|".join(broken)}) echo "E: Unable to locate $word"; exit 1;; esac; done'
    programs(dpkg_query="", apt_get=install, sudo='exec "$@"')
    if "g++" in broken:
        with pytest.raises(bootstrap.SetupError, match=r"^error\[network-failed\]: apt-get could not install g\+\+\n"):
            bootstrap.install_packages(("g++",), optional=("podman", "wine"))
    else:
        bootstrap.install_packages(("g++",), optional=("podman", "wine"))
        assert capsys.readouterr().err.endswith("warning: not installed: podman\n")


def test_without_root_and_sudo_the_packages_are_named(
    bootstrap: ModuleType, programs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(dpkg_query="", apt_get="", cmake="")
    monkeypatch.setattr(bootstrap.os, "geteuid", lambda: 1000)
    with pytest.raises(bootstrap.SetupError, match=r"(?s)^error\[tool-missing\].*apt-get install g\+\+ ccache$"):
        bootstrap.install_packages(("g++", "cmake", "ccache"))


@pytest.mark.parametrize("found", [(3, 9), (3, 10), (3, 15), (4, 0)])
def test_a_workflow_on_a_cpython_without_wheels_says_which_it_takes(found: tuple[int, int]) -> None:
    """The first of windows-2022 was 3.9, Homebrew's is 3.15: pip would say that no distribution matches."""
    with pytest.raises(SetupError, match=r"(?s)^error\[no-python\].*to do: install CPython 3\.12"):
        install.check_python(found)


@pytest.mark.parametrize("found", [(3, 11), (3, 12), (3, 14)])
def test_a_workflow_takes_every_cpython_that_the_locks_have_wheels_for(found: tuple[int, int]) -> None:
    install.check_python(found)
