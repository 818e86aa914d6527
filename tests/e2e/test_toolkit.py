"""The toolkit as a stranger has it: its wheel from an index, in an empty environment, without a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mlir_release
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.release.pypi.project import read_project
from tests.distribution import ROOT
from tests.documents import read_yaml
from tests.installers import provide
from tests.serving import package_index
from tools.toolkit_release import PROJECT, lacking, parse_digests

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(command: Sequence[str | Path], folder: Path) -> str:
    """What a program prints that sees nothing of this checkout."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "VIRTUAL_ENV", "MLIR_RELEASE"))}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


JOBS = read_yaml(ROOT / ".github/workflows/release-toolkit.yml")["jobs"]


def step(job: str, name: str, folder: Path, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the shell of a step of the workflow, as a runner does."""
    (script,) = [each["run"] for each in JOBS[job]["steps"] if each.get("name") == name]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, **{key: str(value) for key, value in variables.items()}}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Built:
    """What the job ``build`` made."""

    folder: Path
    digests: str  #: its output

    @property
    def wheel(self) -> Path:
        """The wheel."""
        (found,) = self.folder.glob("*.whl")
        return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("toolkit")
    tree, output = folder / "tree", folder / "output"
    run(["git", "clone", "--quiet", ROOT, tree], folder)
    done = step("build", "Build", tree, DIST=folder / "dist", GITHUB_OUTPUT=output)
    assert done.returncode == 0, done.stdout + done.stderr
    name, _, rest = output.read_text().partition("<<END\n")
    assert name == "digests"
    return Built(folder=folder / "dist", digests=rest.removesuffix("\nEND\n"))


def test_only_a_tag_that_main_leads_to_is_built(tmp_path: Path) -> None:
    run(["git", "clone", "--quiet", ROOT, tmp_path / "tree"], tmp_path)
    tree, version = tmp_path / "tree", mlir_release.__version__
    git: list[str | Path] = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", tree]
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2026-12-01)\n- [All](docs/design.md) of it.\n")
    run([*git, "commit", "--quiet", "--all", "--message", "Release"], tmp_path)
    run([*git, "tag", f"v{version}"], tmp_path)
    run([*git, "update-ref", "refs/remotes/origin/main", "HEAD~1"], tmp_path)
    tag = {"GITHUB_REF_NAME": f"v{version}", "BRANCH": "main"}
    refused = step("build", "Check the tag", tree, **tag)
    assert (refused.returncode, "main does not lead to" in refused.stderr) == (2, True), refused.stderr
    run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], tmp_path)
    done = step("build", "Check the tag", tree, **tag)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        f"- [All](https://github.com/llvm/mlir-release/blob/v{version}/docs/design.md) of it.\n\n"
    )


def test_the_job_hands_over_the_digests_of_the_two_files(built: Built) -> None:
    assert parse_digests(built.digests) == {path.name: sha256_of(path) for path in built.folder.iterdir()}


@dataclass(frozen=True)
class Stranger:
    """An environment with the toolkit alone, and an empty folder."""

    environment: Path
    folder: Path

    def release(self, *words: str) -> str:
        """What ``mlir-release`` prints there."""
        scripts = self.environment / ("Scripts" if sys.platform == "win32" else "bin")
        return run([scripts / "mlir-release", *words], self.folder)


@pytest.fixture(scope="module")
def stranger(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """Uploaded by twine to an index, and installed from there."""
    folder = tmp_path_factory.mktemp("stranger")
    packages, environment = folder / "packages", folder / "environment"
    packages.mkdir()
    uv = provide("uv")
    with package_index(packages, "-P", ".", "-a", ".") as url:
        twine = [
            sys.executable,
            "-m",
            "twine",
            "upload",
            "--non-interactive",
            "-u",
            "x",
            "-p",
            "x",
            "--repository-url",
            url,
        ]
        run([*twine, *sorted(built.folder.iterdir())], folder)
        files = {path.name: sha256_of(path) for path in built.folder.iterdir()}
        assert lacking(read_project(f"{url}simple/", PROJECT), files) == []
        run([uv, "venv", "--quiet", "--python", sys.executable, environment], folder)
        wanted = f"{PROJECT}=={mlir_release.__version__}"
        # The toolkit from that index alone; its dependencies are the registry's.
        run([uv, "pip", "install", "--quiet", "--python", environment, "--index", f"{url}simple/", wanted], folder)
    (folder / "empty").mkdir()
    return Stranger(environment=environment, folder=folder / "empty")


def test_it_runs_without_a_checkout(stranger: Stranger) -> None:
    assert stranger.release("--version") == f"mlir-release, version {mlir_release.__version__}\n"
    assert "Extras:" in stranger.release("--help")


def test_it_makes_a_forge_and_shows_the_matrix_that_it_ships(stranger: Stranger) -> None:
    assert json.loads(stranger.release("forge", "init", "forge", "--json")) == {
        "forge": f"local:{stranger.folder / 'forge'}"
    }
    there = json.loads(stranger.release("matrix", "--json"))
    here = json.loads(run([sys.executable, "-m", "mlir_release", "matrix", "--json"], ROOT))
    assert there == here
    assert len(there["rows"]) > 10


@pytest.mark.slow  # it builds wheels
def test_uvx_rehearses_without_a_checkout(built: Built, tmp_path: Path) -> None:
    uvx = provide("uv").with_name("uvx")
    command: list[str | Path] = [
        uvx,
        "--from",
        f"{built.wheel}[wheels]",
        "mlir-release",
        "rehearsal",
        "--workspace",
        tmp_path / "r",
        "--json",
    ]
    report = json.loads(run(command, tmp_path))
    assert report["tag"].startswith("snapshot-")
    assert report["steps"][-1]["result"].endswith(" works")
