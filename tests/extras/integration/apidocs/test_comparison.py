"""``release diff`` on the published releases of a forge."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.apidocs.comparison import compare
from mlir_release.ground import plugins
from tests.bindings_factory import FILES, RENAMED
from tests.refusals import refused
from tests.release_stage import NEXT_REVISION, REQUIRED_TARGETS, Stage, make_stage
from tests.wheel_factory import REVISION, TAG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("cache")

NEWER = "snapshot-20261120.03"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Two published snapshots; the newer has a function of another signature."""
    stage = make_stage(tmp_path_factory.mktemp("diff"), targets=REQUIRED_TARGETS)
    stage.add_tag(NEWER, "20261120.3", revision=NEXT_REVISION)
    for tag, version, revision, files in (
        (TAG, "20261120.2", REVISION, FILES),
        (NEWER, "20261120.3", NEXT_REVISION, FILES | RENAMED),
    ):
        contents = {name: text.encode() for name, text in files.items()}
        stage.publish(stage.fill(tag=tag, version=version, revision=revision, files=contents), tag=tag)
    return stage


def test_the_wheels_of_two_releases_are_compared(stage: Stage) -> None:
    found = compare(stage.forge, TAG, "latest")
    assert (found.old.name, found.new.name) == (TAG, NEWER)
    assert re.fullmatch(r"mlir-20261120\.3-cp\d+-cp\d+-manylinux_2_28_x86_64\.whl", found.new.wheel)
    assert [(change.name, change.level) for change in found.changes] == [("mlir.dialects.toy.helper", "breaking")]


def test_a_release_is_compared_with_a_wheel_on_disk(stage: Stage) -> None:
    path = next((stage.dist / NEWER).glob("*.whl"))
    assert compare(stage.forge, NEWER, str(path)).summary() == "no change"
    assert compare(stage.forge, TAG, str(path)).breaking == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (TAG, TAG, "option-invalid"),
        (NEWER, "latest", "option-invalid"),
        (TAG, "snapshot-20261119.01", "release-not-published"),
        (TAG, "v1.0", "option-invalid"),
        (TAG, "no.whl", "input-missing"),
    ],
)
def test_names_that_stand_for_no_two_releases_are_refused(
    stage: Stage, old: str, new: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(lambda: compare(stage.forge, old, new), expected)
    assert "fetch mlir-" not in capsys.readouterr().err, "nothing large was fetched"


def test_a_distribution_that_a_release_lacks_is_named(stage: Stage) -> None:
    refused(lambda: compare(stage.forge, TAG, NEWER, distribution="mlir-full"), "no-fitting-wheel")


def test_a_wheel_that_someone_replaced_is_not_read(stage: Stage, cache: Path) -> None:
    wheels = list((stage.forge.root / "releases" / NEWER).glob("*.whl"))
    before = {path: path.read_bytes() for path in wheels}
    try:
        for path in wheels:
            path.write_bytes(b"other bytes")
        error = refused(lambda: compare(stage.forge, TAG, NEWER))
        assert error.id in ("file-damaged", "release-tampered", "forge-damaged")
    finally:
        for path, content in before.items():
            path.write_bytes(content)
    assert len(list((cache / "apis").iterdir())) == 1


def test_the_command_prints_text_and_json_and_writes_markdown(stage: Stage, tmp_path: Path) -> None:
    words = ["release", "diff", TAG, NEWER, "--forge", f"local:{stage.forge.root}"]
    done = CliRunner().invoke(app, [*words, "--markdown", str(tmp_path / "diff.md")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "renamed: values → operation" in done.stdout
    assert "- `mlir.dialects.toy.helper`" in (tmp_path / "diff.md").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["api"]["breaking"] == 1


def test_without_an_extra_that_compares_the_command_says_what_to_install(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    info = tmp_path / "mlir_release-99.dist-info"  # the first of a name on the path counts
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlir-release\nVersion: 99\n")
    (info / "entry_points.txt").write_text(f"[{plugins.COMMANDS}]\ncost = mlir_release.extras.cost.command:cost\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.plugins.cache_clear()
    request.addfinalizer(plugins.plugins.cache_clear)
    run = partial(CliRunner().invoke, app, ["release", "diff", TAG, NEWER], catch_exceptions=False)
    error = refused(run, "tool-missing", "nothing that compares releases")
    assert "pip install" in error.remedy
