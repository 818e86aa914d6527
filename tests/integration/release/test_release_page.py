"""What pip and uv take from GitHub's own pages of a release, which the GitHub on loopback builds as GitHub does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.host import venv
from mlir_release.release.install_check import run_pip
from tests import installers
from tests.integration.release.signed_stage import REPOSITORY, TAG, VERSION, SignedStage, signed_stage
from tests.serving import main_index
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHEEL = f"mlir-{VERSION}-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"
TARGETS = make_targets(make_row(), pythons=[PYTHON], provenance="none")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this machine's own pip."""
    from pathlib import Path

    return venv.create(tmp_path_factory.mktemp("environment") / "environment", Path(sys.executable), pip=True).python


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Somebody else's mlir 0.0.1 lies on it."""
    with main_index(tmp_path_factory.mktemp("pypi")) as url:
        yield url


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignedStage]:
    """A published snapshot."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("stage")
        with signed_stage(folder, patch, targets=TARGETS) as stage:
            stage.build()
            stage.upload()
            assert not stage.publish().already
            yield stage


def page(stage: SignedStage, path: str) -> str:
    return f"{stage.url}/releases{path}"


@pytest.mark.parametrize("path", [f"/tag/{TAG}", f"/expanded_assets/{TAG}", ""], ids=["tag", "fragment", "list"])
@pytest.mark.parametrize("wanted", ["mlir", f"mlir=={VERSION}"])
def test_pip_takes_the_wheel(
    stage: SignedStage, python: Path, pypi: str, tmp_path: Path, path: str, wanted: str
) -> None:
    options = ("--no-cache-dir", "--no-deps", "--index-url", pypi, "--dest", str(tmp_path))
    done = run_pip(python, "download", *options, "-f", page(stage, path), wanted)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [WHEEL]


@pytest.mark.parametrize("path", [f"/tag/{TAG}", f"/expanded_assets/{TAG}"], ids=["tag", "fragment"])
def test_uv_takes_the_wheel(stage: SignedStage, pypi: str, tmp_path: Path, path: str) -> None:
    options = ("--no-cache", "--no-deps", "--default-index", pypi, "--python", sys.executable)
    command = ["uv", "pip", "install", *options, "--target", str(tmp_path), "-f", page(stage, path), f"mlir=={VERSION}"]
    done = subprocess.run(command, executable=installers.provide("uv"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mlir" / "_release.json").is_file()


def test_pip_finds_nothing_on_a_tags_page_without_the_links_of_the_notes(
    stage: SignedStage, python: Path, pypi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of assets is not in that page, so the links of the notes are what pip goes by."""
    monkeypatch.setattr(stage.release, "body", "")
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
