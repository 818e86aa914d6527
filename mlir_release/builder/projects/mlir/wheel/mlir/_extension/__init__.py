"""Where this ``mlir`` has what its extensions are built with: ``find_package(MLIRExtension)``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["cmake_dir", "root"]


def root() -> str:
    """The folder for ``CMAKE_PREFIX_PATH``."""
    return str(Path(__file__).resolve().parent)


def cmake_dir() -> str:
    """The folder of ``MLIRExtensionConfig.cmake``: for ``MLIRExtension_DIR``."""
    return str(Path(root(), "lib", "cmake", "MLIRExtension"))
