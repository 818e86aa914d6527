# mypy: ignore-errors
# ruff: noqa: ANN201, D103, I001, PT017, UP031
"""Run by the interpreter under test, after ``pip install`` of the wheel alone: the first things that a user does.

Prints one JSON object a check: ``{"name": …, "ok": …, "message": …, "seconds": …}``. It runs on the oldest CPython that
the bindings support. ``smoke.py PROFILE [EXPECTED_RELEASE_JSON [KNOWN_FAILURE…]]``.
"""

import io
import json
import pkgutil
import re
import sys
import time
import traceback
from fnmatch import fnmatchcase

PROFILE = sys.argv[1]
EXPECTED = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
KNOWN = sys.argv[3:]

MODULE = """
func.func @add(%a: i32, %b: i32) -> i32 attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0 : i32
  %0 = arith.addi %a, %zero : i32
  %1 = arith.addi %0, %b : i32
  return %1 : i32
}
"""

TO_LLVM = "builtin.module(convert-func-to-llvm,convert-arith-to-llvm,reconcile-unrealized-casts)"


def check_import():
    import mlir.ir  # noqa: F401


def check_release():
    import mlir._release  # noqa: F401
    from importlib.resources import files

    found = json.loads(files("mlir").joinpath("_release.json").read_text(encoding="utf-8"))
    wrong = {key: (found.get(key), value) for key, value in EXPECTED.items() if found.get(key) != value}
    assert not wrong, "mlir/_release.json, found and expected: %r" % wrong


def check_parse_and_print():
    from mlir.ir import Context, Module

    with Context():
        module = Module.parse(MODULE)
        assert module.operation.verify()
        assert "arith.addi" in str(module), str(module)


def check_build():
    """Build IR with the dialects' builders instead of parsing it."""
    from mlir.dialects import arith, func
    from mlir.ir import Context, InsertionPoint, IntegerType, Location, Module

    with Context(), Location.unknown():
        module = Module.create()
        i32 = IntegerType.get_signless(32)
        with InsertionPoint(module.body):
            function = func.FuncOp("twice", ([i32], [i32]))
            with InsertionPoint(function.add_entry_block()):
                argument = function.arguments[0]
                func.ReturnOp([arith.AddIOp(argument, argument).result])
        assert module.operation.verify(), str(module)


def check_passes():
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    with Context():
        module = Module.parse(MODULE)
        PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        assert str(module).count("arith.addi") == 1, str(module)


def check_bytecode():
    from mlir.ir import Context, Module

    with Context():
        module = Module.parse(MODULE)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        assert str(Module.parse(buffer.getvalue())) == str(module)


def check_error():
    """A wrong module is an exception with a place in it, not a crash."""
    from mlir.ir import Context, MLIRError, Module

    with Context():
        try:
            Module.parse("func.func @f( {")
        except MLIRError as error:
            assert "1:" in str(error) or "-" in str(error), str(error)
        else:
            raise AssertionError("a wrong module was accepted")


def check_context_left_entered():
    """As in a notebook: a Context is entered and never left, and the process ends all the same."""
    import subprocess

    program = "from mlir.ir import Context; Context().__enter__()"
    done = subprocess.run([sys.executable, "-I", "-c", program], stderr=subprocess.PIPE)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


def check_dialects():
    """Every dialect's module can be imported."""
    from importlib import import_module

    import mlir.dialects

    names = [module.name for module in pkgutil.iter_modules(mlir.dialects.__path__) if not module.name.startswith("_")]
    assert len(names) >= 25, names
    broken = {}
    for name in names:
        try:
            import_module("mlir.dialects." + name)
        except Exception as error:
            broken[name] = repr(error)
    assert not broken, broken


def check_lowering_to_llvm():
    from mlir.dialects import llvm
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    with Context():
        module = Module.parse(MODULE)
        PassManager.parse(TO_LLVM).run(module.operation)
        assert "llvm.func @add" in str(module), str(module)
        if hasattr(llvm, "translate_module_to_llvmir"):
            ir = llvm.translate_module_to_llvmir(module.operation)
            assert "define i32 @add" in ir, ir


def check_execution_engine():
    import ctypes

    from mlir.execution_engine import ExecutionEngine
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    with Context():
        module = Module.parse(MODULE)
        PassManager.parse(TO_LLVM).run(module.operation)
        engine = ExecutionEngine(module)
        a, b, result = ctypes.c_int32(40), ctypes.c_int32(2), ctypes.c_int32(0)
        engine.invoke("add", ctypes.pointer(a), ctypes.pointer(b), ctypes.pointer(result))
        assert result.value == 42, result.value


