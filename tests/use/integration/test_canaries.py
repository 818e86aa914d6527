"""Other projects' tests, with a release's wheel: real git, real pip, and projects that do their worst."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.hosting import RunJob, RunStep
from mlir_release.ground.job_names import FAILED_STEP, canary_job
from mlir_release.release.latest import canary_records
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.canaries import CANARIES_NAME
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_index import CanaryResult
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.attacks.hostile_repository import git
from tests.documents import read_yaml
from tests.refusals import refused
from tests.release_stage import REQUIRED_TARGETS, Stage, make_stage
from tests.revision_factory import FACTS
from tests.wheel_factory import PYTHON, TAG

if TYPE_CHECKING:
    from mlir_release.release.forge.services import Run


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A published snapshot."""
    stage = make_stage(tmp_path_factory.mktemp("canaries"), targets=REQUIRED_TARGETS)
    draft = Draft.load(stage.forge, TAG)
    upload(draft, stage.fill())
    publish(draft)
    return stage


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The repository of a canary."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "uses.py").write_text("import mlir._release as release; print('with', release.tag)\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Use MLIR")
    return folder


def table(project: Path, *commands: str, name: str = "toy", **keys: Any) -> str:
    rows = {"name": name, "repository": f"file://{project}", "ref": "main", "python": PYTHON, "commands": commands}
    return "\n[[canary]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in (rows | keys).items())


#: The steps of a canary's job.
STEPS = read_yaml(Path(__file__).parents[3] / ".github/workflows/canary.yml")["jobs"]["canary"]["steps"]


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """The temporary folder of a runner."""
    (tmp_path / "runner").mkdir()
    return tmp_path / "runner"


def try_(stage: Stage, runner: Path, text: str, **changes: str) -> tuple[str, str]:
    """Run a canary's steps as GitHub does: the name of the one that failed, or empty, and the last line of its output.

    :param changes: of its row of the matrix
    """
    (canary,) = Matrix.parse(REQUIRED_TARGETS + text).canaries
    row = canary_records.jobs([canary], TAG)[0] | changes
    values = {
        "inputs.tag": TAG, "github.token": "ghs_secret", "steps.python.outputs.python-path": sys.executable,
        **{f"matrix.{key}": value for key, value in row.items()},
    }  # fmt: skip
    around = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "RUNNER_TEMP": str(runner),
        "HOME": os.environ["HOME"], "MLIR_RELEASE_FORGE": f"local:{stage.forge.root}", "ACTIONS_RUNTIME_TOKEN": "x",
    }  # fmt: skip
    said = ""
    for step in (step for step in STEPS if "run" in step and "if" not in step):
        given = {name: values[value.removeprefix("${{ ").removesuffix(" }}")] for name, value in step["env"].items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, env=around | given, capture_output=True, text=True, check=False)
        said = "".join((done.stdout + done.stderr).splitlines()[-1:])
        if done.returncode:
            return step["name"], said
    return "", said


def test_a_canary_runs_in_its_checkout_with_the_wheel(stage: Stage, project: Path, runner: Path) -> None:
    assert try_(stage, runner, table(project, "python uses.py")) == ("", f"with {TAG}")


def test_a_canary_sees_no_secrets(stage: Stage, project: Path, runner: Path) -> None:
    code = "import os; print('seen:', [n for n in os.environ if 'TOKEN' in n], os.environ['TMPDIR'] != '/tmp')"
    assert try_(stage, runner, table(project, f'python -c "{code}"')) == ("", "seen: [] True")


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({"commands": ["python -c 'raise SystemExit(4)'"]}, FAILED_STEP),
        ({"ref": "no-such-branch"}, "Prepare the canary"),
        ({"repository": "file:///no/such/repository"}, "Prepare the canary"),
        ({"prepare": ["python -c 'raise SystemExit(4)'"]}, "Prepare the canary"),
        ({"requirements": ["no-such-distribution-of-ours==1"]}, "Prepare the canary"),
        ({"needs": ["FileCheck"]}, "Install the wheel"),
    ],
)
def test_a_canary_that_can_not_be_tried_is_broken_and_has_not_failed(
    stage: Stage, project: Path, runner: Path, changes: dict[str, Any], failed: str
) -> None:
    assert try_(stage, runner, table(project, *changes.pop("commands", ["true"]), **changes))[0] == failed


