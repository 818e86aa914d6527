# ruff: noqa: D103, F401, I001
"""Wrong uses of the bindings: mypy must report the named error for each such line, and no other error. Never run."""

from mlir.dialects import arith, func, llvm, transform
from mlir.dialects import funk  # type-error: attr-defined
from mlir.ir import Context, Module, Type, Value
from mlir.passmanager import PassManager


def wrong(function: func.FuncOp, value: Value, element: Type) -> None:
    number: int = Module.parse("module {}")  # type-error: assignment
    Module.parse(42)  # type-error: call-overload
    Module.parze("module {}")  # type-error: attr-defined
    Context().load_all_the_dialects()  # type-error: attr-defined
    function.add_entry_blocks()  # type-error: attr-defined
    value.replace_all_uses()  # type-error: attr-defined
    arith.addj(value, value)  # type-error: attr-defined
    llvm.PointerType.get(address_space="one")  # type-error: arg-type
    transform.AnyOpType.get(number)  # type-error: arg-type
    PassManager.parse("builtin.module()").run("module {}")  # type-error: arg-type
