"""Exports: other patched submodules (``[[export.also]]``), and a remote that needs a token of its own."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import start, sync
from mlir_release.integrate.deliver.land import check_reachable, land
from mlir_release.integrate.open import open_project
from mlir_release.integrate.patches.export import export_all
from mlir_release.integrate.walk.walk import Walk
from tests.github_server import GitHubServer
from tests.integrate.integration import miniature
from tests.integrate.integration.miniature import NOON, URL, World
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


PATH = "third_party/dep"


@dataclass
class Downstream:
    """A downstream with a second submodule, whose patches go to a fork of its own."""

    world: World

    @property
    def inner(self) -> Path:
        return self.world.checkout / PATH

    @property
    def fork(self) -> Git:
        return Git(self.world.root / "dep-fork.git")

    def patch(self, content: str, *, onto: str = "HEAD") -> str:
        """What a person does: change the submodule, commit there, commit the submodule."""
        miniature.git(self.inner, "checkout", "-q", "--detach", onto)
        (self.inner / "dep.txt").write_text(content)
        miniature.git(self.inner, "commit", "-q", "-a", "-m", f"Say {content.strip()}")
        self.world.git("commit", "-q", "-m", "Patch dep", PATH)
        return miniature.git(self.inner, "rev-parse", "HEAD")


@pytest.fixture
def downstream(plain: World) -> Downstream:
    for name in ("dep.git", "dep-fork.git"):
        miniature.git(plain.root, "init", "-q", "--bare", name)
    work = plain.root / "dep-work"
    miniature.git(plain.root, "init", "-q", str(work))
    (work / "dep.txt").write_text("as it was\n")
    miniature.git(work, "add", ".")
    miniature.git(work, "commit", "-q", "-m", "Begin")
    miniature.git(work, "push", "-q", f"{URL}dep.git", "HEAD:main")
    plain.git("submodule", "--quiet", "add", f"{URL}dep.git", PATH)
    with (plain.checkout / "integrate.toml").open("a") as file:
        file.write(f'[[export.also]]\npath = "{PATH}"\nremote = "{URL}dep-fork.git"\nbranch = "ours"\n')
    plain.publish("Depend on dep")
    start(plain.open())
    return Downstream(plain)


def test_export_keeps_every_state_reachable(downstream: Downstream) -> None:
    base = miniature.git(downstream.inner, "rev-parse", "HEAD")
    first = downstream.patch("first\n")
    assert export_all(downstream.world.open()) == {PATH: first}
    second = downstream.patch("second\n", onto=base)
    head = export_all(downstream.world.open())[PATH]
    assert downstream.fork.resolve("refs/heads/ours") == head
    assert downstream.fork.text("rev-parse", f"{head}^1", f"{head}^2").split() == [second, first]
    assert downstream.fork.text("diff", head, second) == ""
    assert export_all(downstream.world.open()) == {PATH: head}


def test_an_export_branch_that_moves_during_the_push_is_joined(downstream: Downstream) -> None:
    base = miniature.git(downstream.inner, "rev-parse", "HEAD")
    first = downstream.patch("first\n")
    export_all(downstream.world.open())
    theirs = downstream.patch("theirs\n", onto=base)
    miniature.git(downstream.inner, "push", "-q", f"{URL}dep-fork.git", f"{theirs}:refs/heads/hidden")
    second = downstream.patch("second\n", onto=base)
    fork = downstream.fork.directory
    hook = fork / "hooks" / "pre-receive"
    # Somebody else is faster by a moment, once: after git has looked, before it has pushed.
    hook.write_text(
        f"""#!/bin/sh
rm "$0"
env -i PATH="$PATH" git -C {fork} update-ref refs/heads/ours \
  $(env -i PATH="$PATH" GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x \
    git -C {fork} commit-tree -p ours -p hidden -m theirs "hidden^{{tree}}")
