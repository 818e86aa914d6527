"""What a decision's memory becomes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mlir_release.errors import VerificationError
from mlir_release.mlgo.features import Layout
from mlir_release.mlgo.protocol import Header, Tensor

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
    decision = Layout(HEADER).read(memory([0, 1, 0, 1], [1, 1, 0, 0], [0.1, 0.25, 0.3, 0.5], 0.75))
    assert decision.positions.tolist() == [1, 3]
    assert decision.rows.tolist() == [[1, 0.25, 0.75, 0], [0, 0.5, 0.75, 1]]


def test_the_features_are_the_compilers_and_ours() -> None:
    assert Layout(HEADER).features == ("is_free", "use_def_density", "progress", "evicts_nothing")


def test_the_weight_of_a_range_that_cannot_be_spilled_is_the_largest() -> None:
    decision = Layout(HEADER).read(memory([1, 1, 0, 0], [0, 0, 0, 0], [math.nan, 0.0, math.nan, 0], 1))
    assert decision.rows[:, 1].tolist() == [1, 0]


def test_another_nan_is_refused() -> None:
    with pytest.raises(VerificationError, match="NaN for the feature progress") as caught:
        Layout(HEADER).read(memory([1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], math.nan))
    assert caught.value.id == "mlgo-features-nan"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("is_free", "use_def_density", "progress", "size", "evicts_nothing"), "only one of both has size"),
        (("use_def_density", "is_free", "progress", "evicts_nothing"), "their order differs"),
    ],
)
def test_another_feature_list_is_refused(wanted: tuple[str, ...], why: str) -> None:
    with pytest.raises(VerificationError) as caught:
        Layout(HEADER).expect(wanted)
    assert (caught.value.id, caught.value.why) == ("mlgo-features-differ", why)


@pytest.mark.parametrize(
    "header",
    [
        Header(HEADER.features[1:], ADVICE),
        Header((*HEADER.features, Tensor("callee_users", "int64_t", 2)), ADVICE),
        Header(HEADER.features, Tensor("priority", "float", 1)),
    ],
)
def test_another_problem_than_eviction_is_refused(header: Header) -> None:
    with pytest.raises(VerificationError) as caught:
        Layout(header)
    assert caught.value.id == "mlgo-features-differ"
