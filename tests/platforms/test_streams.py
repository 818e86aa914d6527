"""What commands print can be written where the locale lacks characters: to a pipe on Windows, for example."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mlir_release.cli.app import COMMANDS


def run(encoding: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "mlir_release", *arguments], capture_output=True, env=environment, check=False
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, encoding: str) -> None:
    done = run(encoding, command, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("utf-8")


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_results_and_errors_are_utf8(encoding: str) -> None:
    done = run(encoding, "matrix")
    assert done.returncode == 0, done.stderr
    assert "mlir-linux-x86_64-cp312" in done.stdout.decode("utf-8")
    done = run(encoding, "matrix", "--only", "名前=≥")
    assert done.returncode == 2
    assert done.stderr.decode("utf-8").startswith("error[option-invalid]")
