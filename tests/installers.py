"""Installers that are on PyPI, each in an environment of its own in the cache."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from mlir_release.ground.storage.cache import cache_directory, locked

#: PDM's extra ``locked``: with hishel 2 it does not start.
REQUIREMENTS = {"pdm": "pdm[locked]==2.29.3", "poetry": "poetry==2.5.1"}


def provide(tool: str) -> Path:
    """The program ``uv`` (of the tests' environment), ``pdm`` or ``poetry``."""
    uv = Path(sys.executable).with_name("uv")
    if tool == "uv":
        return uv
    version = REQUIREMENTS[tool].partition("==")[2]
    folder = cache_directory() / "tools" / f"{tool}-{version}-cp3{sys.version_info.minor}"
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                environment = Path(temporary) / "environment"
                create = ["venv", "--relocatable", "--python", sys.executable, str(environment)]
                install = ["pip", "install", "--python", str(environment), REQUIREMENTS[tool]]
                for command in (create, install):
                    subprocess.run([str(uv), "--quiet", *command], check=True)
                environment.rename(folder)
    return folder / "bin" / tool
