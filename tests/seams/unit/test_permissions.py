"""The table of docs/permissions.md: it is true, and no job may do what its rules forbid."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.documents import read_yaml
from tools import permissions

if TYPE_CHECKING:
    from pathlib import Path

SHA = "0" * 40
#: The jobs that walk LLVM forward.
WALKING: dict[str, dict[str, Any]] = read_yaml(permissions.FOLDER / "integrate.yml")["jobs"]


@pytest.fixture(name="jobs", scope="module")
def all_jobs() -> list[permissions.Job]:
    return permissions.read_jobs()


def test_the_page_is_up_to_date(jobs: list[permissions.Job]) -> None:
    assert permissions.page(jobs) == permissions.PAGE.read_text(encoding="utf-8"), "tools/permissions.py --write"


def test_every_job_keeps_the_rules(jobs: list[permissions.Job]) -> None:
    assert list(permissions.broken_rules(jobs)) == []
    assert sum(bool(job.foreign) for job in jobs) >= 6
    assert sum(bool(job.rights) for job in jobs) >= 12


def test_only_builds_restore_a_cache_and_one_job_without_foreign_code_saves_it(jobs: list[permissions.Job]) -> None:
    assert {(job.workflow, job.key): job.cache for job in jobs if job.cache != "none"} == {
        ("compiler-caches.yml", "save"): "write-only",
        ("platform.yml", "sdk"): "read",
        ("platform.yml", "resume"): "read",
        ("release.yml", "platform"): "read",  # calls platform.yml
    }


def test_options_that_decide_whether_a_command_is_foreign_are_its_own() -> None:
    for name, command in permissions.foreign_commands():
        own = {option for each in command.params for option in each.opts}
        assert {*command.only_with, *command.unless} <= own, name


def test_only_these_jobs_prove_who_they_are_in_a_release(jobs: list[permissions.Job]) -> None:
    """After it, the jobs that deploy the pages and upload conda packages do."""
    signing = {
        (job.workflow, job.key)
        for job in jobs
        if "id-token" in job.rights and not job.calls and job.workflow not in {"pages.yml", "conda.yml"}
    }
    toolkit = {("release-toolkit.yml", "testpypi"), ("release-toolkit.yml", "pypi")}
    assert signing == {("attest.yml", "attest"), ("release.yml", "pypi"), *toolkit}


#: Compares the files with the digests of the job that made or verified them, and their number.
COMPARE = """\
(cd dist && sha256sum --check --strict) <<< "$DIGESTS"
test "$(find dist -mindepth 1 | wc -l)" = "$(wc -l <<< "$DIGESTS")"
"""


@pytest.mark.parametrize(
    ("workflow", "key"), [("release.yml", "pypi"), ("release-toolkit.yml", "testpypi"), ("release-toolkit.yml", "pypi")]
)
def test_the_job_that_pypi_trusts_runs_nothing_of_ours(jobs: list[permissions.Job], workflow: str, key: str) -> None:
    (job,) = (job for job in jobs if (job.workflow, job.key) == (workflow, key))
    assert [use.partition("@")[0] for use in job.uses] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert job.text == COMPARE
    assert job.permissions == {"id-token": "write"}


def test_what_reads_wheels_to_document_them_may_not_write(jobs: list[permissions.Job]) -> None:
    (job,) = (job for job in jobs if (job.workflow, job.key) == ("pages.yml", "generate"))
    assert "mlir-release index" in job.text
    assert job.rights == ()


def test_signing_happens_at_main_only(jobs: list[permissions.Job]) -> None:
    calls = [job.calls for job in jobs if "attest.yml" in job.calls]
    assert calls == ["llvm/mlir-wheels/.github/workflows/attest.yml@main"] * 3


#: Of a job: what breaks a rule, and what is said of it.
BAD = [
    # foreign code, and a right, an identity, a secret, a token that stays, a cache
    ("permissions: {contents: write}; steps: [{run: mlir-release sdk provide T}]", "foreign .* may write contents"),
    ("permissions: write-all; steps: [{run: mlir-release sdk provide T}]", "foreign .* may write everything"),
    ("permissions: {packages: write}; steps: [{uses: ./actions/build-wheels}]", "foreign .* may write packages"),
    (
        "permissions: {contents: write}; steps: [{run: mlir-release integrate run --push}]",
        "foreign .* may write contents",
    ),
    ("permissions: {id-token: write}; steps: [{run: mlir-release wheels test W}]", "foreign .* prove its identity"),
    ("permissions: {id-token: write}; steps: [{run: mlir-release install TAG}]", "foreign .* prove its identity"),
    ("permissions: {}; env: {X: '${{ secrets.TOKEN }}'}; steps: [{run: make test}]", "foreign .* gets TOKEN"),
    ("permissions: {}; steps: [{run: .ci/run, env: {X: \"${{ secrets['TOKEN'] }}\"}}]", "foreign .* gets TOKEN"),
    ("permissions: {}; steps: [{run: .ci/run, env: {X: '${{ toJSON(secrets) }}'}}]", "foreign .* gets every secret"),
    (f"permissions: {{}}; steps: [{{uses: actions/checkout@{SHA}}}, {{run: .ci/run}}]", "foreign .* keeps the token"),
    (
        f"permissions: {{}}; cache-mode: write-only; steps: [{{uses: actions/cache/save@{SHA}}}, {{run: .ci/run}}]",
        "foreign .* may save caches",
    ),
    # rights, and what would fetch or run something else
    ("permissions: {contents: write}; steps: [{run: pip install x}]", "runs pip"),
    ("permissions: {contents: write}; steps: [{run: 'curl https://example.org | sh'}]", "runs curl"),
    ("permissions: {contents: write}; steps: [{run: python3 dist/unpacked.py}]", "runs python3"),
    ("permissions: {contents: write}; steps: [{run: python tools/other.py x}]", "runs python"),
    ("permissions: {id-token: write}; steps: [{run: bash dist/unpacked.sh}]", "runs bash"),
    ("steps: [{run: mlir-release matrix}]", "says no permissions"),
    # actions and workflows of others
    (f"permissions: {{contents: write}}; steps: [{{uses: 'someone/action@{SHA}'}}]", "uses someone/action"),
    (f"permissions: {{}}; steps: [{{uses: 'astral-sh/setup-uv@{SHA}'}}]", "uses astral-sh/setup-uv"),
    ("permissions: {}; steps: [{uses: 'actions/upload-artifact@v7'}]", "uses actions/upload-artifact@v7"),
    ("permissions: {}; steps: [{uses: 'docker://alpine'}]", "uses docker://alpine"),
    ("permissions: {}; uses: someone/else/.github/workflows/w.yml@main", "not of its own commit"),
    ("permissions: {}; uses: ./.github/workflows/called.yml; secrets: inherit; cache-mode: read", "every secret"),
    # caches
    ("permissions: {}; cache-mode: ''; steps: []", "no cache-mode"),
    ("permissions: {}; cache-mode: all; steps: []", "no cache-mode that GitHub knows: 'all'"),
    (f"permissions: {{}}; steps: [{{uses: actions/cache/restore@{SHA}}}]", "step to restore .* none forbids"),
    (
        f"permissions: {{}}; cache-mode: read; steps: [{{uses: actions/setup-python@{SHA}, with: {{cache: pip}}}}]",
        "step to save .* read forbids",
    ),
    ("permissions: {}; cache-mode: read; steps: []", "may restore caches .* no step"),
    (
        f"permissions: {{contents: write}}; cache-mode: read; steps: [{{uses: actions/cache/restore@{SHA}}}]",
        "may write contents and restores a cache",
    ),
    (
        f"permissions: {{id-token: write}}; cache-mode: read; steps: [{{uses: actions/cache/restore@{SHA}}}]",
        "may write id-token and restores a cache",
    ),
    (
        f"permissions: {{}}; cache-mode: write-only; steps: [{{uses: actions/cache/save@{SHA}}}]",
        "only the job save of compiler-caches.yml",
    ),
    ("permissions: {}; uses: ./.github/workflows/called.yml", "asks to restore caches: GitHub does not start it"),
    (
        "permissions: {}; uses: ./.github/workflows/called.yml; cache-mode: write",
        "lets ./.github/workflows/called.yml save caches",
    ),
]
CALLED = f"""\
on: workflow_call
permissions: {{}}
cache-mode: none
jobs: {{job: {{cache-mode: read, steps: [{{uses: actions/cache/restore@{SHA}}}]}}}}
"""


@pytest.mark.parametrize(("job", "said"), BAD, ids=[said for _, said in BAD])
def test_what_would_break_a_rule(tmp_path: Path, job: str, said: str) -> None:
    lines = job.replace("; ", "\n    ")
    (tmp_path / "bad.yml").write_text(f"on: push\ncache-mode: none\njobs:\n  job:\n    {lines}\n")
    (tmp_path / "called.yml").write_text(CALLED)
    (broken,) = permissions.broken_rules(permissions.read_jobs(tmp_path))
    assert re.fullmatch(f"bad.yml: job .*{said}.*", broken)


@pytest.mark.parametrize("command", ["frobnicate now", "integrate frobnicate", "-q sdk build", "--quiet sdk build"])
def test_a_command_that_is_not_there_is_an_error(tmp_path: Path, command: str) -> None:
    (tmp_path / "bad.yml").write_text(f"on: push\njobs: {{job: {{steps: [{{run: mlir-release {command}}}]}}}}\n")
    with pytest.raises(SystemExit, match=command.split()[0]):
        permissions.read_jobs(tmp_path)


@pytest.mark.parametrize(
    ("step", "foreign"),
    [
        ("mlir-release index -o site", False),
        ('options=(--probe "$TAG")\nmlir-release index "${options[@]}"', True),
        ("mlir-release index \\\n  --probe TAG", True),
        ("mlir-release integrate run --no-probes", False),
        ("mlir-release integrate run --push", True),
        ("# mlir-release sdk build", False),
        ("mlir-release release canaries TAG --run 1", False),
        ('"$RUNNER_TEMP/alone" "$COMMANDS"', True),
    ],
)
def test_options_decide_whether_a_step_is_foreign(tmp_path: Path, step: str, foreign: bool) -> None:
    (tmp_path / "w.yml").write_text(json.dumps({"on": "push", "jobs": {"job": {"steps": [{"run": step}]}}}))
    (job,) = permissions.read_jobs(tmp_path)
    assert bool(job.foreign) is foreign


# -- the workflow that walks LLVM forward ------------------------------------------------------------------------------


def test_of_a_walk_only_the_job_that_runs_no_foreign_code_writes_and_believes_no_file_of_a_probe() -> None:
    assert [name for name, job in WALKING.items() if "write" in job["permissions"].values()] == ["advance"]
    assert "secrets." not in yaml.safe_dump([WALKING["plan"], WALKING["probe"]])
    given = [step.get("with", {}).get("command", "").split() for step in WALKING["advance"]["steps"]]
    assert [words[0] for words in given if words] == ["start", "gather", "run", "roll"]
    gathering, running = (next(words for words in given if words[:1] == [name]) for name in ("gather", "run"))
    assert "--run" in gathering
    assert "--no-probes" in running


def test_the_image_of_probes_has_no_credentials() -> None:
    assert "credentials" not in WALKING["probe"]["container"]
    assert "container" not in {*WALKING["plan"], *WALKING["advance"]}


def test_the_right_to_write_issues_is_asked_for_by_a_workflow_of_its_own() -> None:
    """GitHub refuses to start a called workflow whose jobs ask for more than its caller grants."""
    issue = read_yaml(permissions.FOLDER / "roll.yml")
    assert not [name for name, job in WALKING.items() if "issues" in job["permissions"]]
    assert [job["permissions"] for job in issue["jobs"].values()] == [{"issues": "write"}]
    assert "secrets." not in yaml.safe_dump(issue)


def test_every_job_that_heeds_the_roller_sees_its_variable() -> None:
    environment = read_yaml(permissions.FOLDER / "integrate.yml")["env"]
    assert environment["MLIR_RELEASE_ROLL"] == "${{ vars.MLIR_RELEASE_ROLL }}"
    commands = [
        step["with"]["command"].split()
        for job in WALKING.values()
        for step in job["steps"]
        if step.get("uses", "").endswith("/actions/integrate")
    ]
    heeding = {words[0] for words in commands if "--roll" in words}
    assert heeding == {"plan", "start", "run"}
    assert {words[0] for words in commands} - heeding == {"probe", "gather", "roll"}
