"""Programs of LLVM's that are linked from stock archives with a policy inside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.sdk.sources.releases import find_release
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.extras.mlgo.candidates import Candidates
from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.embed import compare, embed
from mlir_release.extras.mlgo.evaluate import load_policy
from mlir_release.extras.mlgo.linking import LlvmSources
from mlir_release.extras.mlgo.policies import Scorer
from mlir_release.extras.mlgo.problems import EVICTION, INLINING
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.storage.cache import cache_directory
from tests.extras.integration.mlgo.conftest import calls, make_build, mlgo, said, use_clang

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.extras.mlgo.documents import Corpus

ROOT = Path(__file__).parents[2]


@pytest.fixture
def llvm(monkeypatch: pytest.MonkeyPatch) -> Path:
    packages = DebianPackages(cache_directory())
    if not packages.available():
        pytest.skip("NO POLICY WAS EMBEDDED: it needs LLVM's packages of Debian or Ubuntu")
    return use_clang(packages, monkeypatch)


#: A program that needs clang's own headers.
USER = """
#include <stdarg.h>
#include <stdio.h>
static long sum(int count, ...) {
  va_list all;
  long found = 0;
  va_start(all, count);
  while (count--)
    found = found * 31 + va_arg(all, long);
  va_end(all);
  return found;
}
int main(void) { return printf("%ld\\n", sum(9, 1l, 2l, 3l, 4l, 5l, 6l, 7l, 8l, 9l)) < 0; }
"""


def check_stock(programs: Sequence[str], folder: Path, toolchain: Toolchain, corpus: Corpus, modules: Path) -> None:
    """Without the option, linked programs are the stock ones."""
    for program in programs:
        ours = Compiler(toolchain, corpus, modules, program=program, path=folder / program)
        theirs = Compiler(toolchain, corpus, modules, program=program)
        assert all(ours.digest(module) == theirs.digest(module) for module in corpus.modules)


def check_driver(clang: Path, option: str, folder: Path) -> None:
    """A program that this clang compiles, from anywhere and with its policy, runs."""
    (folder / "user.c").write_text(USER)
    given = ("-O2", "-mllvm", option, "user.c", "-o", "user")
    subprocess.run([clang, *given], cwd=folder, check=True)
    assert subprocess.run([folder / "user"], capture_output=True, check=True).stdout == b"910698096645\n"
    subprocess.run([f"{clang}++", "-x", "c++", *given], cwd=folder, check=True)


@pytest.mark.parametrize(("kind", "program"), [("linear", "clang"), ("mlp", "llc")])
def test_an_embedded_policy_decides_as_the_interactive_one(kind: str, program: str, llvm: Path, tmp_path: Path) -> None:
    build, corpus, policy, output = (tmp_path / name for name in ("build", "corpus", "run/policy.json", "embedded"))
    make_build(llvm, build)
    said(mlgo("corpus", build, "-o", corpus, "--llvm", llvm, "--json"))
    said(mlgo("trace", corpus, "--llvm", llvm, "--json"))
    few = ("--generations", "1", "--pairs", "1", "--policy", kind, "--hidden", "4")
    said(mlgo("train", corpus, "-o", policy.parent, "--llvm", llvm, *few, "--json"))
    toolchain = Toolchain(llvm)
    source = fetch_source(find_release(toolchain.version), cache=cache_directory(), whole=True).root
    words = ("embed", policy, "--llvm", llvm, "-o", output, "--source", source, "--program", program)
    found = said(mlgo(*words, "--check", corpus, "--json"))
    loaded = load_corpus(corpus)
    assert found["identical"] == len(loaded.modules) == 5
    assert (found["policy"], found["corpus"]) == (load_policy(policy).digest, loaded.digest)
    assert program in found["files"]
    check_stock((program,), output, toolchain, loaded, corpus)
    if program == "clang":
        check_driver(output / "clang", EVICTION.model.option, tmp_path)

    # The comparison sees another policy.
    other = load_policy(policy)
    policy.write_text(msgspec.structs.replace(other, weights=(0.0,) * len(other.weights)).to_text())
    embedded = embed(other, toolchain, tmp_path / "other")
    with pytest.raises(VerificationError) as caught:
        compare((program,), embedded, load_policy(policy), toolchain, loaded, corpus, output)
    assert caught.value.id == "model-unsuitable"


def test_candidates_cost_together_what_each_costs_alone(llvm: Path, tmp_path: Path) -> None:
    build, corpus = tmp_path / "build", tmp_path / "corpus"
    make_build(llvm, build)
    said(mlgo("corpus", build, "-o", corpus, "--llvm", llvm, "--json"))
    said(mlgo("trace", corpus, "--llvm", llvm, "--json"))
    toolchain, modules, random = Toolchain(llvm), load_corpus(corpus), np.random.default_rng(5)
    source = fetch_source(find_release(toolchain.version), cache=cache_directory(), whole=True).root
    together = Candidates(toolchain, modules, corpus, LlvmSources(source, toolchain.version), tmp_path / "linked")
    compiler = Compiler(toolchain, modules, corpus)
    words = ("--llvm", llvm, "--generations", "1", "--pairs", "1", "--json")
    for kind in ("linear", "mlp"):
        form = ("--policy", kind, "--hidden", "4")
        said(mlgo("train", corpus, "-o", tmp_path / kind, *form, *words))
        first = load_policy(tmp_path / kind / "policy.json")
        others = [tuple(random.normal(size=len(first.weights)).tolist()) for _ in range(4)]
        policies = [first, *(msgspec.structs.replace(first, weights=weights) for weights in others)]
        found = [together.costs(module, policies) for module in modules.modules]
        wanted = [
            [compiler.compile(module, Scorer(policy).answering).cost for policy in policies]
            for module in modules.modules
        ]
        assert found == wanted
        assert any(len(set(costs)) > 2 for costs in found), "the policies decide differently"

    # The command: the same training, byte for byte.
    said(mlgo("train", corpus, "-o", tmp_path / "together", "--source", source, *words))
    assert (tmp_path / "together" / "training.json").read_bytes() == (
        tmp_path / "linear" / "training.json"
    ).read_bytes()


@pytest.mark.slow
def test_an_embedded_policy_inlines_as_the_interactive_one(llvm: Path, tmp_path: Path) -> None:
    build, corpus, policy, output = (tmp_path / name for name in ("build", "corpus", "run/policy.json", "embedded"))
    make_build(llvm, build, extra="-Oz", text=calls)
    said(mlgo("corpus", build, "-o", corpus, "--problem", "inlining", "--llvm", llvm, "--json"))
    said(mlgo("trace", corpus, "--llvm", llvm, "--json"))
    few = ("--generations", "1", "--pairs", "1", "--start", "heuristic")
    said(mlgo("train", corpus, "-o", policy.parent, "--llvm", llvm, *few, "--json"))
    toolchain, loaded, programs = Toolchain(llvm), load_corpus(corpus), ("clang", "opt")
    source = fetch_source(find_release(toolchain.version), cache=cache_directory(), whole=True).root
    words = ("embed", policy, "--llvm", llvm, "-o", output, "--source", source, "--program", "clang")
    found = said(mlgo(*words, "--program", "opt", "--check", corpus, "--json"))
    assert found["identical"] == len(loaded.modules) == 5
    check_stock(programs, output, toolchain, loaded, corpus)
    check_driver(output / "clang", INLINING.model.option, tmp_path)

    other = load_policy(policy)
    keeping = tuple(9.0 if name == "keeps_call" else 0.0 for name in other.features)
    other = msgspec.structs.replace(other, weights=keeping)
    for program in programs:
        embedded = embed(other, toolchain, tmp_path / "other")
        with pytest.raises(VerificationError, match=f"{program} with the policy inside"):
            compare((program,), embedded, other, toolchain, loaded, corpus, output)


@pytest.mark.slow
def test_the_demonstration_ends_with_a_report(tmp_path: Path) -> None:
    few = ("--limit", "6", "--minutes", "0.01", "--output", str(tmp_path))
    subprocess.run([sys.executable, str(ROOT / "tools" / "mlgo_demo.py"), *few], check=True)
    embedded = json.loads((tmp_path / "run" / "embedded.json").read_bytes())
    evaluated = json.loads((tmp_path / "run" / "evaluation.json").read_bytes())
    assert embedded["identical"] == 6
    assert embedded["policy"] == evaluated["policy"]
    assert len(evaluated["runs"]) == 14  # of so few modules, llc compiles two
    assert evaluated["runs"][-1]["run"] == "smoke test"
    assert evaluated["verdict"] in (tmp_path / "report.html").read_text()
