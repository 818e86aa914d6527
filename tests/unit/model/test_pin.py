from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import ConflictError, UsageError
from mlir_release.model.pin import PIN_FILE, format_pin, parse_pin, read_pin, write_pin

if TYPE_CHECKING:
    from pathlib import Path

SHA = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"


def test_round_trip(tmp_path: Path) -> None:
    write_pin(tmp_path, SHA)
    assert read_pin(tmp_path) == SHA
    assert (tmp_path / PIN_FILE).read_bytes() == format_pin(SHA)
    assert [path.name for path in tmp_path.iterdir()] == [PIN_FILE]


@pytest.mark.parametrize(
    ("content", "identifier"),
    [
        (None, "pin-missing"),
        (b"", "pin-empty"),
        (b"ca7933e47d3a\n", "pin-short"),
        (b"main\n", "pin-junk"),
        (SHA.upper().encode(), "pin-junk"),
        (f"{SHA}\n{SHA}\n".encode(), "pin-junk"),
        (b"\xff\xfe\x00" * 100, "pin-junk"),
    ],
)
def test_bad_pins(content: bytes | None, identifier: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pin(content, where="a file")
    assert caught.value.id == identifier
    assert caught.value.remedy


def git(directory: Path, *args: str) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", *args]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


def test_a_dirty_or_detached_checkout_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write_pin(tmp_path, SHA)
    git(tmp_path, "add", PIN_FILE)
    git(tmp_path, "commit", "--quiet", "-m", "pin")
    write_pin(tmp_path, "0" * 40)
    with pytest.raises(ConflictError) as caught:
        write_pin(tmp_path, SHA)
    assert caught.value.id == "checkout-dirty"
    assert read_pin(tmp_path) == "0" * 40
    git(tmp_path, "checkout", "--quiet", "--", PIN_FILE)
    git(tmp_path, "checkout", "--quiet", "--detach")
    with pytest.raises(ConflictError) as caught:
        write_pin(tmp_path, "0" * 40)
    assert caught.value.id == "checkout-detached"
    assert read_pin(tmp_path) == SHA
