"""The counts of ``requests.toml`` are those of the commands, and cover what the workflows run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from benchmarks.week.requests import counted
from mlir_release.cli.app import app
from mlir_release.ground.console import console
from tests.scale import NOW, REPOSITORY, TAG, Veteran
from tests.sigstore.services import serve_sigstore
from tests.wheel_factory import OTHER_PYTHON, PYTHON

ROOT = Path(__file__).parents[4]

#: Of the workflows' commands, those that ask nothing of GitHub, belong to numbered releases, or to runs that continue
#: another.
ELSEWHERE = {
    "matrix --kind", "sdk pack", "sdk provide", "sdk unpack", "wheels build", "wheels test", "release start", "pypi",
    "release check-run", "release fetch",
}  # fmt: skip


@pytest.mark.parametrize(
    ("pythons", "suites"),
    [((PYTHON,), ("smoke",)), ((OTHER_PYTHON, PYTHON), ("smoke",)), ((PYTHON,), ("smoke", "bindings"))],
    ids=["1 wheel, 1 report", "2 wheels, 2 reports", "1 wheel, 2 reports"],
)
def test_a_snapshot_asks_what_is_counted(
    pythons: tuple[str, ...], suites: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.quiet = True
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with serve_sigstore(tmp_path / "sigstore") as sigstore:
        veteran = Veteran(tmp_path, 10, pythons=pythons, suites=suites, sigstore=sigstore)
        with veteran.github:
            asked = {
                asked.name: (asked.requests["rest"], asked.writes, asked.requests["graphql"])
                for asked in veteran.a_release()
            }
    wheels, tests = len(pythons), len(pythons) * len(suites)
    assert {command.name: command.asks(wheels=wheels, tests=tests) for command in counted().commands} == asked


def test_a_run_after_a_waiver_has_no_platform_and_reads_each_report_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.quiet = True
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    outputs = tmp_path / "outputs"
    plan = ("matrix", "--missing", TAG, "--kind", "platforms", "--github")
    pythons = (OTHER_PYTHON, PYTHON)
    veteran = Veteran(tmp_path, 10, pythons=pythons)
    with veteran.github:
        veteran.index(folder="site")
        veteran.deploy()
        veteran.now = NOW
        veteran.github.repositories[REPOSITORY].settings["workflows"] = ("release.yml", "pages.yml")
        veteran.ask("snapshot")
        veteran.pythons = pythons[:1]
        veteran.ask("publish", TAG, "--dist", str(veteran.dist()), "--upload-only")
        monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
        before = veteran.ask(*plan)
        (row,) = json.loads(outputs.read_text().splitlines()[1])["include"]
        assert [wheel["targets"] for wheel in json.loads(row["wheels"])["include"]] == [f"mlir-linux-x86_64-{PYTHON}"]
        assert row["fetch"] == ""
        veteran.ask("release", "waive", TAG, f"mlir-linux-x86_64-{PYTHON}", "--reason", "no time")
        outputs.unlink()
        again = veteran.ask(*plan)
        published = veteran.ask("publish", TAG)
    assert '{"include":[]}' in outputs.read_text()
    assert [line for line in outputs.read_text().splitlines() if line == "true"]  # the output "empty"
    assert "none" in outputs.read_text().splitlines()  # the output "provenance"
    counts = {command.name: command for command in counted().commands}
    assert before.requests["rest"] == counts["matrix --missing"].rest + 1  # the report
    assert again.requests["rest"] == counts["matrix --missing"].rest + 1  # waivers are read by their names
    assert (again.requests["graphql"], again.writes) == (1, 0)
    # Reports that are there already are read, not sent.
    assert published.requests["rest"] <= counts["publish, signed"].rest + 2 * len(pythons) + 2


def test_every_command_of_the_workflows_is_counted() -> None:
    folder = ROOT / ".github" / "workflows"
    names = ("snapshot", "release", "pages", "platform", "attest", "latest", "compiler-caches")
    files = [folder / f"{name}.yml" for name in names]
    actions = ("bump-revision", "build-sdk", "build-wheels", "test-wheels", "publish-release", "publish-index")
    files += [ROOT / "actions" / name / "action.yml" for name in actions]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    lines = re.finditer(
        r"mlir-release (?P<name>(?:(?:sdk|wheels|release) )?[a-z-]*[a-z])(?P<option> --(?:missing|kind)\b)?", text
    )
    run = {match["name"] + (match["option"] or "") for match in lines}
    known = {command.name.partition(",")[0] for command in counted().commands} - {"publish --upload-only"}
    commands = app.list_commands(click.Context(app))  # prose names the toolkit, too
    assert {words for words in run if words.split()[0] in commands} == known | ELSEWHERE
