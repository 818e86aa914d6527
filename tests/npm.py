"""What tests need from npm, fetched once into the cache: programs, and descriptions of GitHub's interfaces."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from mlir_release.ground.storage.cache import cache_directory, locked

#: Node itself is on npm, too: one package for each platform.
NODE = "22.23.3"
RENOVATE = "44.121.2"
_PLATFORMS = {"linux": "linux", "darwin": "darwin", "win32": "win"}
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def provide(name: str, version: str) -> Path:
    """The folder of ``name``'s package, installed with what it needs. :raises RuntimeError: if it can't be had"""
    folder = cache_directory() / "npm" / f"{name.replace('/', '-')}-{version}"
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                tree = Path(temporary) / "tree"
                tree.mkdir()
                (tree / "package.json").write_text(json.dumps({"private": True}))
                _npm(tree, "install", "--no-audit", "--no-fund", "--ignore-scripts", f"{name}@{version}")
                tree.rename(folder)
    return folder / "node_modules" / name


def package(name: str, version: str, integrity: str) -> Path:
    """The folder of a package that needs no others, checked by its digest as npm's lock files have it.

    :raises RuntimeError: if it can't be had, or is another one
    """
    folder = cache_directory() / "npm" / f"{name}-{version}-alone"
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                packed = Path(temporary) / _npm(Path(temporary), "pack", f"{name}@{version}").split()[-1]
                found = f"sha512-{base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()}"
                if found != integrity:
                    raise RuntimeError(f"npm's {name} {version} is another one: {found}, and not {integrity}")
                with tarfile.open(packed) as archive:
                    archive.extractall(temporary, filter="data")
                (Path(temporary) / "package").rename(folder)
    return folder


def file(name: str, version: str, member: str) -> Path:
    """One file of ``name``'s package, without the rest of it. :raises RuntimeError: if it can't be had"""
    path = cache_directory() / "npm" / f"{name.replace('/', '-')}-{version}-{Path(member).name}"
    with locked(path.with_suffix(".lock")):
        if not path.is_file():
            with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
                packed = _npm(Path(temporary), "pack", f"{name}@{version}").split()[-1]
                with tarfile.open(Path(temporary) / packed) as archive:
                    content = archive.extractfile(f"package/{member}")
                    assert content is not None
                    (Path(temporary) / "file").write_bytes(content.read())
                (Path(temporary) / "file").replace(path)
    return path


def renovate(program: str) -> list[str]:
    """The command of one of Renovate's programs, ``renovate`` or ``config-validator``: 620 packages.

    :raises RuntimeError: if it can't be had
    """
    found = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    if found is None:
        raise RuntimeError("Node comes with the environment of the tests, and is not there")
    return [found, str(provide("renovate", RENOVATE) / "dist" / f"{program}.js")]


def _npm(folder: Path, *args: str) -> str:
    program = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    if program is None:
        raise RuntimeError(f"npm is not installed, and {args[-1]} is fetched with it")
    done = subprocess.run([program, "--silent", *args], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"npm could not fetch {args[-1]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def node() -> Path:
    """Node 22. :raises RuntimeError: if it can't be had"""
    name = f"node-{_PLATFORMS.get(sys.platform)}-{_MACHINES.get(platform.machine().lower())}"
    return provide(name, NODE) / "bin" / ("node.exe" if sys.platform == "win32" else "node")
