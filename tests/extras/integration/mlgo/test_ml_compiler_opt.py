"""Behavioural cloning by the real google/ml-compiler-opt, with the real TensorFlow, on a corpus of the real compiler.

A machine has them if ``ML_COMPILER_OPT`` names a checkout and ``ML_COMPILER_OPT_PYTHON`` an interpreter for it.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.releases import find_release
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.extras.mlgo.compiling import Compiler, text_of
from mlir_release.extras.mlgo.corpora.cc1 import generating
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.ground.storage.cache import cache_directory
from tests.extras.integration.mlgo.conftest import error_of, make_inlining, mlgo, said

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def corpus(corpus: Path, clang: Path) -> Path:
    """Of the build tree, traced."""
    said(mlgo("trace", corpus, "--llvm", clang, "--json"))
    return corpus


def test_the_heuristic_is_cloned_into_a_saved_model(
    corpus: Path, clang: Path, trainer: tuple[str, ...], tmp_path: Path
) -> None:
    words: tuple[str | Path, ...] = ("clone", corpus, "-o", tmp_path / "run", "--llvm", clang, *trainer)
    done = said(mlgo(*words, "--iterations", "300", "--json"))
    assert done["iterations"] == 300
    assert done["agreement"] > 0.5
    saved = tmp_path / "run" / "behavioral-cloning" / "saved_policy"
    assert done["model"] == str(saved)
    assert (saved / "saved_model.pb").stat().st_size > 10_000
    assert (saved / "output_spec.json").is_file()
    again = said(mlgo(*words, "--iterations", "1", "--json"))
    assert again["agreement"] < done["agreement"], "a second run begins anew"


def test_the_saved_model_is_evaluated_and_embedded(
    corpus: Path, clang: Path, trainer: tuple[str, ...], tmp_path: Path
) -> None:
    """The compiler asks TensorFlow, or what TensorFlow compiled; both choose nearly always alike."""
    words: tuple[str | Path, ...] = ("-o", tmp_path / "run", "--llvm", clang, *trainer, "--iterations", "300", "--json")
    model, python = str(said(mlgo("clone", corpus, *words))["model"]), trainer[-1]
    evaluated = said(mlgo("evaluate", corpus, "--policy", model, "--python", python, "--llvm", clang, "--json"))
    assert sum(row["policy"]["decisions"] for row in evaluated["modules"]) > 10
    assert [row["policy"]["sha256"] for row in evaluated["modules"]] != [
        row["default"]["sha256"] for row in evaluated["modules"]
    ]
    source = fetch_source(find_release(Toolchain(clang).version), cache=cache_directory(), whole=True).root
    linked = ("-o", tmp_path / "out", "--python", python, "--llvm", clang, "--source", source)
    embedded = said(mlgo("embed", model, *linked, "--check", corpus, "--json"))
    loaded = load_corpus(corpus)
    assert embedded["compared"] == len(loaded.modules)
    assert embedded["identical"] > len(loaded.modules) / 2, "they round differently"
    assert (embedded["policy"], embedded["corpus"]) == (evaluated["policy"], loaded.digest)


def test_code_is_generated_for_the_trainer_as_llc_generates_it(corpus: Path, clang: Path, tmp_path: Path) -> None:
    loaded = load_corpus(corpus)
    compiler = Compiler(Toolchain(clang), loaded, corpus)
    for module in loaded.modules:
        command = [clang / "bin" / "clang", *generating(module.flags), "-x", "ir", corpus / module.bitcode]
        subprocess.run([*map(str, command), "-o", str(tmp_path / "by_clang.o")], check=True)
        assert text_of(tmp_path / "by_clang.o") == compiler.compile(module, emit=True).text


def test_options_of_the_other_trainer_are_refused(corpus: Path, clang: Path, tmp_path: Path) -> None:
    words = (corpus, "-o", tmp_path / "run", "--llvm", clang)
    elsewhere = ("clone", *words, "--ml-compiler-opt", tmp_path)
    assert mlgo(*elsewhere, "--pairs", "2").exit_code == 2
    assert mlgo("train", *words, "--iterations", "3").exit_code == 2
    error_of(*elsewhere, id="input-missing", said="this is no checkout")
    make_inlining(corpus)
    done = mlgo(*elsewhere)
    assert (done.exit_code, "is for --problem regalloc" in done.output) == (2, True)
    assert not (tmp_path / "run").exists()
