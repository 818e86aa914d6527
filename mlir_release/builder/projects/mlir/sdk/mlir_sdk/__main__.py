"""``python -m mlir_sdk``: print where the SDK is, for build scripts."""

from __future__ import annotations

import argparse
import json
import runpy
from pathlib import Path

from . import cmake_dir, info, root


def main() -> None:
    """Print one folder, or what the SDK is."""
    parser = argparse.ArgumentParser(prog="python -m mlir_sdk", description="Print the SDK's folder.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--cmakedir", action="store_true", help="print the folder of MLIRConfig.cmake, for MLIR_DIR")
    which.add_argument("--version", action="store_true", help="print the version of mlir-sdk")
    which.add_argument("--info", action="store_true", help="print what the SDK is, as JSON")
    chosen = parser.parse_args()
    if chosen.cmakedir:
        print(cmake_dir())
    elif chosen.version:
        print(info()["version"])
    elif chosen.info:
        print(json.dumps(info(), indent=2, sort_keys=True))
    else:
        print(root())


def llvm_config() -> None:
    """The program ``llvm-config`` on the environment's PATH: that of the SDK."""
    runpy.run_path(str(Path(root(), "bin", "llvm-config")), run_name="__main__")


if __name__ == "__main__":
    main()
