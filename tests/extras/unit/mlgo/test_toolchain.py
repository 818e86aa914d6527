"""What a machine and an LLVM must have; how a failed compilation is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.documents import Corpus, Module
from mlir_release.extras.mlgo.toolchain import Toolchain, check_machine
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError

#: Of llc 22.1.8 on bitcode of a later LLVM. Source: BitcodeReaderBase::error.
FOREIGN = "llc: error: a.bc: error: Unknown attribute kind (105) (Producer: 'LLVM23.1.1' Reader: 'LLVM 22.1.8')"


def llvm(folder: Path, llc: str) -> Toolchain:
    (folder / "bin").mkdir()
    (folder / "bin" / "llc").write_text(f"#!/bin/sh\n{llc}\n")
    (folder / "bin" / "llc").chmod(0o755)
    return Toolchain(folder)


def failure(folder: Path, *, stderr: str, code: int) -> ReleaseError:
    version = 'if [ "$1" = --version ]; then echo "  LLVM version 22.1.8"; exit; fi'
    found = llvm(folder, f"{version}\ncat >&2 <<'END'\n{stderr}\nEND\nexit {code}")
    (folder / "a.bc").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    module = Module(name="a.o", bitcode="a.bc", sha256=empty, flags=(), held_out=False)
    return refused(lambda: Compiler(found, Corpus(llvm="22.1.8", share=0.5, modules=(module,)), folder).compile(module))


def test_debians_version_is_read(tmp_path: Path) -> None:
    said = "echo 'Debian LLVM version 22.1.8'; echo '  Optimized build.'"
    assert llvm(tmp_path, said).version == "22.1.8"


def test_an_llc_that_does_not_run_is_explained(tmp_path: Path) -> None:
    given = llvm(tmp_path, "echo 'libLLVM.so.22.1: cannot open shared object file' >&2; exit 127")
    error = refused(lambda: given.version, "tool-missing", "llc does not say its version")
    assert "libLLVM.so.22.1" in error.why


def test_bitcode_of_a_later_llvm_is_explained(tmp_path: Path) -> None:
    error = failure(tmp_path, stderr=FOREIGN, code=1)
    assert (error.id, error.why) == ("model-unsuitable", FOREIGN)


def test_another_failure_keeps_the_compilers_words_without_its_remarks(tmp_path: Path) -> None:
    error = failure(tmp_path, stderr="remark: 1 spills\nLLVM ERROR: out of memory", code=134)
    assert (error.id, error.why) == ("model-unsuitable", "LLVM ERROR: out of memory")
    assert "exit code 134" in error.what


def test_other_systems_are_refused() -> None:
    refused(lambda: check_machine("darwin"), "machine-unsuitable")
