"""A release's wheel for the interpreter at hand: from a local forge, from GitHub with and without a token."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.conda.recipe import write_recipe
from mlir_release.extras.downstream.kit import KitOptions, write_kit
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.judging.check import check_release
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.pinning.state import find_state, tag_message
from mlir_release.release.transaction.decisions import yank
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from mlir_release.use.install import install
from tests import installers
from tests.documents import read_yaml
from tests.github_server import GitHubServer
from tests.pin_factory import make_pin
from tests.refusals import check_error, refused
from tests.release_stage import TARGETS, Stage, make_stage
from tests.serving import main_index
from tests.wheel_factory import OTHER_PYTHON, PYTHON, REVISION, TAG, VERSION, make_report, make_wheel, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

    from mlir_release.release.forge.base import Forge

ROOT = Path(__file__).parents[3]
REPOSITORY = "llvm/mlir-wheels"
NEWER, YANKED, NUMBERED = "snapshot-20261121.01", "snapshot-20261122.01", "llvm-22.1.8.01"
MATRIX = Matrix.parse(TARGETS).only("llvm=mlir")


def make_wheels(folder: Path, tag: str, version: str, *pythons: str, requires: tuple[str, ...] = ()) -> Path:
    for python in pythons:
        wheel = make_wheel(folder / tag, tag=tag, version=version, python=python, requires=requires)
        make_report(folder / tag, wheel, target=f"smoke-mlir-linux-x86_64-{python}")
    return folder / tag


def publish_in(forge: Forge, dist: Path, tag: str, version: str, requires: tuple[str, ...] = ()) -> None:
    """Allocate a tag, and publish a wheel for each CPython of the matrix."""
    parsed = parse_tag(tag)
    assert parsed is not None
    message = tag_message(parsed, revision=REVISION, request_id=f"r-{tag}", wheel_version=version)
    if all(known.name != tag for known in forge.tags()):
        forge.create_tag(tag, make_pin(forge, REVISION), message)
        forge.create_draft(tag, title=tag, body="", prerelease=False)
    draft = Draft.load(forge, tag, matrix=MATRIX)
    upload(draft, make_wheels(dist, tag, version, OTHER_PYTHON, PYTHON, requires=requires))
    publish(draft)


def imported(python: Path) -> str:
    """The tag of the mlir that an environment has."""
    code = "import mlir._release as r; print(r.tag)"
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True).stdout.strip()


# -- a local forge -----------------------------------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_by_tag_latest_and_numbered(stage: Stage, python: Path) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    publish_in(stage.forge, stage.dist, NEWER, "20261121.1")
    publish_in(stage.forge, stage.dist, NUMBERED, "22.1.8")
    found = install(stage.forge, TAG, python=python)
    assert (found.tag, found.revision, found.version, found.provenance) == (TAG, REVISION, VERSION, False)
    assert PYTHON in found.filename
    assert imported(python) == TAG
    assert install(stage.forge, "latest", python=python, dry_run=True).tag == NEWER
    assert imported(python) == TAG
    assert install(stage.forge, "latest", python=python).version == "20261121.1"
    assert imported(python) == NEWER
    assert install(stage.forge, NUMBERED, python=python).version == "22.1.8"
    assert imported(python) == NUMBERED


def run_install(stage: Stage, python: Path, *words: str) -> Result:
    command = ["install", *words, "--forge", f"local:{stage.forge.root}", "--python", str(python), "--dry-run"]
    return CliRunner().invoke(app, command, standalone_mode=False)


def test_the_release_at_a_commit(stage: Stage, python: Path) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    publish_in(stage.forge, stage.dist, NEWER, "20261121.1")
    yank(stage.forge, NEWER, "miscompiles", branch="main")
    for revision in (REVISION, REVISION[:9], "before:2027-01-01", f"after:{REVISION}"):
        done = run_install(stage, python, "--revision", revision)
        assert done.exception is None, done.output
        assert f" of {TAG} ({REVISION[:12]})" in done.output
    check_error(run_install(stage, python, "--revision", "before:2020-01-01").exception, "release-not-published")
    for words in ([], [TAG, "--revision", REVISION]):
        assert isinstance(run_install(stage, python, *words).exception, click.UsageError)


def test_a_release_of_another_commit_than_the_index_says_is_refused(stage: Stage, python: Path) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    listed: Any = SimpleNamespace(tag=TAG, row=SimpleNamespace(revision="b" * 40))
    refused(lambda: install(stage.forge, listed, python=python), "release-tampered", "not of the commit")
    assert not imported(python)


def test_dependencies_come_from_the_index_and_mlir_does_not(
    stage: Stage, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    info = "helper-1.0.dist-info"
    members = {
        "helper.py": b"",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: helper\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    (folder / "helper-1.0-py3-none-any.whl").write_bytes(pack(members, f"{info}/RECORD"))
    with main_index(folder) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        publish_in(stage.forge, stage.dist, TAG, VERSION, requires=("helper>=1",))
        install(stage.forge, TAG, python=python)
    assert imported(python) == TAG
    assert subprocess.run([python, "-I", "-c", "import helper"]).returncode == 0


def test_latest_is_the_same_release_in_every_command_that_takes_it(stage: Stage, tmp_path: Path) -> None:
    for tag, version in ((TAG, VERSION), (NEWER, "20261121.1"), (YANKED, "20261122.1"), (NUMBERED, "22.1.8")):
        publish_in(stage.forge, stage.dist, tag, version)
    yank(stage.forge, YANKED, "miscompiles", branch="main")
    assert check_release(stage.forge, "latest").tag == NEWER
    assert write_recipe(stage.forge, "latest", tmp_path / "recipe").tag == NEWER
    asked = KitOptions(tag="latest", kind="extension", name="mine", site="https://pages.example")
    kit = write_kit(stage.forge, tmp_path / "kit", asked)
    assert (kit.tag, kit.pin) == (NEWER, "20261121.01")
    assert "latest" not in (tmp_path / "kit" / "pyproject.toml").read_text()
    # Whatever takes only tags says so.
    error = refused(lambda: find_state(stage.forge, "latest"), "option-invalid", "latest is not a tag")
    assert "downstream init" in error.remedy


@pytest.mark.parametrize(
    ("tag", "id", "said"),
    [("nonsense", "option-invalid", "is not the tag of a release"),
     (NEWER, "release-not-published", f"{NEWER} is not published"),
     (TAG, "release-not-published", f"{TAG} is not published"),
     ("latest", "release-not-published", "no snapshot is published")],
)  # fmt: skip
def test_no_such_release(stage: Stage, python: Path, tag: str, id: str, said: str) -> None:
    refused(lambda: install(stage.forge, tag, python=python), id, said)  # TAG has a draft only


def test_no_fitting_wheel_never_falls_back(stage: Stage, python: Path) -> None:
    matrix = MATRIX.only(f"python={OTHER_PYTHON}")
    draft = Draft.load(stage.forge, TAG, matrix=matrix)
    upload(draft, make_wheels(stage.dist, TAG, VERSION, OTHER_PYTHON))
    publish(draft)
    error = refused(lambda: install(stage.forge, TAG, python=python), "no-fitting-wheel")
    assert error.why == "for this machine it has mlir for CPython 3.10"
    with pytest.raises(VerificationError, match="no wheel of mlir-core"):
        install(stage.forge, TAG, python=python, distribution="mlir-core")
    assert imported(python) == ""


def test_provenance_of_a_local_forge_can_not_be_required(stage: Stage, python: Path) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    refused(
        lambda: install(stage.forge, TAG, python=python, signed_by=SignedBy(expectation="require")),
        "provenance-missing",
    )


# -- the environment ---------------------------------------------------------------------------------------------------


def test_it_says_first_into_which_environment_it_installs(
    stage: Stage, python: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")  # as activating it does
    capsys.readouterr()
    install(stage.forge, TAG)
    said = capsys.readouterr().err
    version = ".".join(map(str, sys.version_info[:3]))
    assert said.splitlines()[0].strip() == f"into {python.parents[1]} (CPython {version}, a virtual environment)"
    assert imported(python) == TAG


def test_without_an_environment_and_without_python_nothing_is_installed(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    error = refused(lambda: install(stage.forge, TAG), "option-invalid", "nothing says where to install")
    assert "python3 -m venv" in error.remedy
    assert "--python" in error.remedy


def test_an_environment_of_uv_has_no_pip_and_is_installed_into(stage: Stage, tmp_path: Path) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    uv = str(installers.provide("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "by-uv"], check=True)
    python = tmp_path / "by-uv" / "bin" / "python"
    install(stage.forge, TAG, python=python)
    assert imported(python) == TAG


def test_another_distribution_of_the_package_stays_alone(stage: Stage, python: Path, tmp_path: Path) -> None:
    publish_in(stage.forge, stage.dist, TAG, VERSION)
    foreign = make_wheel(tmp_path / "foreign", distribution="mlir-python-bindings", version="21.1.8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", foreign], check=True)
    before = sorted(path.name for path in python.parents[1].glob("lib/python*/site-packages/*"))
    error = refused(lambda: install(stage.forge, TAG, python=python), "install-failed", "mlir-python-bindings 21.1.8")
    assert "pip uninstall mlir-python-bindings" in error.remedy
    assert sorted(path.name for path in python.parents[1].glob("lib/python*/site-packages/*")) == before
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "mlir-python-bindings"], check=True)
    install(stage.forge, TAG, python=python)
    refused(lambda: install(stage.forge, TAG, python=python, distribution="mlir-core"), "no-fitting-wheel", "mlir-core")
    install(stage.forge, TAG, python=python)  # the same one is replaced
    assert imported(python) == TAG


def test_dependencies_that_can_not_be_reached_are_named(
    stage: Stage, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "own", distribution="helper", version="1", python=ANY_PYTHON, platform="any")
    with monkeypatch.context() as patched:
        patched.setenv("PIP_NO_INDEX", "1")
        patched.setenv("PIP_FIND_LINKS", str(tmp_path / "own"))
        publish_in(stage.forge, stage.dist, TAG, VERSION, requires=("helper>=1",))
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    error = refused(lambda: install(stage.forge, TAG, python=python), "network-failed", "helper")
    assert "PIP_FIND_LINKS" in error.remedy
    assert imported(python) == ""
    install(stage.forge, TAG, python=python, pip_options=["--no-deps"])
    assert imported(python) == TAG


# -- GitHub ------------------------------------------------------------------------------------------------------------


@dataclass
class InstallStage:
    server: GitHubServer
    python: Path
    token: str


@pytest.fixture
def github(tmp_path: Path, python: Path, without_waiting: None) -> Iterator[InstallStage]:
    files = {"llvm-project.version": REVISION.encode() + b"\n", "targets.toml": TARGETS.encode()}
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, files)
        token = server.token()
        forge = GitHubForge.open(REPOSITORY, environ=server.environment(REPOSITORY, token))
        publish_in(forge, tmp_path / "dist", TAG, VERSION)
        publish_in(forge, tmp_path / "dist", NUMBERED, "22.1.8")
        yield InstallStage(server, python, token)


def outputs_of(file: Path) -> dict[str, str]:
    """Step outputs, as GitHub reads them."""
    lines = file.read_text().splitlines()
    return {line.partition("<<")[0]: lines[at + 1] for at, line in enumerate(lines) if "<<mlir-release-" in line}


@pytest.mark.parametrize("given", ["latest", NUMBERED])
def test_the_action(github: InstallStage, tmp_path: Path, given: str) -> None:
    """The step of actions/setup-mlir as a runner would run it, with this toolkit for the one that it installs."""
    action = read_yaml(ROOT / "actions" / "setup-mlir" / "action.yml")
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "install")
    output = tmp_path / "output"
    scripts = tmp_path / "temp" / "mlir-release-install" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "mlir-release").write_text(f'#!/bin/sh\nexec {sys.executable} -m mlir_release "$@"\n')
    (scripts / "mlir-release").chmod(0o755)
    inputs = {"TAG": given, "REVISION": "", "PYTHON": str(github.python), "REPOSITORY": REPOSITORY}
    defaults = {"DISTRIBUTION": "distribution", "SDK": "sdk", "PROVENANCE": "provenance"}
    defaults |= {"SIGNED_BY": "signed-by", "TRUSTED_ROOT": "trusted-root"}
    inputs |= {name: action["inputs"][key]["default"] for name, key in defaults.items()}
    inputs |= {"ACTION_PATH": str(tmp_path), "ACTION_REPOSITORY": "example/outer"}
    assert step["env"].keys() == {*inputs, "GITHUB_TOKEN"}
    runner = {"RUNNER_TEMP": str(tmp_path / "temp"), "RUNNER_OS": "Linux", "GITHUB_OUTPUT": str(output)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=ROOT,
        env={**os.environ, **github.server.environment(REPOSITORY, github.token), **inputs, **runner},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    expected = TAG if given == "latest" else given
    assert imported(github.python) == expected
    found = outputs_of(output)
    assert found == {"tag": expected, "revision": REVISION, "version": found["version"], "cmake-dir": ""}
    assert found.keys() == action["outputs"].keys()
    assert github.token not in done.stdout + done.stderr
