"""Whatever writes, killed anywhere and run again, ends as if never killed, and nothing that a person wrote is lost.

By day each of :data:`KILLS` is killed in one way, between git's commands or inside of them; at night in both.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.ground.strategy import Linear
from mlir_release.integrate.deliver.branch import carry, start
from mlir_release.integrate.state import LANDED, ProbeStore
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature, pair, patched
from tests.integrate.integration import scenario as integrate_scenario
from tests.integrate.integration.bisecting import runs
from tests.integrate.integration.miniature import BRANCH, NOON
from tests.integrate.integration.scenario import to_the_first_break
from tests.integrate.integration.test_effect import taken_back
from tests.kill import NEEDS_COMPILER, kill_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mlir_release.integrate.state import Record
    from tests.integrate.integration.miniature import World

pytestmark = NEEDS_COMPILER


def built(folder: Path, carrier: str, *, patched: bool = True) -> World:
    return miniature.build(folder, carrier=carrier, patched=patched, small=True)


def recorded(repository: Path, branch: str | None = BRANCH) -> list[Record]:
    signature = Signature(name="x", email="x@example.com", when=NOON)
    return list(ProbeStore(Git(repository), branch, lambda: signature).load().values())


def branches(folder: Path, *more: str) -> dict[str, Any]:
    """Of all repositories: their ids stand for the whole history, trees, parents, trailers, authors and dates."""
    names = ("downstream", "origin.git", "fork.git")
    return {name: {ref.name: ref.commit for ref in Git(folder / name).refs("refs/heads", *more)} for name in names}


# -- walks ------------------------------------------------------------------------------------------------------------


def walk_ended(folder: Path, *, side_by_side: bool = False) -> dict[str, Any]:
    """Everything that must be the same: branches, verdicts, the work tree, the carried patches by patch-id."""
    world, state = miniature.load(folder), branches(folder)
    for name in ("downstream", "origin.git"):
        verdicts = {record.upstream: str(record.verdict) for record in recorded(folder / name)}
        if not side_by_side:
            state[f"verdicts in {name}"] = verdicts
        # Which commits were tested beside the edge may differ where several are tested at once; never what they say.
        culprit = world.affecting.index(world.commits["rename scale"])
        edge = {world.affecting[culprit - 1]: "good", world.affecting[culprit]: "bad"}
        assert edge.items() <= verdicts.items()
        assert all(verdict == "good" for commit, verdict in verdicts.items() if commit != world.affecting[culprit])
    state["HEAD"] = world.git("symbolic-ref", "HEAD")
    state["status"] = world.git("status", "--porcelain")
    fork = world.root / "fork.git"
    state["patches"] = patch_ids(fork, miniature.git(fork, "rev-list", "-n", "3", "downstream-llvm^1"))
    assert len(state["patches"]) == 3
    llvm = world.checkout / "third_party/llvm"
    if llvm.exists():
        state["llvm"] = miniature.git(llvm, "rev-parse", "HEAD")
    return state


def patch_ids(repository: Path, commits: str) -> list[str]:
    git = Git(repository)
    diff = git.run("diff-tree", "--stdin", "-p", input=f"{commits}\n".encode()).stdout
    return [line.split()[0] for line in git.run("patch-id", "--stable", input=diff).stdout.decode().splitlines()]


def waiting(folder: Path, carrier: str) -> None:
    """A branch with a revert that can be dropped once dialect, a plain submodule, has moved."""
    world = pair.build(folder, carrier=carrier, order=("llvm",))
    with pytest.MonkeyPatch.context() as patch:
        world.enter(patch)
        start(world.open(), publish=True)
        walk, broken = Walk(world.open(), publish=True), world.commits["break 1"]
        walk.next(to=broken)
        carry(walk, broken, revert=True, why="w", link="", drop_when="", until="third_party/dialect")


def two(folder: Path, carrier: str) -> None:
    pair.build(folder, carrier=carrier)


def with_patch_files(folder: Path, carrier: str) -> None:
    patched.built(folder)


def pair_ended(folder: Path) -> dict[str, Any]:
    """The branches with all of their history, the verdicts, and the work tree."""
    world, state = pair.load(folder), branches(folder)
    branch = world.git("branch", "--show-current")
    for name in ("downstream", "origin.git"):
        state[f"verdicts in {name}"] = {record.key: str(record.verdict) for record in recorded(folder / name, branch)}
    state["status"] = world.git("status", "--porcelain")
    state["submodules"] = world.git("submodule", "status")
    return state


# -- the first command in a fresh clone -------------------------------------------------------------------------------


def just_cloned(folder: Path, carrier: str, *, patched: bool = True) -> None:
    world = built(folder, carrier, patched=patched)
    shutil.rmtree(world.checkout)
    miniature.git(folder, "clone", "-q", str(folder / "origin.git"), "downstream")
    world.git("remote", "set-url", "origin", f"{miniature.URL}origin.git")


def cloned(folder: Path) -> dict[str, Any]:
    world = miniature.load(folder)
    state = {"status": world.git("status", "--porcelain", "--branch"), "refs": world.git("for-each-ref")}
    submodule = world.checkout / "third_party/llvm"
    llvm = submodule if submodule.exists() else world.checkout / ".git/mlir-release/upstream.git"
    miniature.git(llvm, "fsck", "--connectivity-only")
    state["llvm"] = miniature.git(llvm, "for-each-ref", "refs/mlir-release")
    state["log"] = miniature.git(llvm, "log", "--format=%H", "refs/mlir-release/upstream/main")
    if llvm == submodule:
        state["HEAD"] = miniature.git(llvm, "rev-parse", "HEAD")
        state["llvm status"] = miniature.git(llvm, "status", "--porcelain")
    return state


# -- commands ---------------------------------------------------------------------------------------------------------


def started(folder: Path, carrier: str) -> World:
    world = built(folder, carrier)
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
    return {**branches(folder), "status": miniature.load(folder).git("status", "--porcelain", "--branch")}


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


def before_a_jump(folder: Path, carrier: str) -> None:
    """At a culprit that upstream takes back, with patch files and a carried patch that lands before that."""
    world = taken_back(folder, carrier=carrier)
    landed = world.affecting[2]
    with pytest.MonkeyPatch.context() as patch:
        world.enter(patch)
        carry(Walk(world.open(), publish=True), landed, revert=False, why="w", link="", drop_when="")
        patched.carry_files(world)
        Walk(world.open(), publish=True).run(Linear(), until=world.commits["culprit"])


def jumped(folder: Path) -> dict[str, Any]:
    """At the revert, where only a file is carried; the advance says what it skipped, dropped and made anew."""
    world = miniature.load(folder)
    assert world.open().pin() == world.commits["revert"]
    verbs = [line.partition(" ")[0] for line in world.git("log", "-1", "--format=%b").splitlines()]
    assert [verbs.count(verb) for verb in ("drops", "skips", "makes")] == [2, 1, 1]
    return seen(folder)


# -- landing ----------------------------------------------------------------------------------------------------------


def four_advances(folder: Path, carrier: str) -> None:
    """At the remote, too; the second is to be landed."""
    world = started(folder, carrier)
    walk = Walk(world.open(), publish=True)
    for _ in range(4):
        walk.next()
    (folder / "advance").write_text(world.git("rev-parse", "HEAD~2"))
    (folder / "head").write_text(world.git("rev-parse", "HEAD"))


def in_reach(folder: Path) -> None:
    """Right after a kill: the last advance is on the branch, or among what was landed, here and at the remote."""
    head = (folder / "head").read_text()
    for name in ("downstream", "origin.git"):
        git = Git(folder / name)
        assert any(is_ancestor(git, head, ref) for ref in (f"refs/heads/{BRANCH}", LANDED + BRANCH)), name


def landed(folder: Path) -> dict[str, Any]:
    world, state = miniature.load(folder), branches(folder, LANDED)
    assert state["downstream"][LANDED + BRANCH] == state["origin.git"][LANDED + BRANCH]
    state["status"] = world.git("status", "--porcelain", "--branch")
    llvm = world.checkout / "third_party/llvm"
    state["pin"] = world.open().pin()
    assert not llvm.exists() or miniature.git(llvm, "rev-parse", "HEAD") == state["pin"]
    return state


# -- pins in several files, of which a command writes one -------------------------------------------------------------

TABLES = r"""pin-file = "deps.txt"
pattern = '^lib=(\w+)'
refresh = {command = "sh refresh.sh", files = ["locks/*"]}

