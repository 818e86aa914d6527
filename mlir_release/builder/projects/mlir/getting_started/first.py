from mlir.dialects import arith, func
from mlir.ir import Context, InsertionPoint, IntegerType, Location, Module

with Context(), Location.unknown():
    module = Module.create()
    i32 = IntegerType.get_signless(32)
    with InsertionPoint(module.body):
        function = func.FuncOp("add", ([i32, i32], [i32]))
    with InsertionPoint(function.add_entry_block()):
        func.ReturnOp([arith.addi(*function.arguments)])
print(module)
