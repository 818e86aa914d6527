"""A job works on several targets, one after another, whatever becomes of each."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from mlir_release.builder.commands.each import each
from mlir_release.builder.testing.report import TestOutcome, TestResult, TestRun
from mlir_release.builder.wheels import build, request
from mlir_release.cli.app import app
from mlir_release.ground.errors import ExitCode, VerificationError
from mlir_release.ground.job_names import heading
from mlir_release.ground.python.platforms import Platform
from mlir_release.release.forge.checkout import matrix_of_checkout
from mlir_release.release.model.matrix_jobs import jobs_of_wheels
from tests.builder.pretence import have_no_forge

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[4]
TARGETS = [f"mlir-linux-x86_64-cp31{minor}" for minor in (1, 2, 3)]
ORDERS = [
    {"name": f"{suite}-{TARGETS[0]}", "suite": suite, "python": "cp311", "wheel": TARGETS[0]}
    for suite in ("smoke", "bindings")
]


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a step's outputs. Every folder is an SDK."""
    sdk = SimpleNamespace(info=SimpleNamespace(platform=Platform("linux", "x86_64")))
    monkeypatch.setattr("mlir_release.builder.sdk.info.Sdk.load", lambda _: sdk)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    for name in ("GITHUB_STEP_SUMMARY", "MLIR_RELEASE_LOGS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "outputs"


def handed_over(outputs: Path) -> str:
    return outputs.read_text().splitlines()[1]


def said(*paths: Path) -> str:
    """What is handed over of these files."""
    return " ".join(f"{sha256(path.read_bytes()).hexdigest()} {path.name}" for path in paths)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["wheels", *words], standalone_mode=False)


@pytest.mark.parametrize("how", ["an error of ours", "a bug"])
@pytest.mark.parametrize("ordered", [True, False])
def test_the_other_wheels_are_built_and_handed_over(
    ordered: bool, how: str, outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = set()

    def build_wheels(request: Any, pythons: Any, *, output: Path, backend: str, **_: Any) -> list[Any]:
        backends.add(backend)
        if output.name == TARGETS[1]:
            raise VerificationError("build-failed", "no memory") if how == "an error of ours" else KeyError("x")
        output.mkdir(parents=True)
        (output / f"{output.name}.whl").write_text(output.name)
        return [SimpleNamespace(path=output / f"{output.name}.whl")]

    monkeypatch.setattr("mlir_release.ground.python.pythons.find_pythons", lambda wanted: list(wanted))
    monkeypatch.setattr(request.WheelRequest, "of_order", lambda order, *_: SimpleNamespace(is_packed=False))
    monkeypatch.setattr(build, "build_wheels", build_wheels)
    options = [word for target in TARGETS for word in ("--target", target)]
    if ordered:  # by the plan: no forge is asked
        have_no_forge(monkeypatch)
        rows = jobs_of_wheels([matrix_of_checkout(ROOT).wheel(target) for target in TARGETS])
        options = ["--orders", rows[0]["orders"]]
    done = run("build", "--sdk", "sdk", "-C", str(ROOT), *options)
    assert done.return_value == int(ExitCode.VERIFICATION)
    assert done.output.index(heading(TARGETS[1])) < done.output.index("error[") < done.output.index(heading(TARGETS[2]))
    assert f"1 of 3 failed: {TARGETS[1]}" in done.output
    assert backends == {"cibuildwheel" if ordered else "auto"}  # a job of a release falls back to nothing
    made = [tmp_path / "dist" / target / f"{target}.whl" for target in (TARGETS[0], TARGETS[2])]
    assert handed_over(outputs) == said(*made)


def test_the_other_tests_run_and_hand_their_reports_over(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run_suites(wheel: Path | None, *, suites: list[str], target: str, workdir: Path, **_: Any) -> list[TestRun]:
        asked.append((wheel and wheel.name, *suites))
        assert not list(workdir.glob("*"))  # what one leaves would be in the next one's way
        (workdir / target / "environment").mkdir(parents=True)
        if wheel is None or wheel.name == TARGETS[1]:  # nobody built it
            raise VerificationError("input-missing", "there is no wheel")
        results = (TestResult(name="t", outcome=TestOutcome.FAIL if suites == ["smoke"] else TestOutcome.PASS),)
        return [TestRun(target=target, suite=suites[0], wheel=None, wheel_sha256=None, results=results, seconds=1)]

    (tmp_path / "dist" / TARGETS[0]).mkdir(parents=True)
    (tmp_path / "dist" / TARGETS[0] / "a.whl").touch()
    monkeypatch.setattr("mlir_release.builder.testing.run.run_suites", run_suites)
    lost = {"name": f"smoke-{TARGETS[1]}", "suite": "smoke", "python": "cp312", "wheel": TARGETS[1]}
    done = run("test", "--sdk", "sdk", "--orders", json.dumps([lost, *ORDERS]))
    assert done.return_value == int(ExitCode.VERIFICATION)
    assert asked == [(TARGETS[1], "smoke"), ("a.whl", "smoke"), ("a.whl", "bindings")]
    assert f"2 of 3 failed: {lost['name']}, {ORDERS[0]['name']}" in done.output
    assert handed_over(outputs) == said(*(tmp_path / "reports" / f"{order['name']}.tests.json" for order in ORDERS))


def test_where_all_is_well_nothing_fails(outputs: Path, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with click.Context(click.Command("x")):
        each(["t"], lambda _: (tmp_path / "a", True))
    assert handed_over(outputs) == said(tmp_path / "a")
