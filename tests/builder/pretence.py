"""What tests pretend of the machine."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def leave_free(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every disk have so many bytes left."""
    usage = shutil.disk_usage("/")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=free))


def have_apt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine be one of Debian's, by programs in a folder that do nothing."""
    for name in ("apt-get", "dpkg-deb"):
        (folder / name).touch(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def have_no_forge(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("mlir_release.cli.options")  # which would keep what it imports now, for other tests
    monkeypatch.setattr("mlir_release.release.forge.open.open_forge", lambda _: pytest.fail("a forge is opened"))
