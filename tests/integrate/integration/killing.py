"""How a walk is killed and what must be the same afterwards: for ``test_integrate_kill*.py``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.integrate.state import ProbeStore
from tests.integrate.integration import miniature
from tests.integrate.integration import scenario as integrate_scenario
from tests.integrate.integration.miniature import NOON
from tests.kill import compiler, kill_everywhere

if TYPE_CHECKING:
    from tests.kill import Killing

HERE = Path(integrate_scenario.__file__)
BRANCH = "integrates/llvm-20261120"

NEEDS_COMPILER = pytest.mark.skipif(
    compiler() is None, reason="KILL TESTS NOT RUN: they need a C compiler (apt-get install gcc libc6-dev)"
)

#: How LLVM is carried, and by which strategy it is walked.
WALKS = [("submodule", "linear"), ("pin-file", "adaptive"), ("submodule", "parallel"), ("pin-file", "head")]


def kill_a_walk(
    folder: Path, carrier: str, strategy: str, remotes: str, *, commands: bool, sample: int | None
) -> Killing:
    """Kill a walk to the first break, and run it again: at ``sample`` points; None: at all.

    :param remotes: where the remote repositories are: another machine, which is not killed, too
    :param commands: between git commands, not inside of them
    """

    def prepare(folder: Path) -> None:
        folder.rmdir()
        miniature.build(folder, carrier=carrier, patched=True, small=True)

    return kill_everywhere(
        f"{HERE}:{strategy}",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=lambda folder: end_state(folder, strategy),
        work=folder,
        commands=commands,
        sample=sample,
    )


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


def patch_ids(repository: Path, commits: str) -> list[str]:
    git = Git(repository)
    diff = git.run("diff-tree", "--stdin", "-p", input=f"{commits}\n".encode()).stdout
    return [line.split()[0] for line in git.run("patch-id", "--stable", input=diff).stdout.decode().splitlines()]
