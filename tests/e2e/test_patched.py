"""A project that carries patches on the real MLIR: its walk, its export, its release, a wheel that has them, and after.

LLVM's own code is Debian's; what is compiled, and what a wheel takes from the sources, has the patches.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.provision import provide_sdk, source_of
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.build import build_wheels
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.extras.downstream.projects import EXTENSION_PROGRAM, build_project, copy_extension, run_program
from mlir_release.ground.git.repository import Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.python import venv
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.release.model.manifest import Manifest
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.rehearsal.world import make_targets
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.carried import DISTRIBUTION, CarryingProject, git
from tests.github_server import GitHubServer
from tests.processes import run
from tests.sigstore.services import serve_sigstore
from tests.workflows.rehearse import REPOSITORY, RUNNER, make_runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python

pytestmark = pytest.mark.slow  # each imports an SDK, and compiles the bindings

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
#: The name of a cached SDK, by the code of the CPython that runs the jobs: syntax trees differ between CPythons.
NAME = """
import sys
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.provision import code_digest
print(recipe_of("mlir").cached("-".join([*sys.argv[1:], code_digest()[:12]])))
"""


@dataclass(frozen=True)
class Carried:
    """A project that carries a revert and a pick, its pin, and the SDK of that."""

    acme: CarryingProject
    pin: str
    sdk: Sdk
    python: Python


@pytest.fixture(scope="module")
def carried(
    release: LlvmRelease,
    chosen: tuple[LlvmRelease, list[Python]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Carried]:
    folder, (python, *_) = tmp_path_factory.mktemp("carried"), chosen[1]
    targets = make_targets("", [python], {"mlir": ("host",)})
    acme = CarryingProject(folder, source_of(release, cache=cache_directory()), targets)
    pin = acme.carry()
    sources = folder / "patched"
    git(folder, "clone", "--quiet", str(acme.fork), str(sources))
    git(sources, "checkout", "--quiet", "--detach", pin)
    revision = Upstream(str(acme.fork)).resolve(pin)
    sdk = provide_sdk(release, revision, cache=cache_directory(), source=sources)
    yield Carried(acme, pin, sdk, python)
    shutil.rmtree(sdk.root)


def test_workflows_release_it_from_cron_to_publication(carried: Carried, tmp_path: Path) -> None:
    with GitHubServer(tmp_path / "github") as github, serve_sigstore(tmp_path / "sigstore") as sigstore:
        runner = make_runner(github, tmp_path, sigstore)
        repository = github.repositories[REPOSITORY].git
        head = repository.text("rev-parse", "refs/heads/main")
        targets = make_targets("", [carried.python], {"mlir": ("host",)}, runner=RUNNER)
        files = {TARGETS_FILE: carried.acme.carrying(targets), PIN_FILE: format_pin(carried.acme.begin)}
        signature = Signature(name="Ada", email="ada@example.org", when=github.clock())
        repository.update_ref(
            "refs/heads/main", commit_files(repository, head, files, "Carry patches\n", signature), expected=head
        )
        runner.run("snapshot.yml", "main", {})
        (tag,) = {dispatch.ref for dispatch in runner.waiting if dispatch.workflow == "release.yml"}
        # The job finds it in its cache, where else it would build LLVM for hours.
        job = next(Path(os.environ["INSTALLED"]).glob("*/bin/python"))
        built = cache_directory() / "sdks" / run(job, "-c", NAME, carried.pin, PlatformTag.of_host().floor).strip()
        shutil.copytree(carried.sdk.root, built, symlinks=True)
        try:
            runner.run_waiting()
        finally:
            shutil.rmtree(built)
        assert [row for row in runner.log if not row[2]] == []
        (published,) = [r for r in github.repositories[REPOSITORY].releases.values() if not r.draft]
        assert published.tag == tag
        (manifest,) = [asset.content for asset in published.assets if asset.name == "release.json"]
        stack = Manifest.from_text(manifest, where="release.json").stack
        assert stack is not None
        carried.acme.check_both(stack, carried.pin)
        for commit in stack.commits:
            assert commit.commit[:12] in published.body
        environment = venv.create(tmp_path / "clean", carried.python.executable)
        environment.install("-f", f"{github.pages.address(REPOSITORY)}snapshots/latest/", f"{DISTRIBUTION}>=20200101")
        assert run(environment.python, "-I", "-c", PROGRAM).strip() == "patched"


def test_from_the_walk_to_the_wheel_and_on(carried: Carried, tmp_path: Path) -> None:
    acme, python, forge = carried.acme, carried.python, carried.acme.forge
    tag, stack = acme.snapshot()
    acme.check_both(stack, carried.pin)

    draft = Draft.load(forge, tag)
    (target,) = draft.matrix.wheels
    facts = draft.state.of_release
    request = replace(WheelRequest.of_order(target.order(**facts), carried.sdk), floor="")
    dist = tmp_path / "dist"
    (made,) = build_wheels(request, [python], output=dist)
    wheel = made.path
    for test in draft.matrix.tests:
        (report,) = run_suites(
            wheel, sdk=carried.sdk, suites=[test.suite], workdir=tmp_path / test.name, python=str(python.executable),
            target=test.name,
        )  # fmt: skip
        report.write(dist)
        assert report.passed
    upload(draft, dist)
    published = publish(Draft.load(forge, tag)).manifest
    assert published.stack == stack
    assert wheel.name.startswith("acme_mlir-")

    environment = venv.create(tmp_path / "environment", python.executable)
    where = ("--forge", f"local:{forge.root}", "--python", str(environment.python))
    acme.run("install", "--revision", acme.renamed, *where)
    assert run(environment.python, "-I", "-c", PROGRAM).strip() == "patched"
    project = copy_extension(published.version, tmp_path / "extension")
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace('"mlir==', f'"{DISTRIBUTION}=='))
    (tmp_path / "built").mkdir()
    built = build_project(environment, project, tmp_path / "built", {"PIP_FIND_LINKS": str(dist)})
    environment.install(built)
    assert "operations: " in run_program(environment, "the extension", EXTENSION_PROGRAM)

    pin = acme.walk_past_the_pick()
    after, stack = acme.snapshot()
    assert after != tag
    acme.check_revert(stack, pin)
