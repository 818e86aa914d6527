"""What a machine and an LLVM must have; how a failed compilation is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.documents import Corpus, Module
from mlir_release.extras.mlgo.toolchain import Toolchain, check_machine
from mlir_release.ground.documents.digests import sha256_of
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path


def llvm(folder: Path, llc: str) -> Toolchain:
    (folder / "bin").mkdir()
    (folder / "bin" / "llc").write_text(f"#!/bin/sh\n{llc}\n")
    (folder / "bin" / "llc").chmod(0o755)
    return Toolchain(folder)


def test_debians_version_is_read(tmp_path: Path) -> None:
    said = "echo 'Debian LLVM version 22.1.8'; echo '  Optimized build.'"
    assert llvm(tmp_path, said).version == "22.1.8"


def test_an_llc_that_does_not_run_is_explained(tmp_path: Path) -> None:
    given = llvm(tmp_path, "echo 'libLLVM.so.22.1: cannot open shared object file' >&2; exit 127")
    error = refused(lambda: given.version, "tool-missing", "llc does not say its version")
    assert "libLLVM.so.22.1" in error.why


def test_a_failure_keeps_the_compilers_words_without_its_remarks(tmp_path: Path) -> None:
    version = 'if [ "$1" = --version ]; then echo "  LLVM version 22.1.8"; exit; fi'
    dying = llvm(tmp_path, f"{version}\nprintf 'remark: 1 spills\\nLLVM ERROR: out of memory\\n' >&2\nexit 134")
    (tmp_path / "a.bc").touch()
    module = Module(name="a.o", bitcode="a.bc", sha256=sha256_of(tmp_path / "a.bc"), flags=(), held_out=False)
    compiler = Compiler(dying, Corpus(llvm="22.1.8", share=0.5, modules=(module,)), tmp_path)
    error = refused(lambda: compiler.compile(module), "model-unsuitable", "exit code 134")
    assert error.why == "LLVM ERROR: out of memory"


def test_other_systems_are_refused() -> None:
    refused(lambda: check_machine("darwin"), "machine-unsuitable")
