"""What pip and uv take from GitHub's own pages of a release, which the GitHub on loopback builds as GitHub does."""

from __future__ import annotations

import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.instructions.install_check import run_pip
from mlir_release.release.judging.check import check_release
from tests import installers
from tests.release.integration.signed_stage import REPOSITORY, TAG, VERSION, SignedStage, signed_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.ground.programs.process import Captured

WHEEL = f"mlir-{VERSION}-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"
TARGETS = make_targets(make_row(), pythons=[PYTHON], provenance="none")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignedStage]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("stage")
        with signed_stage(folder, patch, targets=TARGETS) as stage:
            stage.fill()
            assert not stage.publish().already
            yield stage


@pytest.fixture
def stage(published: SignedStage) -> Iterator[SignedStage]:
    """The same for each test, which may change it."""
    repository = published.server.repositories[REPOSITORY]
    releases = deepcopy(repository.releases)
    yield published
    repository.releases = releases


def page(stage: SignedStage, path: str) -> str:
    return f"{stage.url}/releases{path}"


def run_uv(*options: str) -> subprocess.CompletedProcess[str]:
    command = ["uv", "pip", "install", "--no-cache", "--python", sys.executable, *options]
    return subprocess.run(command, executable=installers.provide("uv"), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", [f"/tag/{TAG}", f"/expanded_assets/{TAG}", ""], ids=["tag", "fragment", "list"])
def test_pip_takes_the_wheel(stage: SignedStage, python: Path, pypi: str, tmp_path: Path, path: str) -> None:
    options = ("--no-cache-dir", "--no-deps", "--index-url", pypi, "--dest", str(tmp_path))
    done = run_pip(python, "download", *options, "-f", page(stage, path), "mlir")
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [WHEEL]


@pytest.mark.parametrize("path", [f"/tag/{TAG}", f"/expanded_assets/{TAG}"], ids=["tag", "fragment"])
def test_uv_takes_the_wheel(stage: SignedStage, pypi: str, tmp_path: Path, path: str) -> None:
    options = ("--no-deps", "--default-index", pypi)
    done = run_uv(*options, "--target", str(tmp_path), "-f", page(stage, path), f"mlir=={VERSION}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mlir" / "_release.json").is_file()


def test_pip_finds_nothing_on_a_tags_page_without_the_links_of_the_notes(
    stage: SignedStage, python: Path, pypi: str, tmp_path: Path
) -> None:
    """The list of assets is not in that page, so the links of the notes are what pip goes by."""
    stage.release.body = ""
    options = ("--no-cache-dir", "--no-deps", "--index-url", pypi, "--dest", str(tmp_path))
    done = run_pip(python, "download", *options, "-f", page(stage, f"/tag/{TAG}"), f"mlir=={VERSION}")
    assert "No matching distribution" in done.stderr


def test_the_list_of_releases_serves_no_more_than_github_shows(
    stage: SignedStage, python: Path, pypi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten releases a page, and a long body may be cut: pip then falls back to whoever has that name on PyPI."""
    monkeypatch.setitem(stage.server.repositories[REPOSITORY].settings, "cut_bodies", 100)
    options = ("--no-cache-dir", "--no-deps", "--index-url", pypi, "--dest", str(tmp_path))
    done = run_pip(python, "download", *options, "-f", page(stage, ""), "mlir")
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["mlir-0.0.1-py3-none-any.whl"]
    done = run_pip(python, "download", *options, "-f", page(stage, ""), "mlir>=20200101")
    assert "No matching distribution" in done.stderr


@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("name", ["requirements.txt", "pylock.toml"])
def test_a_pin_needs_nothing_but_the_release(
    stage: SignedStage, pypi: str, tmp_path: Path, name: str, installer: str
) -> None:
    url = page(stage, f"/download/{TAG}/{name}")

    def install(folder: str) -> subprocess.CompletedProcess[str] | Captured:
        options = ("--index-url", pypi, "--target", str(tmp_path / folder), "-r", url)
        return run_uv(*options) if installer == "uv" else run_pip(Path(sys.executable), "install", *options)

    done = install("good")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "good" / "mlir" / "_release.json").is_file()
    other = make_wheel(tmp_path, tag=TAG, version=VERSION, python=PYTHON, content="of somebody else")
    stage.asset(WHEEL).content = other.read_bytes()
    refused = install("other")
    assert refused.returncode != 0
    assert re.search("hash|size mismatch", refused.stderr, re.IGNORECASE), refused.stderr
    assert not (tmp_path / "other" / "mlir").exists()


def test_the_notes_show_every_form(stage: SignedStage) -> None:
    for command in (
        f"pip install -r {page(stage, f'/download/{TAG}/requirements.txt')}\n",
        f"pip install -f {page(stage, f'/tag/{TAG}')} mlir=={VERSION}\n",
        f"pip install -f {page(stage, f'/expanded_assets/{TAG}')} mlir=={VERSION}\n",
    ):
        assert command in stage.release.body


def test_a_release_whose_lock_was_changed_is_refused(stage: SignedStage) -> None:
    assert all(row.error is None for row in check_release(stage.forge, TAG).files)
    lock = stage.asset("requirements.txt")
    lock.content = lock.content.replace(b"releases/download", b"releases/elsewhere")
    refused = [row.name for row in check_release(stage.forge, TAG).files if row.error is not None]
    assert refused == ["requirements.txt"]
