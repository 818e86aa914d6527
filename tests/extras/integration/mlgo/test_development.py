"""LLVM's development mode: traces by its log, and, where TFLite is installed, compilers that are linked with it.

``MLGO_DEVELOPMENT`` may name a folder of such compilers, of the newest LLVM, instead of linking them; and
``MLGO_TFLITE`` another prefix of TFLite than /usr.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlir_release.builder.sdk.sources.releases import find_release
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.linking import LlvmSources
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.extras.mlgo.training.development import TFLite, link
from mlir_release.ground.errors import MachineError
from mlir_release.ground.storage.cache import cache_directory
from tests.extras.integration.mlgo.conftest import error_of, make_inlining, mlgo, said
from tests.extras.unit.mlgo.test_development import LOG

#: In the place of an llc in development mode: the stock one, which writes a log that another wrote before.
PROGRAM = """#!/bin/sh
for word do
  shift
  case $word in
    --help-hidden) echo "  -regalloc-training-log=<string>"; exit ;;
    -regalloc-enable-advisor=development) ;;
    -regalloc-training-log=*) cp "{log}" "${{word#*=}}" ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {llc} "$@"
"""


@pytest.fixture
def logging(llvm: Path, tmp_path: Path) -> Path:
    """A folder with :data:`PROGRAM`."""
    (tmp_path / "log").write_bytes(LOG)
    (tmp_path / "development").mkdir()
    program = tmp_path / "development" / "llc"
    program.write_text(PROGRAM.format(log=tmp_path / "log", llc=llvm / "bin" / "llc"))
    program.chmod(0o755)
    return program.parent


def test_the_trace_is_what_the_log_tells(corpus: Path, llvm: Path, logging: Path, tmp_path: Path) -> None:
    words = ("trace", corpus, "--llvm", llvm)
    imitated = said(mlgo(*words, "--json"))
    found = said(mlgo(*words, "--development", logging, "--json"))
    assert (found["observed"], found["decisions"], found["identical"]) == (True, 3 * 34, 3)
    assert found["defaults"] == imitated["defaults"]
    assert "observed" not in imitated, "an imitation's file has the bytes that it always had"
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes()[:5000])
    assert "ends too early" in error_of(*words, "--development", logging, id="file-damaged").why


@pytest.mark.parametrize("observing", [False, True])
def test_a_share_of_the_modules_is_traced_and_all_have_a_default(
    corpus: Path, llvm: Path, logging: Path, observing: bool
) -> None:
    words = ("trace", corpus, "--llvm", llvm, *(("--development", logging) if observing else ()))
    found = said(mlgo(*words, "--sampling-rate", "0.3", "--json"))
    assert (found["sampled"], len(found["defaults"])) == (1, 3)
    again = mlgo(*words, "--sampling-rate", "0.3")
    assert "of 1 modules" in again.stdout
    assert said(mlgo(*words, "--json"))["decisions"] > found["decisions"] > 0
    assert mlgo(*words, "--sampling-rate", "0").exit_code == 2


def test_a_stock_compiler_has_no_development_mode(corpus: Path, llvm: Path) -> None:
    words = ("trace", corpus, "--llvm", llvm, "--development", llvm / "bin")
    error_of(*words, id="input-invalid", said="this llc has no development mode")
    assert not (corpus / "trace.json").exists()


def test_an_inliner_needs_no_development_mode(corpus: Path, llvm: Path, logging: Path) -> None:
    make_inlining(corpus)
    done = mlgo("trace", corpus, "--llvm", llvm, "--development", logging)
    assert (done.exit_code, "is for --problem regalloc" in done.output) == (2, True)


def test_ppo_needs_a_compiler_in_development_mode(corpus: Path, llvm: Path, logging: Path, tmp_path: Path) -> None:
    words = ("clone", corpus, "-o", tmp_path / "run", "--llvm", llvm)
    assert mlgo(*words, "--ppo-iterations", "2").exit_code == 2
    assert mlgo(*words, "--development", logging).exit_code == 2
    said(mlgo("trace", corpus, "--llvm", llvm, "--json"))
    error_of(*words, "--ppo-iterations", "2", "--development", logging, id="input-missing", said="has no clang")


def test_tflite_is_needed_to_link(llvm: Path, tmp_path: Path) -> None:
    words = ("development", "-o", tmp_path / "out", "--llvm", llvm, "--source", tmp_path, "--tflite", tmp_path)
    error = error_of(*words, id="tool-missing", said="this folder has no headers of TFLite")
    assert "libtensorflow-lite-dev" in error.remedy


# -- the real one -----------------------------------------------------------------------------------------------------


@pytest.fixture
def development(clang: Path, tmp_path: Path) -> Path:
    """A folder with compilers in development mode."""
    if named := os.environ.get("MLGO_DEVELOPMENT"):
        return Path(named)
    try:
        tflite = TFLite.find(Path(os.environ.get("MLGO_TFLITE", "/usr")))
    except MachineError:
        pytest.skip("DEVELOPMENT MODE IS NOT TESTED HERE: there is no TFLite, nor does MLGO_DEVELOPMENT name compilers")
    toolchain = Toolchain(clang)
    source = fetch_source(find_release(toolchain.version), cache=cache_directory(), whole=True).root
    linked = link(toolchain, LlvmSources(source, toolchain.version), tflite, tmp_path / "linked")
    assert set(linked.files) == {"llc", "clang"}
    return tmp_path / "linked"


@pytest.mark.slow
def test_a_compiler_in_development_mode_tells_its_defaults_choices(
    corpus: Path, clang: Path, development: Path
) -> None:
    loaded = load_corpus(corpus)
    stock, linked = (Compiler(Toolchain(clang), loaded, corpus, path=path) for path in (None, development / "llc"))
    for module in loaded.modules:
        assert linked.compile(module, emit=True) == stock.compile(module, emit=True), "without its options it is stock"
    found = said(mlgo("trace", corpus, "--llvm", clang, "--development", development, "--json"))
    assert (found["observed"], found["identical"]) == (True, 3), "the log tells what the default does"
    assert found["decisions"] > 50


@pytest.mark.slow
def test_ppo_goes_on_from_a_clone_of_the_default(
    corpus: Path, clang: Path, development: Path, trainer: tuple[str, ...], tmp_path: Path
) -> None:
    said(mlgo("trace", corpus, "--llvm", clang, "--development", development, "--json"))
    done = said(
        mlgo(
            "clone", corpus, "-o", tmp_path / "run", "--llvm", clang, *trainer, "--iterations", "200",
            "--development", development, "--ppo-iterations", "2", "--json",
        )
    )  # fmt: skip
    assert len(done["rewards"]) == 2
    assert all(-10 < reward < 1 for reward in done["rewards"])
    model = done["reinforced"]
    assert model == str(tmp_path / "run" / "ppo" / "saved_policy")
    evaluated = said(mlgo("evaluate", corpus, "--policy", model, *trainer[2:], "--llvm", clang, "--json"))
    assert sum(row["policy"]["decisions"] for row in evaluated["modules"]) > 10
