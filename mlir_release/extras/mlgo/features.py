"""A compiler's decisions: how it sends them, and how they become one row of numbers for each choice.

The compiler writes the log format of LLVM's ``TrainingLogger``: a header (one line of JSON: the features and the
advice), then for each function a line ``{"context": name}``, and for each decision a line ``{"observation": n}``, the
features' values as raw memory in the header's order, and a newline. In interactive mode it waits for advice then. A
training log, of the development mode, has the decision's advice as its last value, and after it a line
``{"outcome": n}``, the reward's memory, and a newline. Sources: llvm/lib/Analysis/TrainingLogger.cpp,
InteractiveModelRunner.cpp, llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp.

A decision has one tensor a feature. In eviction, a tensor has one element a position: a physical register, or, at
the last position, the live range that asks, which stands for evicting nothing; ``mask`` says which positions may be
chosen. In inlining, there is one call, which is kept or inlined. Sources: RA_EVICT_FEATURES_LIST in
llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp, llvm/include/llvm/Analysis/InlineModelFeatureMaps.h.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    #: Answers a compiler: which of the decision's rows to take.
    Chooser = Callable[["Decision"], int]

    #: Makes a chooser, once the compiler has said which features it has.
    Maker = Callable[["Layout"], Chooser]

MASK = "mask"

#: Our own feature of eviction, the last one: 1 at the position that stands for evicting nothing.
NOTHING = "evicts_nothing"

#: The default's choice, 0 or 1: an input of no policy.
DEFAULT = "inlining_default"

#: Our own feature of inlining, the last one: 1 where the call is kept.
KEEPS = "keeps_call"

#: The one feature whose NaN is understood: the weight of a range that can't be spilled is infinite, and the compiler
#: divides infinity by the largest, infinity. It is the largest, so it is 1, as the largest of any feature is.
WEIGHT = "use_def_density"

#: NumPy's names of LLVM's types. Source: SUPPORTED_TENSOR_TYPES in TensorSpec.h.
TYPES = {
    "float": "float32", "double": "float64", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16",
    "uint16_t": "uint16", "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
}  # fmt: skip


class Tensor(NamedTuple):
    """A feature, or the advice."""

    name: str
    type: str  #: a key of :data:`TYPES`
    elements: int


class Header(NamedTuple):
    """The tensors that the compiler sends for each decision, and the one that it expects."""

    features: tuple[Tensor, ...]
    advice: Tensor
    reward: Tensor | None = None  #: of a training log, where the advice follows the features

    @property
    def memory(self) -> np.dtype[np.void]:
        """The layout of a decision's features. :raises ValueError: if NumPy can't represent it"""
        return _memory(*self.features)


def _memory(*tensors: Tensor) -> np.dtype[np.void]:
    return np.dtype([(tensor.name, TYPES[tensor.type], (tensor.elements,)) for tensor in tensors])


class Stream:
    """The compiler's side of a conversation, or a training log, in pieces of any size."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self._buffer = bytearray()
        self._sizes: dict[str, int] = {}  # of the memory after an event
        self._event = ""  # whose memory comes next
        self._owed = False  # whether a decision's reward comes next

    @property
    def at_rest(self) -> bool:
        """Whether a header was read, and nothing is half read: a file may end so."""
        return self.header is not None and not (self._buffer or self._event or self._owed)

    def feed(self, data: bytes) -> list[bytes]:
        """The features of each decision that is now complete; in a training log, with the advice after them.

        :raises VerificationError: ``model-unsuitable``
        """
        self._buffer += data
        found: list[bytes] = []
        while True:
            if self._event:
                size = self._sizes[self._event]
                if len(self._buffer) <= size:
                    return found
                if self._buffer[size] != ord("\n"):
                    end = bytes(self._buffer[size : size + 1])
                    raise _unknown(f"an {self._event} ends with {end!r}, not with a newline")
                if self._event == "observation":
                    found.append(bytes(self._buffer[:size]))
                del self._buffer[: size + 1]
                self._owed = self._event == "observation" and "outcome" in self._sizes
                self._event = ""
            else:
                line, newline, _ = self._buffer.partition(b"\n")
                if not newline:
                    return found
                del self._buffer[: len(line) + 1]
                try:
                    event = parse_json(bytes(line))
                except ValueError:
                    raise _unknown(f"a line that is not JSON: {bytes(line[:80])!r}") from None
                if self.header is None:
                    self.header, self._sizes = _read_header(event)
                elif isinstance(event, dict) and "outcome" in event and self._owed:
                    self._event = "outcome"
                elif isinstance(event, dict) and "observation" in event and not self._owed:
                    self._event = "observation"
                elif not (isinstance(event, dict) and "context" in event and not self._owed):
                    raise _unknown(f"an event of another kind: {bytes(line[:80])!r}")


def _read_header(event: Any) -> tuple[Header, dict[str, int]]:
    """The header, and the bytes of memory that follow each kind of event."""
    try:
        tensors, reward = list(map(_read_tensor, event["features"])), None
        if "score" in event:
            *tensors, advice = tensors
            reward = _read_tensor(event["score"])
            sizes = {"observation": _memory(*tensors, advice).itemsize, "outcome": _memory(reward).itemsize}
        else:
            advice = _read_tensor(event["advice"])
            sizes = {"observation": _memory(*tensors).itemsize}
        return Header(tuple(tensors), advice, reward), sizes
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(f"a header without what it must have: {error!r}") from None


