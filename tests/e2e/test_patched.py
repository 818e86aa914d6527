"""A project that carries patches on the real MLIR: its walk, its export, its release, a wheel that has them, and after.

LLVM's own code is Debian's; what is compiled, and what a wheel takes from the sources, has the patches.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import tomli_w

from mlir_release.builder.sdk.provision import provide_sdk, source_of
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.build import build_wheels
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.extras.downstream.projects import EXTENSION_PROGRAM, build_project, copy_extension, run_program
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.pinning.state import find_state
from mlir_release.release.rehearsal.world import make_targets
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.model.stack import CarriedStack

ARITH, FUNC = "mlir/python/mlir/dialects/arith.py", "mlir/python/mlir/dialects/func.py"
PICKED = "\n\ndef zero(type):\n    return constant(type, 0.0)\n"
REVERTED = "\nACME_CANNOT_USE_THIS = True\n"
#: Fails with upstream's MLIR, and with that of either patch alone.
PROGRAM = """
from mlir.dialects import arith, func
from mlir.ir import Context, F32Type, InsertionPoint, Location, Module
with Context(), Location.unknown():
    module = Module.create()
    with InsertionPoint(module.body):
        arith.zero(F32Type.get())
    assert "arith.constant 0.0" in str(module)
assert not hasattr(func, "ACME_CANNOT_USE_THIS")
print("patched")
"""
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


class World:
    """llvm-project with real sources, its fork, a project with its checkout, and a release repository."""

    def __init__(self, folder: Path, sources: Path, pythons: list[Python]) -> None:
        self.folder, self.upstream, self.project = folder, folder / "llvm-project", folder / "compiler"
        self.fork, origin = folder / "fork.git", folder / "compiler.git"
        shutil.copytree(sources, self.upstream, symlinks=True)
        self.init(self.upstream)
        self.begin = self.commit("[mlir] LLVM as it was released")
        self.landed = self.commit("[mlir][python] Rename what Acme uses (#7)", {FUNC: REVERTED})
        self.git(self.upstream, "branch", "users/acme")
        self.git(self.upstream, "checkout", "--quiet", "users/acme")
        self.pick = self.commit("[mlir][python] Add arith.zero (#8)", {ARITH: PICKED})
        self.git(self.upstream, "checkout", "--quiet", "main")
        self.git(folder, "clone", "--quiet", "--bare", str(self.upstream), str(self.fork))
        for each in (self.upstream, self.fork):
            for name in ("allowFilter", "allowAnySHA1InWant"):
                self.git(each, "config", f"uploadpack.{name}", "true")
        self.git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(origin))
        self.project.mkdir()
        self.init(self.project)
        (self.project / PIN_FILE).write_text(f"{self.begin}\n")
        (self.project / "integrate.toml").write_text(CONFIGURATION.format(upstream=self.upstream, fork=self.fork))
        self.git(self.project, "add", "--all")
        self.git(self.project, "commit", "--quiet", "--message", "Begin")
        self.git(self.project, "remote", "add", "origin", str(origin))
        self.git(self.project, "push", "--quiet", "--set-upstream", "origin", "main")
        data = tomllib.loads(make_targets(str(self.fork), pythons, {"mlir": ("host",)}).decode())
        data["release"] |= {"upstream-branch": "acme-carried", "base": str(self.upstream)}
        data["llvm"] = {"acme-mlir": {"distribution": "acme-mlir", "profile": "host"}}
        data["target"][0] |= {"llvm": "acme-mlir", "suites": ["smoke"]}
        data.pop("requires", None)
        files = {PIN_FILE: f"{self.begin}\n".encode(), "targets.toml": tomli_w.dumps(data).encode()}
        self.forge = LocalForge.create(folder / "forge", files)

    def git(self, folder: Path, *arguments: str) -> str:
        """What a command of git prints."""
        who = {f"GIT_{role}_{key}": f"ada{'@example.org' * (key == 'EMAIL')}" for role in ("AUTHOR", "COMMITTER")
               for key in ("NAME", "EMAIL")}  # fmt: skip
        allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
        return run("git", *arguments, cwd=folder, variables={**os.environ, **who, **allowed}).strip()

    def init(self, folder: Path) -> None:
        self.git(folder, "init", "--quiet", "--initial-branch=main")
        for key, value in (("name", "Ada"), ("email", "ada@example.org")):
            self.git(folder, "config", f"user.{key}", value)

    def commit(self, subject: str, added: dict[str, str] | None = None) -> str:
        """A commit of upstream's that adds to the ends of files."""
        for path, text in (added or {}).items():
            with (self.upstream / path).open("a", encoding="utf-8") as file:
                file.write(text)
        self.git(self.upstream, "add", "--all")
        self.git(self.upstream, "commit", "--quiet", "--message", subject)
        return self.git(self.upstream, "rev-parse", "HEAD")

    def run(self, *arguments: str) -> str:
        """What a command of ours prints."""
        return run(sys.executable, "-m", "mlir_release", *arguments, variables={**os.environ}, cwd=self.project)

    def integrate(self, *arguments: str) -> str:
        return self.run("integrate", "-C", str(self.project), *arguments)

    def land(self) -> str:
        """Have the branch of a walk on the project's main branch, as a merged pull request has; returns the pin."""
        self.integrate("export")
        self.git(self.project, "push", "--quiet", "origin", "HEAD:main")
        self.git(self.project, "checkout", "--quiet", "main")
        self.git(self.project, "pull", "--quiet", "--ff-only", "origin", "main")
        return (self.project / PIN_FILE).read_text().strip()

    def snapshot(self) -> tuple[str, CarriedStack]:
        """Begin a release of the project's pin; returns its tag, and what that says."""
        known = {tag.name for tag in self.forge.tags()}
        self.run(
            "snapshot", "--policy", f"pin-of:{self.folder / 'compiler.git'}", "--forge", f"local:{self.forge.root}"
        )
        (tag,) = {tag.name for tag in self.forge.tags()} - known
        stack = find_state(self.forge, tag).stack
        assert stack is not None
        return tag, stack


