import ctypes

import numpy as np
from mlir.execution_engine import ExecutionEngine
from mlir.ir import Context, Module
from mlir.passmanager import PassManager
from mlir.runtime import get_ranked_memref_descriptor

SOURCE = """
func.func @matmul(%a: memref<4x8xf32>, %b: memref<8x4xf32>, %c: memref<4x4xf32>)
    attributes { llvm.emit_c_interface } {
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x4xf32>) outs(%c : memref<4x4xf32>)
  return
}
"""
PASSES = "convert-linalg-to-loops,convert-scf-to-cf,convert-to-llvm,reconcile-unrealized-casts"

a = np.arange(32, dtype=np.float32).reshape(4, 8)
b = np.ones((8, 4), dtype=np.float32)
c = np.zeros((4, 4), dtype=np.float32)

with Context():
    module = Module.parse(SOURCE)
    PassManager.parse(f"builtin.module({PASSES})").run(module.operation)
    engine = ExecutionEngine(module)
    # Each argument is a pointer to a pointer to an array's descriptor.
    descriptors = [get_ranked_memref_descriptor(array) for array in (a, b, c)]
    engine.invoke("matmul", *(ctypes.pointer(ctypes.pointer(each)) for each in descriptors))
print(c[:, 0], np.array_equal(c, a @ b))
