"""How fast two builds of one MLIR are: parsing and printing, passes, and compiling kernels for the execution engine.

    python benchmarks/speed.py FOLDER_A FOLDER_B [--runs 15] [--instructions] [--json FILE]

Each folder holds a package ``mlir``, as ``pip install --target`` makes it from a wheel, for the interpreter that runs
this. The table has ratios A/B of processor time. The two run in turn, each run in a process of its own, and a ratio is
taken pair by pair, so that it holds on a machine whose speed drifts. ``--instructions`` has valgrind count the
instructions of one repetition, too: no load of the machine changes them. "Same" says whether both made the same text,
bytecode and object code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from collections.abc import Callable

#: From kernels on tensors to LLVM's dialect, as a compiler of arrays does it.
LOWER = (
    "builtin.module(canonicalize,cse,one-shot-bufferize{bufferize-function-boundaries},"
    "func.func(convert-linalg-to-loops,lower-affine),canonicalize,cse,convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,convert-to-llvm,reconcile-unrealized-casts,canonicalize,cse)"
)
TILE = (
    "builtin.module(canonicalize,cse,one-shot-bufferize{bufferize-function-boundaries},"
    "func.func(convert-linalg-to-affine-loops,affine-loop-tile{tile-size=8},affine-loop-fusion,"
    "affine-scalrep,affine-loop-unroll{unroll-factor=4}),canonicalize,cse,lower-affine,sccp,canonicalize,"
    "loop-invariant-code-motion,symbol-dce)"
)


def kernels(count: int) -> str:
    """A module with ``count`` functions on tensors: a product of matrices, an elementwise map and a reduction."""
    functions = []
    for number in range(count):
        m, n, k = 16 + number % 7, 24 + number % 5, 32 + number % 3
        functions.append(f"""
  func.func @kernel_{number}(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>, %s: f32) -> (tensor<{m}x{n}xf32>, f32) {{
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %empty = tensor.empty() : tensor<{m}x{n}xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    %product = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
                             outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
    %mapped = linalg.generic {{
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}}
        ins(%product : tensor<{m}x{n}xf32>) outs(%empty : tensor<{m}x{n}xf32>) {{
      ^bb0(%in: f32, %out: f32):
        %scaled = arith.mulf %in, %s : f32
        %large = arith.cmpf ogt, %scaled, %one : f32
        %squared = arith.mulf %scaled, %scaled : f32
        %chosen = arith.select %large, %squared, %scaled : f32
        %sum = arith.addf %chosen, %one : f32
        linalg.yield %sum : f32
    }} -> tensor<{m}x{n}xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %cm = arith.constant {m} : index
    %cn = arith.constant {n} : index
    %total = scf.for %i = %c0 to %cm step %c1 iter_args(%outer = %zero) -> (f32) {{
      %row = scf.for %j = %c0 to %cn step %c1 iter_args(%inner = %outer) -> (f32) {{
        %element = tensor.extract %mapped[%i, %j] : tensor<{m}x{n}xf32>
        %next = arith.addf %inner, %element : f32
        scf.yield %next : f32
      }}
      scf.yield %row : f32
    }}
    return %mapped, %total : tensor<{m}x{n}xf32>, f32
  }}""")
    return "module {" + "".join(functions) + "\n}\n"


def parse(size: int) -> bytes:
    """Text to operations, to text and bytecode, and back."""
    from io import BytesIO

    from mlir.ir import Context, Module

    with Context():
        module = Module.parse(kernels(size))
        Module.parse(str(module))
        written = BytesIO()
        module.operation.write_bytecode(written)
        again = Module.parse(written.getvalue())
        return str(again.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)).encode()


def run_passes(size: int, pipeline: str) -> bytes:
    """Parse and run a pipeline."""
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    with Context() as context:
        context.enable_multithreading(False)
        module = Module.parse(kernels(size))
        PassManager.parse(pipeline).run(module.operation)
        return str(module).encode()


def compile_kernels(size: int, level: int) -> bytes:
    """Lower, translate to LLVM's IR, optimize and generate code, twice: for the JIT and for an object file."""
    from mlir.execution_engine import ExecutionEngine
    from mlir.ir import Context, Module
    from mlir.passmanager import PassManager

    with Context() as context, tempfile.TemporaryDirectory() as folder:
        context.enable_multithreading(False)
        module = Module.parse(kernels(size))
        PassManager.parse(LOWER).run(module.operation)
        engine = ExecutionEngine(module, opt_level=level, enable_object_dump=True)
        engine.raw_lookup("kernel_0")  # compiles
        engine.dump_to_object_file(str(Path(folder, "kernels.o")))
        return Path(folder, "kernels.o").read_bytes()


