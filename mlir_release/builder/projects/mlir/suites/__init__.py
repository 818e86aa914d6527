"""What the suites of MLIR's Python bindings are made of."""
