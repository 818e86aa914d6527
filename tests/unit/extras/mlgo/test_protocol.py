"""The compiler's side of a conversation, cut into pieces wherever."""

from __future__ import annotations

import json
import struct

import pytest

from mlir_release.errors import VerificationError
from mlir_release.extras.mlgo.protocol import Stream

ADVICE = {"name": "index_to_evict", "type": "int64_t", "port": 0, "shape": [1]}
HEADER = {
    "features": [
        {"name": "mask", "type": "int64_t", "port": 0, "shape": [1, 3]},
        {"name": "weight", "type": "float", "port": 0, "shape": [1, 3]},
    ],
    "advice": ADVICE,
}
#: Two decisions; the first one's memory holds newlines, as numbers may.
FIRST = struct.pack("=3q3f", 10, 10, 10, 1.0, 2.0, 3.0)
SECOND = struct.pack("=3q3f", 0, 1, 1, 0.0, 0.5, 1.0)


def spoken() -> bytes:
    return b"".join([
        json.dumps(HEADER).encode(), b'\n{"context":"f"}\n', b'{"observation":0}\n', FIRST, b"\n",
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
    assert [(tensor.name, tensor.size) for tensor in stream.header.features] == [("mask", 24), ("weight", 12)]
    assert (stream.header.advice.name, stream.header.size) == ("index_to_evict", 36)


@pytest.mark.parametrize(
    "said",
    [
        b"not JSON\n",
        b"[]\n",
        b'{"features": []}\n',
        json.dumps(HEADER | {"advice": ADVICE | {"type": "string"}}).encode() + b"\n",
        json.dumps(HEADER | {"advice": ADVICE | {"shape": ["x"]}}).encode() + b"\n",
        json.dumps(HEADER).encode() + b'\n{"outcome":0}\n',
        json.dumps(HEADER).encode() + b'\n"context"\n',
        json.dumps(HEADER).encode() + b'\n{"observation":0}\n' + FIRST + b"x",
    ],
)
def test_anything_else_is_refused(said: bytes) -> None:
    with pytest.raises(VerificationError) as caught:
        Stream().feed(said)
    assert caught.value.id == "model-unsuitable"
