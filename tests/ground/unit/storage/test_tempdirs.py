"""Folders that end with a command, or with the next one if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = """
import sys
from mlir_release.ground.storage.tempdirs import scratch_folder
with scratch_folder("holder") as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of the system's for this test alone."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))
    tempfile.tempdir = None  # it is found again
    yield tmp_path
    tempfile.tempdir = None


def test_it_is_empty_and_ends(temporary: Path) -> None:
    with scratch_folder("a") as first, scratch_folder("a") as second:
        assert first != second
        assert list(first.iterdir()) == []
        (first / "file").touch()
        assert first.is_relative_to(temporary)
    assert list(temporary.iterdir()) == []


def test_it_ends_with_an_error(temporary: Path) -> None:
    with pytest.raises(RuntimeError), scratch_folder("a"):
        raise RuntimeError
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: no signals on Windows")
def test_what_a_killed_process_leaves_is_removed_by_the_next(temporary: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().decode().strip())
        os.utime(left.parent, (0, 0))
        with scratch_folder("b"):
            assert (left / "file").exists()  # its holder lives
        process.send_signal(signal.SIGKILL)
    assert (left / "file").exists()
    with scratch_folder("b") as folder:
        assert list(temporary.iterdir()) == [folder.parent]


def test_what_is_young_or_not_ours_is_left_alone(temporary: Path) -> None:
    young, other = temporary / "mlir-release-young", temporary / "mlir-release-notes"
    young.mkdir()
    (young / "in-use.lock").touch()
    other.mkdir()
    os.utime(other, (0, 0))
    with scratch_folder("a"):
        pass
    assert young.exists()
    os.utime(young, (0, 0))
    with scratch_folder("a"):
        pass
    assert list(temporary.iterdir()) == [other]
