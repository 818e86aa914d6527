"""A walk that is killed after any of its git commands, or inside of them, and run again, ends as if never killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.git import Git, Signature
from mlir_release.integrate.state import ProbeStore
from tests.integration import integrate_scenario, miniature
from tests.integration.kill import compiler, kill_everywhere
from tests.integration.miniature import NOON

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="KILL TESTS NOT RUN: they need a C compiler (apt-get install gcc libc6-dev)"
)

HERE = Path(integrate_scenario.__file__)
BRANCH = "integrates/llvm-20261120"


def end_state(folder: Path, strategy: str) -> dict[str, Any]:
    """Everything that must be the same: branches (their ids stand for the whole history: trees, parents, trailers,
    authors, dates), verdicts, the work tree, the carried patches by patch-id."""
    world = miniature.load(folder)
    state: dict[str, Any] = {}
    for name in ("downstream", "origin.git", "fork.git"):
        refs = Git(world.root / name).refs("refs/heads")
        state[name] = {ref.name: ref.commit for ref in refs}
    signature = Signature(name="x", email="x@example.com", when=NOON)
    for name in ("downstream", "origin.git"):
        store = ProbeStore(Git(world.root / name), BRANCH, lambda: signature)
        verdicts = {r.upstream: str(r.verdict) for r in store.load().values()}
        if strategy != "parallel":
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


@pytest.fixture(scope="module")
def remotes() -> Iterator[str]:
    """Where the remote repositories are: another machine would not be killed, too."""
    with miniature.serving() as address:
        yield address


def patch_ids(repository: Path, commits: str) -> list[str]:
    git = Git(repository)
    diff = git.run("diff-tree", "--stdin", "-p", input=f"{commits}\n".encode()).stdout
    return [line.split()[0] for line in git.run("patch-id", "--stable", input=diff).stdout.decode().splitlines()]


@pytest.mark.parametrize(
    ("carrier", "strategy"),
    [("submodule", "linear"), ("pin-file", "adaptive"), ("submodule", "parallel"), ("pin-file", "head")],
)
@pytest.mark.parametrize("commands", [True, False], ids=["between-commands", "inside"])
def test_a_killed_walk_ends_the_same(
    tmp_path: Path, carrier: str, strategy: str, commands: bool, remotes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(folder: Path) -> None:
        folder.rmdir()
        miniature.build(folder, carrier=carrier, patched=True, small=True)

    killing = kill_everywhere(
        f"{HERE}:{strategy}",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=lambda folder: end_state(folder, strategy),
        work=tmp_path,
        commands=commands,
        sample=40 if commands else 25,
    )
    with capsys.disabled():
        print(f"\n{carrier}: {killing}")
    assert killing.tried > 20


@pytest.mark.parametrize("carrier", ["submodule", "pin-file"])
@pytest.mark.parametrize("patched", [True, False], ids=["patched", "pristine"])
def test_a_first_command_that_is_killed_while_it_clones_is_repaired_by_the_next(
    tmp_path: Path, carrier: str, patched: bool, remotes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(folder: Path) -> None:
        folder.rmdir()
        world = miniature.build(folder, carrier=carrier, patched=patched, small=True)
        shutil.rmtree(world.checkout)
        miniature.git(folder, "clone", "-q", str(folder / "origin.git"), "downstream")
        world.git("remote", "set-url", "origin", f"{miniature.URL}origin.git")

    def observe(folder: Path) -> dict[str, Any]:
        world = miniature.load(folder)
        state = {"status": world.git("status", "--porcelain", "--branch"), "refs": world.git("for-each-ref")}
        places = {"submodule": "third_party/llvm", "pin-file": ".git/mlir-release/upstream.git"}
        llvm = world.checkout / places[carrier]
        miniature.git(llvm, "fsck", "--connectivity-only")
        state["llvm"] = miniature.git(llvm, "for-each-ref", "refs/mlir-release")
        state["log"] = miniature.git(llvm, "log", "--format=%H", "refs/mlir-release/upstream/main")
        if carrier == "submodule":
            state["HEAD"] = miniature.git(llvm, "rev-parse", "HEAD")
            state["llvm status"] = miniature.git(llvm, "status", "--porcelain")
        return state

    killing = kill_everywhere(
        f"{HERE}:open_and_look",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=observe,
        work=tmp_path,
        sample=25,
    )
    with capsys.disabled():
        print(f"\n{carrier}, {'patched' if patched else 'pristine'}: {killing}")
    assert killing.tried > 20
