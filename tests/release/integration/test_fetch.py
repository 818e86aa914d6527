"""What a run needs of the wheels that an earlier run left in the draft is planned, and fetched with its digest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.builder.model.orders import TestOrder, read_orders
from mlir_release.cli.app import app
from tests.refusals import refused
from tests.release_stage import Stage, make_stage
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = f"mlir-linux-x86_64-{OTHER_PYTHON}", f"mlir-linux-x86_64-{PYTHON}"
EXPERIMENTAL = f"mlir-core-linux-x86_64-{PYTHON}"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    folder = stage.fill(pythons=[OTHER_PYTHON])
    for report in folder.glob("*.tests.json"):
        report.unlink()
    stage.upload(folder)
    return stage


def run(stage: Stage, *arguments: str) -> str:
    command = [*arguments, "--forge", f"local:{stage.forge.root}"]
    return CliRunner().invoke(app, command, standalone_mode=False, catch_exceptions=False).stdout


def planned(stage: Stage) -> dict[str, Any]:
    (row,) = json.loads(run(stage, "matrix", "--missing", TAG, "--kind", "platforms", "--github"))["include"]
    return {
        key: json.loads(row[key])["include"] if key in ("wheels", "tests") and row[key] else row[key] for key in row
    }


def test_a_wheel_of_an_earlier_run_is_not_built_but_fetched_and_tested(stage: Stage, tmp_path: Path) -> None:
    row = planned(stage)
    assert [wheels["targets"] for wheels in row["wheels"]] == [NEW, EXPERIMENTAL]
    assert [[order.wheel for order in read_orders(tests["orders"], list[TestOrder])] for tests in row["tests"]] == [
        [OLD, NEW],
        [EXPERIMENTAL],
    ]
    assert row["fetch"] == OLD
    said = run(stage, "release", "fetch", TAG, *row["fetch"].split(), "--output", str(tmp_path / "got"))
    (found,) = (tmp_path / "got" / OLD).iterdir()
    assert said.split() == [str(found)]
    assert found.read_bytes() == next((stage.dist / TAG).glob("*.whl")).read_bytes()


def test_several_wheels_are_each_in_a_folder_of_their_target(stage: Stage, tmp_path: Path) -> None:
    stage.upload(stage.fill())
    found = json.loads(run(stage, "release", "fetch", TAG, OLD, NEW, "--output", str(tmp_path / "got"), "--json"))
    assert [path.split("/")[-2] for path in found["files"]] == [OLD, NEW]
    assert {path.name for path in (tmp_path / "got").iterdir()} == {OLD, NEW}


def test_what_is_not_there_or_not_what_was_uploaded_is_refused(stage: Stage, tmp_path: Path) -> None:
    refused(lambda: run(stage, "release", "fetch", TAG, OLD, NEW, "--output", str(tmp_path)), "release-unsuitable")
    (asset,) = (stage.forge.root / "drafts").rglob("*.whl")
    data = bytearray(asset.read_bytes())
    data[-1] ^= 1
    asset.write_bytes(data)
    refused(lambda: run(stage, "release", "fetch", TAG, OLD, "--output", str(tmp_path / "got")), "forge-damaged")
    assert not list((tmp_path / "got").rglob("*.whl"))
