"""A policy as C++ text; tests/extras/integration/mlgo compiles it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.mlgo.embed import check_programs, model_sources
from mlir_release.extras.mlgo.features import Header, Tensor
from mlir_release.extras.mlgo.linking import PROGRAMS
from mlir_release.extras.mlgo.problems import problem_of
from mlir_release.ground.documents.digests import sha256_of
from tests.extras.unit.mlgo.policy_factory import FEATURES, HEADER, policy
from tests.refusals import refused

if TYPE_CHECKING:
    from mlir_release.extras.mlgo.documents import LearnedPolicy, ProblemName

WEIGHTS = (0.1, -1 / 3, 1e-300, 5e8, -0.0)


def test_both_files_name_the_policy_and_its_corpus() -> None:
    given = policy(WEIGHTS)
    found = model_sources(given, HEADER)
    assert sorted(found) == ["RegAllocEvictModel.cpp", "RegAllocEvictModel.h"]
    for text in found.values():
        assert f"// Policy: sha256 {given.digest}\n// Corpus: sha256 {given.corpus}\n" in text
        assert "(linear)" in text
    assert found == model_sources(given, HEADER)


@pytest.mark.parametrize(
    ("given", "digest"),
    [
        (policy(WEIGHTS), "652d40aa6c2b84df88b43a9f52253379345b26db55d078f07aca5cd9186c62cd"),
        (
            policy([weight / 3 for weight in range(14)], kind="mlp", hidden=2, mean=(0.5,) * 5),
            "82cffe8bde5541422dea64dfa1d6d6426b4a089b39bdde761682615bb382e42d",
        ),
    ],
    ids=["linear", "mlp"],
)
def test_every_version_writes_the_same_bytes(given: LearnedPolicy, digest: str) -> None:
    """A wheel's build is known by these files: other bytes for an old policy would be another build."""
    assert sha256_of("".join(model_sources(given, HEADER).values())) == digest


def test_a_policy_of_other_features_is_refused() -> None:
    other = policy(WEIGHTS, features=("is_purple", *FEATURES[1:]))
    said = "this compiler's features are not those of the policy:"
    refused(lambda: model_sources(other, HEADER), "model-unsuitable", said)


#: A compiler that asks whether to inline.
INLINER = Header(
    (*(Tensor(name, "int64_t", 1) for name in ("callee_users", "cost_estimate", "inlining_default")),),
    Tensor("inlining_decision", "int64_t", 1),
)


def test_an_inlining_policy_has_the_class_that_the_inliner_expects() -> None:
    features = ("callee_users", "cost_estimate", "keeps_call")
    given = policy((1.0, -1.0, 0.5), problem="inlining", features=features, mean=(0.0,) * 3, deviation=(1.0,) * 3)
    found = model_sources(given, INLINER)
    assert sorted(found) == ["InlinerSizeModel.cpp", "InlinerSizeModel.h"]
    source = found["InlinerSizeModel.cpp"]
    assert source.startswith("// An inlining policy (linear) of the inliner of LLVM 22.1.8.\n")
    assert "Positions = 2" in source
    assert "Row[Features] = {P ? double(Input0[0]) : 0., P ? double(Input1[0]) : 0., P == 0 ? 1. : 0.};" in source
    assert "isnan" not in source
    refused(lambda: model_sources(given, HEADER), "model-unsuitable")


@pytest.mark.parametrize(
    ("problem", "program"), [(name, program) for name in ("regalloc", "inlining") for program in PROGRAMS]
)
def test_every_program_takes_a_policy_or_says_why_not(problem: ProblemName, program: str) -> None:
    given, embedding = policy(WEIGHTS, problem=problem), problem_of(problem)
    assert (program in embedding.programs) != (program in embedding.elsewhere)
    if program in embedding.programs:
        check_programs([program], given)
    else:
        refused(lambda: check_programs(["clang", program], given), "input-invalid", embedding.elsewhere[program])
