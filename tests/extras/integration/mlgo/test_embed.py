"""A policy as C++: compiled, compared with the policy itself; tests/e2e links programs with it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from mlir_release.builder.model.regalloc_model import DESCRIPTION, MODEL
from mlir_release.builder.sdk.regalloc_model import ModelFolder
from mlir_release.extras.mlgo.documents import Corpus, Kind, LearnedPolicy
from mlir_release.extras.mlgo.embed import asked, model_sources
from mlir_release.extras.mlgo.evaluate import load_policy
from mlir_release.extras.mlgo.features import NOTHING, EvictionLayout
from mlir_release.extras.mlgo.policies import Scorer, scores, weight_count
from mlir_release.extras.mlgo.toolchain import Toolchain
from tests.extras.integration.mlgo.conftest import error_of, mlgo, said
from tests.extras.unit.mlgo.policy_factory import HEADER, policy
from tests.prefix_factory import make_source

if TYPE_CHECKING:
    from pathlib import Path


#: Reads decisions as an interactive compiler sends them; prints the choice, and the score of the first row.
HARNESS = """
#include "RegAllocEvictModel.cpp"
#include <cstdio>
#include <cstring>
int main() {
  llvm::RegAllocEvictModel Model;
  if (Model.LookupArgIndex("feed_purple") != -1 || Model.LookupResultIndex("fetch_index_to_evict") != 0)
    return 1;
  int64_t Mask[3], Free[3], Hint[3];
  float Broken[3], Density[3];
  double Row[5];
  while (std::fread(Mask, 24, 1, stdin) && std::fread(Free, 24, 1, stdin) && std::fread(Hint, 24, 1, stdin) &&
         std::fread(Broken, 12, 1, stdin) && std::fread(Density, 12, 1, stdin) && std::fread(Row, 40, 1, stdin)) {
    std::memcpy(Model.arg_data(Model.LookupArgIndex("feed_mask")), Mask, 24);
    std::memcpy(Model.arg_data(Model.LookupArgIndex("feed_is_free")), Free, 24);
    std::memcpy(Model.arg_data(Model.LookupArgIndex("feed_is_hint")), Hint, 24);
    std::memcpy(Model.arg_data(Model.LookupArgIndex("feed_nr_broken_hints")), Broken, 12);
    std::memcpy(Model.arg_data(Model.LookupArgIndex("feed_use_def_density")), Density, 12);
    Model.Run();
    std::printf("%d %a\\n", int(*static_cast<int64_t *>(Model.result_data(0))), score(Row));
  }
}
"""


def compiled(given: LearnedPolicy, folder: Path) -> Path:
    for name, text in model_sources(given, HEADER).items():
        (folder / name).write_text(text)
    (folder / "harness.cpp").write_text(HARNESS)
    options = ["-O2", "-ffp-contract=off", "-Wall", "-Werror"]
    subprocess.run(["c++", *options, "harness.cpp", "-o", "harness"], cwd=folder, check=True)
    return folder / "harness"


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_embedded_scores_and_choices_are_equal_to_the_last_bit(kind: Kind, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    given = policy(
        random.normal(size=weight_count(kind, 5, 3)).tolist(),
        kind=kind, hidden=3 if kind == "mlp" else 0, features=EvictionLayout(HEADER).features,
        mean=tuple(random.normal(size=5).tolist()), deviation=tuple(random.uniform(0.1, 2, size=5).tolist()),
    )  # fmt: skip
    scorer, layout, weights = Scorer(given), EvictionLayout(HEADER), np.array(given.weights)
    sent, wanted = b"", []
    for _ in range(3000):
        mask = random.integers(0, 2, 3)
        mask[random.integers(3)] = 1  # one may always be chosen
        density = np.where(random.random(3) < 0.1, np.nan, random.choice(random.random(2), 3))  # some are equal
        memory = b"".join(
            values.astype(kind).tobytes()
            for values, kind in (
                (mask, "int64"), (random.integers(0, 2, 3), "int64"), (random.integers(0, 2, 3), "int64"),
                (random.choice([0, 0.5, 1], 3), "float32"), (density, "float32"),
            )
        )  # fmt: skip
        decision, row = layout.read(memory), random.normal(size=5)
        sent += memory + row.tobytes()
        score = scores(kind, given.hidden, weights, row[None])[0]
        wanted.append((int(decision.positions[scorer(decision)]), float(score)))
    printed = subprocess.run([compiled(given, tmp_path)], input=sent, capture_output=True, check=True).stdout.decode()
    found = [(int(choice), float.fromhex(score)) for choice, score in map(str.split, printed.splitlines())]
    assert found == wanted
    assert len({choice for choice, _ in found}) == 3


@pytest.fixture
def taught(llvm: Path, tmp_path: Path) -> LearnedPolicy:
    """A policy of the compiler's features."""
    toolchain = Toolchain(llvm)
    features = EvictionLayout(asked(toolchain)).features
    count = len(features)
    given = policy(
        [0.5] * count, llvm=toolchain.version, features=features, mean=(0.0,) * count, deviation=(1.0,) * count
    )
    (tmp_path / "policy.json").write_text(given.to_text())
    assert load_policy(tmp_path / "policy.json") == given
    return given


