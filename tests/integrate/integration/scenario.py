"""What the kill tests do in a miniature world: start an integrate and walk it, with the clock injected."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from mlir_release.ground.git.worktrees import current_branch
from mlir_release.ground.strategy import Adaptive, make_strategy
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.fix.fix import close_fix, open_fix
from mlir_release.integrate.open import open_observers, open_project
from mlir_release.integrate.status import collect
from mlir_release.integrate.walk.bisect import bisect_branch
from mlir_release.integrate.walk.roll import begin
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature, pair
from tests.integrate.integration.bisecting import scale
from tests.integrate.integration.miniature import NOON

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.report import WalkEnd
    from tests.integrate.integration.miniature import World


def entered(world: World) -> World:
    """The same world, in which this process is from here on."""
    os.environ.update(world.environment())
    return world


def to_the_first_break(folder: Path, strategy: str, width: int = 1) -> WalkEnd:
    """Start, unless it was started, and walk until the first planted break is named; all published."""
    world = entered(miniature.load(folder))
    project = world.open()
    if not (current_branch(project.outer) or "").startswith("integrates/"):
        start(project, publish=True)
    end = Walk(project, publish=True).run(
        make_strategy(strategy, width), until=world.commits["rename scale"], width=width
    )
    assert end.outcome == "culprit"
    assert end.bad == world.commits["rename scale"]
    return end


# One after the other, head first, as by default, and two probes side by side.
linear = partial(to_the_first_break, strategy="linear")
head = partial(to_the_first_break, strategy="head")
adaptive = partial(to_the_first_break, strategy="adaptive")
parallel = partial(to_the_first_break, strategy="parallel", width=2)


def together(folder: Path) -> None:
    """Walk two upstreams to the first step in which both move, and go on to the end of that; all published."""
    world = entered(pair.load(folder))
    project = world.open()
    if not (current_branch(project.outer) or "").startswith("integrates/"):
        start(*project.everyone, publish=True)
    until = f"llvm@{world.commits['break 2']}~1+dialect@{world.commits['feature']}"
    end = JointWalk([Walk(each, publish=True) for each in project.everyone]).run(Adaptive(), until=until)
    assert {each.upstream: each.outcome for each in end.everywhere()} == {"llvm": "head", "dialect": "culprit"}


def diamond(folder: Path) -> None:
    """Move a dependency and drop the revert that was carried until then."""
    world = entered(pair.load(folder))
    walk = Walk(world.open(), publish=True)
    end = JointWalk([walk]).run(Adaptive(), until=world.commits["break 1"])
    assert end.outcome == "head"


def patch_files(folder: Path) -> None:
    """Walk to the first patch file that does not fit: others are made anew and dropped on the way; all published."""
    world = entered(miniature.load(folder))
    end = Walk(world.open(), publish=True).run(Adaptive())
    assert (end.outcome, end.suspects[0].sha) == ("conflict", world.commits["broken"])


def open_and_look(folder: Path) -> None:
    """What the first command in a fresh clone does: the submodule is cloned, or the mirror made."""
    world = entered(miniature.load(folder))
    project = world.open()
    start(project)
    Walk(project).observer.look()


def fix(folder: Path) -> None:
    """``fix``, what a person does then, and ``fix --continue``, which ends at the fix; all published.

    The walk has stopped at the first break. The person is not killed, and does each step once.
    """
    world = entered(miniature.load(folder))
    project = world.open()
    committed = folder / "committed"
    if not committed.exists():
        made = open_fix(Walk(project, publish=True))
        assert made.bad == world.commits["rename scale"]
        _, old, new = miniature.FIXES["rename scale"]
        steps = f"sed -i 's/{old}/{new}/' app.c && git commit -qam 'Follow upstream' && touch {committed}"
        alone = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "KILLPOINTS")}
        subprocess.run(["sh", "-c", steps], cwd=made.worktree, env=alone | miniature.dated(), check=True)
    close_fix(Walk(project, publish=True))
    end = Walk(project, publish=True).run(Adaptive(), until=world.commits["rename scale"])
    assert (end.outcome, end.smoke_tests) == ("head", 0)


def land_all(folder: Path, *, at: str | None = None) -> None:
    """Land the branch, squashed; its advances were pushed."""
    world = entered(miniature.load(folder))
    land(Walk(world.open()), squash=True, pulls=None, at=at)


def back_off(folder: Path) -> None:
    """The same without its last two advances: ``land --at``, with the id that is in a file."""
    land_all(folder, at=(folder / "advance").read_text())


def jump(folder: Path) -> None:
    """Past a culprit that upstream has taken back, which drops a patch on the way; published."""
    world = entered(miniature.load(folder))
    walk = Walk(world.open(), publish=True)
    assert walk.run(Adaptive(), until=world.commits["revert"]).outcome == "head"


def cancel(folder: Path) -> None:
    """Three probes side by side, two of which the third makes useless while they are running."""
    world = entered(miniature.load(folder))
    begun = folder / "begun"
    undisturbed = not begun.exists()
    begun.touch()
    walk = Walk(world.open())
    end = walk.run(Adaptive(width=3), until=world.affecting[10], width=3)
    assert (end.outcome, end.bad) == ("culprit", world.commits["rename scale"])
    assert end.cancelled == 2 or not undisturbed


def status(folder: Path) -> None:
    """Look at a branch with carried patches; what is seen is written down."""
    world = entered(miniature.load(folder))
    (folder / "status.json").write_text(json.dumps(collect(open_observers(world.checkout)[0], fetch=False)))


def bisect(folder: Path) -> None:
    """Bisect a branch, and inside of its first bad commit the upstream; all published. The answer is written down."""
    world = entered(miniature.load(folder))
    found = bisect_branch(world.open(), "main", "HEAD", scale(world), share=True)
    assert found.inside is not None
    assert found.inside.first_bad == world.commits["rename scale"]
    answer = [[each.first_bad, each.last_good, each.line] for each in (found, found.inside)]
    (folder / "bisect.json").write_text(json.dumps(answer))


def two_advances(folder: Path) -> None:
    """Two advances without a test, where several files say the commit and a command makes another one from it."""
    world = entered(miniature.load(folder))
    project = world.open()
    while project.pin() != world.affecting[1]:
        Walk(project).next()
    project.refuse_dirty()


def go_on(folder: Path) -> None:
    """What a scheduled run begins with on another day: it finds the open branch, and checks it out."""
    world = entered(miniature.load(folder))
    begun = begin(open_project(world.checkout, clock=lambda: NOON + timedelta(days=1)), publish=True)
    assert (begun.branch, begun.new) == (f"integrates/llvm-{NOON:%Y%m%d}", False)
