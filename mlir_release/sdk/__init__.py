"""Installed LLVM+MLIR trees at one revision: import, build, describe."""
