"""Programs from npm that tests run, fetched once into the cache."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mlir_release.cache import cache_directory, locked

#: Node itself is on npm, too: one package for each platform.
NODE = "22.23.3"
_PLATFORMS = {"linux": "linux", "darwin": "darwin", "win32": "win"}
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def provide(name: str, version: str) -> Path:
    """The folder of ``name``'s package, installed with what it needs. :raises RuntimeError: if it can't be had"""
    folder = cache_directory() / "npm" / f"{name.replace('/', '-')}-{version}"
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            if shutil.which("npm") is None:
                raise RuntimeError(f"npm is not installed, and {name} is fetched with it")
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                (Path(temporary) / "tree").mkdir()
                (Path(temporary) / "tree" / "package.json").write_text(json.dumps({"private": True}))
                command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
                done = subprocess.run(
                    [*command, f"{name}@{version}"], cwd=Path(temporary) / "tree", capture_output=True, text=True,
                    check=False,
                )  # fmt: skip
                if done.returncode != 0:
                    raise RuntimeError(f"npm could not fetch {name}: {done.stderr.strip()[-500:]}")
                (Path(temporary) / "tree").rename(folder)
    return folder / "node_modules" / name


def node() -> Path:
    """Node 22. :raises RuntimeError: if it can't be had"""
    name = f"node-{_PLATFORMS.get(sys.platform)}-{_MACHINES.get(platform.machine().lower())}"
    return provide(name, NODE) / "bin" / ("node.exe" if sys.platform == "win32" else "node")