#: What is timed, and how often a run repeats it: about a second on a core of 2.6 GHz.
WORKLOADS: dict[str, tuple[Callable[[], bytes], int]] = {
    "parse and print": (partial(parse, 400), 5),
    "bufferize and lower": (partial(run_passes, 300, LOWER), 2),
    "tile and unroll": (partial(run_passes, 30, TILE), 1),
    "compile, level 0": (partial(compile_kernels, 40, 0), 6),
    "compile, level 1": (partial(compile_kernels, 20, 1), 5),
    "compile, level 2": (partial(compile_kernels, 20, 2), 5),
    "compile, level 3": (partial(compile_kernels, 20, 3), 1),
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One workload; ``times``: A/B of each pair's processor time. ``instructions``: A/B, None if not counted."""

    workload: str
    times: tuple[float, ...]
    instructions: float | None
    same: bool


def work(name: str, times: int) -> None:
    """Do a workload, and print a digest of what it made and the processor time of all threads in seconds."""
    task, _ = WORKLOADS[name]
    task()  # what is done once, such as loading, is not the workload
    made, began = b"", time.process_time()
    for _ in range(times):
        made = task()
    print(hashlib.sha256(made).hexdigest(), time.process_time() - began)


def run(folder: Path, name: str, times: int, *before: str) -> tuple[str, float, str]:
    """A process of its own: the digest, seconds, and what was said of it."""
    from mlir_release.ground.programs.process import capture

    command = [*before, sys.executable, __file__, str(folder), "--work", name, str(times)]
    done = capture(command, environment={**os.environ, "PYTHONPATH": str(folder)})
    if not done.ok:
        sys.exit(f"{name} failed with {folder}: {done.complaint}")
    digest, seconds = done.stdout.split()
    return digest, float(seconds), done.stderr


def count(folder: Path, name: str) -> int:
    """Instructions of one more repetition, which two runs differ by."""

    def all_of(times: int) -> int:
        said = run(
            folder, name, times, "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"
        )[2]
        found = re.search(r"I\s+refs:\s+([\d,]+)", said)
        if found is None:
            sys.exit(f"valgrind counted nothing: {said[-500:]}")
        return int(found[1].replace(",", ""))

    return all_of(1) - all_of(0)


def compare(name: str, a: Path, b: Path, *, runs: int, instructions: bool) -> Comparison:
    """A B, B A, A B, …"""
    ratios, digests = [], set()
    for number in range(runs):
        order = (a, b) if number % 2 == 0 else (b, a)
        found = {folder: run(folder, name, WORKLOADS[name][1]) for folder in order}
        ratios.append(found[a][1] / found[b][1])
        digests |= {digest for digest, _, _ in found.values()}
    counted = count(a, name) / count(b, name) if instructions else None
    return Comparison(workload=name, times=tuple(ratios), instructions=counted, same=len(digests) == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="two folders with a package mlir")
    parser.add_argument("--runs", type=int, default=15, help="pairs of runs of each workload (default: 15)")
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions, too: needs valgrind, takes long"
    )
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="a workload; may be repeated")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    parser.add_argument("--work", nargs=2, metavar=("WORKLOAD", "TIMES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work[0], int(arguments.work[1]))
        return
    from mlir_release.ground.console import console

    a, b = (folder.absolute() for folder in arguments.folders)
    found = [
        compare(name, a, b, runs=arguments.runs, instructions=arguments.instructions)
        for name in arguments.only or WORKLOADS
    ]
    columns = ["workload", ">time A/B, median", ">least", ">most", ">instructions A/B", "same"]
    rows = [
        [
            one.workload, f"{statistics.median(one.times):.3f}", f"{min(one.times):.3f}", f"{max(one.times):.3f}",
            f"{one.instructions:.3f}" if one.instructions else "", "yes" if one.same else "NO",
        ]
        for one in found
    ]  # fmt: skip
    console.table(columns, rows, title=f"A: {a}, B: {b}; {arguments.runs} pairs")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
