"""What a compiler says on its interactive channel: the log format of LLVM's ``TrainingLogger``, without rewards.

Source: llvm/lib/Analysis/TrainingLogger.cpp and InteractiveModelRunner.cpp. A header (one line of JSON: the features
and the advice), then for each function a line ``{"context": name}``, and for each decision a line
``{"observation": n}``, the features' values as raw memory in the header's order, and a newline. After each decision the
compiler waits for advice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mlir_release.errors import VerificationError
from mlir_release.model.decode import parse_json

#: Bytes of an element, by LLVM's name of the type. Source: SUPPORTED_TENSOR_TYPES in TensorSpec.h.
SIZES = {
    "float": 4, "double": 8, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4,
    "int64_t": 8, "uint64_t": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """A feature, or the advice."""

    name: str
    type: str  #: a key of :data:`SIZES`
    elements: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.elements * SIZES[self.type]


@dataclass(frozen=True)
class Header:
    """What the compiler will say of each decision, and what it wants to hear."""

    features: tuple[Tensor, ...]
    advice: Tensor

    @property
    def size(self) -> int:
        """Bytes of a decision's features."""
        return sum(tensor.size for tensor in self.features)


class Stream:
    """The compiler's side of a conversation, in pieces of any size."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self._buffer = bytearray()
        self._in_observation = False

    def feed(self, data: bytes) -> list[bytes]:
        """The features of each decision that is now complete.

        :raises VerificationError: ``model-unsuitable``
        """
        self._buffer += data
        found = []
        while (piece := self._next()) is not None:
            if piece:
                found.append(piece)
        return found

    def _next(self) -> bytes | None:
        """The features of a decision; empty after any other event; None if more data is needed."""
        if self._in_observation:
            assert self.header is not None
            size = self.header.size
            if len(self._buffer) <= size:
                return None
            features, end = bytes(self._buffer[:size]), self._buffer[size : size + 1]
            if end != b"\n":
                raise _unknown(f"a decision ends with {bytes(end)!r}, not with a newline")
            del self._buffer[: size + 1]
            self._in_observation = False
            return features
        line, newline, _ = self._buffer.partition(b"\n")
        if not newline:
            return None
        del self._buffer[: len(line) + 1]
        self._read_event(bytes(line))
        return b""

    def _read_event(self, line: bytes) -> None:
        try:
            event = parse_json(line)
        except ValueError:
            raise _unknown(f"a line that is not JSON: {line[:80]!r}") from None
        if self.header is None:
            self.header = _read_header(event)
        elif isinstance(event, dict) and "observation" in event:
            self._in_observation = True
        elif not (isinstance(event, dict) and "context" in event):
            raise _unknown(f"an event of another kind: {line[:80]!r}")


def _read_header(event: Any) -> Header:
    try:
        return Header(features=tuple(map(_read_tensor, event["features"])), advice=_read_tensor(event["advice"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(f"a header without what it must have: {error!r}") from None


def _read_tensor(spec: Any) -> Tensor:
    if spec["type"] not in SIZES:
        raise _unknown(f"the type {spec['type']!r}")
    return Tensor(name=str(spec["name"]), type=spec["type"], elements=math.prod(map(int, spec["shape"])))


def _unknown(what: str) -> VerificationError:
    return VerificationError(
        "model-unsuitable",
        f"the compiler's interactive channel says what this toolkit can't read: {what}",
        remedy="use an LLVM whose InteractiveModelRunner writes the format that docs/mlgo.md names",
    )
