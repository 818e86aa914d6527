"""The reusable workflow sdk.yml, run by act as release.yml calls it: its second job runs only if time ran out."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.github_server import GitHubServer
from tests.workflows.rehearse import REPOSITORY, ROOT, RUNNER, Runner

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOWS = ".github/workflows/"

#: Instead of the real action: ``slow`` runs out of time once, ``broken`` fails, others are done at once.
BUILD = """\
name: Build SDK
description: Notes what it was asked for.
inputs:
  tag: {description: ignored, required: true}
  runtime: {description: the platform, required: true}
  budget: {description: minutes, required: true}
  token: {description: ignored, required: true}
outputs:
  finished: {description: whether the SDK is complete, value: "${{ steps.sdk.outputs.finished }}"}
runs:
  using: composite
  steps:
    - id: sdk
      shell: bash
      env:
        RUNTIME: ${{ inputs.runtime }}
        BUDGET: ${{ inputs.budget }}
      run: |
        case "$RUNTIME" in broken) exit 1 ;; esac
        mkdir -p "$SCCACHE_DIR" sdk
        echo "$BUDGET" >> "$SCCACHE_DIR/budgets"
        cp "$SCCACHE_DIR/budgets" sdk/budgets
        finished=true
        case "$RUNTIME $BUDGET" in slow\\ 290) finished=false ;; esac
        echo "finished=$finished" >> "$GITHUB_OUTPUT"
"""

SETUP = """\
name: Set up mlir-release
description: Only the packing of the SDK is needed; this one keeps what was built as it is.
runs:
  using: composite
  steps:
    - shell: bash
      run: |
        mkdir -p "$RUNNER_TEMP/bin"
        {
          echo '#!/bin/bash'
          echo 'test "$*" = "sdk pack sdk --output packed" || exit 2'
          echo 'mkdir packed && cd packed'
          echo 'for file in sdk.json build.tar.zst tools.tar.zst; do cp ../sdk/budgets $file; done'
        } > "$RUNNER_TEMP/bin/mlir-release"
        chmod +x "$RUNNER_TEMP/bin/mlir-release"
        echo "$RUNNER_TEMP/bin" >> "$GITHUB_PATH"
"""


def caller(*runtimes: str) -> str:
    """A workflow with the job of release.yml that calls sdk.yml, for these platforms, and one that needs it."""
    release = yaml.safe_load((ROOT / WORKFLOWS / "release.yml").read_text(encoding="utf-8"))
    matrix = json.dumps({"include": [{"runtime": runtime, "runner": RUNNER} for runtime in runtimes]})
    plan: dict[str, Any] = {
        "runs-on": RUNNER,
        "outputs": {"no-sdk": "false", "sdk": "${{ steps.sdk.outputs.matrix }}"},
        "steps": [{"id": "sdk", "run": f"echo 'matrix={matrix}' >> \"$GITHUB_OUTPUT\""}],
    }
    wheels = {"runs-on": RUNNER, "needs": ["plan", "sdk"], "steps": [{"run": "echo it goes on"}]}
    jobs = {"plan": plan, "sdk": release["jobs"]["sdk"], "wheels": wheels}
    return yaml.safe_dump({"name": "Caller", "on": {"workflow_dispatch": {}}, "jobs": jobs})


def run(workspace: Path, *runtimes: str) -> tuple[bool, str, Path]:
    """Whether the workflow succeeded, what act printed, and the folder of the artifacts."""
    files = {
        WORKFLOWS + "caller.yml": caller(*runtimes).encode(),
        WORKFLOWS + "sdk.yml": (ROOT / WORKFLOWS / "sdk.yml").read_bytes(),
        "actions/setup/action.yml": SETUP.encode(),
        "actions/build-sdk/action.yml": BUILD.encode(),
    }
    with GitHubServer(workspace / "github") as github:
        github.add_repository(REPOSITORY, files, workflows=("caller.yml",))
        runner = Runner(github, workspace, github.token())
        success = runner.run("caller.yml", "main", {})
    return success, (workspace / "run-1-caller.yml.log").read_text(), workspace / "artifacts-1001"


def parts_of(runtime: str) -> set[str]:
    """The artifacts that later jobs take the SDK from."""
    return {f"sdk-{part}-{runtime}" for part in ("description", "build", "tools")}


def ended(log: str) -> set[tuple[str, str]]:
    """The jobs that ran, and how they ended. act numbers the calls of a matrix, which GitHub does not."""
    found = re.findall(r"^\[(.+?)\s*\] 🏁  Job (\w+)", log, re.MULTILINE)
    return {(re.sub(r"-\d+/", "/", job), end) for job, end in found}


def test_only_what_ran_out_of_time_is_resumed(tmp_path: Path) -> None:
    success, log, artifacts = run(tmp_path, "quick", "slow")
    assert success, log
    assert ended(log) == {
        ("Caller/plan", "succeeded"),
        ("sdk: quick/SDK/build", "succeeded"),
        ("sdk: slow/SDK/build", "succeeded"),
        ("sdk: slow/SDK/resume", "succeeded"),
        ("Caller/wheels", "succeeded"),
    }
    assert {path.name for path in artifacts.iterdir()} == {
        *parts_of("quick"), "compiled-sdk-quick", "unfinished-sdk-slow", *parts_of("slow"), "compiled-sdk-slow",
    }  # fmt: skip
    assert [path.name for path in (artifacts / "sdk-build-quick").iterdir()] == ["build.tar.zst"]
    assert [path.name for path in (artifacts / "sdk-tools-slow").iterdir()] == ["tools.tar.zst"]
    assert (artifacts / "compiled-sdk-quick" / "budgets").read_text() == "290\n"
    assert (artifacts / "compiled-sdk-slow" / "budgets").read_text() == "290\n0\n"  # from the first job's cache


@pytest.mark.parametrize("others", [(), ("quick",)])
def test_an_sdk_that_fails_is_not_resumed(tmp_path: Path, others: tuple[str, ...]) -> None:
    success, log, artifacts = run(tmp_path, "broken", *others)
    assert not success
    assert ("sdk: broken/SDK/build", "failed") in ended(log)
    assert not [job for job, _ in ended(log) if job.endswith(("resume", "wheels"))]
    assert {path.name for path in artifacts.glob("sdk-*")} == {name for other in others for name in parts_of(other)}
