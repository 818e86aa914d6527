"""A compiler's decisions, cut into pieces wherever, and what their memory becomes."""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mlir_release.extras.mlgo.features import EvictionLayout, Header, InliningLayout, Layout, Stream, Tensor
from tests.refusals import refused

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


def test_only_positions_of_the_mask_become_rows_of_the_compilers_features_and_ours() -> None:
    layout = EvictionLayout(HEADER)
    decision = layout.read(memory([0, 1, 0, 1], [1, 1, 0, 0], [0.1, 0.25, 0.3, 0.5], 0.75))
    assert layout.features == ("is_free", "use_def_density", "progress", "evicts_nothing")
    assert decision.positions.tolist() == [1, 3]
    assert decision.rows.tolist() == [[1, 0.25, 0.75, 0], [0, 0.5, 0.75, 1]]


def test_the_weight_of_a_range_that_cannot_be_spilled_is_the_largest() -> None:
    decision = EvictionLayout(HEADER).read(memory([1, 1, 0, 0], [0, 0, 0, 0], [math.nan, 0.0, math.nan, 0], 1))
    assert decision.rows[:, 1].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("is_free", "use_def_density", "progress", "size", "evicts_nothing"), "only one of both has size"),
        (("use_def_density", "is_free", "progress", "evicts_nothing"), "their order differs"),
    ],
)
def test_another_feature_list_is_refused(wanted: tuple[str, ...], why: str) -> None:
    assert refused(lambda: EvictionLayout(HEADER).expect(wanted), "model-unsuitable").why == why


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
    refused(lambda: layout(header), "model-unsuitable", "this compiler's features are not those of the policy:")


# -- the stream ---------------------------------------------------------------------------------------------------

SAID_ADVICE = {"name": "index_to_evict", "type": "int64_t", "port": 0, "shape": [1]}
SAID_HEADER: dict[str, Any] = {
    "features": [
        {"name": "mask", "type": "int64_t", "port": 0, "shape": [1, 3]},
        {"name": "weight", "type": "float", "port": 0, "shape": [1, 3]},
    ],
    "advice": SAID_ADVICE,
}
#: Two decisions; the first one's memory holds newlines, as numbers may.
FIRST = struct.pack("=3q3f", 10, 10, 10, 1.0, 2.0, 3.0)
SECOND = struct.pack("=3q3f", 0, 1, 1, 0.0, 0.5, 1.0)


def spoken() -> bytes:
    return b"".join([
        json.dumps(SAID_HEADER).encode(), b'\n{"context":"f"}\n', b'{"observation":0}\n', FIRST, b"\n",
        b'{"context":"empty"}\n{"context":"g"}\n', b'{"observation":0}\n', SECOND, b"\n",
    ])  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 36, 37, 10_000])
def test_decisions_come_out_whole_however_the_stream_is_cut(size: int) -> None:
    stream, said = Stream(), spoken()
    found = [memory for start in range(0, len(said), size) for memory in stream.feed(said[start : start + size])]
    assert found == [FIRST, SECOND]


def test_a_decision_is_complete_before_the_compiler_waits() -> None:
    stream = Stream()
    assert stream.feed(spoken()[: spoken().index(FIRST) + len(FIRST) + 1]) == [FIRST]


def test_the_header_says_names_types_and_sizes() -> None:
    stream = Stream()
    stream.feed(spoken())
    assert stream.header is not None
    assert stream.header.memory == np.dtype([("mask", "int64", (3,)), ("weight", "float32", (3,))])
    assert (stream.header.advice.name, stream.header.memory.itemsize) == ("index_to_evict", 36)


@pytest.mark.parametrize(
    "said",
    [
        b"not JSON\n",
        b"[]\n",
        b'{"features": []}\n',
        json.dumps(SAID_HEADER | {"advice": SAID_ADVICE | {"type": "string"}}).encode() + b"\n",
        json.dumps(SAID_HEADER | {"advice": SAID_ADVICE | {"shape": ["x"]}}).encode() + b"\n",
        json.dumps(SAID_HEADER | {"advice": SAID_ADVICE | {"name": ""}}).encode() + b"\n",
        json.dumps(SAID_HEADER | {"features": SAID_HEADER["features"] * 2}).encode() + b"\n",
        json.dumps(SAID_HEADER).encode() + b'\n{"outcome":0}\n',
        json.dumps(SAID_HEADER).encode() + b'\n"context"\n',
        json.dumps(SAID_HEADER).encode() + b'\n{"observation":0}\n' + FIRST + b"x",
    ],
)
def test_anything_else_is_refused(said: bytes) -> None:
    refused(lambda: Stream().feed(said), "model-unsuitable")