@pytest.mark.slow  # it imports an SDK of its own, and compiles the bindings
def test_from_the_walk_to_the_wheel_and_on(
    release: LlvmRelease, chosen: tuple[LlvmRelease, list[Python]], tmp_path: Path
) -> None:
    python = chosen[1][0]
    world = World(tmp_path, source_of(release, cache=cache_directory()), [python])
    world.integrate("start")
    world.integrate("run")
    world.integrate("patches", "add", world.landed, "--revert", "--why", "Acme's compiler uses the old name")
    world.integrate("patches", "add", world.pick, "--why", "wanted before upstream has it")
    pin = world.land()

    tag, stack = world.snapshot()
    assert (stack.base, stack.commits[-1].commit) == (world.landed, pin)
    rows = [(each.kind, each.origin, each.reason) for each in stack.commits]
    assert rows == [
        ("revert", world.landed, "Acme's compiler uses the old name"),
        ("cherry-pick", world.pick, "wanted before upstream has it"),
    ]

    sources = tmp_path / "patched"
    world.git(tmp_path, "clone", "--quiet", str(world.fork), str(sources))
    world.git(sources, "checkout", "--quiet", "--detach", pin)
    revision = Upstream(str(world.fork)).resolve(pin)
    sdk = provide_sdk(release, revision, cache=cache_directory(), source=sources)
    draft = Draft.load(world.forge, tag)
    (target,) = draft.matrix.wheels
    facts = draft.state.of_release
    request = replace(WheelRequest.of_order(target.order(**facts), sdk), floor="")
    dist = tmp_path / "dist"
    (made,) = build_wheels(request, [python], output=dist)
    wheel = made.path
    (report,) = run_suites(
        wheel, sdk=sdk, suites=["smoke"], workdir=tmp_path / "tests", python=str(python.executable),
        target=draft.matrix.tests[0].name,
    )  # fmt: skip
    report.write(dist)
    assert report.passed
    upload(draft, dist)
    published = publish(Draft.load(world.forge, tag)).manifest
    assert published.stack == stack
    assert wheel.name.startswith("acme_mlir-")

    environment = venv.create(tmp_path / "environment", python.executable)
    world.run(
        "install", "--revision", world.landed, "--forge", f"local:{world.forge.root}", "--python",
        str(environment.python),
    )  # fmt: skip
    assert run(environment.python, "-I", "-c", PROGRAM).strip() == "patched"
    project = copy_extension(published.version, tmp_path / "extension")
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace('"mlir==', '"acme-mlir=='))
    (tmp_path / "built").mkdir()
    built = build_project(environment, project, tmp_path / "built", {"PIP_FIND_LINKS": str(dist)})
    environment.install(built)
    assert "operations: " in run_program(environment, "the extension", EXTENSION_PROGRAM)

    world.git(world.upstream, "merge", "--quiet", "--ff-only", "users/acme")  # upstream lands the pick
    world.integrate("start")
    world.integrate("run")
    pin = world.land()
    after, stack = world.snapshot()
    assert after != tag
    assert (stack.base, [each.kind for each in stack.commits], stack.commits[-1].commit) == (
        world.pick,
        ["revert"],
        pin,
    )
    assert Git(world.fork).resolve(f"{pin}^") == world.pick
