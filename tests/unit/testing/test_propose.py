from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from mlir_release.errors import UsageError
from mlir_release.model.platforms import Platform
from mlir_release.testing.known_failures import Situation, judge, load
from mlir_release.testing.propose import proposal, write_proposal
from mlir_release.testing.report import TestOutcome, TestResult, TestRun
from tests.build_job import make_job

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.sdk.info import SdkInfo

MACOS = Platform.parse("macos-arm64")


@pytest.fixture
def info(tmp_path: Path) -> SdkInfo:
    return replace(make_job(tmp_path, platform=str(MACOS)).sdk.info, llvm_version="23.1.4")


def run(suite: str, **outcomes: TestOutcome) -> TestRun:
    output = 'line 1\nerror: "expected" \\n ]]\n' + "\n".join(f"line {i}" for i in range(20))
    results = tuple(
        TestResult(name=f"python/{name}.py", outcome=outcome, message=output) for name, outcome in outcomes.items()
    )
    return TestRun(target=f"{suite}-x", suite=suite, wheel=None, wheel_sha256=None, results=results, seconds=1.0)


def test_each_failure_is_an_entry_for_the_platform_and_the_llvm(info: SdkInfo) -> None:
    runs = [run("bindings", a=TestOutcome.FAIL, b=TestOutcome.PASS), run("regression", c=TestOutcome.FAIL)]
    text = proposal(runs, info)
    entries = tomllib.loads(text)["failure"]
    assert [(entry["suite"], entry["tests"]) for entry in entries] == [
        ("bindings", ["python/a.py"]),
        ("regression", ["python/c.py"]),
    ]
    assert {(entry["llvm"], *entry["platforms"]) for entry in entries} == {(">=23,<24", "macos-arm64")}
    assert "#   line 19" in text
    assert "line 1\n" not in text  # only the end of the output


def test_a_proposal_is_no_list_until_a_person_gives_reasons(info: SdkInfo, tmp_path: Path) -> None:
    failed = run("bindings", a=TestOutcome.FAIL)
    path = tmp_path / "proposed.toml"
    write_proposal([failed], info, path)
    with pytest.raises(UsageError) as raised:
        load(path)
    assert raised.value.id == "config-invalid"
    assert "failure[0].reason is empty" in raised.value.why
    reviewed = tmp_path / "reviewed.toml"
    text = path.read_text(encoding="utf-8").replace('reason = ""', 'reason = "why"')
    reviewed.write_text(text.replace('link = ""', 'link = "https://example.org"'), encoding="utf-8")
    here = Situation(llvm_version="23.1.4", platform=MACOS)
    (judged,) = judge(failed.results, "bindings", here, load(reviewed))
    assert judged.outcome is TestOutcome.EXPECTED_FAIL
    other = Situation(llvm_version="23.1.4", platform=Platform.parse("linux-x86_64"))
    assert judge(failed.results, "bindings", other, load(reviewed)) == failed.results


def test_a_listed_test_that_passes_is_named(info: SdkInfo) -> None:
    text = proposal([run("bindings", a=TestOutcome.UNEXPECTED_PASS)], info)
    assert "passes in the suite bindings here: python/a.py" in text
    assert tomllib.loads(text) == {}


def test_nothing_to_propose(info: SdkInfo, tmp_path: Path) -> None:
    good = run("bindings", a=TestOutcome.PASS, b=TestOutcome.EXPECTED_FAIL, c=TestOutcome.UNSUPPORTED)
    assert proposal([good], info) == ""
    write_proposal([good], info, tmp_path / "x.toml")
    assert not (tmp_path / "x.toml").exists()
