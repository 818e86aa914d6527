"""What an attempt of a release's run leaves in the draft, and what the next makes, or fetches with its digest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mlir_release.builder.commands import each
from mlir_release.builder.model.orders import TestOrder, read_orders
from mlir_release.cli.app import app
from mlir_release.ground.errors import ExitCode
from tests.refusals import refused
from tests.release_stage import Stage, make_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG

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
    out = tmp_path / "out"
    refused(lambda: run(stage, "release", "fetch", TAG, NEW, OLD, "--output", str(out)), "release-unsuitable")
    assert [path.parent.name for path in out.rglob("*.whl")] == [OLD]  # one that is missing is in no other's way
    (asset,) = (stage.forge.root / "drafts").rglob("*.whl")
    data = bytearray(asset.read_bytes())
    data[-1] ^= 1
    asset.write_bytes(data)
    refused(lambda: run(stage, "release", "fetch", TAG, OLD, "--output", str(tmp_path / "got")), "forge-damaged")
    assert not list((tmp_path / "got").rglob("*.whl"))


# -- a platform's job in which a target hangs: the draft gets the others, and the next attempt makes that one alone ----

PYTHONS = [f"cp31{minor}" for minor in range(1, 8)]

#: Instead of the toolkit: makes a small wheel for one order, or hangs.
BUILD = f"""
import json, sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.wheel_factory import make_wheel
(order,) = json.loads(sys.argv[sys.argv.index("--orders") + 1])
with open("begun", "a") as begun:
    begun.write(order["target"] + "\\n")
if order["target"].endswith("-cp313") and not Path("mended").exists():
    time.sleep(600)
make_wheel(Path("dist", order["target"]), python=order["python"])
"""


def attempt(stage: Stage) -> tuple[int, list[str], int]:
    """A run of the release's workflow: the code of its one job that builds, what it began, and files in the draft."""
    (row,) = stage.draft().missing_rows("platforms")
    (job,) = json.loads(row["wheels"])["include"]
    orders = [order | {"minutes": 0.1} for order in json.loads(job["orders"])]
    Path("begun").unlink(missing_ok=True)
    words = ["wheels", "build", "--sdk", "sdk", "--orders", json.dumps(orders), "--budget", job["budget"]]
    done = CliRunner().invoke(app, words, standalone_mode=False)
    outcome = stage.upload(Path("dist"))
    return done.return_value or 0, Path("begun").read_text().split(), len(outcome.names("uploaded"))


def test_the_third_of_seven_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(tmp_path, targets=make_targets(make_row(), pythons=PYTHONS))
    (tmp_path / "build.py").write_text(BUILD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(each, "TOOLKIT", (sys.executable, "build.py"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    targets = [f"mlir-linux-x86_64-{python}" for python in PYTHONS]
    assert attempt(stage) == (int(ExitCode.VERIFICATION), targets, 12)  # six wheels and their metadata
    handed_over = (tmp_path / "outputs").read_text().splitlines()[-2]
    assert len(handed_over.split()) == 12
    assert "cp313" not in handed_over
    Path("mended").touch()
    assert attempt(stage) == (0, targets[2:3], 2)
    assert len(stage.draft().wheels()) == 7
