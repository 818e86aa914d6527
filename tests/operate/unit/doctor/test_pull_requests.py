"""Whether CI runs on integrate's pull requests: by the very secret that its token comes from, or by a dispatch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.release.forge.observations import Environment, Names, WorkflowDefaults
from tests.healthy import CALLER, CALLER_PATH, CI, CI_PATH, FILES, INTEGRATE, ROOT, WELL, found

if TYPE_CHECKING:
    from mlir_release.operate.doctor.results import Finding

BY_CI = {**FILES, "integrate.toml": INTEGRATE + b'[ci]\nworkflow = "ci.yml"\n', CI_PATH: CI}
ACTIVE = {**(WELL.workflows or {}), CI_PATH: "active"}
NOTHING = Names(seen={})
MAY_OPEN = WorkflowDefaults(write=False, pull_requests=True)

BY_ACTION = b"""\
on: {workflow_dispatch: {}}
permissions: {}
jobs:
  walk:
    runs-on: ubuntu-24.04
    permissions: {contents: write}
    environment: walking
    steps:
      - uses: actions/create-github-app-token@v2
        id: made
        with: {app-id: "${{ vars.APP_ID }}", private-key: "${{ secrets.APP_KEY }}"}
      - uses: llvm/mlir-release/actions/integrate@v1
        with: {command: run, token: "${{ steps.made.outputs.token }}"}
