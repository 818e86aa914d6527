# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN201, ANN204, D102, D103
"""Run by the interpreter under test: a fixed amount of work, one phase after another.

    measure.py            prints the peak of resident memory
    measure.py counting   under cachegrind: forks after each phase

The forked process ends at once. So cachegrind writes a file of its number, with all that was counted until then. Prints
one JSON object a phase: ``{"name": …, "process": …, "problem": …, "missing": …}``. ``process`` is the number of the
fork after it. The first, ``start``, is before the first phase; the last is ``end``, with ``peak``, in bytes.

If the work of a phase has to change, give it another name: its line in the charts then begins anew. It runs on the
oldest CPython that the bindings support.
"""

import contextlib
import ctypes
import json
import os
import sys
import traceback
from pathlib import Path

with contextlib.suppress(ImportError):
    import resource  # not on Windows
with contextlib.suppress(ImportError):
    import numpy  # noqa: F401  # which mlir imports: NumPy's own share is not counted

#: How many copies there are of each file's one function: where IR is transformed, and where it is compiled.
COPIES, COMPILED = {"scalars": 30, "loops": 6, "tensors": 6}, {"scalars": 1, "loops": 1, "tensors": 1}

TO_LLVM = """builtin.module(convert-linalg-to-loops,lower-affine,convert-scf-to-cf,expand-strided-metadata,
    finalize-memref-to-llvm,convert-cf-to-llvm,convert-arith-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts)"""


def read_corpus(copies):
    texts = []
    for name, count in copies.items():
        text = Path(__file__).with_name(name + ".mlir").read_text(encoding="utf-8")
        head, at, body = text.partition("func.func")
        texts.append(head)
        texts += [(at + body).replace("@" + name, f"@{name}{number}") for number in range(count)]
    return "\n".join(texts)


class Work:
    """The phases in their order; later ones need earlier ones."""

    def __init__(self):
        self.text = read_corpus(COPIES)

    def do_import(self):
        import mlir.ir
        import mlir.passmanager  # noqa: F401
        from mlir.dialects import arith, func  # noqa: F401

    def do_context(self):
        from mlir.ir import Context

        # A context's tables hash addresses: in one alone, counts differ by up to 2 % from place to place.
        self.contexts = [Context() for _ in range(4)]
        for context in self.contexts:
            context.enable_multithreading(False)
            context.load_all_available_dialects()

    def do_parse(self):
        from mlir.ir import Module

        self.modules = [Module.parse(self.text, context) for context in self.contexts]

    def do_build(self):
        """Build operations with the dialects' builders."""
        from mlir.dialects import arith, func
        from mlir.ir import InsertionPoint, IntegerType, Location, Module

        with self.contexts[0], Location.unknown():
            module = Module.create()
            i32 = IntegerType.get_signless(32)
            for number in range(50):
                with InsertionPoint(module.body):
                    function = func.FuncOp(f"f{number}", ([i32, i32], [i32]))
                with InsertionPoint(function.add_entry_block()):
                    value, other = function.arguments
                    for _ in range(5):
                        value = arith.AddIOp(arith.MulIOp(value, other).result, value).result
                    func.ReturnOp([value])

    def do_verify(self):
        for module in self.modules:
            assert module.operation.verify()

    def do_print(self):
        assert len(str(self.modules[0])) > 10000

    def do_canonicalize(self):
        for module in self.modules:
            self.run(module, "builtin.module(canonicalize)")

    def do_lower(self):
        self.run(self.modules[0], TO_LLVM)

    def do_jit(self):
        """Lower, optimize and compile a small module, and run it."""
        from mlir.execution_engine import ExecutionEngine
        from mlir.ir import Module

        module = Module.parse(read_corpus(COMPILED), self.contexts[0])
        self.run(module, TO_LLVM)
        engine = ExecutionEngine(module, opt_level=2)
        result = ctypes.c_int32(0)
        values = [ctypes.c_int32(36), ctypes.c_int32(7), ctypes.c_bool(False)]
        engine.invoke("scalars0", *map(ctypes.pointer, [*values, result]))
        assert result.value == 41, result.value

    def run(self, module, pipeline):
        from mlir.passmanager import PassManager

        with module.context:
            PassManager.parse(pipeline).run(module.operation)


def fork():
    if sys.argv[1:] != ["counting"]:
        return 0
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return process


def tell(name, **found):
    print(json.dumps(dict(found, name=name)), flush=True)


def main():
    work = Work()
    tell("start", process=fork())
    for name in [name for name in vars(Work) if name.startswith("do_")]:
        problem = missing = ""
        try:
            getattr(work, name)()
        except Exception as error:
            # Only this one is in some distributions and not in others.
            if name == "do_jit" and isinstance(error, ImportError):
                missing = str(error)
            else:
                problem = traceback.format_exc()
        tell(name[len("do_") :], process=fork(), problem=problem, missing=missing)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if "resource" in globals() else 0
    tell("end", peak=peak * (1 if sys.platform == "darwin" else 1024))


main()
