"""From a decision's features, as the compiler sends them, to one row of numbers for each choice that it has.

The compiler sends one tensor a feature. In eviction, a tensor has one element a position: a physical register, or, at
the last position, the live range that asks, which stands for evicting nothing; ``mask`` says which positions may be
chosen. In inlining, there is one call, which is kept or inlined. Sources: RA_EVICT_FEATURES_LIST in
llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp, llvm/include/llvm/Analysis/InlineModelFeatureMaps.h.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from mlir_release.errors import VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from mlir_release.extras.mlgo.protocol import Header

MASK = "mask"

#: Our own feature of eviction, the last one: 1 at the position that stands for evicting nothing.
NOTHING = "evicts_nothing"

#: What the default would do, 0 or 1: an input of no policy.
DEFAULT = "inlining_default"

#: Our own feature of inlining, the last one: 1 where the call is kept.
KEEPS = "keeps_call"

#: The one feature whose NaN is understood: the weight of a range that can't be spilled is infinite, and the compiler
#: divides infinity by the largest, infinity. It is the largest, so it is 1, as the largest of any feature is.
WEIGHT = "use_def_density"

_FLOATS = {"float": "float32", "double": "float64"}


class Decision(NamedTuple):
    """What the compiler asks.

    :param positions: what may be answered, ascending
    :param rows: features of each: (positions, features)
    :param default: the default's choice, an index of a position, where the compiler tells it
    :param tensors: what the compiler sent, by name; a recorded decision has none
    """

    positions: NDArray[np.int64]
    rows: NDArray[np.float64]
    default: int | None = None
    tensors: np.void | None = None


class Layout(ABC):
    """How the memory of a compiler's decisions is read."""

    ASKS: ClassVar[str]  #: what a decision is, in words
    APART: ClassVar[str]  #: the tensor that is no feature of a policy
    OWN: ClassVar[str]  #: our feature, after the compiler's: 1 where nothing is changed

    def __init__(self, header: Header) -> None:
        names = [tensor.name for tensor in header.features]
        sizes = {tensor.name: tensor.elements for tensor in header.features}
        if not self._fits(sizes) or header.advice.type != "int64_t":
            raise _differ(names, why=f"it asks for no {self.ASKS}")
        self._count = sizes[self.APART]
        self._tensors = np.dtype([(tensor.name, _type(tensor.type), (tensor.elements,)) for tensor in header.features])
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
        """Refuse a compiler that does not send all that a model is given: names and elements of its tensors.

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
        if np.isnan(decision.rows).any():
            self._repair(decision.rows)
        return decision

    @classmethod
    @abstractmethod
    def _fits(cls, sizes: Mapping[str, int]) -> bool:
        """Whether tensors of such names and elements are of this problem."""

    @abstractmethod
    def _decision(self, tensors: np.void) -> Decision:
        """A decision, with what may be NaN."""

    def _repair(self, rows: NDArray[np.float64]) -> None:
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


def _type(name: str) -> np.dtype[np.generic]:
    return np.dtype(_FLOATS.get(name) or name.removesuffix("_t"))


def _differ(names: Sequence[str], *, why: str) -> VerificationError:
    return VerificationError(
        "model-unsuitable",
        f"this compiler's features are not those of the policy: {', '.join(names)}",
        why=why,
        remedy="trace and train with the LLVM that the policy is for",
    )
