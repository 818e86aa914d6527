"""Inlining, with a real clang, by the commands that evictions have."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.embed import asked
from mlir_release.extras.mlgo.evaluate import Evaluation, evaluate, load_policy
from mlir_release.extras.mlgo.features import InliningLayout
from mlir_release.extras.mlgo.instructions import Counter
from mlir_release.extras.mlgo.policies import Scorer
from mlir_release.extras.mlgo.problems import INLINING
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.extras.mlgo.training.trace import load_decisions, load_trace
from tests.extras.integration.mlgo.conftest import calls, error_of, make_build, mlgo, said, use_clang
from tests.extras.integration.mlgo.test_instructions import write_programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.builder.sdk.sources.debian import DebianPackages


@pytest.fixture(scope="module")
def clang(packages: DebianPackages) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield use_clang(packages, monkeypatch)


@pytest.fixture(scope="module")
def corpus(clang: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inlining")
    build = make_build(clang, folder / "build", extra="-Oz", text=calls)
    words = ("corpus", build, "-o", folder / "corpus", "--llvm", clang, "--problem", "inlining", "--held-out", "0.4")
    found = said(mlgo(*words, "--json"))
    assert (found["problem"], len(found["modules"])) == ("inlining", 5)
    assert found["modules"][0]["flags"][0] == "-cc1"
    said(mlgo("trace", folder / "corpus", "--llvm", clang, "--json"))
    return folder / "corpus"


@pytest.fixture(scope="module")
def trained(corpus: Path, clang: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    few = ("--generations", "2", "--pairs", "1", "--start", "heuristic")
    said(mlgo("train", corpus, "-o", folder, "--llvm", clang, *few, "--json"))
    return folder


def test_the_default_is_observed_and_gives_its_own_objects(corpus: Path) -> None:
    trace = load_trace(corpus, load_corpus(corpus))
    assert trace.identical == len(trace.defaults) == 3
    assert all(default.cost == default.text > 0 for default in trace.defaults)
    chosen = [choice for _, choice in load_decisions(corpus, trace)]
    assert set(chosen) == {0, 1}
    assert "inlining_default" not in trace.features


def test_a_policy_is_trained_evaluated_and_reported(corpus: Path, trained: Path, clang: Path, tmp_path: Path) -> None:
    words = ("evaluate", corpus, "--policy", trained / "policy.json", "--llvm", clang)
    found = said(mlgo(*words, "--json"))
    assert [row["module"] for row in found["modules"]] == [module.name for module in load_corpus(corpus).held_out]
    assert all(row["policy"]["decisions"] > 0 for row in found["modules"])
    assert found["cost"] == found["text"]
    assert found["cost"]["default"] == sum(row["default"]["text"] for row in found["modules"])
    (tmp_path / "evaluation.json").write_text(json.dumps(found))
    given = ("--training", trained / "training.json", "--evaluation", tmp_path / "evaluation.json")
    assert mlgo("report", corpus, *given, "-o", tmp_path).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "An inlining policy" in page
    assert found["verdict"] in page


def test_inlining_policies_are_not_compiled_together(corpus: Path, clang: Path, tmp_path: Path) -> None:
    words = ("train", corpus, "-o", tmp_path / "out", "--llvm", clang, "--source", tmp_path)
    assert mlgo(*words).exit_code == 2
    assert not (tmp_path / "out").exists()


def judged(corpus: Path, trained: Path, clang: Path, *, keeps: float, programs: Path | None = None) -> Evaluation:
    """Of a policy that inlines nothing, or all that can be, on all modules."""
    loaded, policy, toolchain = load_corpus(corpus), load_policy(trained / "policy.json"), Toolchain(clang)
    weights = tuple(keeps if name == "keeps_call" else 0.0 for name in policy.features)
    constant, compiler = msgspec.structs.replace(policy, weights=weights), Compiler(toolchain, loaded, corpus)
    count = Counter(programs, toolchain) if programs else None
    return evaluate(constant, loaded.modules, compiler, seed=1, counter=count)


def test_what_is_inlined_follows_the_policy(corpus: Path, trained: Path, clang: Path) -> None:
    never, always = (judged(corpus, trained, clang, keeps=keeps) for keeps in (1.0, -1.0))
    assert never.cost.relative != 0
    assert always.cost.relative > max(never.cost.relative, 0)
    assert always.cost.worse


@pytest.mark.usefixtures("_valgrind")
def test_a_policy_that_inlines_nothing_executes_more(corpus: Path, trained: Path, clang: Path, tmp_path: Path) -> None:
    found = judged(corpus, trained, clang, keeps=1.0, programs=write_programs(tmp_path, function="first{}"))
    assert len(found.runs) == 5
    assert all(run.policy > run.default for run in found.runs)


#: Reads features as integers, by the names that it is given; prints the choices.
HARNESS = """
#include "InlinerSizeModel.cpp"
#include <cstdio>
#include <cstring>
int main(int Count, char **Words) {
  llvm::InlinerSizeModel Model;
  if (Model.LookupArgIndex("feed_purple") != -1 || Model.LookupResultIndex("fetch_inlining_decision") != 0)
    return 1;
  for (;;) {
    for (int I = 1; I != Count; ++I) {
      int64_t Value;
      if (!std::fread(&Value, 8, 1, stdin))
        return 0;
      std::memcpy(Model.arg_data(Model.LookupArgIndex(std::string("feed_") + Words[I])), &Value, 8);
    }
    Model.Run();
    std::printf("%d\\n", int(*static_cast<int64_t *>(Model.result_data(0))));
  }
}
"""


def test_an_embedded_policy_chooses_as_the_policy(trained: Path, clang: Path, tmp_path: Path) -> None:
    random, header = np.random.default_rng(5), asked(Toolchain(clang), INLINING)
    names = [tensor.name for tensor in header.features]
    assert {tensor.type for tensor in header.features} == {"int64_t"}
    learned = load_policy(trained / "policy.json")
    changed = msgspec.structs.replace(learned, weights=tuple(random.normal(size=len(learned.weights)).tolist()))
    (tmp_path / "policy.json").write_text(changed.to_text())
    words = ("embed", tmp_path / "policy.json", "--llvm", clang, "-o", tmp_path, "--json")
    assert sorted(said(mlgo(*words))["files"]) == [f"InlinerSizeModel.{kind}" for kind in ("cpp", "h", "o")]
    (tmp_path / "harness.cpp").write_text(HARNESS)
    options = ["-O2", "-ffp-contract=off", "-Wall", "-Werror"]
    subprocess.run(["c++", *options, "harness.cpp", "-o", "harness"], cwd=tmp_path, check=True)

    values = random.integers(-100, 1000, (2000, len(names)))
    printed = subprocess.run([tmp_path / "harness", *names], input=values.tobytes(), capture_output=True, check=True)
    layout, scorer = InliningLayout(header), Scorer(changed)
    wanted = [scorer(layout.read(row.tobytes())) for row in values]
    assert [int(line) for line in printed.stdout.split()] == wanted
    assert set(wanted) == {0, 1}


# -- bad input ----------------------------------------------------------------------------------------------------


def test_a_policy_of_the_other_problem_is_refused(corpus: Path, trained: Path, clang: Path, tmp_path: Path) -> None:
    policy = load_policy(trained / "policy.json")
    (tmp_path / "policy.json").write_text(msgspec.structs.replace(policy, problem="regalloc").to_text())
    words = ("evaluate", corpus, "--policy", tmp_path / "policy.json", "--llvm", clang)
    error_of(*words, id="input-invalid", said="this is an eviction policy, and the corpus is for an inlining")


def test_inlining_is_not_taken_from_links(corpus: Path, clang: Path, tmp_path: Path) -> None:
    words = ("corpus", corpus.parent, "-o", tmp_path, "--llvm", clang, "--problem", "inlining", "--thinlto", "tool")
    assert mlgo(*words).exit_code == 2
