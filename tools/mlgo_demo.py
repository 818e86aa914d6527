#!/usr/bin/env python3
"""MLGO from a build of LLVM's own libraries to an llc with the trained policy inside, and a report; ``make mlgo-demo``.

The commands are printed as they are run; docs/mlgo.md explains them. LLVM is the distribution's newest, unpacked into
the toolkit's cache, and the corpus is its libraries Support and Demangle. Run again, a training continues.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlir_release.builder.projects.mlir import PROJECT  # noqa: E402
from mlir_release.builder.sdk.sources.debian import DebianPackages  # noqa: E402
from mlir_release.builder.sdk.sources.releases import find_release  # noqa: E402
from mlir_release.builder.sdk.sources.source import fetch_source  # noqa: E402
from mlir_release.extras.mlgo.corpora.corpus import load_corpus  # noqa: E402
from mlir_release.extras.mlgo.linking import SYSTEM_LIBRARIES, archives, compiler, linker  # noqa: E402
from mlir_release.extras.mlgo.toolchain import Toolchain  # noqa: E402
from mlir_release.ground.console import console  # noqa: E402
from mlir_release.ground.errors import ReleaseError  # noqa: E402
from mlir_release.ground.python import venv  # noqa: E402
from mlir_release.ground.storage.cache import cache_directory  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

MLIR_RELEASE = [sys.executable, "-m", "mlir_release"]
TOOLKIT = [*MLIR_RELEASE, "mlgo"]

#: Mangled names that llvm-cxxfilt reads in one run, and compile commands that yaml-bench reads.
NAMES, ENTRIES = 400, 40

MLIR_OPT = "mlir/tools/mlir-opt/mlir-opt.cpp"

#: Dialects whose tests of canonicalization mlir-opt reads.
DIALECTS = ("Affine", "Arith", "Math", "MemRef")

#: MLIR's archives that mlir-opt takes nothing from.
NOT_IN_MLIR_OPT = re.compile("CAPI|Test")

#: The library of a wheel's bindings, and what it exports to them.
LIBRARY, EXPORTED = "libMLIRPythonCAPI.so", "{ global: mlir*; local: *; };\n"

#: LLVM's components that the execution engine has beyond llc's.
EXECUTION = ("orcjit", "perfjitevents")

#: Two runs of one program must execute the same: sets of Python's in one order, and no threads that wait for work.
STEADY = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}


def main() -> int:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mlgo-demo", help="where everything goes")
    parser.add_argument("--minutes", type=float, default=20, help="of training")
    parser.add_argument("--limit", type=int, help="modules of the corpus  [default: all, about 180]")
    given = parser.parse_args()
    try:
        demonstrate(given.output.absolute(), given.minutes, given.limit)
    except ReleaseError as error:
        print(f"error[{error.id}]: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


def demonstrate(output: Path, minutes: float, limit: int | None) -> None:
    """From nothing to the report."""
    prefix = stock_llvm()
    llvm = ("--llvm", prefix)
    toolchain = Toolchain(prefix)
    source = fetch_source(find_release(toolchain.version), cache=cache_directory(), whole=True).root
    build, corpus, run = output / "build", output / "corpus", output / "run"
    compile_libraries(source, build, prefix)
    do(*TOOLKIT, "corpus", build, "-o", corpus, *llvm, *(("--limit", limit) if limit else ()))
    do(*TOOLKIT, "trace", corpus, *llvm)
    training = ("--batch", 32, "--minutes", minutes, "--generations", 1000)
    do(*TOOLKIT, "train", corpus, "-o", run, *llvm, *training)
    policy = run / "policy.json"
    python = install_wheel(output, source, prefix)
    programs = write_programs(output / "programs", source, build, corpus, toolchain, python)
    evaluated = keep(run / "evaluation.json", "evaluate", corpus, "--policy", policy, *llvm, "--programs", programs)
    embedding = ("-o", output / "embedded", "--source", source, "--check", corpus)
    embedded = keep(run / "embedded.json", "embed", policy, *llvm, *embedding)
    results = ("--evaluation", evaluated, "--embedded", embedded)
    do(*TOOLKIT, "report", corpus, "--training", run / "training.json", *results, "-o", output)
    print(json.loads(evaluated.read_bytes())["verdict"])


def stock_llvm() -> Path:
    """The prefix of the distribution's newest LLVM, with clang; its programs find its libraries."""
    packages = DebianPackages(cache_directory())
    prefix = packages.unpack_with_clang(max(packages.versions()))
    libraries = [str(folder) for folder in prefix.parent.glob("*-linux-gnu")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
    return prefix


def compile_libraries(source: Path, build: Path, prefix: Path) -> None:
    """Build the corpus' libraries, and two programs of them, with bitcode in the objects."""
    flags = "-Xclang -fembed-bitcode=all"
    compilers = (f"-DCMAKE_C_COMPILER={prefix}/bin/clang", f"-DCMAKE_CXX_COMPILER={prefix}/bin/clang++")
    options = (
        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *compilers, f"-DCMAKE_C_FLAGS={flags}",
        f"-DCMAKE_CXX_FLAGS={flags}", "-DLLVM_TARGETS_TO_BUILD=X86", "-DLLVM_INCLUDE_TESTS=OFF",
        f"-DLLVM_TABLEGEN={prefix}/bin/llvm-tblgen", f"-DLLVM_HEADERS_TABLEGEN={prefix}/bin/llvm-tblgen",
        "-DLLVM_INCLUDE_BENCHMARKS=OFF", "-DLLVM_INCLUDE_DOCS=OFF", "-DLLVM_INCLUDE_EXAMPLES=OFF",
    )  # fmt: skip
    do("cmake", "-G", "Ninja", "-S", source / "llvm", "-B", build, *options)
    do("ninja", "-C", build, "LLVMDemangle", "LLVMSupport", "llvm-cxxfilt", "yaml-bench")


def install_wheel(output: Path, source: Path, prefix: Path) -> Path:
    """Build the wheel of the bindings, and install it; returns the interpreter that has it."""
    sdk, wheels = output / "sdk", output / "wheels"
    do(*MLIR_RELEASE, "sdk", "import", prefix, "--source", source, "-o", sdk)
    do(*MLIR_RELEASE, "wheels", "build", "--sdk", sdk, "--python", sys.executable, "--backend", "build", "-o", wheels)
    environment = venv.create(output / "environment", Path(sys.executable))
    environment.install(*wheels.glob("*.whl"))
    return environment.python


def write_programs(folder: Path, source: Path, build: Path, corpus: Path, toolchain: Toolchain, python: Path) -> Path:
    """The file of programs that instructions are counted of, and what they read.

    They are stripped, because valgrind reads all debug sections first, and not all that clang 22 writes. The stock
    archives have RTTI, and so give a module of the corpus again where its type information is asked for: the first
    definition, the corpus', counts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    libraries = [build / "lib" / f"libLLVM{name}.a" for name in ("Option", "TargetParser", "Support", "Demangle")]
    link = linker(toolchain)

    def program(
        name: str, objects: Sequence[str | Path], rest: Sequence[str | Path], runs: list[object]
    ) -> dict[str, object]:
        words = [*link, "-s", "-Wl,--allow-multiple-definition", *objects, "{modules}", *rest, "-o", "{program}"]
        return {"name": name, "link": [str(word) for word in words], "runs": runs}

    def built(name: str) -> list[Path]:
        return sorted(build.glob(f"*/{name}/CMakeFiles/{name}.dir/*.o"))

    def compiled(*names: str) -> list[Path]:
        return [compile_source(source / name, folder, toolchain) for name in names]

    names, entries = names_to_demangle(folder, build, toolchain), commands_to_parse(folder, build)
    llc, mlir_opt = compiled("llvm/tools/llc/llc.cpp", "llvm/tools/llc/NewPMDriver.cpp"), compiled(MLIR_OPT)
    stock, mlir = archives(toolchain), mlir_archives(toolchain)
    found = [
        program("llvm-cxxfilt", built("llvm-cxxfilt"), [*libraries, *SYSTEM_LIBRARIES], names),
        program("yaml-bench", built("yaml-bench"), [*libraries, *SYSTEM_LIBRARIES], entries),
        program("llc", llc, stock, modules_to_compile(corpus)),
        program("mlir-opt", mlir_opt, [*mlir, *stock], files_to_canonicalize(source)),
        program("wheel", shared(folder, toolchain), [*mlir, *archives(toolchain, *EXECUTION)], [{"name": "smoke test"}])
        | smoke_test(python),
    ]
    (folder / "programs.toml").write_text(tomli_w.dumps({"program": found}))
    return folder / "programs.toml"


def names_to_demangle(folder: Path, build: Path, toolchain: Toolchain) -> list[object]:
    """Four runs of llvm-cxxfilt."""
    command: list[str | Path] = [
        toolchain.program("llvm-nm"),
        "--no-sort",
        "--just-symbol-name",
        build / "lib" / "libLLVMSupport.a",
    ]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = list(dict.fromkeys(name for name in said.split() if name.startswith("_Z")))
    runs: list[object] = []
    for index in range(4):
        (folder / f"names{index}").write_text("\n".join(names[index * NAMES : (index + 1) * NAMES]) + "\n")
        runs.append({"name": f"{NAMES} names, part {index + 1}", "input": f"names{index}"})
    return runs


def commands_to_parse(folder: Path, build: Path) -> list[object]:
    """Three runs of yaml-bench."""
    commands = json.loads((build / "compile_commands.json").read_bytes())
    runs: list[object] = []
    for index in range(3):
        part = commands[index * ENTRIES : (index + 1) * ENTRIES]
        (folder / f"commands{index}").write_text(json.dumps(part, indent=1))
        runs.append(
            {"name": f"commands, part {index + 1}", "arguments": ["-canonical", "-"], "input": f"commands{index}"}
        )
    return runs


def compile_source(path: Path, folder: Path, toolchain: Toolchain) -> Path:
    """A program's own object; its libraries are the stock archives."""
    target = folder / f"{path.stem}.o"
    do(*compiler(toolchain), path, "-o", target)
    return target


def mlir_archives(toolchain: Toolchain) -> list[Path]:
    """MLIR's, for mlir-opt, which registers everything but upstream's tests."""
    found = (toolchain.prefix / "lib").glob("libMLIR*.a")
    return sorted(path for path in found if not NOT_IN_MLIR_OPT.search(path.name))


def files_to_canonicalize(source: Path) -> list[object]:
    """Runs of mlir-opt, of upstream's tests."""
    options = ["--canonicalize", "--cse", "--allow-unregistered-dialect", "--split-input-file"]
    tests = {name: source / "mlir" / "test" / "Dialect" / name / "canonicalize.mlir" for name in DIALECTS}
    return [{"name": name, "arguments": [*options, str(path)]} for name, path in tests.items()]


def shared(folder: Path, toolchain: Toolchain) -> list[str | Path]:
    """The words that make a link that of the library of a wheel: MLIR's C API, all of it."""
    exported = folder / "exported"
    exported.write_text(EXPORTED)
    api = sorted((toolchain.prefix / "lib").glob("libMLIRCAPI*.a"))
    made = ("-shared", f"-Wl,-soname,{LIBRARY}", f"-Wl,--version-script={exported}")
    return [*made, "-Wl,--whole-archive", *api, "-Wl,--no-whole-archive"]


def smoke_test(python: Path) -> dict[str, object]:
    """The keys of a program that is a library: the smoke test of an interpreter's wheel runs with it."""
    script = Path(__file__).with_name("mlgo_smoke.py")
    return {"command": [str(python), str(script), str(PROJECT.smoke), "{program}"], "environment": STEADY}


def modules_to_compile(corpus: Path) -> list[object]:
    """Up to three runs of llc, of small modules: callgrind takes minutes for others."""
    modules = load_corpus(corpus).modules
    ranked = sorted(modules, key=lambda module: (corpus / module.bitcode).stat().st_size)
    chosen = [ranked[index] for index in sorted({len(ranked) * percent // 100 for percent in (10, 20, 30)})]
    return [
        {"name": module.name, "arguments": [*module.flags, "-o", "-", str(corpus / module.bitcode)]}
        for module in chosen
    ]


def keep(path: Path, *words: object) -> Path:
    """Run a command of the toolkit's with ``--json``, and write what it prints to a file."""
    command = [*TOOLKIT, *words, "--json"]
    show(*command, ">", path)
    path.write_bytes(subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE).stdout)
    return path


def do(*words: object) -> None:
    """Run a command."""
    show(*words)
    subprocess.run([str(word) for word in words], check=True)


def show(*words: object) -> None:
    """Print a command."""
    console.say("$ " + " ".join(word if word == ">" else shlex.quote(str(word)) for word in words))


if __name__ == "__main__":
    sys.exit(main())