def _read_tensor(spec: Any) -> Tensor:
    if spec["type"] not in TYPES:
        raise _unknown(f"the type {spec['type']!r}")
    if not spec["name"]:
        raise _unknown("a tensor without a name")
    return Tensor(name=str(spec["name"]), type=spec["type"], elements=math.prod(map(int, spec["shape"])))


def _unknown(what: str) -> VerificationError:
    return VerificationError(
        "model-unsuitable",
        f"the compiler's decisions are written as this toolkit can't read them: {what}",
        remedy="use an LLVM whose TrainingLogger writes the format that docs/mlgo.md names",
    )


# -- rows -------------------------------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """A question of the compiler.

    :param positions: the possible answers, ascending
    :param rows: features of each: (positions, features)
    :param default: the default's choice, an index of a position, where the compiler tells it
    :param tensors: the compiler's, by name; None for a recorded decision
    """

    positions: NDArray[np.int64]
    rows: NDArray[np.float64]
    default: int | None = None
    tensors: np.void | None = None


class Layout(ABC):
    """How the memory of a compiler's decisions is read."""

    ASKS: ClassVar[str]  #: a decision, in words
    APART: ClassVar[str]  #: the tensor that is no feature of a policy
    OWN: ClassVar[str]  #: our feature, after the compiler's: 1 where nothing is changed

    def __init__(self, header: Header) -> None:
        names = [tensor.name for tensor in header.features]
        sizes = {tensor.name: tensor.elements for tensor in header.features}
        if not self._fits(sizes) or header.advice[1:] != ("int64_t", 1):
            raise _differ(names, why=f"it asks for no {self.ASKS}")
        self._count = sizes[self.APART]
        self._tensors = header.memory
        self._inputs = [name for name in names if name != self.APART]
        self.features = (*self._inputs, self.OWN)  #: columns of :attr:`Decision.rows`

    def expect(self, features: Sequence[str]) -> None:
        """Refuse a compiler whose features are not those that a policy was made for.

        :raises VerificationError: ``model-unsuitable``
        """
        if self.features != tuple(features):
            odd = sorted(set(self.features) ^ set(features))
            raise _differ(self._inputs, why=f"only one of both has {', '.join(odd)}" if odd else "their order differs")

    def provide(self, inputs: Sequence[tuple[str, int]]) -> None:
        """Refuse a compiler that does not send all inputs of a model: names and elements of its tensors.

        :raises VerificationError: ``model-unsuitable``
        """
        sent = {name: self._tensors[name].shape[0] for name in self._tensors.names or ()}
        if missing := sorted(name for name, elements in inputs if sent.get(name) != elements):
            raise _differ(self._inputs, why=f"it does not send {', '.join(missing)}, of the model's size")

    def read(self, memory: bytes) -> Decision:
        """A decision.

        :raises VerificationError: ``model-unsuitable``
        """
        tensors = np.frombuffer(memory, self._tensors)[0]
        decision = self._decision(tensors)._replace(tensors=tensors)
        rows = decision.rows
        if np.isnan(rows).any():
            for column in np.flatnonzero(np.isnan(rows).any(axis=0)):
                name = self.features[column]
                if name != WEIGHT:
                    raise VerificationError(
                        "model-unsuitable",
                        f"the compiler gives NaN for the feature {name}",
                        why=f"only {WEIGHT} may be NaN, of ranges that can't be spilled",
                        remedy="report it to LLVM with the module's bitcode; leave the module out of the corpus",
                    )
                rows[np.isnan(rows[:, column]), column] = 1.0
        return decision

    @classmethod
    @abstractmethod
    def _fits(cls, sizes: Mapping[str, int]) -> bool:
        """Whether tensors of such names and elements are of this problem."""

    @abstractmethod
    def _decision(self, tensors: np.void) -> Decision:
        """A decision, with features that may be NaN."""


class EvictionLayout(Layout):
    """A choice among the positions that a mask allows."""

    ASKS = "choice among masked positions"
    APART = MASK
    OWN = NOTHING

    @classmethod
    def _fits(cls, sizes: Mapping[str, int]) -> bool:
        return set(sizes.values()) <= {sizes.get(MASK, 0), 1} and MASK in sizes

    def _decision(self, tensors: np.void) -> Decision:
        positions = np.flatnonzero(tensors[MASK])
        rows = np.empty((len(positions), len(self.features)))
        for column, name in enumerate(self._inputs):
            values = tensors[name]
            rows[:, column] = values[positions] if len(values) > 1 else values[0]
        rows[:, -1] = positions == self._count - 1
        return Decision(positions, rows)


class InliningLayout(Layout):
    """A choice between keeping a call, whose features are all 0 but for ours, and inlining it."""

    ASKS = "choice about one call"
    APART = DEFAULT
    OWN = KEEPS

    @classmethod
    def _fits(cls, sizes: Mapping[str, int]) -> bool:
        return set(sizes.values()) == {1} and DEFAULT in sizes

    def _decision(self, tensors: np.void) -> Decision:
        rows = np.zeros((2, len(self.features)))
        rows[0, -1] = 1
        rows[1, :-1] = [tensors[name][0] for name in self._inputs]
        return Decision(np.arange(2), rows, int(tensors[DEFAULT][0]))


def _differ(names: Sequence[str], *, why: str) -> VerificationError:
    return VerificationError(
        "model-unsuitable",
        f"this compiler's features are not those of the policy: {', '.join(names)}",
        why=why,
        remedy="trace and train with the LLVM that the policy is for",
    )
