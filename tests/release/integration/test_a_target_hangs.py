"""A platform's job in which a target hangs: the draft gets the others, and the next attempt makes that one alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from mlir_release.builder.commands import each
from mlir_release.cli.app import app
from mlir_release.ground.errors import ExitCode
from tests.refusals import refused
from tests.release_stage import Stage, make_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG

if TYPE_CHECKING:
    import pytest

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


def test_a_wheel_that_can_not_be_fetched_is_in_no_others_way(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    stage.upload(stage.fill(pythons=[PYTHON]))
    gone, there = f"mlir-linux-x86_64-{OTHER_PYTHON}", f"mlir-linux-x86_64-{PYTHON}"
    words = ["release", "fetch", TAG, gone, there, "-o", str(tmp_path / "out"), "--forge", f"local:{stage.forge.root}"]
    refused(lambda: CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False), "release-unsuitable")
    assert [path.parent.name for path in (tmp_path / "out").rglob("*.whl")] == [there]
