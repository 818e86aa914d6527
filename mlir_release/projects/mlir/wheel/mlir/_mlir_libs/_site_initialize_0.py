"""Run by upstream's ``mlir._mlir_libs`` when the bindings are first imported."""

from mlir._release import warn_if_mixed

warn_if_mixed()
