"""Real llc, opt and llvm-objcopy of the distribution's packages, a small build tree, and which compilers run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.cli.app import app
from mlir_release.extras.mlgo.corpora.corpus import Selection, load_corpus, make_corpus
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.ground.storage.cache import cache_directory
from tests.refusals import check_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.ground.errors import ReleaseError


PROGRAM = '#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {program} "$@"\n'

#: In the place of ``clang -cc1``, which is not among the packages that an SDK is made of: it optimizes bitcode, and
#: fails as clang does where a profile is gone. The command that it is given is one that clang 22 recorded.
CLANG = """#!/bin/sh
[ "$1" = -cc1 ] || exit 9
for word do
  case "$before" in -x) [ "$word" = ir ] || exit 9 ;; -o) output=$word ;; esac
  case "$word" in
    *.bc) [ "$before" = -o ] || input=$word ;;
    -fprofile-instrument-use-path=*) [ -e "${{word#*=}}" ] || {{ echo "error: could not read profile" >&2; exit 1; }} ;;
  esac
  before=$word
done
exec {opt} -O2 "$input" -o "$output"
"""
COMMAND = (
    "-cc1 -triple x86_64-pc-linux-gnu -O3 -emit-obj -main-file-name {name}.c -mrelocation-model pic -pic-level 2 "
    "-mframe-pointer=none -target-cpu x86-64 -ffunction-sections -fembed-bitcode=all -faddrsig"
)


def function(name: str, live: int, step: int) -> str:
    """LLVM IR of a loop, and of more values than x86-64 has registers, which are only kept around it.

    The allocator takes those first, because they live longest: without evictions they keep the registers.
    """
    kept = range(14)
    lines = [
        f"define i64 @{name}(ptr captures(none) %p, i64 %n) {{",
        "entry:",
        *(f"  %k{j} = load volatile i64, ptr %p" for j in kept),
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %a{j} = phi i64 [ {j}, %entry ], [ %b{j}, %loop ]" for j in range(live)),
    ]
    for j in range(live):
        lines += [
            f"  %g{j} = getelementptr i64, ptr %p, i64 {j}",
            f"  %l{j} = load volatile i64, ptr %g{j}",
            f"  %m{j} = mul i64 %a{j}, %l{j}",
            f"  %b{j} = xor i64 %m{j}, %a{(j + step) % live}",
        ]
    lines += ["  %next = add i64 %i, 1", "  %more = icmp ult i64 %next, %n", "  br i1 %more, label %loop, label %done"]
    lines += ["done:", "  %s0 = add i64 %b0, 0"]
    lines += [f"  %s{j} = sub i64 %b{j}, %s{j - 1}" for j in range(1, live)]
    lines += [f"  store volatile i64 %k{j}, ptr %p" for j in kept]
    return "\n".join([*lines, f"  ret i64 %s{live - 1}", "}", ""])


def loops(index: int) -> str:
    """Functions that have much to allocate."""
    return "".join(function(f"m{index}_{live}", live, 1 + index) for live in (7, 8 + index))


def calls(index: int) -> str:
    """Callees of different sizes, each called from two functions that are seen outside."""
    callees = range(1, 9)
    lines = []
    for callee in callees:
        size = callee * (1 + index)
        lines += [f"define internal i64 @callee{callee}(ptr %p, i64 %x) {{", "  %v0 = add i64 %x, 1"]
        for j in range(size):
            lines += [
                f"  %g{j} = getelementptr i64, ptr %p, i64 {j % 32}",
                f"  store volatile i64 %v{j}, ptr %g{j}",
                f"  %v{j + 1} = mul i64 %v{j}, %x",
            ]
        lines += [f"  ret i64 %v{size}", "}"]
    for caller in ("first", "second"):
        lines.append(f"define i64 @{caller}{index}(ptr %p, i64 %x0) {{")
        lines += [f"  %x{callee} = call i64 @callee{callee}(ptr %p, i64 %x{callee - 1})" for callee in callees]
        lines += [f"  ret i64 %x{len(callees)}", "}"]
    return "\n".join([*lines, ""])


@pytest.fixture(scope="session")
def packages() -> DebianPackages:
    found = DebianPackages(cache_directory())
    if not found.available():
        pytest.skip("MLGO IS NOT TESTED HERE: it needs LLVM's packages of Debian or Ubuntu")
    return found


def programs(packages: DebianPackages, major: int, folder: Path) -> Path:
    """A prefix with the programs that MLGO uses, which find their libraries."""
    unpacked = packages.unpack(major)
    (libraries,) = unpacked.parent.glob("*-linux-gnu")
    (folder / "bin").mkdir(parents=True)
    texts = {
        name: PROGRAM.format(libraries=libraries, program=unpacked / "bin" / name)
        for name in ("llc", "opt", "llvm-objcopy", "llvm-as")
    }
    for name, text in (texts | {"clang": CLANG.format(opt=folder / "bin" / "opt")}).items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def llvm(packages: DebianPackages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest LLVM."""
    return programs(packages, max(packages.versions()), tmp_path_factory.mktemp("llvm") / "prefix")


