"""What a decision's memory becomes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mlir_release.errors import VerificationError
from mlir_release.extras.mlgo.features import EvictionLayout, InliningLayout, Layout
from mlir_release.extras.mlgo.protocol import Header, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

ADVICE = Tensor("index_to_evict", "int64_t", 1)
HEADER = Header(
    (
        Tensor("mask", "int64_t", 4),
        Tensor("is_free", "int64_t", 4),
        Tensor("use_def_density", "float", 4),
        Tensor("progress", "float", 1),
    ),
    ADVICE,
)


def memory(mask: Sequence[int], free: Sequence[int], weight: Sequence[float], progress: float) -> bytes:
    return b"".join(
        np.array(values, kind).tobytes()
        for values, kind in ((mask, "int64"), (free, "int64"), (weight, "float32"), ([progress], "float32"))
    )


def test_only_positions_of_the_mask_become_rows() -> None:
    decision = EvictionLayout(HEADER).read(memory([0, 1, 0, 1], [1, 1, 0, 0], [0.1, 0.25, 0.3, 0.5], 0.75))
    assert decision.positions.tolist() == [1, 3]
    assert decision.rows.tolist() == [[1, 0.25, 0.75, 0], [0, 0.5, 0.75, 1]]


def test_the_features_are_the_compilers_and_ours() -> None:
    assert EvictionLayout(HEADER).features == ("is_free", "use_def_density", "progress", "evicts_nothing")


def test_the_weight_of_a_range_that_cannot_be_spilled_is_the_largest() -> None:
    decision = EvictionLayout(HEADER).read(memory([1, 1, 0, 0], [0, 0, 0, 0], [math.nan, 0.0, math.nan, 0], 1))
    assert decision.rows[:, 1].tolist() == [1, 0]


def test_another_nan_is_refused() -> None:
    with pytest.raises(VerificationError, match="NaN for the feature progress") as caught:
        EvictionLayout(HEADER).read(memory([1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], math.nan))
    assert (caught.value.id, "the compiler gives NaN for the feature" in caught.value.what) == (
        "model-unsuitable",
        True,
    )


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("is_free", "use_def_density", "progress", "size", "evicts_nothing"), "only one of both has size"),
        (("use_def_density", "is_free", "progress", "evicts_nothing"), "their order differs"),
    ],
)
def test_another_feature_list_is_refused(wanted: tuple[str, ...], why: str) -> None:
    with pytest.raises(VerificationError) as caught:
        EvictionLayout(HEADER).expect(wanted)
    assert (caught.value.id, caught.value.why) == ("model-unsuitable", why)


CALL = Header(
    tuple(Tensor(name, "int64_t", 1) for name in ("threshold", "cost_estimate", "inlining_default")),
    Tensor("inlining_decision", "int64_t", 1),
)


@pytest.mark.parametrize("default", [0, 1])
def test_a_call_is_kept_or_inlined(default: int) -> None:
    layout = InliningLayout(CALL)
    decision = layout.read(np.array([45, -30, default], "int64").tobytes())
    assert layout.features == ("threshold", "cost_estimate", "keeps_call")
    assert decision.positions.tolist() == [0, 1]
    assert decision.rows.tolist() == [[0, 0, 1], [45, -30, 0]]
    assert decision.default == default


@pytest.mark.parametrize(
    ("layout", "header"),
    [
        (EvictionLayout, Header(HEADER.features[1:], ADVICE)),
        (EvictionLayout, Header((*HEADER.features, Tensor("callee_users", "int64_t", 2)), ADVICE)),
        (EvictionLayout, Header(HEADER.features, Tensor("priority", "float", 1))),
        (EvictionLayout, CALL),
        (InliningLayout, HEADER),
        (InliningLayout, Header(CALL.features[:-1], CALL.advice)),
        (InliningLayout, Header((*CALL.features, Tensor("callee_embedding", "float", 300)), CALL.advice)),
    ],
)
def test_another_problem_is_refused(layout: type[Layout], header: Header) -> None:
    with pytest.raises(VerificationError) as caught:
        layout(header)
    assert (caught.value.id, "this compiler's features are not those of the policy:" in caught.value.what) == (
        "model-unsuitable",
        True,
    )
