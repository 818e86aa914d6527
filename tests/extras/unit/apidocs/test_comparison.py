"""Comparing wheels on disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.apidocs.comparison import compare
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError
from tests.bindings_factory import RENAMED, make_bindings_wheel
from tests.refusals import refused
from tests.wheel_factory import make_wheel

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def wheels(tmp_path: Path) -> tuple[str, str]:
    """Two wheels; the newer has a function of another signature."""
    return str(make_bindings_wheel(tmp_path / "a")), str(make_bindings_wheel(tmp_path / "b", changed=RENAMED))


def test_two_wheels_are_compared_without_a_forge(wheels: tuple[str, str]) -> None:
    found = compare(None, *wheels)
    assert (found.old.name, found.new.name) == wheels
    assert [(change.name, change.level) for change in found.changes] == [("mlir.dialects.toy.helper", "breaking")]
    assert "renamed: values → operation" in found.text()


def test_a_wheel_is_read_once(wheels: tuple[str, str], cache: Path) -> None:
    compare(None, *wheels)
    one, other = (cache / "apis").iterdir()
    one.write_bytes(other.read_bytes())
    assert compare(None, *wheels).summary() == "no change", "as the cache has it, and not the wheels"


@pytest.mark.parametrize("content", [b"", b"{", b'{"entries": {"a": 1}, "unseen": []}', b"[]"])
def test_a_damaged_cache_is_made_anew(wheels: tuple[str, str], cache: Path, content: bytes) -> None:
    first = compare(None, *wheels).text()
    for path in (cache / "apis").iterdir():
        path.write_bytes(content)
    assert compare(None, *wheels).text() == first


def test_the_cache_keeps_a_bounded_number_of_wheels(wheels: tuple[str, str], cache: Path) -> None:
    (cache / "apis").mkdir(parents=True)
    for number in range(40):
        (path := cache / "apis" / f"{number}.json").touch()
        os.utime(path, (0, 0))
    compare(None, *wheels)
    kept = [path.name[:64] for path in (cache / "apis").iterdir()]
    assert len(kept) == 32
    assert {sha256_of(Path(wheel)) for wheel in wheels} <= set(kept)


def test_the_same_wheel_twice_and_a_file_that_is_not_there_are_refused(wheels: tuple[str, str]) -> None:
    refused(lambda: compare(None, wheels[0], wheels[0]), "option-invalid", "stand for the same")
    refused(lambda: compare(None, wheels[0], "nothing.whl"), "input-missing", "no file nothing.whl")


def test_what_is_no_wheel_of_the_bindings_is_refused(wheels: tuple[str, str], tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "other", distribution="other", python="py3", files={"another/_release.json": b"{}"})
    said = "not a wheel of the MLIR Python bindings"
    refused(lambda: compare(None, wheels[0], str(path)), "wheel-unsuitable", said)


def test_without_griffe_the_extra_is_named(wheels: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)
    with pytest.raises(MachineError, match=r"\[apidocs\]"):
        compare(None, *wheels)


def test_what_a_wheel_says_neither_controls_a_terminal_nor_commands_a_runner(tmp_path: Path) -> None:
    evil = {"mlir/calls.py": "def call(a='\x1b]0;title\x07', *, b='''\n::error::owned\n'''): ...\n"}
    paths = [make_bindings_wheel(tmp_path / name, changed=changed) for name, changed in (("a", {}), ("b", evil))]
    paths.append(make_bindings_wheel(tmp_path / "c", changed={"mlir/calls.py": "def call(a, b): ...\n"}))
    for old, new in (paths[:2], paths[1:]):
        done = CliRunner().invoke(app, ["release", "diff", str(old), str(new)], catch_exceptions=False)
        assert "\x1b" not in done.output
        assert not [line for line in done.output.splitlines() if line.lstrip().startswith("::")]
    assert "\\x1b]0;title" in done.output
