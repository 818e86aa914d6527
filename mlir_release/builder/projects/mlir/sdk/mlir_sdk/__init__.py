"""LLVM and MLIR of one revision, to build against: headers, libraries, CMake packages and code generators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["cmake_dir", "info", "root"]


def root() -> str:
    """The folder that holds ``include/``, ``lib/`` and ``bin/``: for ``CMAKE_PREFIX_PATH``."""
    return str(Path(__file__).resolve().parent)


def cmake_dir() -> str:
    """The folder of ``MLIRConfig.cmake``: for ``MLIR_DIR``."""
    return str(Path(root(), "lib", "cmake", "mlir"))


def info() -> dict[str, Any]:
    """What the SDK is: LLVM's version and revision, platform, code generators, what its users need."""
    found: dict[str, Any] = json.loads(Path(root(), "_mlir_sdk.json").read_text(encoding="utf-8"))
    return found
