"""A project whose LLVM carries a revert and a pick, its fork of llvm-project, and upstream, which may land the pick."""

from __future__ import annotations

import os
import shutil
import tomllib
from typing import TYPE_CHECKING

import tomli_w
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.pinning.state import find_state
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.stack import CarriedStack

ARITH, FUNC = "mlir/python/mlir/dialects/arith.py", "mlir/python/mlir/dialects/func.py"
PICKED = "\n\ndef zero(type):\n    return constant(type, 0.0)\n"
REVERTED = "\nACME_CANNOT_USE_THIS = True\n"
BRANCH, DISTRIBUTION = "acme-carried", "acme-mlir"
CONFIGURATION = f"""
[upstream]
url = "{{upstream}}"
pin-file = "{PIN_FILE}"
paths = ["mlir"]
[upstream.export]
remote = "{{fork}}"
branch = "{BRANCH}"
[smoke]
command = "true"
"""


def git(folder: Path, *arguments: str) -> str:
    """What a command of git prints."""
    allowed = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")
    return run("git", *allowed, *arguments, cwd=folder, variables={**os.environ}).strip()


class CarryingProject:
    """llvm-project, its fork, a project with its checkout, and the project's release repository.

    :param sources: llvm-project's files at the project's first pin
    :param targets: of a repository that releases upstream's commits; here it releases those of the fork
    """

    def __init__(self, folder: Path, sources: Path, targets: bytes | str) -> None:
        self.folder, self.upstream, self.fork = folder, folder / "llvm-project", folder / "fork.git"
        self.project, self.origin = folder / "compiler", folder / "compiler.git"
        shutil.copytree(sources, self.upstream, symlinks=True)
        self.project.mkdir()
        for place in (self.upstream, self.project):
            git(place, "init", "--quiet", "--initial-branch=main")
            git(place, "config", "user.name", "Ada")
            git(place, "config", "user.email", "ada@example.org")
        self.begin = self.commit("[mlir] LLVM as it was released")
        self.renamed = self.commit("[mlir][python] Rename what Acme uses (#7)", {FUNC: REVERTED})
        git(self.upstream, "checkout", "--quiet", "-b", "users/acme")
        self.pick = self.commit("[mlir][python] Add arith.zero (#8)", {ARITH: PICKED})
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
        self.targets = self.carrying(targets)
        self.forge = LocalForge.create(
            folder / "forge", {PIN_FILE: f"{self.begin}\n".encode(), TARGETS_FILE: self.targets}
        )

    def carrying(self, targets: bytes | str) -> bytes:
        """A ``targets.toml``, for releases of the fork's branch."""
        data = tomllib.loads(targets if isinstance(targets, str) else targets.decode())
        data["release"] |= {"upstream": str(self.fork), "upstream-branch": BRANCH, "base": str(self.upstream)}
        data["llvm"]["mlir"]["distribution"] = DISTRIBUTION
        return tomli_w.dumps(data).encode()

    def commit(self, subject: str, added: dict[str, str] | None = None) -> str:
        """A commit in upstream's checkout, which adds to the ends of files."""
        for path, text in (added or {}).items():
            (self.upstream / path).parent.mkdir(parents=True, exist_ok=True)
            with (self.upstream / path).open("a", encoding="utf-8") as file:
                file.write(text)
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

    def carry(self) -> str:
        """Walk to upstream's head, carry both patches, and land; returns the pin."""
        self.integrate("start")
        self.integrate("run")
        self.integrate("patches", "add", self.renamed, "--revert", "--why", "Acme uses the old name")
        self.integrate("patches", "add", self.pick, "--why", "wanted before upstream has it")
        return self.land()

    def walk_past_the_pick(self) -> str:
        """Have upstream land the pick, walk there, and land; returns the pin."""
        git(self.upstream, "merge", "--quiet", "--ff-only", "users/acme")
        self.integrate("start")
        self.integrate("run")
        return self.land()

    def land(self) -> str:
        """Have a walk's branch on the project's main branch, as a merged pull request has; returns the pin."""
        self.integrate("export")
        git(self.project, "push", "--quiet", "origin", "HEAD:main")
        git(self.project, "checkout", "--quiet", "main")
        git(self.project, "pull", "--quiet", "--ff-only", "origin", "main")
        return (self.project / PIN_FILE).read_text().strip()

    def snapshot(self) -> tuple[str, CarriedStack]:
        """Begin a release of the project's pin; returns its tag, and what that says, which every check compares."""
        known = {tag.name for tag in self.forge.tags()}
        self.run("snapshot", "--policy", f"pin-of:{self.origin}", "--forge", f"local:{self.forge.root}")
        (tag,) = {tag.name for tag in self.forge.tags()} - known
        state = find_state(self.forge, tag)
        check_pinned(self.forge, state)
        assert state.stack is not None
        return tag, state.stack

    def check_both(self, stack: CarriedStack, pin: str) -> None:
        """Whether a release says that it carries the revert and the pick, with their origins and reasons."""
        assert (stack.base, stack.commits[-1].commit) == (self.renamed, pin)
        assert [(each.kind, each.origin, each.reason) for each in stack.commits] == [
            ("revert", self.renamed, "Acme uses the old name"),
            ("cherry-pick", self.pick, "wanted before upstream has it"),
        ]

    def check_revert(self, stack: CarriedStack, pin: str) -> None:
        """Whether a release says that it carries the revert alone, above upstream's commit of the pick."""
        assert (stack.base, stack.commits[-1].commit) == (self.pick, pin)
        assert [(each.kind, each.origin) for each in stack.commits] == [("revert", self.renamed)]
