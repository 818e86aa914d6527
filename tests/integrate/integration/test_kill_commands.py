"""``fix``, ``fix --continue``, cancelled probes, ``status`` and bisects: killed anywhere and run again,
they end as if never killed, and nothing that a person wrote is lost."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.state import ProbeStore
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.bisecting import runs
from tests.integrate.integration.killing import BRANCH, HERE, NEEDS_COMPILER
from tests.integrate.integration.miniature import NOON
from tests.integrate.integration.scenario import to_the_first_break
from tests.kill import kill_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mlir_release.integrate.state import Record
    from tests.integrate.integration.miniature import World

pytestmark = NEEDS_COMPILER


def started(folder: Path, carrier: str) -> World:
    folder.rmdir()
    world = miniature.build(folder, carrier=carrier, patched=True, small=True)
    start(world.open(), publish=True)
    return world


def walked(folder: Path, carrier: str) -> World:
    """To the first break, on another machine: there are no work trees here."""
    world = started(folder, carrier)
    to_the_first_break(folder, "adaptive")
    shutil.rmtree(folder / "cache")
    for git in (world.open().outer, world.open().upstream):
        git.run("worktree", "prune")
    return world


#: Every test of a commit with the break in it takes long, but that of the culprit, which fails at once.
_SLOW = """if grep -q scale_by "$src/api.h" && [ "$MLIR_RELEASE_UPSTREAM_COMMIT" != {culprit} ]; then sleep 2; fi
"""


def slow_after_the_culprit(folder: Path, carrier: str) -> World:
    world = started(folder, carrier)
    smoke = world.checkout / "smoke.sh"
    begin, rest = smoke.read_text().split("mkdir -p build\n")
    smoke.write_text(f"{begin}{_SLOW.format(culprit=world.commits['rename scale'])}mkdir -p build\n{rest}")
    config = world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n"))
    world.git("commit", "-qam", "Take long")
    return world


def seen(folder: Path) -> dict[str, Any]:
    """What is the same at the end of each: the branches of all repositories, and what is checked out."""
    world = miniature.load(folder)
    names = ("downstream", "origin.git", "fork.git")
    state: dict[str, Any] = {
        name: {ref.name: ref.commit for ref in Git(world.root / name).refs("refs/heads")} for name in names
    }
    return {**state, "status": world.git("status", "--porcelain", "--branch")}


def recorded(repository: Path, branch: str | None = BRANCH) -> list[Record]:
    signature = Signature(name="x", email="x@example.com", when=NOON)
    return list(ProbeStore(Git(repository), branch, lambda: signature).load().values())


def cancelled(folder: Path) -> dict[str, Any]:
    """Every verdict is true, and the culprit and its predecessor have one; others may have been cancelled."""
    world = miniature.load(folder)
    culprit = world.affecting.index(world.commits["rename scale"])
    bad = world.affecting[culprit:]
    verdicts = {record.upstream: str(record.verdict) for record in recorded(world.checkout)}
    assert all((verdict == "good") == (commit not in bad) for commit, verdict in verdicts.items())
    assert {world.affecting[culprit - 1], world.affecting[culprit]} <= verdicts.keys()
    return seen(folder)


def fixed(folder: Path) -> dict[str, Any]:
    """The branch is at the fix, which tested good, here and at the remote; its work tree is there, too."""
    world, state = miniature.load(folder), seen(folder)
    outer = world.open().outer_key(BRANCH)
    for name in ("downstream", "origin.git"):
        answers = {record.upstream: str(record.verdict) for record in recorded(folder / name) if record.outer == outer}
        assert answers == {world.commits["rename scale"]: "good"}
    (place,) = (folder / "cache/integrate").glob("*/fix")
    worktree = place / "downstream"
    assert miniature.git(worktree, "rev-parse", "HEAD") == state["downstream"][f"refs/heads/{BRANCH}"]
    assert miniature.git(worktree, "status", "--porcelain") == ""
    assert (place / "smoke-test").read_text().endswith("exec ./smoke.sh\n")
    assert not (place / "unfinished").exists()
    assert world.git("log", "-1", "--format=%s") == "Follow upstream"
    return state


def of_another_day(folder: Path, carrier: str) -> World:
    """A branch that has advanced is at the remote; main is checked out here."""
    world = started(folder, carrier)
    walk = Walk(world.open(), publish=True)
    walk.next()
    branch = walk.branch
    world.git("switch", "-q", "main")
    world.git("submodule", "--quiet", "update")
    world.git("branch", "-q", "-D", branch)
    return world


def told(folder: Path) -> dict[str, Any]:
    return {**seen(folder), "told": json.loads((folder / "status.json").read_text())}


def advanced(folder: Path, carrier: str) -> World:
    """A branch with several advances, of which the second breaks it."""
    world = started(folder, carrier)
    smoke = world.checkout / "integrate.toml"
    smoke.write_text(smoke.read_text().replace("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n"))
    world.git("commit", "-qam", "Try once")
    walk = Walk(world.open(), publish=True)
    for to in (world.affecting[0], world.commits["healing"], world.commits["buildable"], world.commits["needed"]):
        walk.next(to=to)
    return world


def bisected(folder: Path) -> dict[str, Any]:
    """The same answer from the same verdicts, here and at the remote; at most the test that was killed ran twice."""
    world = miniature.load(folder)
    verdicts = [
        {f"{each.outer} {each.upstream_tree}": str(each.verdict) for each in recorded(folder / name, None)}
        for name in ("downstream", "origin.git")
    ]
    assert verdicts[0] == verdicts[1]
    tested = runs(world)
    assert len(verdicts[0]) <= len(tested) <= len(verdicts[0]) + 1
    return {**seen(folder), "verdicts": verdicts[0], "answer": json.loads((folder / "bisect.json").read_text())}


#: Which state a scenario begins with, and what is the same at its end.
SCENARIOS: dict[str, tuple[Callable[[Path, str], World], Callable[[Path], dict[str, Any]]]] = {
    "fix": (walked, fixed),
    "cancel": (slow_after_the_culprit, cancelled),
    "status": (walked, told),
    "bisect": (advanced, bisected),
    "go_on": (of_another_day, seen),
}


@pytest.mark.parametrize("commands", [True, False], ids=["between-commands", "inside-commands"])
@pytest.mark.parametrize(
    ("scenario", "carrier"),
    [
        ("fix", "submodule"),
        ("fix", "pin-file"),
        ("cancel", "submodule"),
        ("status", "pin-file"),
        ("bisect", "submodule"),
        ("go_on", "submodule"),
    ],
)
def test_it_ends_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: str,
    carrier: str,
    commands: bool,
    remotes: str,
    exhaustive: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begin, end = SCENARIOS[scenario]

    def prepare(folder: Path) -> None:
        with monkeypatch.context() as patch:
            for name, value in miniature.World(folder, {}, []).environment().items():
                patch.setenv(name, value)
            begin(folder, carrier)

    # Inside of commands there are thousands of points: even the exhaustive variant tries some only.
    sample = (None if commands else 100) if exhaustive else 6
    killing = kill_everywhere(
        f"{HERE}:{scenario}",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=end,
        work=tmp_path,
        commands=commands,
        sample=sample,
    )
    with capsys.disabled():
        print(f"\n{carrier}: {killing}")
    assert killing.tried >= 3
