"""What tests pretend of the machine."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

_APT_GET = """#!/bin/sh
echo "apt-get $*" >> "$LOG"
for argument; do
  case "$argument" in
    Dir::State::lists=*) lists=${argument#*=} ;;
    update) touch "$lists/InRelease" ;;
    *RELEASE*) echo "file://$POOL|unstable|main|/usr/share/keyrings/debian.gpg" ;;
    *REPO_URI*) echo "file://$POOL" ;;
  esac
done
"""
_APT_CACHE = """#!/bin/sh
case "$*" in
  *showsrc*llvm-toolchain-97*) cat "$POOL/showsrc" ;;
  *show*) cat "$POOL/show" ;;
esac
"""


def leave_free(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every disk have so many bytes left."""
    usage = shutil.disk_usage("/")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=free))


def fill_disk(target: str, monkeypatch: pytest.MonkeyPatch, when: Callable[..., bool] = lambda *_: True) -> None:
    """Let the disk be full when a function begins. ``when``: whether it is, by the function's arguments."""
    whole = resolve_name(target)

    def full(*arguments: Any, **more: Any) -> Any:
        if when(*arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(*arguments, **more)

    monkeypatch.setattr(target, full)


def have_debian(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the machine be one of Debian's, by programs in a folder. Its index names nothing, and llvm-project is gone.

    :returns: the folder that has the archives of llvm-toolchain-97
    """
    programs, archives = folder / "bin", folder / "pool-of-debian" / "pool" / "main" / "l" / "llvm-toolchain-97"
    for path in (programs, archives):
        path.mkdir(parents=True)
    for name, script in (("apt-get", _APT_GET), ("apt-cache", _APT_CACHE), ("dpkg-deb", "")):
        text = script.replace("$LOG", str(folder / "log")).replace("$POOL", str(folder / "pool-of-debian"))
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    list_packages(folder, "")
    (folder / "gitconfig").write_text(f'[url "{folder}/nowhere/"]\n\tinsteadOf = https://github.com/llvm/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return archives


def list_packages(folder: Path, packages: str, *sources: str) -> None:
    """What that machine's index names. ``sources``: each a :func:`record`."""
    (folder / "pool-of-debian" / "show").write_text(packages)
    (folder / "pool-of-debian" / "showsrc").write_text("\n\n".join(sources))


def record(version: str, content: bytes) -> str:
    """A record of the source index."""
    name = f"llvm-toolchain-97_{version}.orig.tar.xz"
    return (
        f"Package: llvm-toolchain-97\nVersion: 1:{version}-1\nDirectory: pool/main/l/llvm-toolchain-97\n"
        f"Files:\n {hashlib.md5(content).hexdigest()} {len(content)} {name}\n"
        f"Checksums-Sha256:\n {'0' * 64} 7 llvm-toolchain-97_{version}-1.dsc\n"
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}"
    )


def have_no_forge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLIR_RELEASE_FORGE", "local:no-such-forge")
