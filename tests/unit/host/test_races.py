"""Retries after lost races: each waits a moment, and there is a bound."""

from __future__ import annotations

import pytest

from mlir_release.errors import ConflictError
from mlir_release.host.races import MAX_LOST_RACES, Races


def test_pauses_grow_and_end_in_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    races = Races(where="the forge")
    taken = ConflictError("lost-race", "the tag exists")
    for _ in range(MAX_LOST_RACES):
        races.retry("make the tag", taken)
    assert pauses[0] == 0.02
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.5
    with pytest.raises(ConflictError) as caught:
        races.retry("make the tag", taken)
    assert caught.value.id == "lost-race"
    assert (caught.value.where, caught.value.why) == ("the forge", "the tag exists")
    assert "make the tag" in caught.value.what
    assert len(pauses) == MAX_LOST_RACES
