"""The runtimes of ``targets.toml``, and the names that other tools have for their platforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.model.matrix import Matrix
from mlir_release.model.targets import TARGETS_FILE

if TYPE_CHECKING:
    from mlir_release.model.cpython import CPython
    from mlir_release.model.targets import Runtime

ROOT = Path(__file__).parents[2]
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))

#: Each runtime that wheels are built for.
RUNTIMES = {wheel.runtime.name: wheel.runtime for wheel in MATRIX.wheels}

#: uv's name of each platform (``--python-platform``), at its runtime's floor.
UV_PLATFORMS = {
    "linux-x86_64": "x86_64-manylinux_2_28",
    "linux-aarch64": "aarch64-manylinux_2_28",
    "macos-arm64": "aarch64-apple-darwin",
    "macos-x86_64": "x86_64-apple-darwin",
    "windows-x64": "x86_64-pc-windows-msvc",
}


def pythons_of(runtime: Runtime) -> list[CPython]:
    """Every CPython that wheels of a runtime are built for, in all its rows."""
    return sorted({wheel.python for wheel in MATRIX.wheels if wheel.runtime.name == runtime.name})
