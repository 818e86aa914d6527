"""Both halves meet: a project walks LLVM forward with patches, exports them, and has a release of just that LLVM."""

from __future__ import annotations

import subprocess
import tomllib
from typing import TYPE_CHECKING

import tomli_w
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.pinning.state import find_state
from tests.attacks.selected_stage import TREE
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from mlir_release.release.model.stack import CarriedStack

ARITH, FUNC = "mlir/python/mlir/dialects/arith.py", "mlir/python/mlir/dialects/func.py"
CONFIGURATION = """
[upstream]
url = "{upstream}"
pin-file = "llvm-project.version"
paths = ["mlir"]
[upstream.export]
remote = "{fork}"
branch = "acme-carried"
[smoke]
command = "true"
"""


def git(folder: Path, *arguments: str) -> str:
    """What a command of git prints."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class World:
    """llvm-project, its fork, a project with its checkout, and the project's release repository."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.upstream, self.fork = folder, folder / "llvm-project", folder / "fork.git"
        self.project, self.origin = folder / "compiler", folder / "compiler.git"
        for place in (self.upstream, self.project):
            place.mkdir()
            git(place, "init", "--quiet", "--initial-branch=main")
            git(place, "config", "user.name", "Ada")
            git(place, "config", "user.email", "ada@example.org")
        self.begin = self.commit("[mlir] Begin", {path: text.decode() for path, text in TREE.items()})
        self.renamed = self.commit("[mlir][python] Rename what Acme uses (#7)", {FUNC: "new = 1\n"})
        git(self.upstream, "checkout", "--quiet", "-b", "users/acme")
        self.pick = self.commit("[mlir][python] Add arith.zero (#8)", {ARITH: "zero = 0\n"})
        git(self.upstream, "checkout", "--quiet", "main")
        git(folder, "clone", "--quiet", "--bare", str(self.upstream), str(self.fork))
        for place in (self.upstream, self.fork):
            git(place, "config", "uploadpack.allowFilter", "true")
            git(place, "config", "uploadpack.allowAnySHA1InWant", "true")
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.origin))
        (self.project / PIN_FILE).write_text(f"{self.begin}\n")
        (self.project / "integrate.toml").write_text(CONFIGURATION.format(upstream=self.upstream, fork=self.fork))
        git(self.project, "add", "--all")
        git(self.project, "commit", "--quiet", "--message", "Begin")
        git(self.project, "remote", "add", "origin", str(self.origin))
        git(self.project, "push", "--quiet", "--set-upstream", "origin", "main")
        targets = tomllib.loads(make_targets(make_row(), pythons=["cp312"], upstream=str(self.fork)))
        targets["release"] |= {"upstream-branch": "acme-carried", "base": str(self.upstream)}
        targets["llvm"]["mlir"]["distribution"] = "acme-mlir"
        files = {PIN_FILE: f"{self.begin}\n".encode(), "targets.toml": tomli_w.dumps(targets).encode()}
        self.forge = LocalForge.create(folder / "forge", files)

    def commit(self, subject: str, files: dict[str, str]) -> str:
        """A commit in upstream's checkout."""
        for path, text in files.items():
            (self.upstream / path).parent.mkdir(parents=True, exist_ok=True)
            (self.upstream / path).write_text(text)
        git(self.upstream, "add", "--all")
        git(self.upstream, "commit", "--quiet", "--message", subject)
        return git(self.upstream, "rev-parse", "HEAD")

    def run(self, *arguments: str) -> None:
        """Run a command of ours."""
        done = CliRunner().invoke(app, arguments, standalone_mode=False, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    def integrate(self, *arguments: str) -> None:
        """Run a command of a walk."""
        self.run("integrate", "-C", str(self.project), *arguments)

    def land(self) -> str:
        """Have a walk's branch on the project's main branch, as a merged pull request has; returns the pin."""
        self.integrate("export")
        git(self.project, "push", "--quiet", "origin", "HEAD:main")
        git(self.project, "checkout", "--quiet", "main")
        git(self.project, "pull", "--quiet", "--ff-only", "origin", "main")
        return (self.project / PIN_FILE).read_text().strip()

    def snapshot(self) -> CarriedStack:
        """Begin a release of the project's pin; returns what its tag says, which every check of a pin compares."""
        known = {tag.name for tag in self.forge.tags()}
        self.run("snapshot", "--policy", f"pin-of:{self.origin}", "--forge", f"local:{self.forge.root}")
        (tag,) = {tag.name for tag in self.forge.tags()} - known
        state = find_state(self.forge, tag)
        check_pinned(self.forge, state)
        assert state.stack is not None
        return state.stack


def test_a_patch_is_released_with_its_origin_and_reason_until_upstream_lands_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    world = World(tmp_path)
    world.integrate("start")
    world.integrate("run")
    world.integrate("patches", "add", world.renamed, "--revert", "--why", "Acme uses the old name")
    world.integrate("patches", "add", world.pick, "--why", "wanted before upstream has it")
    pin, stack = world.land(), world.snapshot()
    assert (stack.base, stack.commits[-1].commit) == (world.renamed, pin)
    assert [(each.kind, each.origin, each.reason) for each in stack.commits] == [
        ("revert", world.renamed, "Acme uses the old name"),
        ("cherry-pick", world.pick, "wanted before upstream has it"),
    ]

    git(world.upstream, "merge", "--quiet", "--ff-only", "users/acme")
    world.integrate("start")
    world.integrate("run")
    pin, stack = world.land(), world.snapshot()
    assert (stack.base, stack.commits[-1].commit) == (world.pick, pin)
    assert [(each.kind, each.origin) for each in stack.commits] == [("revert", world.renamed)]
    head = Git(world.fork).resolve("refs/heads/acme-carried")
    assert len(git(world.fork, "show", "--no-patch", "--format=%P", head or "").split()) == 2  # the older stack is kept