"""


def answers(check: str = "pull-request-token", **changes: Any) -> list[Finding]:
    return found(check, **changes)


def level_of(check: str = "pull-request-token", **changes: Any) -> str:
    """The level of the one answer."""
    (answer,) = answers(check, **changes)
    return answer.level


def test_nothing_is_said_where_nothing_is_integrated() -> None:
    files = {path: text for path, text in FILES.items() if path != "integrate.toml"}
    assert answers(files=files, secrets=NOTHING) == []


def test_any_other_secret_is_not_the_one() -> None:
    (found,) = answers(secrets=Names(seen={"SOMETHING_ELSE": ""}))
    assert found.level == "problem"
    assert "INTEGRATE_TOKEN" in found.text
    assert "secrets and variables: read" not in found.remedy
    (found,) = answers(secrets=Names(seen={"SOMETHING_ELSE": ""}, complete=False))
    assert found.level == "unknown"
    assert "secrets and variables: read" in found.remedy


@pytest.mark.parametrize(
    "expression",
    ["${{ secrets.integrate_token }}", "${{ secrets['INTEGRATE_TOKEN'] }}", "${{secrets.INTEGRATE_TOKEN}}"],
)
def test_the_secret_is_found_however_it_is_written(expression: str) -> None:
    text = CALLER.replace(b"${{ secrets.INTEGRATE_TOKEN }}", expression.encode())
    assert level_of(files={**FILES, CALLER_PATH: text}) == "ok"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"      app_token: ${{ secrets.INTEGRATE_TOKEN }}", b"      notify: ${{ secrets.INTEGRATE_TOKEN }}"),
        (b"      app_token: ${{ secrets.INTEGRATE_TOKEN }}", b"      app_token: ${{ secrets.GITHUB_TOKEN }}"),
        # The repository has no secret APP_TOKEN that could be inherited.
        (b"    secrets:\n      app_token: ${{ secrets.INTEGRATE_TOKEN }}", b"    secrets: inherit"),
    ],
)
def test_a_caller_that_passes_no_token_of_its_own(old: bytes, new: bytes) -> None:
    assert old in CALLER
    files = {**FILES, CALLER_PATH: CALLER.replace(old, new)}
    (found,) = answers(files=files)
    assert found.level == "problem"
    assert "app_token" in found.remedy
    (found,) = answers("pull-request-creation", files=files)
    assert found.level == "problem"
    assert "Allow GitHub Actions to create" in found.remedy
    assert level_of("pull-request-creation", files=files, defaults=MAY_OPEN) == "ok"
    assert level_of("pull-request-creation", files=files, defaults=None) == "unknown"


def test_a_dispatched_workflow_is_as_good_as_a_token() -> None:
    (found,) = answers(files=BY_CI, secrets=NOTHING, workflows=ACTIVE)
    assert found.level == "ok"
    assert "ci.yml" in found.text


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({"workflows": {**ACTIVE, CI_PATH: "disabled_manually"}}, "problem", "disabled"),
        ({"workflows": None}, "unknown", "hidden"),
        ({"files": {**BY_CI, CI_PATH: b"on: push\njobs: {a: {}}\n"}}, "problem", "no workflow_dispatch"),
        ({"files": {**BY_CI, CI_PATH: b"on: [push\n"}}, "problem", "can't be read"),
        ({"files": {path: text for path, text in BY_CI.items() if path != CI_PATH}}, "problem", "is not in"),
        ({"files": {**BY_CI, "integrate.toml": b"[ci"}}, "unknown", "can't be read"),
    ],
)
def test_a_dispatched_workflow_that_does_not_start(changes: dict[str, Any], level: str, said: str) -> None:
    (found,) = answers(**{"files": BY_CI, "secrets": NOTHING, "workflows": ACTIVE, **changes})
    assert found.level == level
    assert said in found.text
    assert level_of(**{"files": BY_CI, "workflows": ACTIVE, **changes}) == "ok"  # the token is there: enough


def test_no_workflow_calls_it() -> None:
    files = {path: text for path, text in FILES.items() if path != CALLER_PATH}
    (found,) = answers(files=files)
    assert found.level == "unknown"
    assert "no workflow here runs integrate" in found.text


def test_integrate_itself_finds_its_secret_when_it_is_dispatched() -> None:
    files = {path: text for path, text in FILES.items() if path != CALLER_PATH}
    own = ".github/workflows/integrate.yml"
    files[own] = (ROOT / own).read_bytes()
    (found,) = answers(files=files)
    assert found.level == "problem"
    assert "secret APP_TOKEN" in found.text
    assert level_of(files=files, secrets=Names(seen={"APP_TOKEN": ""})) == "ok"
    assert level_of(files={**FILES, own: files[own]}) == "ok"  # but a caller gives it one
    files = {**BY_CI, own: files[own]}
    del files[CALLER_PATH]
    assert level_of(files=files, workflows=ACTIVE) == "ok"


def test_an_app_whose_token_a_step_makes() -> None:
    files = {**FILES, CALLER_PATH: BY_ACTION}
    key, app = Names(seen={"APP_KEY": ""}), Names(seen={"APP_ID": "7"})
    there: dict[str, Any] = {"files": files, "environment_secrets": {"walking": frozenset()}}
    assert answers(**there, secrets=key, variables=app)[0].level == "ok"
    assert "variable APP_ID" in answers(**there, secrets=key, variables=NOTHING)[0].text
    assert answers(**there, secrets=key, variables=NOTHING)[0].level == "problem"
    assert answers(**there, secrets=key, variables=Names(seen={}, complete=False))[0].level == "unknown"
    assert answers(**there, secrets=NOTHING, variables=app)[0].level == "problem"
    # The job's environment may have the key.
    there["environments"] = {**(WELL.environments or {}), "walking": Environment()}
    there["environment_secrets"] = {"walking": frozenset({"APP_KEY"})}
    assert answers(**there, secrets=NOTHING, variables=app)[0].level == "ok"
    there["environment_secrets"] = {"walking": None}
    assert answers(**there, secrets=NOTHING, variables=app)[0].level == "unknown"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"      pull-requests: write\n", b"", "pull-requests: write"),
        (b"      next-workflow: walk.yml\n", b"", "integrate.yml, which is missing"),
        (b"      width: {type: number, default: 8}\n", b"", "inputs branch, strategy, width"),
    ],
)
def test_a_caller_that_integrate_can_not_work_in(old: bytes, new: bytes, said: str) -> None:
    assert old in CALLER
    (found,) = answers("integrate-caller", files={**FILES, CALLER_PATH: CALLER.replace(old, new)})
    assert found.level == "problem"
    assert said in found.text


EXPORT = b'[upstream.export]\nremote = "https://github.com/ours/llvm-project.git"\nbranch = "patched"\n'


def test_who_pushes_patched_commits_elsewhere() -> None:
    assert answers("export-token") == []
    files = {**FILES, "integrate.toml": INTEGRATE + EXPORT}
    assert [found.level for found in answers("export-token", files=files)] == ["unknown"]  # perhaps app_token may
    assert answers("export-token", files=files, repository="ours/llvm-project") == []
    given = CALLER + b"      export_token: ${{ secrets.EXPORT_TOKEN }}\n"
    files[CALLER_PATH] = given
    (found,) = answers("export-token", files=files)
    assert found.level == "problem"
    assert "secret EXPORT_TOKEN" in found.text
    both = Names(seen={"EXPORT_TOKEN": "", "INTEGRATE_TOKEN": ""})
    assert [found.level for found in answers("export-token", files=files, secrets=both)] == ["ok"]
    files[CALLER_PATH] = CALLER.replace(b"    secrets:\n      app_token: ${{ secrets.INTEGRATE_TOKEN }}\n", b"")
    (found,) = answers("export-token", files=files)
    assert found.level == "problem"
    assert "this repository alone" in found.text


def test_a_caller_that_asks_for_nothing_has_what_the_repository_gives() -> None:
    silent = CALLER.replace(b"permissions: {}\n", b"").replace(
        b"    permissions:\n      contents: write\n      pull-requests: write\n      actions: write\n", b""
    )
    assert b"permissions" not in silent
    files = {**FILES, CALLER_PATH: silent}
    assert answers("integrate-caller", files=files)[0].level == "problem"
    assert answers("integrate-caller", files=files, defaults=replace(MAY_OPEN, write=True))[0].level == "ok"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (b'runs-on: \'["self-hosted", "big"]\'', ""),
        (b'runs-on: \'{"group": "big"}\'', ""),
        (b"runs-on: ${{ vars.RUNNER }}", ""),
        (b"container: ghcr.io/ours/ci@sha256:0123", ""),
        (b'container: \'{"image": "ours/ci", "options": "--cpus 8"}\'', ""),
        (b"runs-on: '[\"self-hosted\", big]'", 'gives runs-on: ["self-hosted", big]'),
        (b"runs-on: '[]'", "gives runs-on: []"),
        (b"runs-on: [self-hosted, big]", "gives runs-on: ['self-hosted', 'big']"),
        (b'runs-on: \'{"label": "big"}\'', "gives runs-on"),
        (b'container: \'{"name": "ours/ci"}\'', "gives container"),
        (b"container: {image: ours/ci}", "gives container"),
    ],
)
def test_what_a_caller_says_of_runners_and_images(inputs: bytes, said: str) -> None:
    caller = CALLER.replace(
        b"      next-workflow: walk.yml\n", b"      next-workflow: walk.yml\n      " + inputs + b"\n"
    )
    (finding,) = answers("integrate-caller", files={**FILES, CALLER_PATH: caller})
    assert finding.level == ("problem" if said else "ok")
    assert said in finding.text


@pytest.mark.parametrize(
    ("value", "level", "said"),
    [("stopped: release week", "ok", "the roller is stopped (release week)"), ("stoped", "problem", "'stoped'")],
)
def test_the_variable_of_the_roller(value: str, level: str, said: str) -> None:
    assert answers("roller") == []
    seen = Names(seen={**WELL.variables.seen, "MLIR_RELEASE_ROLL": value})
    (finding,) = answers("roller", variables=seen)
    assert (finding.level, said in finding.text) == (level, True)


@pytest.mark.parametrize(
    ("old", "new", "level", "said"),
    [
        (b"", b"", "ok", "walk.yml (issue) keeps the issue"),
        (b"issues: write", b"contents: read", "problem", "lacks issues: write"),
        (b"    needs: walk\n", b"", "problem", "does not wait for a walk"),
        (b"    needs: walk\n", b"    needs: [walk, issue]\n", "ok", ""),
    ],
)
def test_the_job_that_keeps_the_issue(old: bytes, new: bytes, level: str, said: str) -> None:
    job = b"""\
  issue:
    needs: walk
    uses: llvm/mlir-release/.github/workflows/roll.yml@0123456789012345678901234567890123456789
    permissions: {issues: write}
"""
    (finding,) = answers("roller", files={**FILES, CALLER_PATH: CALLER + job.replace(old, new)})
    assert (finding.level, said in finding.text) == (level, True)
