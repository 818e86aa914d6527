"""Renovate itself reads its configuration."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import npm

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # 620 packages of npm
def test_its_validator_accepts_the_configuration() -> None:
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    assert node is not None, "Node comes with the environment of the tests"
    validator = npm.provide("renovate", "44.121.2") / "dist" / "config-validator.js"
    command = [node, str(validator), "--strict", "--no-global", str(ROOT / ".github" / "renovate.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Config validated successfully" in done.stdout
