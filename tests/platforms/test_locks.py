"""What is locked by hash can be installed from wheels alone on every platform: pip and uv are asked, from here.

A lock that one platform has no wheel for would be compiled there, of sources and build tools that nothing locks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.python.cpython import DEFAULT_PYTHON, CPython
from mlir_release.ground.python.locked import LOCK, read_lock
from mlir_release.ground.python.requirements import applicable
from mlir_release.ground.python.resolver import wheel_options
from tests.platforms.runtimes import ROOT, RUNTIMES, UV_PLATFORMS, pythons_of
from tools.install import SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.ground.python.locked import LockedPin
    from mlir_release.release.model.targets import Runtime

UV = Path(sys.executable).with_name("uv")
LOCKS = {name: ROOT / "requirements" / f"{name}.txt" for name in ("toolkit", "integrate")}


def run(*words: str | Path) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def uv_options(runtime: Runtime, python: CPython, folder: Path) -> list[str]:
    """uv's, to install for another machine; it evaluates markers for that one."""
    return [
        *("pip", "install", "--dry-run", f"--target={folder}", "--only-binary=:all:", "--require-hashes"),
        *(f"--python-platform={UV_PLATFORMS[runtime.name]}", f"--python-version={python.marker}"),
    ]


@pytest.mark.parametrize("python", [DEFAULT_PYTHON, *(CPython(*version) for version in SUPPORTED)], ids=str)
@pytest.mark.parametrize("lock", LOCKS)
def test_the_toolkit_is_installed_from_wheels(lock: str, python: CPython, runtime: Runtime, tmp_path: Path) -> None:
    printed = run(UV, *uv_options(runtime, python, tmp_path), "-r", LOCKS[lock])
    assert "Would install" in printed


def pip_download(pins: Iterable[LockedPin], runtime: Runtime, python: CPython, folder: Path) -> set[str]:
    """The files that pip takes for pins, each checked against the lock's hashes.

    pip evaluates markers for the machine that it runs on, so ``pins`` are those whose markers hold on the other one.
    """
    file = folder / "requirements.txt"
    file.write_text("".join(f"{pin.name}=={pin.version} {' '.join(pin.hash_options)}\n" for pin in pins))
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", f"--dest={folder}"),
        *wheel_options(python, runtime.tag.accepted),
        *("-r", file),
    )
    return {path.name for path in folder.glob("*.whl")}


@pytest.mark.slow  # pip downloads what it checks: about 100 MB a platform
def test_pip_takes_the_same(runtime: Runtime, tmp_path: Path) -> None:
    here = [
        pin for pin in read_lock(LOCKS["toolkit"]) if applicable([pin.requirement], DEFAULT_PYTHON, runtime.platform)
    ]
    assert len(pip_download(here, runtime, DEFAULT_PYTHON, tmp_path)) == len(here) > 40


#: Locked for some CPythons that it has no wheel for yet. The suite ``bindings`` of those can't be run until it has.
WITHOUT_WHEEL = {"pyyaml": {"cp315", "cp315t"}}


def built_with(runtime: Runtime, python: CPython, *, all_versions: bool) -> list[list[LockedPin]]:
    """What is locked for a build, in sets without two versions of one distribution: the newest of each first."""
    sets: list[dict[str, LockedPin]] = []
    for pin in read_lock(LOCK):
        if applicable([pin.requirement], python, runtime.platform) and str(python) not in WITHOUT_WHEEL.get(
            pin.name, ()
        ):
            free = next((chosen for chosen in sets if pin.name not in chosen), None)
            if free is None:
                sets.append(free := {})
            free[pin.name] = pin
    return [list(chosen.values()) for chosen in (sets if all_versions else sets[:1])]


def test_what_wheels_are_built_with_has_wheels(runtime: Runtime, tmp_path: Path) -> None:
    """The binding libraries, of which there are several versions, are the same wheels for every CPython."""
    pythons = pythons_of(runtime)
    for python in pythons:
        for pins in built_with(runtime, python, all_versions=python == pythons[0]):
            file = tmp_path / "builds.txt"
            file.write_text("".join(f"{pin.line}\n" for pin in pins))
            run(UV, *uv_options(runtime, python, tmp_path / "unused"), "--no-deps", "-r", file)


def test_what_has_no_wheel_yet_has_none(tmp_path: Path) -> None:
    """Else it is no longer to be listed."""
    linux = RUNTIMES["linux-x86_64"]
    for pin in read_lock(LOCK):
        for tag in WITHOUT_WHEEL.get(pin.name, ()):
            file = tmp_path / "one.txt"
            file.write_text(f"{pin.line}\n")
            words = [UV, *uv_options(linux, CPython.parse(tag), tmp_path / "unused"), "--no-deps", "-r", file]
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
            assert "has no usable wheels" in done.stderr, f"{pin.name} now has a wheel for {tag}"
