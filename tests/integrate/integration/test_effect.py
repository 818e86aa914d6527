"""Where a walk stops decides nothing: what is carried follows from what is in effect upstream."""

from __future__ import annotations

import random
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, tree_of
from mlir_release.ground.strategy import Adaptive, Linear
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.patches.ledger import as_trailer, carried, remembered
from mlir_release.integrate.patches.patches import Stack, fates, rebase
from mlir_release.integrate.walk.rounds import plan_round
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import integrate
from tests.integrate.integration.test_status import WHO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.integrate.integration.miniature import World


class Upstream:
    """An upstream with three changes, each in a file of its own, that it takes back and lands again."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True)
        self.git = Git(folder)
        self.line = [commit_files(self.git, None, dict.fromkeys("abc", b"0\n"), "Begin\n", WHO)]
        self.on = dict.fromkeys("abc", False)
        self.first: dict[str, str] = {}  #: the commits that landed the changes
        self.last: dict[str, str] = {}  #: what has landed or reverted each last
        self.number: dict[str, int] = {}  #: their pull requests

    def turn(self, file: str, chance: random.Random) -> None:
        """Land a change for the first time, or whatever comes next."""
        number = 100 + len(self.line)
        on = self.on[file] = not self.on[file]
        last, what = self.last.get(file), f"[mlir] Change {file} (#{self.number.setdefault(file, number)})"
        how = chance.choice(("trailer", "button", "subject"))
        message = f'{"Reapply" if on else "Revert"} "{what}" (#{number})\n'
        if last is None:
            message = f"{what}\n"
        elif how == "trailer":
            message = f"Think again (#{number})\n\nThis reverts commit {last}.\n"
        elif how == "button":
            (pull,) = re.findall(r"\(#(\d+)\)$", self.git.message(last).partition("\n")[0])
            message = f"Think again (#{number})\n\nReverts llvm/llvm-project#{pull}\n"
        self.add({file: b"1\n" if on else b"0\n"}, message)
        self.first.setdefault(file, self.line[-1])
        self.last[file] = self.line[-1]

    def add(self, files: dict[str, bytes], message: str) -> None:
        self.line.append(commit_files(self.git, self.line[-1], files, message, WHO))


def hop(git: Git, stack: Stack, target: str) -> Stack:
    """An advance, whose memory is a trailer."""
    asleep = remembered(git, as_trailer(stack.asleep), stack.base)
    patches = carried(git, stack.base, stack.tip)
    told = fates(git, patches, stack.base, target, asleep=asleep)
    made = rebase(git, patches, stack.base, target, asleep=asleep)
    assert {sha for sha, fate in told.items() if fate} == {patch.sha for patch, _ in made.dropped}
    return made


def history(folder: Path, chance: random.Random) -> tuple[Git, list[str], Stack]:
    """An upstream's line from the downstream's base on, and the stack there, which picks, reverts and copies."""
    up = Upstream(folder)
    for _ in range(chance.randint(0, 6)):
        up.turn(chance.choice("abc"), chance)
    here, base = dict(up.on), len(up.line) - 1
    for _ in range(chance.randint(2, 9)):
        up.turn(chance.choice("abc"), chance)
        if chance.random() < 0.3:
            up.add({"d": f"{len(up.line)}\n".encode()}, "Go on\n")
    tip, git = up.line[base], up.git
    for file in "abc":
        of, kind = up.first.get(file), chance.choice(("none", "carry", "carry", "copy"))
        if of is None or kind == "none":
            continue
        told = f"This reverts commit {of}." if here[file] else f"(cherry picked from commit {of})"
        content = b"0\n" if here[file] else b"1\n"
        message = f"Carry {file}\n\n{told}\n" if kind == "carry" or here[file] else f"Ours, as upstream's {file}\n"
        tip = commit_files(git, tip, {file: content}, message, WHO, parents=[tip])
    return git, up.line[base:], Stack(up.line[base], tip, tuple(carried(git, up.line[base], tip)))


@pytest.mark.parametrize("seed", range(20))
def test_any_hops_over_reverts_and_relands_end_in_the_same_tree(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    git, line, begun = history(tmp_path / "upstream.git", chance)
    ways: Sequence[Sequence[int]] = [
        [len(line) - 1],
        range(1, len(line)),
        [*sorted(chance.sample(range(1, len(line)), chance.randint(1, len(line) - 1))), len(line) - 1],
    ]
    ends = []
    for way in ways:
        stack = begun
        for place in way:
            stack = hop(git, stack, line[place])
        kept = [git.message(patch.sha) for patch in stack.kept]
        ends.append((tree_of(git, stack.tip), kept))
    assert ends[0] == ends[1] == ends[2]


# -- a culprit that upstream takes back --------------------------------------------------------------------------------

#: Passes where no file of the library says "bad".
SMOKE = """["sh", "-c", '! grep -r "is bad" "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir"']"""


def taken_back(root: Path, *, second: bool = False, carrier: str = "pin-file") -> World:
    """A branch that a walk has brought to the commit before a culprit, whose revert is ahead of it.

    :param second: another culprit hides between them
    """
    up = miniature.begin(root, patched=False)
    base = up.previous
    up.filler(1, others=0)
    up.commit("[mlir] \x1b[31mTune @you (#20)", {"mlir/tuned.c": "is bad\n"}, name="culprit")
    up.flush()
    up.filler(2, others=0)
    if second:
        up.commit("[mlir] Hide", {"mlir/hidden.c": "is bad\n"}, name="second")
    up.commit("Think again (#21)\n\nReverts llvm/llvm-project#20\n", {"mlir/tuned.c": "\n"}, name="revert")
    up.filler(1, others=0)
    up.commit("[mlir] Mend what is hidden", {"mlir/hidden.c": "\n", "mlir/fix.c": "\n"}, name="fix")
    world = miniature.finish(root, up, base, carrier=carrier, patched=False)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment().items():
            patch.setenv(name, value)
        world.reconfigure('["./smoke.sh"]', SMOKE)
        start(world.open(), publish=True)
        walk = Walk(world.open(), publish=True)
        walk.run(Linear(), until=world.commits["culprit"])
    return world


@pytest.fixture
def back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    world = taken_back(tmp_path / "world", second=getattr(request, "param", False))
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    return world


def test_a_culprit_that_upstream_takes_back_costs_a_test_and_no_person(back: World) -> None:
    culprit, revert = back.commits["culprit"], back.commits["revert"]
    walk = Walk(back.open(), publish=True)
    seen, planned = walk.observer.look(), plan_round(JointWalk([walk]), Adaptive(width=4))
    assert (seen.base, planned["probes"]) == (back.affecting[0], [revert])
    ended = integrate(back, "run", "--strategy", "adaptive", "--until", revert)
    assert (ended["code"], ended["outcome"], ended["smoke_tests"]) == (0, "head", 1)
    line = f"skips {culprit[:12]} [mlir] Tune @you (#20): it tested bad, but is undone in {revert[:12]}"
    assert line in ended["said"]
    assert "\x1b" not in ended["said"]
    _, text = pull_request_text(back.open(), walk.branch)
    assert "### Dropped and skipped" in text
    assert f"- skips `{culprit[:12]}`" in text
    assert "@you" not in text
    land(Walk(back.open()), squash=True, pulls=None)
    assert pull_request_text(back.open(), walk.branch)[1] == text
    assert "others may hide behind" in back.git("log", "-1", "--format=%B")


@pytest.mark.parametrize("back", [True], indirect=True)
def test_where_the_revert_does_not_pass_either_a_person_is_told_so(back: World) -> None:
    ended = integrate(back, "run", "--strategy", "adaptive", "--until", back.commits["revert"])
    assert (ended["code"], ended["bad"]) == (7, back.commits["culprit"])
    assert ended["report"]["together"] == (f"Upstream undoes it in {back.commits['revert'][:12]}: bad.",)


def test_linear_stops_at_every_break(back: World) -> None:
    ended = integrate(back, "run", "--strategy", "linear")
    assert (ended["code"], ended["bad"], ended["smoke_tests"]) == (7, back.commits["culprit"], 0)
    assert ended["report"]["together"] == (f"Upstream undoes it in {back.commits['revert'][:12]}: not tested.",)
