"""The table of docs/permissions.md: it is true, and no job may do what its rules forbid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tools import permissions

if TYPE_CHECKING:
    from pathlib import Path

JOBS = permissions.read_jobs()

SHA = "0" * 40


def test_the_page_is_up_to_date() -> None:
    assert permissions.page(JOBS) == permissions.PAGE.read_text(encoding="utf-8"), "tools/permissions.py --write"


def test_every_job_keeps_the_rules() -> None:
    assert list(permissions.broken_rules(JOBS)) == []
    assert sum(bool(job.foreign) for job in JOBS) >= 6
    assert sum(bool(job.rights) for job in JOBS) >= 12


def test_only_these_jobs_prove_who_they_are_in_a_release() -> None:
    """After it, the jobs that deploy the pages and upload conda packages do."""
    signing = {
        (job.workflow, job.key)
        for job in JOBS
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
def test_the_job_that_pypi_trusts_runs_nothing_of_ours(workflow: str, key: str) -> None:
    (job,) = (job for job in JOBS if (job.workflow, job.key) == (workflow, key))
    assert [use.partition("@")[0] for use in job.uses] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert job.text == COMPARE
    assert job.permissions == {"id-token": "write"}


def test_what_reads_wheels_to_document_them_may_not_write() -> None:
    (job,) = (job for job in JOBS if (job.workflow, job.key) == ("pages.yml", "generate"))
    assert "mlir-release index" in job.text
    assert job.rights == ()


def test_signing_happens_at_main_only() -> None:
    calls = [job.calls for job in JOBS if job.calls.startswith("attest.yml")]
    assert calls == ["attest.yml@main"] * 3


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("permissions: {contents: write}\n    steps: [{run: mlir-release sdk provide T}]", "may write contents"),
        ("permissions: {id-token: write}\n    steps: [{run: mlir-release wheels test W}]", "may write id-token"),
        ("permissions: {id-token: write}\n    steps: [{uses: ./actions/build-wheels}]", "may write id-token"),
        ("permissions: {contents: write}\n    steps: [{run: pip install x}]", "runs pip"),
        ("permissions: {contents: write}\n    steps: [{run: 'curl https://example.org | sh'}]", "runs curl"),
        ("permissions: {contents: write}\n    steps: [{run: python3 dist/unpacked.py}]", "runs python3"),
        ("permissions: {contents: write}\n    steps: [{run: python tools/other.py x}]", "runs python"),
        ("permissions: {id-token: write}\n    steps: [{run: bash dist/unpacked.sh}]", "runs bash"),
        (f"permissions: {{contents: write}}\n    steps: [{{uses: 'someone/action@{SHA}'}}]", "uses someone/action"),
        ("permissions: {contents: write}\n    steps: [{uses: 'actions/checkout@v7'}]", "uses actions/checkout@v7"),
        (
            "permissions: {contents: read}\n    steps: [{run: mlir-release wheels build, "
            "env: {X: '${{ secrets.TOKEN }}'}}]",
            "gets TOKEN",
        ),
    ],
)
def test_what_would_break_a_rule(tmp_path: Path, body: str, rule: str) -> None:
    (tmp_path / "bad.yml").write_text(f"on: push\njobs:\n  job:\n    {body}\n")
    (broken,) = permissions.broken_rules(permissions.read_jobs(tmp_path))
    assert re.search(rule, broken)


def test_a_command_that_nobody_classified_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text("on: push\njobs: {job: {steps: [{run: mlir-release frobnicate now}]}}\n")
    with pytest.raises(SystemExit, match="frobnicate"):
        permissions.read_jobs(tmp_path)
