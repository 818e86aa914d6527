"""The toolkit's own distributions, as ``python -m build`` makes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tracked() -> set[str]:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return set(listed.rstrip("\0").split("\0"))


def build(kind: str, tree: Path, output: Path) -> Path:
    """A distribution that is built of a tree, as ``python -m build`` asks setuptools to."""
    output.mkdir(exist_ok=True)
    program = f"import sys, setuptools.build_meta as backend; print(backend.build_{kind}(sys.argv[1]))"
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-c", program, str(output)]
    done = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True, text=True)
    return output / done.stdout.splitlines()[-1]
