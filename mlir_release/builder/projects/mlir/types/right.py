# ruff: noqa: PT017
"""Ordinary uses of the bindings: the program runs, and type checkers have nothing to say about it."""

from mlir.dialects import arith, func, linalg, scf, tensor
from mlir.ir import (
    Context,
    F32Type,
    FunctionType,
    IndexType,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Location,
    MLIRError,
    Module,
    Operation,
    RankedTensorType,
    StringAttr,
    UnitAttr,
    Value,
    WalkResult,
)
from mlir.passmanager import PassManager


def build() -> Module:
    """Functions made by the dialects' builders, refined ones and generated ones."""
    module = Module.create()
    i32, f32 = IntegerType.get_signless(32), F32Type.get()
    with InsertionPoint(module.body):
        function = func.FuncOp("twice", ([i32], [i32]), visibility="public")
        function.attributes["llvm.emit_c_interface"] = UnitAttr.get()
        with InsertionPoint(function.add_entry_block()):
            argument = function.arguments[0]
            total = arith.addi(argument, arith.AddIOp(argument, argument).result)
            func.ReturnOp([total])

        matrix = RankedTensorType.get([4, 4], f32)

        @func.FuncOp.from_py_func(matrix, matrix, name="product")
        def product(left: Value, right: Value):  # noqa: ANN202
            empty = tensor.empty([4, 4], f32)
            linalg.fill(arith.constant(f32, 0.0), outs=[empty])
            return linalg.matmul(left, right, outs=[empty])

        @func.FuncOp.from_py_func(i32)
        def loop(start: Value):  # noqa: ANN202
            lower, upper, step = (arith.constant(IndexType.get(), bound) for bound in (0, 8, 1))
            again = scf.ForOp(lower, upper, step, [start])
            with InsertionPoint(again.body):
                scf.YieldOp([arith.addi(again.inner_iter_args[0], start)])
            return again.results[0]

    return module


def names(module: Module) -> list[str]:
    """What is in a module, by several ways to get there."""
    found = []

    def visit(operation: Operation) -> WalkResult:
        found.append(operation.name)
        return WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in module.body.operations:
        found += [
            inner.operation.name for region in op.regions for block in region.blocks for inner in block.operations
        ]
        if "sym_name" in op.attributes:
            found.append(StringAttr(op.attributes["sym_name"]).value)
        if isinstance(op, func.FuncOp):
            found += [str(type_) for type_ in FunctionType(op.type).inputs]
    return found


def main() -> None:
    """Build, parse, transform and print."""
    with Context() as context, Location.unknown(context):
        context.allow_unregistered_dialects = True
        module = build()
        assert module.operation.verify()
        assert "twice" in names(module)
        answer = Operation.parse("%0 = arith.constant 42 : i32").operation.attributes["value"]
        assert IntegerAttr(answer).value == 42
        text: str = module.operation.get_asm(enable_debug_info=True)
        assert "linalg.matmul" in text, text
        PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        try:
            Module.parse("func.func @f( {")
        except MLIRError as error:
            assert error.error_diagnostics
            print(error.message)
        else:
            raise AssertionError("a wrong module was accepted")


main()
