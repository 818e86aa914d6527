"""A job works on several targets, one after another, whatever becomes of each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.builder.commands import each as module
from mlir_release.builder.testing.report import TestOutcome, TestResult, TestRun
from mlir_release.builder.wheels import build, request
from mlir_release.cli.app import app
from mlir_release.ground.errors import ExitCode
from mlir_release.ground.job_names import heading
from mlir_release.ground.python.platforms import Platform
from mlir_release.release.forge.checkout import matrix_of_checkout
from mlir_release.release.model.matrix_jobs import jobs_of_wheels
from tests.builder.pretence import have_no_forge
from tests.processes import wait_for_end

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[4]
TARGETS = [f"mlir-linux-x86_64-cp31{minor}" for minor in (1, 2, 3)]
SUITES = [f"{suite}-{TARGETS[0]}" for suite in ("smoke", "bindings", "regression")]
TEST_ORDER = f'{{"name": "%s", "suite": "smoke", "python": "cp311", "wheel": "{TARGETS[0]}"}}'

#: Instead of the toolkit, for one order: what becomes of it is in the file ``fates``, by name.
STAND_IN = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
(order,) = json.loads(option("--orders"))
assert "--budget" not in words and "GITHUB_OUTPUT" not in os.environ
name = order.get("target") or order["name"]
fate = json.loads(Path("fates").read_text()).get(name, "good")
build = words[1] == "build"
file = Path(option("-o"), name, name + ".whl") if build else Path(option("--reports"), name + ".tests.json")
with open("begun", "a") as begun:
    begun.write(name + "\\n")
if words[1] == "test":
    scratch = Path(option("--workdir"))
    assert not list(scratch.glob("*"))  # what one leaves would be in the next one's way
    (scratch / name / "environment").mkdir(parents=True)
if fate == "hangs":
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("half")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("child").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)
if fate == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if fate != "no file":
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(name)
print("it is", fate, file=sys.stderr)
sys.exit(0 if fate == "good" else 6)
"""


@dataclass
class Request:
    """What is built."""

    is_packed: bool = False
    test_addon: bool = False


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a step's outputs. Every folder is an SDK, and the stand-in is the toolkit."""
    sdk = SimpleNamespace(info=SimpleNamespace(platform=Platform("linux", "x86_64")))
    monkeypatch.setattr("mlir_release.builder.sdk.info.Sdk.load", lambda _: sdk)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.delenv("MLIR_RELEASE_LOGS", raising=False)
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setattr(module, "TOOLKIT", (sys.executable, "stand_in.py"))
    monkeypatch.setattr(module, "LAST_WORDS", 0.5)
    return tmp_path / "outputs"


def handed_over(outputs: Path) -> list[str]:
    """The value of the one output, each time that it was set."""
    lines = outputs.read_text().splitlines()
    assert {line.partition("<<")[0] for line in lines[::3]} == {"files"}
    return lines[1::3]


def said(*paths: Path) -> str:
    """What is handed over of these files."""
    return " ".join(f"{sha256(path.read_bytes()).hexdigest()} {path.name}" for path in paths)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["wheels", *words], standalone_mode=False)


def build_all(fates: dict[str, str], *options: str, minutes: float = 1.0) -> Result:
    """Build all targets by the stand-in, as a job of a release does."""
    targets = [matrix_of_checkout(ROOT).wheel(target) for target in TARGETS]
    orders = [order | {"minutes": minutes} for order in json.loads(jobs_of_wheels(targets)[0]["orders"])]
    Path("fates").write_text(json.dumps(fates))
    return run("build", "--sdk", "sdk", "-C", str(ROOT), "--orders", json.dumps(orders), "--budget", *options or ["9"])


def wheels(*numbers: int) -> list[Path]:
    return [Path("dist", TARGETS[number], f"{TARGETS[number]}.whl") for number in numbers]


ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")