def use_clang(packages: DebianPackages, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The prefix of the newest LLVM with its real clang, whose programs find their libraries."""
    prefix = packages.unpack_with_clang(max(packages.versions()))
    (libraries,) = prefix.parent.glob("*-linux-gnu")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    return prefix


@pytest.fixture
def clang(packages: DebianPackages, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The newest LLVM with its real clang."""
    return use_clang(packages, monkeypatch)


@pytest.fixture
def trainer() -> tuple[str, ...]:
    """The options of the real google/ml-compiler-opt."""
    names = ("ML_COMPILER_OPT", "ML_COMPILER_OPT_PYTHON")
    if not all(os.environ.get(name) for name in names):
        pytest.skip(f"ML-COMPILER-OPT IS NOT TESTED HERE: {' and '.join(names)} do not name it")
    checkout, python = (os.environ[name] for name in names)
    return ("--ml-compiler-opt", checkout, "--python", python)


def make_inlining(corpus: Path) -> None:
    """Make a corpus one for inlining, by its file alone."""
    whole = load_corpus(corpus)
    modules = tuple(msgspec.structs.replace(module, flags=()) for module in whole.modules)
    (corpus / "corpus.json").write_text(msgspec.structs.replace(whole, problem="inlining", modules=modules).to_text())


@pytest.fixture
def _valgrind() -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("INSTRUCTIONS WERE NOT COUNTED: there is no valgrind")


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def make_build(
    llvm: Path, folder: Path, *, count: int = 5, extra: str = "", text: Callable[[int], str] = loops
) -> Path:
    """A build tree: objects with their bitcode and command inside, as clang embeds them."""
    folder.mkdir()
    entries = []
    for index in range(count):
        name = f"m{index}"
        source = folder / f"{name}.ll"
        source.write_text(f'target triple = "x86_64-pc-linux-gnu"\n{text(index)}')
        (folder / "cmd").write_bytes("\0".join([*COMMAND.format(name=name).split(), *extra.split()]).encode() + b"\0")
        run(llvm / "bin" / "llvm-as", source, "-o", folder / "bc")
        run(llvm / "bin" / "llc", "-filetype=obj", folder / "bc", "-o", folder / "plain.o")
        sections = (f"--add-section=.llvmbc={folder / 'bc'}", f"--add-section=.llvmcmd={folder / 'cmd'}")
        run(llvm / "bin" / "llvm-objcopy", *sections, folder / "plain.o", folder / f"{name}.o")
        entries.append({"directory": str(folder), "command": f"clang -c {name}.c -o {name}.o", "file": f"{name}.c"})
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder


@pytest.fixture(scope="session")
def build(llvm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_build(llvm, tmp_path_factory.mktemp("mlgo") / "build")


@pytest.fixture
def corpus(build: Path, llvm: Path, tmp_path: Path) -> Path:
    """Of the build tree, not traced."""
    make_corpus(build, tmp_path / "corpus", Toolchain(llvm), Selection(share=0.4))
    return tmp_path / "corpus"


def command(*words: str | Path) -> list[str]:
    """The toolkit's command line, for a process of its own."""
    return [sys.executable, "-m", "mlir_release", "mlgo", *map(str, words)]


def mlgo(*words: str | Path) -> Result:
    """A command, in this process."""
    return CliRunner().invoke(app, ["mlgo", *map(str, words)])


def said(result: Result) -> Any:
    """What a command printed as JSON."""
    assert result.exception is None, result.exception
    return json.loads(result.stdout)


def error_of(*words: str | Path, id: str = "", said: str = "") -> ReleaseError:
    """The error that a command ended with."""
    return check_error(mlgo(*words).exception, id, said)


def compilers_of(path: Path) -> list[int]:
    """Processes of llc and clang that compile a module: ``path`` itself, or one below it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith((b"llc", b"clang")) and any(word.startswith(os.fsencode(path)) for word in words):
            found.append(int(entry.name))
    return found
