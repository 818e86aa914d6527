from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlir_release.builder.projects.mlir import PROJECT
from mlir_release.builder.tools.build_tools import BUILD_TOOLS, SCCACHE
from mlir_release.builder.wheels.cibuildwheel import _TEST_TOOLS
from mlir_release.builder.wheels.stage import BUILD_BACKEND
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.locked import LOCK, LockedPin, choose, read_lock
from mlir_release.ground.python.platforms import Platform

ROOT = Path(__file__).parents[4]


def names(requirements: list[str]) -> list[str]:
    return sorted(f"{pin.name}=={pin.version}" for pin in choose(requirements).pins)


def test_every_entry_of_the_lock_is_read() -> None:
    text = LOCK.read_text(encoding="utf-8")
    assert len(read_lock()) == len(re.findall(r"^\w.*==", text, re.MULTILINE))
    assert sum(len(pin.hashes) for pin in read_lock()) == text.count("--hash=")
    assert all(pin.hashes for pin in read_lock())


def test_everything_that_builds_and_tests_ask_for_is_locked() -> None:
    toolkit = (ROOT / "requirements" / "toolkit.txt").read_text(encoding="utf-8")
    (lit,) = re.findall(r"^lit==\S+", toolkit, re.MULTILINE)
    wanted = [*BUILD_TOOLS, SCCACHE, BUILD_BACKEND, "pyelftools>=0.31", "typing_extensions>=4.12.2", lit]
    assert choose([*wanted, *PROJECT.test_requirements, *_TEST_TOOLS]).unlocked == ()


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("nanobind~=2.9.0", "2.9.2"),
        ("nanobind>=2.9,<2.10", "2.9.2"),
        ("nanobind==2.4.0", "2.4.0"),
        ("pybind11~=2.10.0", "2.10.4"),
        ("pybind11==2.13.6", "2.13.6"),
    ],
)
def test_a_revision_chooses_its_binding_library(requirement: str, version: str) -> None:
    name = requirement[:8].rstrip("~=>")
    (pin,) = choose([requirement]).pins
    assert (pin.name, pin.version) == (name, version)


def test_dependencies_are_locked_with_what_needs_them() -> None:
    found = names([BUILD_BACKEND])
    assert {name.partition("==")[0] for name in found} >= {"scikit-build-core", "pathspec", "packaging"}
    assert not {name.partition("==")[0] for name in found} & {"cmake", "sccache", "virtualenv", "nanobind"}


def test_versions_for_different_interpreters_are_taken_together_and_told_apart() -> None:
    chosen = choose(["virtualenv"])
    filelocks = {pin.version for pin in chosen.pins if pin.name == "filelock"}
    assert len(filelocks) == 2
    for python in (CPython(3, 10), CPython(3, 14)):
        there = [pin for pin in chosen.on(python, Platform.parse("linux-x86_64")) if pin.name == "filelock"]
        assert len(there) == 1
    windows = chosen.on(CPython(3, 12), Platform.parse("windows-amd64"))
    assert "colorama" not in {pin.name for pin in windows}  # only build needs it
    build = choose(["build"]).on(CPython(3, 12), Platform.parse("windows-amd64"))
    assert "colorama" in {pin.name for pin in build}


def test_what_is_not_locked_is_named() -> None:
    chosen = choose(["cmake", "numpy>=1.19.5,<=2.1.2", "nanobind==99.0"])
    assert [pin.name for pin in chosen.pins] == ["cmake"]
    assert [line.partition("=")[0].rstrip("<>") for line in chosen.unlocked] == ["numpy", "nanobind"]


def test_the_line_of_a_requirements_file() -> None:
    pin = LockedPin(
        name="x", version="1", marker="os_name == 'nt'", hashes=("sha256:aa", "sha256:bb"), parents=frozenset()
    )
    assert pin.line == "x==1 ; os_name == 'nt' --hash=sha256:aa --hash=sha256:bb"
