# mypy: ignore-errors
# ruff: noqa: D103
"""Run by the interpreter under test: one thing done with the installed ``mlir``, text from stdin to stdout.

    driver.py round-trip              the module with locations, a line of dashes, the same after bytecode
    driver.py run PIPELINE yes|no     the module after the passes, printed with or without locations
    driver.py translate               LLVM IR; exit code 3 if these bindings cannot translate

It runs on the oldest CPython that the bindings support.
"""

import io
import sys

from mlir.ir import Context, Module

SEPARATOR = "-" * 60


def main() -> int:
    text = sys.stdin.read()
    with Context():
        module = Module.parse(text)
        if sys.argv[1] == "round-trip":
            buffer = io.BytesIO()
            module.operation.write_bytecode(buffer)
            print(module.operation.get_asm(enable_debug_info=True))
            print(SEPARATOR)
            print(Module.parse(buffer.getvalue()).operation.get_asm(enable_debug_info=True))
        elif sys.argv[1] == "run":
            from mlir.passmanager import PassManager

            PassManager.parse(sys.argv[2]).run(module.operation)
            print(module.operation.get_asm(enable_debug_info=sys.argv[3] == "yes"))
        else:
            from mlir.dialects import llvm

            if not hasattr(llvm, "translate_module_to_llvmir"):
                return 3
            print(llvm.translate_module_to_llvmir(module.operation))
    return 0


sys.exit(main())
