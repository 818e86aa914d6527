"""The execution engine with NumPy, for builds that have it; as ``right.py``."""

import ctypes

import numpy as np
from mlir.dialects import llvm
from mlir.execution_engine import ExecutionEngine
from mlir.ir import Context, DenseElementsAttr, Module
from mlir.passmanager import PassManager
from mlir.runtime import get_ranked_memref_descriptor, ranked_memref_to_numpy

MODULE = """
func.func @double(%array: memref<4xf32>) attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  scf.for %i = %zero to %four step %one {
    %element = memref.load %array[%i] : memref<4xf32>
    %sum = arith.addf %element, %element : f32
    memref.store %sum, %array[%i] : memref<4xf32>
  }
  return
}
"""
TO_LLVM = (
    "builtin.module(convert-scf-to-cf,finalize-memref-to-llvm,convert-arith-to-llvm,convert-func-to-llvm,"
    "convert-cf-to-llvm,reconcile-unrealized-casts)"
)


def main() -> None:
    """Compile a function, and call it with an array."""
    with Context():
        module = Module.parse(MODULE)
        PassManager.parse(TO_LLVM).run(module.operation)
        ir: str = llvm.translate_module_to_llvmir(module.operation)
        assert "@double" in ir
        engine = ExecutionEngine(module, opt_level=2, shared_libs=[])
        array = np.arange(4, dtype=np.float32)
        descriptor = ctypes.pointer(ctypes.pointer(get_ranked_memref_descriptor(array)))
        engine.invoke("double", descriptor)
        assert list(ranked_memref_to_numpy(descriptor[0])) == [0, 2, 4, 6]
        print(DenseElementsAttr.get(array))


main()
