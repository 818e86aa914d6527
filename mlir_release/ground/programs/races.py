"""Retrying a change that other processes make at the same time: one pause and one bound for all such loops."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mlir_release.ground.errors import ConflictError

#: How many races one change may lose. Each time another process has made progress, so this is generous.
MAX_LOST_RACES = 200


@dataclass
class Races:
    """The races that one change has lost::

        races = Races(where=forge.description)
        while True:
            ...  # read the current state
            try:
                return ...  # make the change, if the state still is the one that was read
            except BranchMoved as error:
                races.retry("commit the pin", error)

    :param where: what the processes compete for, for the error
    """

    where: str
    lost: int = 0

    def retry(self, what: str, error: ConflictError | None = None) -> None:
        """Count a lost race and wait a moment, so that the caller can retry.

        :param what: the change, as in "could not <what>"
        :raises ConflictError: ``lost-race``, after :data:`MAX_LOST_RACES`
        """
        self.lost += 1
        if self.lost > MAX_LOST_RACES:
            raise ConflictError(
                "lost-race",
                f"could not {what}: others got there first {self.lost} times",
                where=self.where,
                why=error.what if error is not None else "",
                remedy="find out what keeps changing it, or wait for the other process to end, then run this again",
            ) from error
        import random  # only after a lost race: the import is slow

        time.sleep(random.uniform(0, min(0.5, 0.02 * self.lost)))