"""
    )
    hook.chmod(0o755)
    head = export_all(downstream.world.open())[PATH]
    assert not hook.exists()
    assert downstream.fork.resolve("refs/heads/ours") == head
    for commit in (first, theirs, second):
        assert is_ancestor(downstream.fork, commit, head)


def test_land_refuses_what_others_cannot_fetch(downstream: Downstream) -> None:
    commit = downstream.patch("patched\n")
    walk = Walk(downstream.world.open())
    error = refused(lambda: land(walk, squash=True, pulls=None), "land-unreachable")
    assert error.where == commit
    assert PATH in error.what
    assert miniature.git(downstream.world.root / "origin.git", "for-each-ref", "refs/heads/integrates") == ""
    export_all(downstream.world.open())
    land(walk, squash=True, pulls=None)


def test_land_sees_that_an_exported_commit_is_gone(downstream: Downstream) -> None:
    downstream.patch("patched\n")
    export_all(downstream.world.open())
    walk = Walk(downstream.world.open())
    check_reachable(walk.project, walk.branch)
    downstream.fork.run("update-ref", "-d", "refs/heads/ours")
    refused(lambda: check_reachable(walk.project, walk.branch), "land-unreachable")


def test_land_checks_submodules_that_are_not_exported_too(downstream: Downstream) -> None:
    config = downstream.world.checkout / "integrate.toml"
    config.write_text(config.read_text().partition("[[export.also]]")[0])
    downstream.world.git("commit", "-q", "-a", "-m", "Export nothing else")
    commit = downstream.patch("patched\n")
    walk = Walk(downstream.world.open())
    refused(lambda: check_reachable(walk.project, walk.branch), "land-unreachable")
    miniature.git(downstream.inner, "push", "-q", "origin", f"{commit}:refs/tags/v1")
    check_reachable(walk.project, walk.branch)


def test_the_branch_is_pushed_only_after_the_export(downstream: Downstream) -> None:
    commit = downstream.patch("patched\n")
    walk = Walk(downstream.world.open(), publish=True)
    hook = downstream.fork.directory / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    refused(walk.push_branch, "push-failed")
    origin = Git(downstream.world.root / "origin.git")
    assert origin.resolve(f"refs/heads/{walk.branch}") is None
    hook.unlink()
    walk.push_branch()
    assert origin.resolve(f"refs/heads/{walk.branch}") == downstream.world.git("rev-parse", "HEAD")
    assert is_ancestor(downstream.fork, commit, "ours")


def test_probes_find_the_patched_submodule_here_and_on_another_machine(downstream: Downstream, tmp_path: Path) -> None:
    world = downstream.world
    config = world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace('["./smoke.sh"]', f'["grep", "patched", "{PATH}/dep.txt"]'))
    world.git("commit", "-q", "-a", "-m", "Test dep")
    downstream.patch("patched\n")
    end = Walk(downstream.world.open(), publish=True).run(st.Adaptive(), until=world.affecting[0])
    assert (end.outcome, end.smoke_tests) == ("head", 1)
    elsewhere = Walk(world.elsewhere(tmp_path / "other"), publish=True)
    assert elsewhere.probe(elsewhere.observer.look(), world.affecting[1]).verdict is st.Verdict.GOOD
    elsewhere.push_branch()  # the submodule is not cloned there: nothing to export
    check_reachable(elsewhere.project, elsewhere.branch)


@pytest.mark.parametrize("asked", [None, [], [PATH]])
def test_only_the_submodules_that_the_smoke_test_needs_are_cloned(
    downstream: Downstream, tmp_path: Path, asked: list[str] | None
) -> None:
    """In a fresh clone, by `start`, `sync` and a probe; the walked one is always there."""
    world = downstream.world
    config = world.checkout / "integrate.toml"
    text = config.read_text().partition("[[export.also]]")[0]
    listed = "" if asked is None else f"\nsubmodules = {asked}"
    config.write_text(text.replace('["./smoke.sh"]', f'["sh", "-c", "ls {PATH} >seen; mv seen {tmp_path}"]{listed}'))
    world.git("switch", "-q", "main")
    world.publish("Choose submodules")
    other = tmp_path / "other"
    miniature.git(tmp_path, "clone", "-q", f"{URL}origin.git", str(other))
    project = open_project(other, clock=lambda: NOON)
    start(project)
    walk = Walk(project)
    sync(walk)
    walk.probe(walk.observer.look(), walk.observer.look().base)
    expected = "dep.txt\n" if asked else ""
    assert (tmp_path / "seen").read_text() == expected
    assert (other / PATH / ".git").exists() == bool(asked)
    assert (other / "third_party/llvm/mlir").is_dir()


def test_a_submodule_that_does_not_exist_is_named(downstream: Downstream) -> None:
    config = downstream.world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace("[smoke]", '[smoke]\nsubmodules = ["third_party/llvm", "dep"]'))
    downstream.world.git("commit", "-q", "-a", "-m", "Choose submodules")
    error = refused(
        lambda: sync(Walk(downstream.world.open())), "config-invalid", "in submodules of [smoke] is no submodule"
    )
    assert "third_party/llvm, dep" in error.what
    assert PATH in error.remedy
    assert "is always there" in error.why


def test_a_path_that_is_no_submodule_is_refused(downstream: Downstream) -> None:
    config = downstream.world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace(f'path = "{PATH}"', 'path = "app.c"'))
    refused(lambda: export_all(downstream.world.open()), "config-invalid", "in [[export.also]] is not a submodule at")


# -- a token for the export remote -------------------------------------------------------------------------------------


def basic(token: str) -> str:
    return base64.b64encode(f"x-access-token:{token}".encode()).decode()


@pytest.fixture
def world_with_fork_behind_a_token(tmp_path: Path, plain: World) -> Iterator[tuple[World, str]]:
    """A downstream whose fork of LLVM takes pushes with a token only, and that token."""
    with GitHubServer(tmp_path / "github") as github:
        github.add_repository("ours/llvm", {"README": b"a fork\n"})
        remote = f"{github.url}/ours/llvm.git"
        plain.reconfigure(f"{URL}fork.git", remote)
        # What actions/checkout leaves: the job's own token, for the whole host, which may not write there.
        own = github.token(scopes=("metadata",))
        with (plain.root / "gitconfig").open("a") as file:
            file.write(f'[http "{github.url}/"]\n\textraheader = AUTHORIZATION: basic {basic(own)}\n')
        start(plain.open())
        yield plain, github.token(scopes=("contents",))


def carry_a_pick(world: World) -> str:
    walk = Walk(world.open())
    return branch.carry(walk, world.commits["needed"], revert=False, why="we need it", link="", drop_when="")


def test_the_export_token_is_for_the_export_remote_and_seen_by_nobody(
    world_with_fork_behind_a_token: tuple[World, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, token = world_with_fork_behind_a_token
    refused(lambda: carry_a_pick(world), "push-failed")
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    monkeypatch.setenv("GIT_TRACE_CURL", str(trace))
    monkeypatch.setenv("MLIR_RELEASE_EXPORT_TOKEN", token)
    tip = carry_a_pick(world)
    monkeypatch.delenv("GIT_TRACE")
    assert is_ancestor(Git(tmp_path / "github" / "ours" / "llvm.git"), tip, "downstream-llvm")
    walk = Walk(world.open())
    check_reachable(walk.project, walk.branch)
    assert "push" in trace.read_text()
    secrets = (token.encode(), basic(token).encode())
    for path in [trace, *world.root.rglob("*")]:
        if path.is_file():
            content = path.read_bytes()
            assert not any(secret in content for secret in secrets), path
