"""Retries after lost races: each waits a moment, and there is a bound."""

from __future__ import annotations

from mlir_release.ground.errors import ConflictError
from mlir_release.ground.programs.races import MAX_LOST_RACES, Races
from tests.refusals import refused


def test_pauses_grow_and_end_in_a_conflict(pauses: list[float]) -> None:
    races = Races(where="the forge")
    taken = ConflictError("lost-race", "the tag exists")
    for _ in range(MAX_LOST_RACES):
        races.retry("make the tag", taken)
    assert all(0 <= pause <= min(0.5, 0.02 * lost) for lost, pause in enumerate(pauses, 1))
    assert max(pauses) > 0.25  # of almost 200 below 0.5
    error = refused(lambda: races.retry("make the tag", taken), "lost-race")
    assert (error.where, error.why) == ("the forge", "the tag exists")
    assert "make the tag" in error.what
    assert len(pauses) == MAX_LOST_RACES
