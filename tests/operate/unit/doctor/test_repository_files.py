"""Every file that is wrong is one finding, in the toolkit's own words; and who signs, as the workflows say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.operate.doctor.files import REQUIRED, read_files
from mlir_release.release.forge.observations import WorkflowDefaults
from tests.healthy import FILES, RELEASE_FILES, WELL
from tests.healthy import found as found_by

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.operate.doctor.results import Finding

SNAPSHOT = ".github/workflows/snapshot.yml"
RELEASE = ".github/workflows/release.yml"
SIGNING = ("release.yml", "platform.yml", "latest.yml")


def rights(files: dict[str, bytes], default_write: bool | None = False) -> list[Finding]:
    """What is found of triggers and permissions."""
    defaults = None if default_write is None else WorkflowDefaults(write=default_write, pull_requests=False)
    return [row for check in ("triggers", "job-permissions") for row in found_by(check, files=files, defaults=defaults)]


def test_this_repositorys_own_files_are_well() -> None:
    contents = read_files(RELEASE_FILES, branch="main")
    assert [finding.level for finding in contents.found] == ["ok"]
    assert contents.matrix is not None
    assert set(contents.workflows) == {path for path in REQUIRED if path.endswith(".yml")}
    assert {finding.level for finding in rights(RELEASE_FILES)} == {"ok"}


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("llvm-project.version", b"main\n", "does not hold a commit"),
        ("llvm-project.version", b"0123456\n", "abbreviated"),
        ("llvm-project.version", b"", "empty"),
        ("targets.toml", b"schema = 1\nschema = 2\n", "not valid TOML"),
        ("targets.toml", b"schema = 1\n", "targets.toml"),
        ("targets.toml", b"\xff", "targets.toml"),
        ("integrate.toml", b"[smoke]\ncomand = 1\n", "integrate.toml"),
        ("integrate.toml", b"\xff", "not UTF-8"),
        (SNAPSHOT, b"on: [push\njobs: {", "not YAML"),
        (SNAPSHOT, b"- a list\n", "the document is not a table"),
        (SNAPSHOT, b"jobs: {a: {}}\n", "on is missing"),
        (SNAPSHOT, b"on: push\n", "jobs is missing"),
        (SNAPSHOT, b"\0", "not YAML"),
        (RELEASE, b"on: push\njobs: [a]\n", "jobs"),
    ],
)
def test_a_file_that_is_wrong_is_one_finding(path: str, content: bytes, said: str) -> None:
    found = read_files({**FILES, path: content}, branch="main").found
    assert [finding.level for finding in found] == ["problem"]
    assert found[0].text.startswith(f"{path}: ")
    assert said in found[0].text
    assert found[0].remedy


def test_all_that_is_missing_is_one_finding() -> None:
    contents = read_files({"targets.toml": FILES["targets.toml"], SNAPSHOT: b"on: push"}, branch="main")
    assert contents.matrix is not None
    missing, wrong = (finding.text for finding in contents.found)
    assert missing.startswith("main lacks llvm-project.version, .github/workflows/release.yml, ")
    assert wrong.startswith(SNAPSHOT)


def test_another_release_workflow_is_looked_for_where_targets_toml_names_it() -> None:
    text = FILES["targets.toml"].replace(b"[release]\n", b'[release]\nworkflow = "build.yml"\n')
    files = {**FILES, "targets.toml": text}
    assert read_files(files, branch="main").found[0].text == "main lacks .github/workflows/build.yml"
    files[".github/workflows/build.yml"] = b"on: push\njobs: {a: {permissions: write-all}}\n"
    assert read_files(files, branch="main").found[0].level == "ok"
    problems = [f.text for f in rights(files) if f.level == "problem"]
    assert problems == [".github/workflows/build.yml is not started by workflow_dispatch"]


@pytest.mark.parametrize(
    ("path", "old", "new", "text"),
    [
        (SNAPSHOT, b"  schedule:", b"  push:", "is not started by schedule"),
        (SNAPSHOT, b"  workflow_dispatch:", b"  workflow_call:", "is not started by workflow_dispatch"),
        (RELEASE, b"  workflow_dispatch:", b"  push:", "is not started by workflow_dispatch"),
        (SNAPSHOT, b"      actions: write", b"      actions: read", "has actions: write"),
        (RELEASE, b"      issues: write", b"      issues: read", "has issues: write"),
        (".github/workflows/pages.yml", b"      pages: write", b"      pages: none", "has pages: write"),
    ],
)
def test_triggers_and_permissions_that_are_missing(path: str, old: bytes, new: bytes, text: str) -> None:
    assert old in FILES[path]
    files = {**FILES, path: FILES[path].replace(old, new)}
    assert read_files(files, branch="main").found[0].level == "ok"
    answers = rights(files)
    problems = [f for f in answers if f.level == "problem"]
    assert len(problems) == 1
    assert {f.level for f in answers if f.check == "triggers"} == {problems[0].level if "start" in text else "ok"}
    assert path in problems[0].text
    assert text in problems[0].text
    assert problems[0].remedy


def test_a_job_that_asks_for_nothing_has_what_the_repository_gives() -> None:
    workflow = b"on: {schedule: [], workflow_dispatch: }\njobs: {a: {runs-on: ubuntu-24.04}}\n"

    def level(default: bool | None) -> str:
        found = rights({**FILES, SNAPSHOT: workflow}, default)
        return next(f.level for f in found if f.check == "job-permissions" and "snapshot.yml" in f.text)

    assert level(True) == "ok"
    assert level(False) == "problem"
    assert level(None) == "unknown"


def test_a_local_forge_has_no_workflows() -> None:
    files = {path: FILES[path] for path in ("llvm-project.version", "targets.toml")}
    found = read_files(files, branch="main", github=False).found
    assert [finding.level for finding in found] == ["ok"]


# -- who signs ---------------------------------------------------------------------------------------------------------


def signers(files: dict[str, bytes], repository: str = WELL.repository) -> list[tuple[str, str, str]]:
    answers = found_by("signer", files=files, repository=repository)
    return [(f.level, f.text, f.remedy) for f in answers]


def test_this_repositorys_attest_at_main() -> None:
    ((level, text, _),) = signers(FILES)
    assert (level, text) == ("ok", "releases are signed by openxla/stablehlo/.github/workflows/attest.yml@main")


def test_github_ignores_case() -> None:
    ((level, *_),) = signers(FILES, "OpenXLA/StableHLO")
    assert level == "ok"


@pytest.mark.parametrize(
    "call",
    [
        b"someone/else/.github/workflows/attest.yml@main",
        b"openxla/stablehlo/.github/workflows/attest.yml@dev",
        b"openxla/stablehlo/.github/workflows/attest.yml@" + b"0" * 40,
        b"./.github/workflows/attest.yml",
    ],
)
def test_a_signer_that_signatures_must_not_name(call: bytes) -> None:
    right = b"openxla/stablehlo/.github/workflows/attest.yml@main"
    ((level, text, remedy),) = signers(FILES | {RELEASE: FILES[RELEASE].replace(right, call)})
    assert level == "problem"
    assert f"release.yml calls {call.decode()}" in text
    assert "platform.yml" not in text
    assert remedy.startswith("in a checkout: mlir-release forge adopt openxla/stablehlo ")


def test_the_remedy_is_a_command_that_helps(tmp_path: Path) -> None:
    ((_, _, remedy),) = signers(FILES, "our-org/mlir-wheels")
    command = remedy.removeprefix("in a checkout: mlir-release ").partition(";")[0].split()
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    done = CliRunner().invoke(app, [*command, "-C", str(tmp_path)])
    assert done.exit_code == 0, done.output
    fixed = {path: (tmp_path / path).read_bytes() for path in FILES}
    ((level, *_),) = signers(fixed, "our-org/mlir-wheels")
    assert level == "ok"
    assert b"zizmor: ignore[unpinned-uses]" in fixed[RELEASE]
    assert "nothing to do" in CliRunner().invoke(app, [*command, "-C", str(tmp_path)]).output


def test_a_repository_that_does_not_sign() -> None:
    without = {path: content for path, content in FILES.items() if not path.endswith(SIGNING)}
    assert signers(without) == []
