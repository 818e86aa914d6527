"""Run by upstream's ``mlir._mlir_libs`` when the bindings are first imported."""

from mlir._release import REGALLOC_MODEL, set_llvm_option, warn_if_mixed

warn_if_mixed()
if REGALLOC_MODEL:
    set_llvm_option("regalloc-enable-advisor", "release")