USES_RUNNER = """
func.func private @rtclock() -> f64
func.func @elapsed() -> i64 attributes {llvm.emit_c_interface} {
  %begin = call @rtclock() : () -> f64
  %end = call @rtclock() : () -> f64
  %0 = arith.cmpf oge, %end, %begin : f64
  %1 = arith.extui %0 : i1 to i64
  return %1 : i64
}
"""


def check_runner_libraries():
    """Each is loaded by its full path alone, and all serve an ExecutionEngine; nothing on the PATH helps."""
    import ctypes
    import os
    import subprocess
    import tempfile
    from pathlib import Path

    from mlir._mlir_libs import get_lib_dirs
    from mlir.execution_engine import ExecutionEngine
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    pattern = re.compile(r"(?:lib)?mlir_\w+\.(?:so|dylib|dll)")
    paths = [path for folder in get_lib_dirs() for path in sorted(Path(folder).iterdir())]
    libraries = [str(path) for path in paths if pattern.match(path.name)]
    assert len(libraries) >= 4, paths
    clean = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    with tempfile.TemporaryDirectory() as folder:
        for library in libraries:  # in a process of its own, so that none was loaded before it
            command = [sys.executable, "-I", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", library]
            done = subprocess.run(command, cwd=folder, env=clean, stderr=subprocess.PIPE)
            assert done.returncode == 0, (library, done.stderr)
    with Context():
        module = Module.parse(USES_RUNNER)
        PassManager.parse(TO_LLVM).run(module.operation)
        engine = ExecutionEngine(module, shared_libs=libraries)
        result = ctypes.c_int64(-1)
        engine.invoke("elapsed", ctypes.pointer(result))
        assert result.value == 1, result.value


def check_no_execution_engine():
    """A wheel without code generators raises an ImportError; it does not crash."""
    try:
        import mlir.execution_engine  # noqa: F401
    except ImportError:
        return
    raise AssertionError("mlir.execution_engine can be imported in the core profile")


def check_other_processors():
    """An object file for each of several processors, and an error for one that there is not."""
    from mlir._release import compile_llvm_ir
    from mlir.dialects import llvm
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    ir = "define i32 @add(i32 %a, i32 %b) {\n  %r = add i32 %a, %b\n  ret i32 %r\n}\n"
    if hasattr(llvm, "translate_module_to_llvmir"):
        with Context():
            module = Module.parse(MODULE)
            PassManager.parse(TO_LLVM).run(module.operation)
            ir = llvm.translate_module_to_llvmir(module.operation)
    machines = {"x86_64": (62, "addl|leal"), "aarch64": (183, "add\tw0"), "riscv64": (243, "addw?\ta0")}
    for arch, (number, instruction) in machines.items():
        triple = f"{arch}-unknown-linux-gnu"
        made = compile_llvm_ir(ir, triple)
        found = int.from_bytes(made[18:20], "little")
        assert (made[:4], found) == (b"\x7fELF", number), (triple, made[:20])
        text = compile_llvm_ir(ir, triple, assembly=True).decode()
        assert re.search(instruction, text), (triple, text)
    assert "add.s32" in compile_llvm_ir(ir, "nvptx64-nvidia-cuda", assembly=True).decode()
    for wrong in ((ir, "nvptx64-nvidia-cuda"), (ir, "pdp11-dec-unix"), ("define i32 @", "riscv64-unknown-linux-gnu")):
        try:
            compile_llvm_ir(*wrong)
        except ValueError:
            continue
        raise AssertionError("%r was compiled" % (wrong,))


CHECKS = [
    check_import,
    check_release,
    check_parse_and_print,
    check_build,
    check_passes,
    check_bytecode,
    check_error,
    check_context_left_entered,
    check_dialects,
    check_lowering_to_llvm,
    *([check_no_execution_engine] if PROFILE == "core" else [check_execution_engine, check_runner_libraries]),
    *([check_other_processors] if PROFILE == "all" else []),
]


def main():
    failed = 0
    for check in CHECKS:
        start = time.time()
        message = ""
        try:
            check()
        except BaseException:  # also SystemExit: nothing may end this process early
            message = traceback.format_exc()
        name = check.__name__[len("check_") :]
        failed += bool(message) and not any(fnmatchcase(name, pattern) for pattern in KNOWN)
        result = {"name": name, "ok": not message, "message": message}
        print(json.dumps(dict(result, seconds=round(time.time() - start, 3))), flush=True)
    print(json.dumps({"name": "end", "ok": True, "message": "", "seconds": 0}), flush=True)
    return 1 if failed else 0


sys.exit(main())
