"""Probes that run side by side: those that an answer has made useless are ended, and leave nothing behind."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground import strategy as st
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.pins.refresh import prepared
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature

if TYPE_CHECKING:
    from tests.integrate.integration.miniature import World

#: Fails at one commit once the others have begun; those change what is committed and wait, as a build does.
SMOKE = """#!/bin/sh
if [ "$MLIR_RELEASE_UPSTREAM_COMMIT" = {bad} ]; then
  until [ "$(grep -c . {began})" = {others} ]; do sleep 0.05; done
  exit 1
fi
echo half > smoke.sh
echo half > "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/api.h"
echo new > "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/stray.c"
mkdir -p build
echo kept > build/object
touch "$(git rev-parse --git-dir)/index.lock"
sleep 1000 &
echo "$! $PWD $MLIR_RELEASE_UPSTREAM_SOURCE" >> {began}
wait
"""


def hanging(world: World, bad: str, *, others: int) -> Path:
    """Let every smoke test wait for ever but one, which fails after ``others`` have begun. Returns where they say so"""
    began = world.root / "began"
    began.touch()
    (world.checkout / "smoke.sh").write_text(SMOKE.format(bad=bad, began=began, others=others))
    world.git("commit", "-qam", "Wait")
    return began


def alive(pid: str) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_probes_that_an_answer_makes_useless_are_cancelled_and_leave_nothing_to_the_next(plain: World) -> None:
    start(plain.open())
    began = hanging(plain, plain.affecting[1], others=2)
    walk = Walk(plain.open())
    seen = walk.observer.look()
    known = walk.observer.knowledge(seen, {})
    begin = time.monotonic()
    walk.probe_all(seen, known, (2, 5, 9), 3)
    assert time.monotonic() - begin < 100, "waited for tests whose answers nobody needs"
    assert {record.upstream: record.verdict for record in walk.store.load().values()} == {seen.upstream_at(2): "bad"}
    assert (walk.cancelled, walk.tests) == (2, 2)  # the failure was retried
    slots = [line.split() for line in began.read_text().splitlines()]
    assert len(slots) == 2
    assert not any(alive(pid) for pid, *_ in slots)
    with ExitStack() as stack:  # the next tests have them, as they ought to be
        again = [stack.enter_context(prepared(walk.project, seen.head, seen.pin)) for _ in range(3)]
        for _, outer, sources in slots:
            assert Path(outer) in [slot.outer for slot in again]
            for tree in (outer, sources):
                assert miniature.git(Path(tree), "status", "--porcelain", "--ignore-submodules=none") == ""
            assert Path(outer, "build/object").read_text() == "kept\n"


def test_the_only_probe_of_a_round_is_never_cancelled(plain: World) -> None:
    """Else the strategy decides on the same for ever.

    Linear does so where a later commit is known to be good: it asks for the base before it names a culprit.
    """
    start(plain.open())
    (plain.checkout / "smoke.sh").write_text(f"#!/bin/sh\n[ $MLIR_RELEASE_UPSTREAM_COMMIT != {plain.affecting[0]} ]\n")
    plain.git("commit", "-qam", "Fail at one commit")
    walk = Walk(plain.open())
    seen = walk.observer.look()
    for position in (1, 5):
        walk.probe_all(seen, walk.observer.knowledge(seen, {}), (position,), 1)
    known = walk.observer.knowledge(seen, walk.observer.verdicts(seen))
    decision = st.Linear().decide(known)
    assert decision == st.Probe((0,))
    assert isinstance(decision, st.Probe)
    walk.probe_all(seen, known, decision.positions, 1)
    assert walk.cancelled == 0
    assert st.Linear().decide(walk.observer.knowledge(seen, walk.observer.verdicts(seen))) == st.Culprit(1)
