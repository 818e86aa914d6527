"""Where a walk stops decides nothing: what is carried follows from what is in effect upstream."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, tree_of
from mlir_release.ground.strategy import Adaptive, Linear
from mlir_release.integrate.deliver.branch import carry, drop, start
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.patches.ledger import as_trailer, carried, remembered
from mlir_release.integrate.patches.patches import Stack, add_patch, fates, rebase
from mlir_release.integrate.walk.roll import begin, look
from mlir_release.integrate.walk.rounds import plan_round
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import integrate, invoke
from tests.integrate.integration.miniature import WHO
from tests.integrate.integration.patched import table
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        how = chance.choice(("trailer", "button", "subject", "title"))
        message = f'{"Reapply" if on else "Revert"} "{what}" (#{number})\n'
        if last is None:
            message = f"{what}\n"
        elif how == "title":
            message = f'{"Reapply" if on else "Revert"} "[mlir] Change {file}" (#{number})\n\nSadly.\n'
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
        for patch in begun.kept:  # its change is still in effect, by the patch or by upstream
            assert git.read(stack.tip, patch.subject[-1]) == git.read(begun.tip, patch.subject[-1])
    assert ends[0] == ends[1] == ends[2]


def test_a_patch_that_comes_back_is_told_with_those_that_stand_on_it(tmp_path: Path) -> None:
    up, chance = Upstream(tmp_path / "upstream.git"), random.Random(1)
    base = up.line[0]
    up.turn("a", chance)
    message = f"Carry a\n\n(cherry picked from commit {up.line[1]})\n"
    pick = commit_files(up.git, base, {"a": b"1\n"}, message, WHO)
    tip = commit_files(up.git, pick, {"a": b"2\n"}, "Ours, above it\n", WHO)
    stack = hop(up.git, Stack(base, tip, tuple(carried(up.git, base, tip))), up.line[1])
    assert [patch.subject for patch in stack.kept] == ["Ours, above it"]
    up.turn("a", chance)
    assert [patch.subject for patch in hop(up.git, stack, up.line[2]).kept] == ["Carry a", "Ours, above it"]


def test_a_merge_that_people_have_resolved_is_not_replayed(tmp_path: Path) -> None:
    up = Upstream(tmp_path / "upstream.git")
    base = up.line[0]
    one, other = (commit_files(up.git, base, {name: b"ours\n"}, f"Ours {name}\n", WHO) for name in "ab")
    both = {"b": b"ours\n", "c": b"what only people know\n"}
    merge = commit_files(up.git, one, both, "Merge\n", WHO, parents=[one, other])
    up.add({"d": b"1\n"}, "Go on\n")
    error = refused(lambda: rebase(up.git, carried(up.git, base, merge), base, up.line[1]), "patch-conflict")
    assert "it is a merge that people have resolved" in error.why


# -- a culprit that upstream takes back --------------------------------------------------------------------------------

#: Passes where no file of the library says "is bad", or the downstream has adapted.
SMOKE = """["sh", "-c", 'cd "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir"; grep -r "is no C" . && exit 125; \
[ -e "$OLDPWD/adapted" ] || ! grep -r "is bad" .']""".replace("\\\n", "")


def taken_back(root: Path, *, second: bool = False, carrier: str = "pin-file", ahead: str = "is bad") -> World:
    """A branch that a walk has brought to the commit before a culprit, whose revert is ahead of it.

    :param second: another culprit hides between them
    :param ahead: what the culprit says; "is no C": it can't be tested
    """
    up = miniature.begin(root, patched=False)
    up.commit("Add a table", {"mlir/table.txt": table()}, affecting=False)
    up.flush()
    base = up.previous
    up.filler(1, others=0)
    up.commit("[mlir] \x1b[31mTune @you (#20)", {"mlir/tuned.c": f"{ahead}\n"}, name="culprit")
    up.flush()
    up.filler(2, others=0)
    if second:
        up.commit("[mlir] Hide", {"mlir/hidden.c": "is bad\n"}, name="second")
    later = {"mlir/tuned.c": "\n", "mlir/table.txt": table(_5="ours 5", _22="beside")}
    up.commit("Think again (#21)\n\nReverts llvm/llvm-project#20\n", later, name="revert")
    up.filler(1, others=0)
    up.commit("[mlir] Mend what is hidden", {"mlir/hidden.c": "\n", "mlir/fix.c": "\n"}, name="mended")
    world = miniature.finish(root, up, base, carrier=carrier, patched=False)
    with pytest.MonkeyPatch.context() as patch:
        world.enter(patch)
        world.reconfigure('["./smoke.sh"]', SMOKE)
        start(world.open(), publish=True)
        walk = Walk(world.open(), publish=True)
        walk.run(Linear(), until=world.commits["culprit"])
    return world


@pytest.fixture
def back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    world = taken_back(tmp_path / "world", second=getattr(request, "param", False))
    world.enter(monkeypatch)
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
    assert ended["report"]["together"] == [f"Upstream undoes it in {back.commits['revert'][:12]}: bad."]


def test_linear_stops_at_every_break(back: World) -> None:
    ended = integrate(back, "run", "--strategy", "linear")
    assert (ended["code"], ended["bad"], ended["smoke_tests"]) == (7, back.commits["culprit"], 0)
    assert integrate(back, "report")["together"] == ended["report"]["together"]
    assert ended["report"]["together"] == [f"Upstream undoes it in {back.commits['revert'][:12]}: not tested."]


# -- It broke. Now what? -----------------------------------------------------------------------------------------------


def somebody_fixes(world: World) -> None:
    """A colleague adapts the branch in another clone."""
    other = world.root / "colleague"
    miniature.git(world.root, "clone", "-q", str(world.root / "origin.git"), str(other))
    miniature.git(other, "switch", "-q", miniature.BRANCH)
    adapt(other)
    miniature.git(other, "push", "-q", "origin", "HEAD")


def adapt(folder: Path) -> None:
    """The change that makes the smoke test pass everywhere."""
    (folder / "adapted").touch()
    miniature.git(folder, "add", "adapted")
    miniature.git(folder, "-c", "user.name=C", "-c", "user.email=c@example.com", "commit", "-q", "-m", "Adapt")


def fixed_beside(world: World) -> None:
    adapt(Path(integrate(world, "fix")["worktree"]))


def fixed_here(world: World) -> None:
    adapt(world.checkout)


def fixed_later(world: World) -> None:
    """The batch of what is fixed later is what is carried."""
    integrate(world, "patches", "add", world.commits["culprit"], "--revert", "--why", "fix later")
    last = world.affecting[world.affecting.index(world.commits["revert"]) - 1]
    assert integrate(world, "run", "--until", last)["outcome"] == "head"
    for patch in Walk(world.open()).observer.look().patches:
        assert (patch.why, integrate(world, "patches", "drop", patch.sha)["code"]) == ("fix later", 0)
    adapt(world.checkout)


#: What a person does in the state that ``run`` leaves, by what docs/integrate.md calls the situation.
REACTIONS: dict[str, Sequence[Sequence[str] | Callable[[World], None]]] = {
    "someone else pushed the fix": [somebody_fixes, ("sync",)],
    "API break": [fixed_beside, ("fix", "--continue")],
    "upstream bug": [("patches", "add", "culprit", "--revert", "--why", "it crashes", "--link", "https://x.example/1")],
    "fixed upstream already": [("patches", "add", "revert", "--why", "it mends us")],
    "to be fixed later": [fixed_later],
    "found only in full CI": [("land", "--at", "HEAD")],
    "broken bazel files": [("range", "culprit", "mended"), ("next", "--advance-to", "revert")],
    "trivially broken lit tests": [("next",), fixed_here],
    "an incompatible dependency": [fixed_here, ("export",)],
    "circular dependency": [("next", "--advance-to", "culprit"), fixed_here, ("export",)],
    "a carried patch does not apply": [("patches", "drop", "carried"), ("next", "--advance-to", "revert")],
    "nothing ahead can be tested": [("patches", "add", "revert", "--why", "it builds again")],
    "upstream has reverted": [("next", "--advance-to", "revert")],
}


def test_each_situation_of_the_documentation_is_tried() -> None:
    text = (
        Path(__file__)
        .parents[3]
        .joinpath("docs/integrate.md")
        .read_text(encoding="utf-8")
        .partition("| situation | reaction |\n")[2]
    )
    rows = text.partition("\n\n")[0].splitlines()[1:]
    told = [row.removeprefix("| ").removeprefix("**") for row in rows]
    situations = [re.split(r"\*\*|[:|]", row)[0].strip() for row in told]
    situations.remove("a patch file does not fit")  # which test_patch_files.py tries
    assert situations == [*REACTIONS]


@pytest.mark.parametrize("situation", REACTIONS)
def test_each_documented_reaction_works_where_a_walk_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, situation: str
) -> None:
    world = taken_back(tmp_path / "world", ahead="is no C" if "tested" in situation else "is bad")
    world.enter(monkeypatch)
    until = world.affecting[world.affecting.index(world.commits["revert"]) - 1]
    if "patch" in situation:
        up = world.open().upstream
        ours = commit_files(up, world.affecting[0], {"mlir/tuned.c": b"ours\n"}, "Ours\n", WHO)
        world.commits["carried"] = carry(Walk(world.open()), ours, revert=False, why="w", link="", drop_when="")
    assert integrate(world, "run", "--until", until)["code"] == 7
    for step in REACTIONS[situation]:
        if callable(step):
            step(world)
        else:
            words = (world.commits.get(word, word) for word in step)
            done = invoke(world, *words)
            assert done.exit_code == 0, done.output
    if situation == "found only in full CI":  # lands what is good, and stays there
        return
    ended = integrate(world, "run")
    assert (ended["code"], ended.get("outcome")) == (0, "head"), ended


@pytest.mark.parametrize(
    ("tip", "commit", "revert", "error"),
    [(1, 1, False, "nothing-to-do"), (0, 1, True, "nothing-to-do"), (0, 2, False, "patch-conflict"),
     (0, 3, False, "revision-unsuitable")],
    ids=["picked already", "not there to be reverted", "on another change", "a merge"],
)  # fmt: skip
def test_what_can_not_be_carried_is_refused(tmp_path: Path, tip: int, commit: int, revert: bool, error: str) -> None:
    up = Upstream(tmp_path / "upstream.git")
    for content in (b"1\n", b"2\n"):
        up.add({"a": content}, "Change a\n")
    line = [*up.line, commit_files(up.git, up.line[2], {}, "Merge\n", WHO, parents=up.line[1:3])]
    refused(lambda: add_patch(up.git, line[tip], line[commit], revert=revert, ledger={}, signature=WHO), error)


@pytest.mark.parametrize("repository", ["llvm/llvm-project", "openxla/xla"])
def test_a_patch_whose_pull_request_landed_with_changes_is_told_as_that_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    up = Upstream(tmp_path / "upstream.git")
    base, url = up.line[0], f"https://github.com/{repository}/pull/7"
    ledger = f"Carried-Kind: local\nCarried-Upstream: {url}\n"
    ours = commit_files(up.git, base, {"a": b"ours\n"}, f"Offer\n\n{ledger}", WHO)
    up.add({"a": b"theirs\n"}, "[mlir] Offer, otherwise (#7)\n")
    up.add({"b": b"1\n"}, "Go on\n")
    monkeypatch.setattr("mlir_release.integrate.patches.ledger._url", lambda _: "https://github.com/llvm/llvm-project")
    patches, landed = carried(up.git, base, ours), f"its pull request {url} landed with changes, as {up.line[1][:12]}"
    error = refused(lambda: rebase(up.git, patches, base, up.line[2]), "patch-conflict")
    told = fates(up.git, patches, base, up.line[2])[ours]
    assert (landed in error.why, landed in told) == (repository == "llvm/llvm-project",) * 2


# -- main takes an integrate back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_what_main_took_back_is_told_and_the_roller_waits_for_a_person(back: World, again: bool) -> None:
    had = back.affecting[0]
    land(Walk(back.open()), squash=True, pulls=None)
    landed = back.git("rev-parse", "HEAD")
    for commit in (landed, "HEAD") if again else (landed,):
        back.git("push", "-q", "origin", f"{landed}:refs/heads/main") if commit == landed else None
        back.git("switch", "-q", "main")
        back.git("pull", "-q", "--ff-only")
        back.git("revert", "--no-edit", commit)
        back.git("push", "-q")
    state = look(back.open(), None)
    assert (state.outcome, state.bad) == (("", "") if again else ("taken back", had))
    begun = begin(back.open(), publish=True)
    assert begun.new is again
    assert (f"had LLVM at {had[:12]} (in {landed[:12]}), and took it back" in begun.said) is not again
    for command in (("start", "--push"), ("run",)):
        assert ("bisect upstream --good" in integrate(back, *command)["said"]) is not again
    assert begin(back.open(), publish=True).branch  # which a person has begun


def test_a_dropped_patch_is_remembered_through_a_landing_and_on_another_machine_until_it_is_dropped_by_hand(
    back: World,
) -> None:
    carry(Walk(back.open()), back.affecting[2], revert=False, why="w", link="", drop_when="")
    Walk(back.open()).next(to=back.affecting[3])
    land(Walk(back.open()), squash=True, pulls=None)
    back.git("push", "-q", "origin", "HEAD:main")
    shutil.rmtree(back.checkout / ".git/mlir-release/upstream.git")
    walk = back.begin()
    seen = walk.observer.look()
    assert (seen.patches, len(seen.asleep)) == ((), 1)
    drop([walk], seen.asleep[0].patch.sha[:12])
    assert Walk(back.open()).observer.look().asleep == ()
