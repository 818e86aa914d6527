"""The files of a checkout: the pin is never set where that would lose someone's work."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.release.forge.checkout import (
    checkout_or_shipped,
    files_of_checkout,
    matrix_of_checkout,
    read_pin,
    write_pin,
)
from tests.attacks.hostile_repository import git
from tests.refusals import refused

ROOT = Path(__file__).parents[4]
SHA = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"


def test_round_trip(tmp_path: Path) -> None:
    write_pin(tmp_path, SHA)
    assert read_pin(tmp_path) == SHA
    assert (tmp_path / PIN_FILE).read_bytes() == format_pin(SHA)
    assert [path.name for path in tmp_path.iterdir()] == [PIN_FILE]


def test_a_dirty_or_detached_checkout_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write_pin(tmp_path, SHA)
    git(tmp_path, "add", PIN_FILE)
    git(tmp_path, "commit", "--quiet", "-m", "pin")
    write_pin(tmp_path, "0" * 40)
    refused(lambda: write_pin(tmp_path, SHA), "checkout-dirty", "has changes that are not committed")
    assert read_pin(tmp_path) == "0" * 40
    git(tmp_path, "checkout", "--quiet", "--", PIN_FILE)
    git(tmp_path, "checkout", "--quiet", "--detach")
    refused(
        lambda: write_pin(tmp_path, "0" * 40),
        "checkout-dirty",
        "the release repository's HEAD is detached: a pin committed there would belong to no branch",
    )
    assert read_pin(tmp_path) == SHA


def test_a_checkout_gives_a_forge_its_pin_and_targets() -> None:
    files = files_of_checkout(ROOT)
    assert set(files) == {"llvm-project.version", "targets.toml", "matrices/22.1.toml"}
    assert files["targets.toml"] == (ROOT / "targets.toml").read_bytes()
    assert files["llvm-project.version"] == (ROOT / "llvm-project.version").read_bytes()


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_targets_that_can_not_be_read_are_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "targets.toml").write_bytes(content)
    for read in (matrix_of_checkout, files_of_checkout):
        error = refused(partial(read, tmp_path), "input-missing")
        assert "--repository" in error.remedy


def test_targets_without_a_pin_make_no_forge(tmp_path: Path) -> None:
    (tmp_path / "targets.toml").write_bytes((ROOT / "targets.toml").read_bytes())
    refused(lambda: files_of_checkout(tmp_path), "pin-invalid")


def test_outside_of_a_checkout_the_toolkits_own_files_are_taken_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert checkout_or_shipped(Path()) == ROOT
    assert f"taking the toolkit's own, in {ROOT}" in capsys.readouterr().err
    shipped = {"llvm-project.version", "targets.toml", "matrices/22.1.toml"}
    assert set(files_of_checkout(checkout_or_shipped(Path()))) == shipped
    assert checkout_or_shipped(Path("elsewhere")) == Path("elsewhere")  # that one was asked for
    (tmp_path / "targets.toml").write_text("broken = ")
    assert checkout_or_shipped(Path()) == Path()
    assert "taking" not in capsys.readouterr().err.partition("llvm-project.version")[2]


def test_a_file_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "nothing"):
        refused(partial(read_pin, folder), "pin-invalid")
