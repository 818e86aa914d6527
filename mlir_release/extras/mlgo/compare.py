"""Two policies on the same modules: how they differ, and whether that is more than chance. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Change:
    """A total of all modules under the default and under a policy.

    :param low: end of the 95 % confidence interval of :attr:`relative`, over modules
    """

    default: float
    policy: float
    low: float
    high: float

    @property
    def relative(self) -> float:
        """-0.01: 1 % less than the default."""
        return self.policy / self.default - 1 if self.default else 0.0

    def to_json(self) -> dict[str, float]:
        """For ``--json``."""
        return asdict(self) | {"relative": self.relative}

    @property
    def better(self) -> bool:
        """Less than the default, beyond the noise."""
        return self.high < 0

    @property
    def worse(self) -> bool:
        """More than the default, beyond the noise."""
        return self.low > 0


def change(default: Sequence[float], policy: Sequence[float], *, seed: int) -> Change:
    """Compare totals, paired by module. The interval is a bootstrap's: modules are drawn anew, with their pairs.

    :param seed: of the draws
    """
    ours, theirs = np.array(policy, float), np.array(default, float)
    drawn = np.random.default_rng(seed).integers(0, len(ours), (_RESAMPLES, len(ours)))
    totals = theirs[drawn].sum(axis=1)
    relative = np.divide(ours[drawn].sum(axis=1), totals, out=np.ones(_RESAMPLES), where=totals > 0) - 1
    low, high = np.quantile(relative, (0.025, 0.975))
    return Change(default=float(theirs.sum()), policy=float(ours.sum()), low=float(low), high=float(high))
