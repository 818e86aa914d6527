"""The pages of a forge in a folder, made before anything of them is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from tests.bindings_factory import FILES
from tests.release_stage import Stage, make_stage
from tests.serving import serve
from tests.wheel_factory import TAG

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A forge with one release, whose wheels have an API to document."""
    stage = make_stage(tmp_path)
    stage.publish(stage.fill(files={name: text.encode() for name, text in FILES.items()}))
    return stage


def test_no_address_is_asked_that_is_yet_to_be_served(stage: Stage, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with serve(tmp_path / "nothing") as served:
        urls = ["--base-url", f"{served.url}/site", "--files-url", f"{served.url}/releases"]
        command = ["index", "--api", "--forge", f"local:{stage.forge.root}", "-o", str(site), *urls]
        done = CliRunner().invoke(app, command, standalone_mode=False)
        assert done.exception is None, done.output
        assert served.requests == []
    assert (site / "snapshots" / "latest" / "api" / "mlir.dialects.toy.html").is_file()
    page = (site / "snapshots" / TAG / "index.html").read_text(encoding="utf-8")
    assert f"{served.url}/releases/{TAG}/mlir-" in page
    assert "The Python API of these wheels" in page


def test_a_wheel_that_was_changed_in_the_folder_is_not_documented(stage: Stage, tmp_path: Path) -> None:
    for wheel in (stage.forge.root / "releases" / TAG).glob("*.whl"):
        wheel.chmod(0o644)
        with wheel.open("ab") as file:
            file.write(b"more")
    command = ["index", "--api", "--forge", f"local:{stage.forge.root}", "-o", str(tmp_path / "site")]
    done = CliRunner().invoke(app, command, standalone_mode=False)
    assert "is not documented" in done.output
    assert not list((tmp_path / "site").rglob("mlir.dialects.toy.html"))
