"""Where a walk stops decides nothing: what is carried follows from what is in effect upstream."""

from __future__ import annotations

import random
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, tree_of
from mlir_release.integrate.patches.ledger import as_trailer, carried, remembered
from mlir_release.integrate.patches.patches import Stack, fates, rebase
from tests.integrate.integration.test_status import WHO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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
