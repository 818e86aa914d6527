"""``python -m mlir._extension``: print where the CMake package is, for build scripts."""

from __future__ import annotations

import argparse

from . import cmake_dir, root

parser = argparse.ArgumentParser(prog="python -m mlir._extension", description="Print the folder of the CMake package.")
parser.add_argument("--cmakedir", action="store_true", help="of MLIRExtensionConfig.cmake, for MLIRExtension_DIR")
print(cmake_dir() if parser.parse_args().cmakedir else root())
