"""mlir-release: ship wheels of the MLIR Python bindings, and walk a downstream's LLVM forward."""

__version__ = "1.0.0rc1"