def test_a_canary_that_hangs_has_failed(stage: Stage, project: Path, runner: Path) -> None:
    assert try_(stage, runner, table(project, "sleep 600"), timeout="0.02")[0] == FAILED_STEP


def test_programs_of_an_sdk_are_on_the_path(stage: Stage, project: Path, runner: Path) -> None:
    program = runner / "sdk" / "bin" / "FileCheck"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'checked by it'\n")
    program.chmod(0o755)
    assert try_(stage, runner, table(project, "FileCheck", needs=["FileCheck"])) == ("", "checked by it")


def test_hooks_and_submodules_of_the_repository_are_left_alone(stage: Stage, project: Path, runner: Path) -> None:
    other = runner / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    (other / "file").write_text("x")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "x")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", f"file://{other}", "part")
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {runner}/hooked\n")
    hook.chmod(0o755)
    git(project, "commit", "--quiet", "-m", "Add a submodule")
    code = "import os; print('files:', os.listdir('part'))"
    assert try_(stage, runner, table(project, f'python -c "{code}"')) == ("", "files: []")
    assert not (runner / "hooked").exists()


def test_the_words_of_commands_stand_for_themselves(project: Path) -> None:
    text = table(project, "echo $(touch x) ; ls", "pytest -k 'a b'", requirements=["lit<19", "x; python_version<'4'"])
    (row,) = canary_records.jobs(Matrix.parse(REQUIRED_TARGETS + text).canaries, TAG)
    assert row["commands"].splitlines() == ["echo '$(touch' 'x)' ';' ls", "pytest -k 'a b'"]
    assert shlex.split(row["requirements"])[3:] == ["lit<19", "x; python_version<'4'"]


# -- the command, and its record ---------------------------------------------------------------------------------------


def configure(stage: Stage, text: str) -> None:
    forge = stage.again()
    files = {"targets.toml": (REQUIRED_TARGETS + text).encode()}
    forge.commit("main", expected=forge.head("main"), files=files, message="Configure\n")


def run(stage: Stage, *words: str, tag: str = TAG) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["release", "canaries", tag, "--forge", f"local:{stage.forge.root}", *words])
    return done.exit_code, done.output


def test_the_command_shows_what_each_runs_and_github_gets_a_job_for_each(stage: Stage, project: Path) -> None:
    configure(stage, table(project, "python uses.py", timeout=10))
    code, output = run(stage, "--only", "toy")
    assert (code, f"toy: file://{project} at main" in output, "python uses.py" in output) == (0, True, True)
    planned = Matrix.parse(REQUIRED_TARGETS + table(project, "true", name="good"))
    error = refused(lambda: canary_records.chosen(planned, ["godo"]), "option-invalid")
    assert "did you mean 'good'" in error.why
    (row,) = json.loads(run(stage, "--github", "--json")[1])["include"]
    assert (row["job"], row["python"]) == (f"tests: canary toy ({TAG})", f"3.{PYTHON[3:]}")
    assert (row["timeout"], row["minutes"]) == ("10", "100")
    refused(lambda: canary_records.results_of_run(stage.forge, "7", TAG, ()), "not-on-forge")


def test_recording_keeps_what_else_is_on_the_branch_and_repeats_safely(stage: Stage, project: Path) -> None:
    configure(stage, table(project, "true"))
    forge = stage.again()
    there = forge.head(LATEST_BRANCH)
    base = None if there else forge.head("main")
    forge.commit(LATEST_BRANCH, expected=there, files={"latest.sigstore.json": b"{}"}, message="x\n", base=base)
    result = CanaryResult(name="toy", status="passed")
    assert canary_records.record(forge, TAG, [result], branch="main").stored
    assert not canary_records.record(forge, TAG, [result], branch="main").stored
    head = forge.head(LATEST_BRANCH)
    assert head is not None
    assert forge.read("latest.sigstore.json", commit=head) == b"{}"


