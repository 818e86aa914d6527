"""Small disks for tests: what may mount them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def able_to_mount(folder: Path) -> list[str]:
    """The words before a command that mounts something at ``folder``, seen by that command only; skips if none may."""
    for words in (["unshare", "-rm"], ["unshare", "-m"]):
        command = [*words, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
        try:
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return words
        except FileNotFoundError:
            break
    pytest.skip("A FULL DISK WAS NOT TRIED: nothing can be mounted here, not even in a user namespace")