[[upstream.also]]
file = "copy.txt"
pattern = '^(\w+)'

[[upstream.also]]
file = "deps.txt"
pattern = '^dated=(.*)'
value = "date"
"""

FILES = {
    "deps.txt": "lib=PIN\ndated=2020-01-01\n",
    "copy.txt": "PIN\n",
    "locks/a.lock": "",
    "refresh.sh": "cut -d= -f2 deps.txt | head -n1 > locks/a.lock.new && mv locks/a.lock.new locks/a.lock\n",
}


def pinned_in_files(folder: Path, carrier: str) -> None:
    world = built(folder, carrier, patched=False)
    pin = world.open().pin()
    config = world.checkout / "integrate.toml"
    text = config.read_text().replace('pin-file = "llvm-project.version"\n', "")
    config.write_text(text.replace('name = "LLVM"\n', f'name = "LLVM"\n{TABLES}'))
    for path, content in FILES.items():
        (world.checkout / path).parent.mkdir(exist_ok=True)
        (world.checkout / path).write_text(content.replace("PIN", pin))
    world.git("add", "-A")
    env = miniature.dated() | world.environment()
    miniature.git(world.checkout, "commit", "-q", "-m", "Pin otherwise", env=env | {"PATH": "/usr/bin:/bin"})
    world.git("push", "-q")
    start(world.open())


def all_written(folder: Path) -> object:
    world = miniature.load(folder)
    files = {path: (world.checkout / path).read_text() for path in FILES}
    assert files["locks/a.lock"] == f"{world.affecting[1]}\n" == files["copy.txt"]
    return world.git("for-each-ref", "refs/heads"), world.git("status", "--porcelain", "--branch"), files


@dataclass(frozen=True)
class Kill:
    """What is killed: a function of scenario.py, what it begins with, and what must be the same at its end."""

    scenario: str
    carrier: str
    begin: Callable[[Path, str], object]
    end: Callable[[Path], object]
    by_day: tuple[str, ...] = ()
    check: Callable[[Path], None] = lambda _: None  #: what must hold right after a kill
    at_night: tuple[str, ...] = ("between", "inside")

    @property
    def name(self) -> str:
        return f"{self.scenario}-{self.carrier}"


KILLS = [
    Kill("linear", "submodule", built, walk_ended, ("between",)),
    Kill("adaptive", "pin-file", built, walk_ended, ("inside",)),
    Kill("parallel", "submodule", built, partial(walk_ended, side_by_side=True)),
    Kill("head", "pin-file", built, walk_ended),
    Kill("together", "pin-file", two, pair_ended, ("between",)),
    Kill("diamond", "submodule", waiting, pair_ended, ("inside",)),
    Kill("patch_files", "submodule", with_patch_files, seen, ("between",)),
    Kill("open_and_look", "submodule", just_cloned, cloned, ("inside",), at_night=("inside",)),
    Kill("open_and_look", "pin-file", just_cloned, cloned, at_night=("inside",)),
    Kill("open_and_look", "submodule", partial(just_cloned, patched=False), cloned, at_night=("inside",)),
    Kill("open_and_look", "pin-file", partial(just_cloned, patched=False), cloned, ("inside",), at_night=("inside",)),
    Kill("fix", "submodule", walked, fixed, ("between",)),
    Kill("fix", "pin-file", walked, fixed, ("inside",)),
    Kill("cancel", "submodule", slow_after_the_culprit, cancelled, ("between",)),
    Kill("jump", "submodule", before_a_jump, jumped, ("between",)),
    Kill("status", "pin-file", walked, told, ("inside",)),
    Kill("bisect", "submodule", advanced, bisected, ("between",)),
    Kill("go_on", "submodule", of_another_day, seen, ("inside",)),
    Kill("back_off", "submodule", four_advances, landed, ("between",), check=in_reach),
    Kill("land_all", "pin-file", four_advances, landed, ("inside",), check=in_reach),
    Kill("two_advances", "pin-file", pinned_in_files, all_written, ("between",)),
]


@pytest.mark.parametrize(
    ("kill", "where"),
    [
        pytest.param(kill, where, marks=() if where in kill.by_day else pytest.mark.slow, id=f"{kill.name}-{where}")
        for kill in KILLS
        for where in kill.at_night
    ],
)
def test_killed_anywhere_it_ends_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kill: Kill,
    where: str,
    remotes: str,
    exhaustive: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def prepare(folder: Path) -> None:
        with monkeypatch.context() as patch:
            for name, value in miniature.World(folder, {}, []).environment().items():
                patch.setenv(name, value)
            folder.rmdir()  # which is made anew
            kill.begin(folder, kill.carrier)

    # Inside of commands there are thousands of points: even the exhaustive variant tries some only.
    sample = (None if where == "between" else 100) if exhaustive else 5
    killing = kill_everywhere(
        f"{integrate_scenario.__file__}:{kill.scenario}",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=kill.end,
        check=kill.check,
        work=tmp_path,
        commands=where == "between",
        sample=sample,
    )
    with capsys.disabled():
        print(f"\n{kill.carrier}: {killing}")
    assert killing.tried >= 2