def test_a_forged_record_is_passed_over_and_replaced(
    stage: Stage, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(stage, table(project, "true"))
    forge = stage.again()
    head = forge.head(LATEST_BRANCH)
    base = None if head else forge.head("main")
    forge.commit(LATEST_BRANCH, expected=head, files={CANARIES_NAME: b'{"schema": 9}'}, message="x\n", base=base)
    assert canary_records.read_records(forge).releases == {}
    assert "is passed over: schema is 9" in capsys.readouterr().err
    canary_records.record(forge, TAG, [CanaryResult(name="toy", status="passed")], branch="main")
    assert list(canary_records.read_records(forge).releases) == [TAG]


def test_latest_good_needs_the_canary_and_a_day(stage: Stage, project: Path) -> None:
    configure(stage, table(project, "true", name="needed"))
    forge = stage.again()
    error = refused(lambda: read_release(forge, "latest-good"), "release-not-published")
    assert f"{TAG}: the canary needed has not run" in error.why
    canary_records.record(forge, TAG, [CanaryResult(name="needed", status="passed")], branch="main")
    error = refused(lambda: read_release(forge, "latest-good"), "release-not-published")
    assert f"{TAG}: it is 0 min old, of 24 h" in error.why
    late = type(forge)(forge.root, clock=lambda: datetime(2026, 11, 22, tzinfo=UTC), identity="Ada <a@example.org>")
    assert read_release(late, "latest-good").manifest.tag == TAG


def test_a_canary_for_another_llvm_is_not_run_and_says_so(stage: Stage, project: Path) -> None:
    tag, version = "snapshot-20261121.01", FACTS.version
    stage.add_tag(tag, "20261121.1", facts=FACTS, draft=False)
    rows = table(project, "true", name="fits", llvm=[version.partition(".")[0]])
    rows += table(project, "true", name="other", llvm=["19"])
    configure(stage, rows)
    said = f"its ref fits LLVM 19, and the release has LLVM {version}"
    assert f"other is not run: {said}. To do: move its ref" in run(stage, tag=tag)[1]
    shown = json.loads(run(stage, "--github", "--json", tag=tag)[1])
    assert ([row["name"] for row in shown["include"]], shown["left_out"]) == (["fits"], {"other": said})
    planned = Matrix.parse(REQUIRED_TARGETS + rows).canaries
    _, found = canary_records.results_of_run(Jobs(job("fits", "success")), "7", TAG, planned, version)  # type: ignore[arg-type]
    assert (found.status, found.said) == ("broken", said)


# -- what GitHub's jobs say --------------------------------------------------------------------------------------------


class Jobs:
    """A forge whose services list jobs, and nothing else."""

    def __init__(self, *jobs: RunJob) -> None:
        self.found, self.services, self.runs = jobs, self, self

    def now(self) -> datetime:
        return datetime(2026, 11, 20, tzinfo=UTC)

    def jobs(self, run: Run) -> tuple[RunJob, ...]:
        assert run.id == "7"
        return self.found


def job(name: str, conclusion: str | None, *failed: str, hour: int = 1) -> RunJob:
    start = datetime(2026, 11, 20, hour, tzinfo=UTC)
    steps = [RunStep(name=step, conclusion="failure", started_at=start, completed_at=start) for step in failed]
    return RunJob(
        id=name, name=canary_job(name, TAG), run_id="7", labels=(), status="completed", conclusion=conclusion,
        started_at=start, completed_at=start + timedelta(minutes=2), steps=tuple(steps), url=f"https://x/{name}",
    )  # fmt: skip


def test_results_are_the_conclusions_of_jobs_and_not_what_their_code_says(project: Path) -> None:
    names = ("passed", "failed", "broken", "stopped", "gone", "again")
    planned = Matrix.parse(REQUIRED_TARGETS + "".join(table(project, "true", name=name) for name in names)).canaries
    forge = Jobs(
        job("passed", "success"),
        job("failed", "failure", FAILED_STEP),
        job("broken", "failure", "Set up CPython"),
        job("stopped", "cancelled"),
        job("again", "failure", FAILED_STEP),
        job("again", "success", hour=3),
        job("unknown", "success"),
    )
    found = canary_records.results_of_run(forge, "7", TAG, planned)  # type: ignore[arg-type]
    assert {each.name: each.status for each in found} == {
        "passed": "passed", "failed": "failed", "broken": "broken", "stopped": "broken", "gone": "broken",
        "again": "passed",
    }  # fmt: skip
    assert (found[0].seconds, found[0].url) == (120, "https://x/passed")


def test_the_workflow_has_the_step_and_the_name_that_tell() -> None:
    jobs = read_yaml(Path(".github/workflows/canary.yml"))["jobs"]
    assert FAILED_STEP in [step.get("name") for step in jobs["canary"]["steps"]]
    assert jobs["canary"]["name"] == "${{ matrix.job }}"
