"""Renovate itself reads its configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import npm

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow  # 620 packages of npm
def test_its_validator_accepts_the_configuration() -> None:
    command = [*npm.renovate("config-validator"), "--strict", "--no-global", str(ROOT / ".github" / "renovate.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Config validated successfully" in done.stdout
