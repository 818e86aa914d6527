#!/usr/bin/env python3
"""Lock what wheels are built with, by hash, for every platform: ``mlir_release/ground/python/builds.txt``.

Usage: ``python tools/lock_builds.py``. ``requirements/builds.in`` names the tools. Of the binding libraries, upstream's
tree says which version a revision needs, so all that it could ask for are locked, the newest of each minor version
among them. uv resolves, from the package index that it is configured with.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "mlir_release" / "ground" / "python" / "builds.txt"
INPUT = ROOT / "requirements" / "builds.in"

#: The oldest version of each that a supported LLVM's requirements allow.
LIBRARIES = {"nanobind": (2, 4), "pybind11": (2, 10)}

#: The oldest CPython that wheels are built for.
OLDEST = "3.10"

_HEAD = """\
# What wheels are built with, by hash. Written by tools/lock_builds.py; mlir_release/ground/python/locked.py reads it.
"""


def main() -> None:
    """See the module."""
    uv = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-emit-index-url", "--no-header"]
    uv += [f"--python-version={OLDEST}"]
    # lit runs with the toolkit's own interpreter, too: in one version, with one psutil.
    toolkit = (ROOT / "requirements" / "toolkit.txt").read_text(encoding="utf-8")
    shared = re.findall(r"^(?:lit|psutil)==\S+", toolkit, re.MULTILINE)
    texts = [_HEAD, _run([*uv, "-"], INPUT.read_text(encoding="utf-8") + "\n".join(shared) + "\n")]
    for name, oldest in LIBRARIES.items():
        for version in _versions(name, oldest):
            texts.append(_run([*uv, "--no-deps", "--no-annotate", "-"], f"{name}=={version}\n"))
    LOCK.write_text("".join(texts), encoding="utf-8")


def _versions(name: str, oldest: tuple[int, int]) -> list[str]:
    """All final versions that the index has, from the oldest on."""
    listed = _run([sys.executable, "-m", "pip", "index", "versions", name])
    (line,) = re.findall(r"^Available versions: (.+)$", listed, re.MULTILINE)
    found = [version for version in line.split(", ") if re.fullmatch(r"\d+(\.\d+)+", version)]
    return [version for version in found if tuple(map(int, version.split(".")[:2])) >= oldest]


def _run(command: list[str], text: str = "") -> str:
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
