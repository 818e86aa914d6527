"""The action for users, setup-mlir, used directly and inside another action, and a numbered release: run by act."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.python import venv
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.model.release_tags import NumberedTag, parse_tag
from tests.github_server import GitHubServer
from tests.release_stage import TARGETS
from tests.use.integration.test_install import publish_in
from tests.wheel_factory import REVISION, TAG, VERSION
from tests.workflows.rehearse import REPOSITORY, Runner, make_runner, toolkit_files

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES, KIT = "llvm/releases", "example/kit"
ACTION = f"{RELEASES}/actions/setup-mlir@main"
WORKFLOW = "use.yml"

#: A user's own composite action.
NESTED = f"""\
name: Set up everything
description: MLIR, among others.
inputs: {{python: {{description: to install for, required: true}}}}
outputs: {{tag: {{description: the release, value: "${{{{ steps.mlir.outputs.tag }}}}"}}}}
runs:
  using: composite
  steps:
    - id: mlir
      uses: {ACTION}
      with: {{tag: latest, python: "${{{{ inputs.python }}}}", provenance: skip, repository: {RELEASES}}}
"""


def caller(uses: str, inputs: str, python: Path, seen: Path) -> str:
    """A user's workflow."""
    return f"""\
on: workflow_dispatch
jobs:
  use:
    runs-on: ubuntu-24.04
    steps:
      - id: mlir
        uses: {uses}
        with: {{python: {python}, {inputs}}}
      - shell: bash
        env: {{TAG: "${{{{ steps.mlir.outputs.tag }}}}"}}
        run: echo "$TAG $({python} -Ic 'import mlir._release as r; print(r.tag)')" > {seen}
"""


@dataclass
class ActionUsers:
    github: GitHubServer
    workspace: Path

    def use(self, name: str, uses: str, inputs: str) -> tuple[bool, str, str]:
        """Run a workflow that installs MLIR: whether it succeeded, what it saw afterwards, its log."""
        place, repository = self.workspace / name, f"example/{name}"
        python = venv.create(place / "environment", Path(sys.executable), pip=True).python
        text = caller(uses, inputs, python, place / "seen")
        self.github.add_repository(repository, {f".github/workflows/{WORKFLOW}": text.encode()})
        (place / "kit" / "setup").mkdir(parents=True)
        (place / "kit" / "setup" / "action.yml").write_text(NESTED)
        runner = Runner(
            self.github, place, self.github.token(), repository=repository,
            folders={f"{RELEASES}@main": self.workspace / "toolkit", f"{KIT}@v1": place / "kit"},
        )  # fmt: skip
        done = runner.run(WORKFLOW, "main", {})
        log = (place / f"run-1-{WORKFLOW}.log").read_text()
        return done, (place / "seen").read_text().strip() if done else "", log


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActionUsers]:
    """A release repository with a published snapshot, and this checkout as the repository of the action."""
    workspace = tmp_path_factory.mktemp("setup-mlir")
    for name, content in toolkit_files().items():
        (workspace / "toolkit" / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / "toolkit" / name).write_bytes(content)
    with GitHubServer(workspace / "github") as github:
        files = {"llvm-project.version": REVISION.encode() + b"\n", "targets.toml": TARGETS.encode()}
        github.add_repository(RELEASES, files)
        forge = GitHubForge.open(RELEASES, environ=github.environment(RELEASES, github.token()))
        publish_in(forge, workspace / "dist", TAG, VERSION)
        yield ActionUsers(github, workspace)


@pytest.mark.parametrize(
    ("name", "uses", "inputs"),
    [
        ("latest", ACTION, "tag: latest, provenance: skip"),
        ("revision", ACTION, f"revision: {REVISION}, provenance: skip"),
        ("nested", f"{KIT}/setup@v1", "unused: x"),
    ],
)
def test_setup_mlir_installs_from_the_repository_that_it_comes_from(
    users: ActionUsers, name: str, uses: str, inputs: str
) -> None:
    done, seen, log = users.use(name, uses, inputs)
    assert done, log
    assert seen == f"{TAG} {TAG}"


def test_setup_mlir_says_that_a_release_does_not_exist(users: ActionUsers) -> None:
    done, _, log = users.use("missing", ACTION, "tag: llvm-1.2.3.01, provenance: skip")
    assert not done
    assert "release-not-published" in log


def test_a_numbered_release_is_tagged_and_its_build_dispatched(tmp_path: Path) -> None:
    with GitHubServer(tmp_path / "github") as github:
        runner = make_runner(github, tmp_path)
        repository = github.repositories[REPOSITORY]
        upstream, bindings = Git(tmp_path / "upstream.git"), "mlir/python/requirements.txt"
        tags = upstream.text("tag", "--list", "llvmorg-*").split()
        (tag,) = (
            tag for tag in tags if upstream.run("cat-file", "-e", f"{tag}:{bindings}", check=False).returncode == 0
        )
        version = tag.removeprefix("llvmorg-")
        assert runner.run("numbered-release.yml", "main", {"version": version, "revision": "", "force": "false"})
        (dispatch,) = runner.waiting
        assert isinstance(parse_tag(dispatch.ref), NumberedTag)
        assert (dispatch.workflow, dispatch.ref) == ("release.yml", f"llvm-{version}.01")
        (draft,) = repository.releases.values()
        assert (draft.tag, draft.draft) == (dispatch.ref, True)
        assert repository.git.resolve(f"refs/tags/{dispatch.ref}") is not None
        runner.waiting.clear()
        assert not runner.run("numbered-release.yml", "main", {"version": "1.2.3", "revision": "", "force": "false"})
        assert not runner.waiting