@pytest.mark.parametrize("fate", ["no file", pytest.param("killed", marks=ON_POSIX)])
def test_the_other_wheels_are_built_and_each_is_handed_over_at_once(
    fate: str, outputs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    have_no_forge(monkeypatch)
    done = build_all({TARGETS[1]: fate})
    assert done.return_value == int(ExitCode.VERIFICATION)
    assert f"1 of 3 failed: {TARGETS[1]}" in done.output
    assert handed_over(outputs) == [said(*wheels(0)), said(*wheels(0)), said(*wheels(0, 2))]
    assert capfd.readouterr().err.count("it is good") == 2  # what they print is shown
    if fate == "killed":
        assert f"error[interrupted]: {TARGETS[1]} was killed (exit code -9)" in done.output


def test_one_that_hangs_is_ended_with_all_that_it_started_and_the_others_are_built(outputs: Path) -> None:
    done = build_all({TARGETS[1]: "hangs"}, minutes=0.05)
    assert handed_over(outputs)[-1] == said(*wheels(0, 2))
    assert not wheels(1)[0].exists()  # it may be incomplete
    told = f"error[interrupted]: {TARGETS[1]} was not done after 3.0 s"
    assert done.output.index(heading(TARGETS[1])) < done.output.index(told) < done.output.index(heading(TARGETS[2]))
    for word in (rf"{TARGETS[1]}", "not done after 3.0 s", "release dispatch release.yml", "release waive"):
        assert word in Path("summary").read_text().replace("\\", "")
    for process in Path("child").read_text().split():
        wait_for_end(int(process))


def test_what_the_jobs_time_does_not_last_for_is_named_and_not_begun(outputs: Path) -> None:
    done = build_all({TARGETS[1]: "hangs"}, "0.08")
    assert Path("begun").read_text().split() == TARGETS[:2]
    assert f"{TARGETS[2]} was not begun" in Path("summary").read_text().replace("\\", "")
    assert f"2 of 3 failed: {TARGETS[1]}, {TARGETS[2]}" in done.output
    assert handed_over(outputs)[-1] == said(*wheels(0))


@ON_POSIX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cancelled_job_has_handed_over_what_is_done_and_leaves_nothing_running(number: int, outputs: Path) -> None:
    Path("fates").write_text(json.dumps({TARGETS[1]: "hangs"}))
    orders = json.dumps([json.loads(TEST_ORDER % name) for name in TARGETS])
    program = f"from mlir_release.builder.commands import each\neach.TOOLKIT = {module.TOOLKIT!r}\n"
    program += "from mlir_release.cli.app import main\nmain()"
    words = ["wheels", "test", "--sdk", "sdk", "--orders", orders, "--budget", "9"]
    process = subprocess.Popen([sys.executable, "-c", program, *words])
    while not Path("child").is_file() or len(Path("child").read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == (143 if number == signal.SIGTERM else 130)
    assert handed_over(outputs) == [said(Path("reports", f"{TARGETS[0]}.tests.json"))]
    for started in Path("child").read_text().split():
        wait_for_end(int(started))


def test_reports_of_tests_that_fail_are_handed_over_and_environments_of_others_are_gone(outputs: Path) -> None:
    Path("fates").write_text(json.dumps({SUITES[0]: "fails", SUITES[1]: "no file"}))
    (Path("reports")).mkdir()
    for name in SUITES:
        Path("reports", f"{name}.tests.json").write_text("of an earlier run")
    orders = json.dumps([json.loads(TEST_ORDER % name) for name in SUITES])
    done = run("test", "--sdk", "sdk", "--orders", orders)
    assert done.return_value == int(ExitCode.VERIFICATION)
    assert f"2 of 3 failed: {SUITES[0]}, {SUITES[1]}" in done.output
    assert handed_over(outputs)[-1] == said(*(Path("reports", f"{SUITES[n]}.tests.json") for n in (0, 2)))
    assert not list(Path("build/tests").iterdir())


def test_one_wheel_is_built_as_ordered(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def build_wheels(request: Any, pythons: Any, *, output: Path, backend: str, **_: Any) -> list[Any]:
        asked.append((pythons, output, backend))
        return []

    monkeypatch.setattr("mlir_release.ground.python.pythons.find_pythons", lambda wanted: list(wanted))
    monkeypatch.setattr(request.WheelRequest, "of_order", lambda order, *_: Request())
    monkeypatch.setattr(build, "build_wheels", build_wheels)
    have_no_forge(monkeypatch)
    (row,) = jobs_of_wheels([matrix_of_checkout(ROOT).wheel(TARGETS[1])])
    assert run("build", "--sdk", "sdk", "-C", str(ROOT), "--orders", row["orders"]).exit_code == 0
    assert asked == [(["3.12"], Path("dist", TARGETS[1]), "cibuildwheel")]  # a job falls back to nothing


def test_one_test_takes_the_wheel_of_its_target(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_suites(wheel: Path | None, *, suites: Any, target: str, python: str | None, **_: Any) -> list[TestRun]:
        asked.append((wheel, *suites, python))
        results = (TestResult(name="t", outcome=TestOutcome.PASS),)
        return [TestRun(target=target, suite="smoke", wheel=None, wheel_sha256=None, results=results, seconds=1)]

    monkeypatch.setattr("mlir_release.builder.testing.run.run_suites", run_suites)
    built = Path("dist", TARGETS[0], "a.whl")
    for expected in (built.parent, built):  # at first, nobody has built it
        assert run("test", "--sdk", "sdk", "--orders", f"[{TEST_ORDER % TARGETS[0]}]").exit_code == 0
        assert asked.pop() == (expected, "smoke", "cp311")
        built.parent.mkdir(parents=True, exist_ok=True)
        built.touch()
    assert Path("reports", f"{TARGETS[0]}.tests.json").is_file()