def test_embedding_gives_the_same_bytes_wherever_it_is_done(taught: LearnedPolicy, clang: Path, tmp_path: Path) -> None:
    words = ("embed", tmp_path / "policy.json", "--llvm", clang, "--json", "-o")
    first, second = (said(mlgo(*words, tmp_path / name)) for name in ("here", "a longer name, there"))
    assert first == second
    assert (first["policy"], first["corpus"]) == (taught.digest, taught.corpus)
    assert sorted(first["files"]) == [*(f"{MODEL}.{suffix}" for suffix in ("cpp", "h", "o")), DESCRIPTION]
    about = ModelFolder.load(tmp_path / "here").about
    assert (about.policy, about.corpus, (*about.features[1:], NOTHING)) == (
        taught.digest,
        taught.corpus,
        taught.features,
    )
    assert taught.digest in (tmp_path / "here" / f"{MODEL}.h").read_text()
    content = (tmp_path / "here" / f"{MODEL}.o").read_bytes()
    assert content.startswith(b"\x7fELF")
    assert b"RegAllocEvictModel3Run" in content
    assert str(tmp_path).encode() not in content


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"llvm": "19.1.7"}, "the policy is for LLVM 19.1.7"), ({"weights": (1.0,)}, "the policy has 1 weights")],
)
def test_a_policy_that_does_not_fit_is_not_embedded(
    changed: dict[str, object], said: str, taught: LearnedPolicy, llvm: Path, tmp_path: Path
) -> None:
    path = tmp_path / "policy.json"
    path.write_text(msgspec.structs.replace(taught, **changed).to_text())
    assert said in error_of("embed", path, "--llvm", llvm, "-o", tmp_path / "out").what
    path.write_text(json.dumps({"schema": 1}))
    error_of("embed", path, "--llvm", llvm, "-o", tmp_path / "out", id="input-invalid")
    assert not (tmp_path / "out").exists()


def test_sources_of_another_llvm_are_refused(taught: LearnedPolicy, clang: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    words = ("embed", tmp_path / "policy.json", "--llvm", clang, "-o", tmp_path / "out")
    error_of(*words, "--source", tmp_path / "empty", id="input-missing")
    error_of(*words, "--source", make_source(tmp_path / "other", version="19.1.7"), id="model-unsuitable")
    for option in (("--check", tmp_path), ("--program", "clang")):
        assert mlgo(*words, *option).exit_code == 2  # without --source
    assert mlgo(*words, "--source", tmp_path / "empty", "--program", "lld").exit_code == 2


@pytest.mark.parametrize(("program", "file"), [("llc", "llc.cpp"), ("clang", "llvm-driver-template.cpp.in")])
def test_a_part_of_the_sources_is_refused(
    program: str, file: str, taught: LearnedPolicy, clang: Path, tmp_path: Path
) -> None:
    source = make_source(tmp_path / "source", version=taught.llvm)
    words = ("embed", tmp_path / "policy.json", "--llvm", clang, "-o", tmp_path / "out", "--source", source)
    assert file in error_of(*words, "--program", program, id="input-missing", said="these sources lack").what


def test_an_eviction_policy_is_not_embedded_in_opt(taught: LearnedPolicy, llvm: Path, tmp_path: Path) -> None:
    words = ("embed", tmp_path / "policy.json", "--llvm", llvm, "-o", tmp_path / "out", "--source", tmp_path)
    error = error_of(*words, "--program", "opt", id="input-invalid", said="opt can't use an eviction policy")
    assert "it allocates no registers" in error.what
    assert not (tmp_path / "out").exists()


def test_a_clang_needs_the_archives_of_clang(taught: LearnedPolicy, clang: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "bin").symlink_to(clang / "bin")
    source = make_source(tmp_path / "source", version=taught.llvm)
    words = ("embed", tmp_path / "policy.json", "--llvm", prefix, "-o", tmp_path / "out", "--source", source)
    error = error_of(*words, "--program", "clang", id="tool-missing", said="no archives of clang's libraries")
    assert f"apt install libclang-{taught.llvm.split('.')[0]}-dev" in error.remedy


@pytest.mark.parametrize(
    ("changed", "id"), [({"llvm": "19.1.7"}, "model-unsuitable"), ({"problem": "inlining"}, "input-invalid")]
)
def test_a_corpus_that_does_not_fit_is_refused_before_anything_is_linked(
    changed: dict[str, Any], id: str, taught: LearnedPolicy, llvm: Path, tmp_path: Path
) -> None:
    corpus = Corpus(llvm=taught.llvm, share=0.5, modules=())
    (tmp_path / "corpus.json").write_text(msgspec.structs.replace(corpus, **changed).to_text())
    words = ("embed", tmp_path / "policy.json", "--llvm", llvm, "-o", tmp_path / "out", "--source", tmp_path)
    error_of(*words, "--check", tmp_path, id=id)
    assert not (tmp_path / "out").exists()
