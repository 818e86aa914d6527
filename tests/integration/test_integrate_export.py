"""``[[export.also]]``: another patched submodule's commits are reachable before others see what points at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import ReleaseError
from mlir_release.git import Git
from mlir_release.integrate import carry
from mlir_release.integrate import strategy as st
from mlir_release.integrate.land import check_reachable, land
from mlir_release.integrate.project import Project, open_project
from mlir_release.integrate.start import start
from mlir_release.integrate.walk import Walk
from mlir_release.worktree import is_ancestor
from tests.integration import miniature
from tests.integration.miniature import NOON, URL, World

if TYPE_CHECKING:
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

    def project(self) -> Project:
        return open_project(self.world.checkout, clock=lambda: NOON)

    def patch(self, content: str, *, onto: str = "HEAD") -> str:
        """What a person does: change the submodule, commit there, commit the submodule."""
        miniature.git(self.inner, "checkout", "-q", "--detach", onto)
        (self.inner / "dep.txt").write_text(content)
        miniature.git(self.inner, "commit", "-q", "-a", "-m", f"Say {content.strip()}")
        self.world.git("commit", "-q", "-m", "Patch dep", PATH)
        return miniature.git(self.inner, "rev-parse", "HEAD")


@pytest.fixture
def downstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Downstream:
    world = miniature.build(tmp_path / "world", patched=False, small=True)
    for name, value in world.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("dep.git", "dep-fork.git"):
        miniature.git(world.root, "init", "-q", "--bare", name)
    work = world.root / "dep-work"
    miniature.git(world.root, "init", "-q", str(work))
    (work / "dep.txt").write_text("as it was\n")
    miniature.git(work, "add", ".")
    miniature.git(work, "commit", "-q", "-m", "Begin")
    miniature.git(work, "push", "-q", f"{URL}dep.git", "HEAD:main")
    world.git("submodule", "--quiet", "add", f"{URL}dep.git", PATH)
    with (world.checkout / "integrate.toml").open("a") as file:
        file.write(f'[[export.also]]\npath = "{PATH}"\nremote = "{URL}dep-fork.git"\nbranch = "ours"\n')
    world.git("commit", "-q", "-a", "-m", "Depend on dep")
    world.git("push", "-q")
    made = Downstream(world)
    start(made.project())
    return made


def test_export_keeps_every_state_reachable(downstream: Downstream) -> None:
    base = miniature.git(downstream.inner, "rev-parse", "HEAD")
    first = downstream.patch("first\n")
    assert carry.export(downstream.project()) == {PATH: first}
    second = downstream.patch("second\n", onto=base)
    head = carry.export(downstream.project())[PATH]
    assert downstream.fork.resolve("refs/heads/ours") == head
    assert downstream.fork.text("rev-parse", f"{head}^1", f"{head}^2").split() == [second, first]
    assert carry.export(downstream.project()) == {PATH: head}


def test_land_refuses_what_others_cannot_fetch(downstream: Downstream) -> None:
    commit = downstream.patch("patched\n")
    walk = Walk(downstream.project())
    with pytest.raises(ReleaseError) as caught:
        land(walk, squash=True, pulls=None)
    assert caught.value.id == "land-unreachable"
    assert caught.value.where == commit
    assert PATH in caught.value.what
    assert miniature.git(downstream.world.root / "origin.git", "for-each-ref", "refs/heads/integrates") == ""
    carry.export(downstream.project())
    land(walk, squash=True, pulls=None)


def test_land_sees_that_an_exported_commit_is_gone(downstream: Downstream) -> None:
    downstream.patch("patched\n")
    carry.export(downstream.project())
    walk = Walk(downstream.project())
    check_reachable(walk.project, walk.branch)
    downstream.fork.run("update-ref", "-d", "refs/heads/ours")
    with pytest.raises(ReleaseError) as caught:
        check_reachable(walk.project, walk.branch)
    assert caught.value.id == "land-unreachable"


def test_land_checks_submodules_that_are_not_exported_too(downstream: Downstream) -> None:
    config = downstream.world.checkout / "integrate.toml"
    config.write_text(config.read_text().partition("[[export.also]]")[0])
    downstream.world.git("commit", "-q", "-a", "-m", "Export nothing else")
    commit = downstream.patch("patched\n")
    walk = Walk(downstream.project())
    with pytest.raises(ReleaseError) as caught:
        check_reachable(walk.project, walk.branch)
    assert caught.value.id == "land-unreachable"
    miniature.git(downstream.inner, "push", "-q", "origin", f"{commit}:refs/tags/v1")
    check_reachable(walk.project, walk.branch)


def test_the_branch_is_pushed_only_after_the_export(downstream: Downstream) -> None:
    commit = downstream.patch("patched\n")
    walk = Walk(downstream.project(), publish=True)
    hook = downstream.fork.directory / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(ReleaseError) as caught:
        walk.push_branch()
    assert caught.value.id == "push-failed"
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
    branch = world.git("symbolic-ref", "--short", "HEAD")
    end = Walk(downstream.project(), publish=True).run(st.Adaptive(), until=world.affecting[0])
    assert (end.outcome, end.tests) == ("head", 1)
    other = tmp_path / "other"
    miniature.git(tmp_path, "clone", "-q", "-b", branch, f"{URL}origin.git", str(other))
    elsewhere = Walk(open_project(other, clock=lambda: NOON), publish=True)
    assert elsewhere.probe(elsewhere.observe(), world.affecting[1]).verdict is st.Verdict.GOOD
    elsewhere.push_branch()  # the submodule is not cloned there: nothing to export
    check_reachable(elsewhere.project, elsewhere.branch)


def test_a_path_that_is_no_submodule_is_refused(downstream: Downstream) -> None:
    config = downstream.world.checkout / "integrate.toml"
    config.write_text(config.read_text().replace(f'path = "{PATH}"', 'path = "app.c"'))
    with pytest.raises(ReleaseError) as caught:
        carry.export(downstream.project())
    assert caught.value.id == "export-not-submodule"
