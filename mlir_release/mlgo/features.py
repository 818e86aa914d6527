"""From a decision's features, as the compiler sends them, to one row of numbers for each register that could be taken.

The compiler sends one tensor a feature, with one element a position: a physical register, or, at the last position, the
live range that asks, which stands for evicting nothing. ``mask`` says which positions may be chosen. Source:
RA_EVICT_FEATURES_LIST in llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlir_release.errors import VerificationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mlir_release.mlgo.protocol import Header

MASK = "mask"

#: Our own feature, the last one: 1 at the position that stands for evicting nothing.
NOTHING = "evicts_nothing"

#: The one feature whose NaN is understood: the weight of a range that can't be spilled is infinite, and the compiler
#: divides infinity by the largest, infinity. It is the largest, so it is 1, as the largest of any feature is.
WEIGHT = "use_def_density"

_FLOATS = {"float": "float32", "double": "float64"}


class Decision(NamedTuple):
    """What the compiler asks.

    :param positions: those that may be chosen, ascending
    :param rows: features of each: (positions, features)
    """

    positions: NDArray[np.int64]
    rows: NDArray[np.float64]


class Layout:
    """How the memory of a compiler's decisions is read."""

    def __init__(self, header: Header) -> None:
        names = [tensor.name for tensor in header.features]
        sizes = {tensor.name: tensor.elements for tensor in header.features}
        self._count = sizes.get(MASK, 0)
        if not self._count or not set(sizes.values()) <= {self._count, 1} or header.advice.type != "int64_t":
            raise _differ(names, why="it is no choice among masked positions")
        self._tensors = np.dtype([(tensor.name, _type(tensor.type), (tensor.elements,)) for tensor in header.features])
        self._inputs = [name for name in names if name != MASK]
        self.features = (*self._inputs, NOTHING)  #: columns of :attr:`Decision.rows`

    def expect(self, features: Sequence[str]) -> None:
        """Refuse a compiler whose features are not those that a policy was made for.

        :raises VerificationError: ``mlgo-features-differ``
        """
        if self.features != tuple(features):
            odd = sorted(set(self.features) ^ set(features))
            raise _differ(self._inputs, why=f"only one of both has {', '.join(odd)}" if odd else "their order differs")

    def read(self, memory: bytes) -> Decision:
        """A decision.

        :raises VerificationError: ``mlgo-features-nan``
        """
        tensors = np.frombuffer(memory, self._tensors)[0]
        positions = np.flatnonzero(tensors[MASK])
        rows = np.empty((len(positions), len(self.features)))
        for column, name in enumerate(self._inputs):
            values = tensors[name]
            rows[:, column] = values[positions] if len(values) > 1 else values[0]
        rows[:, -1] = positions == self._count - 1
        if np.isnan(rows).any():
            self._repair(rows)
        return Decision(positions, rows)

    def _repair(self, rows: NDArray[np.float64]) -> None:
        for column in np.flatnonzero(np.isnan(rows).any(axis=0)):
            name = self.features[column]
            if name != WEIGHT:
                raise VerificationError(
                    "mlgo-features-nan",
                    f"the compiler gives NaN for the feature {name}",
                    why=f"only {WEIGHT} may be NaN, of ranges that can't be spilled",
                    remedy="report it to LLVM with the module's bitcode; leave the module out of the corpus",
                )
            rows[np.isnan(rows[:, column]), column] = 1.0


def _type(name: str) -> np.dtype[np.generic]:
    return np.dtype(_FLOATS.get(name) or name.removesuffix("_t"))


def _differ(names: Sequence[str], *, why: str) -> VerificationError:
    return VerificationError(
        "mlgo-features-differ",
        f"this compiler's features are not those of the policy: {', '.join(names)}",
        why=why,
        remedy="trace and train with the LLVM that the policy is for",
    )
