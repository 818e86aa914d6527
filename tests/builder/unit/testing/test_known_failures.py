from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from mlir_release.builder.model.suites import SUITES
from mlir_release.builder.projects.mlir import PROJECT
from mlir_release.builder.testing.known_failures import (
    KnownFailure,
    Situation,
    judge,
    load,
    proposal,
    version_in,
    write_proposal,
)
from mlir_release.builder.testing.report import TestOutcome, TestResult, TestRun
from mlir_release.ground.python.platforms import PLATFORMS, Platform
from tests.build_job import make_job
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import SdkInfo

LINUX, MACOS = Platform("linux", "x86_64"), Platform("macos", "arm64")
HERE = Situation(llvm_version="22.1.8", python="3.12", profile="full", provider="debian", platform=LINUX)


def entry(*tests: str, suite: str = "bindings", llvm: str = ">=19", **narrower: Any) -> KnownFailure:
    return KnownFailure(suite=suite, tests=tests, llvm=llvm, reason="why", link="where", **narrower)


def outcomes(results: dict[str, TestOutcome], *entries: KnownFailure) -> dict[str, TestOutcome]:
    given = [TestResult(name=name, outcome=outcome, message="said") for name, outcome in results.items()]
    return {result.name: result.outcome for result in judge(given, "bindings", HERE, entries)}


def test_a_listed_failure_is_expected_and_says_why() -> None:
    (result,) = judge([TestResult(name="a", outcome=TestOutcome.FAIL, message="crash")], "bindings", HERE, [entry("a")])
    assert result.outcome is TestOutcome.EXPECTED_FAIL
    assert (result.message, result.link) == ("why", "where")


PASS, FAIL, UNSUPPORTED = TestOutcome.PASS, TestOutcome.FAIL, TestOutcome.UNSUPPORTED
EXPECTED, UNEXPECTED = TestOutcome.EXPECTED_FAIL, TestOutcome.UNEXPECTED_PASS


@pytest.mark.parametrize(
    ("listed", "results", "judged"),
    [
        pytest.param(["a"], {"a": FAIL, "b": FAIL}, {"a": EXPECTED, "b": FAIL}, id="an unlisted failure stays one"),
        pytest.param(["a"], {"a": PASS}, {"a": UNEXPECTED}, id="a listed test that passes is unexpected"),
        pytest.param(["a"], {"a": UNSUPPORTED}, {"a": UNSUPPORTED}, id="a listed test that is unsupported stays so"),
        pytest.param(["b"], {"a": PASS}, {"a": PASS, "b": FAIL}, id="a listed test that does not exist fails"),
        pytest.param(["a*", "b*"], {"a1": FAIL}, {"a1": EXPECTED, "b*": FAIL}, id="each pattern must match"),
        pytest.param(["a*"], {"a1": FAIL, "a2": PASS}, {"a1": EXPECTED, "a2": UNEXPECTED}, id="every match must fail"),
    ],
)
def test_results_are_held_against_the_list(
    listed: list[str], results: dict[str, TestOutcome], judged: dict[str, TestOutcome]
) -> None:
    assert outcomes(results, entry(*listed)) == judged


@pytest.mark.parametrize(
    "narrower",
    [
        {"suite": "regression"},
        {"llvm": "<20"},
        {"python": ">=3.13"},
        {"profiles": ("core",)},
        {"providers": ("source",)},
        {"platforms": ("macos-arm64",)},
    ],
)
def test_an_entry_about_another_situation_does_not_count(narrower: dict[str, str]) -> None:
    assert outcomes({"a": FAIL}, entry("a", **narrower)) == {"a": FAIL}


def test_an_entry_about_this_situation_counts() -> None:
    here: dict[str, Any] = {"profiles": ("core", "full"), "providers": ("debian",), "platforms": (str(LINUX),)}
    narrower = entry("a", llvm=">=22,<23", python="<3.13", **here)
    assert outcomes({"a": FAIL}, narrower) == {"a": EXPECTED}


@pytest.mark.parametrize(
    ("version", "specifiers", "expected"),
    [
        ("22.1.8", ">=22,<23", True),
        ("23.0.0git", ">=22,<23", False),
        ("23.0.0git", ">=23", True),
        ("23.0.0-rust-1.2", ">=23", True),
        ("22.0.0rc1", ">=22", False),
        ("22.1.0rc1", ">=22", True),
        ("19.1.7", "<20", True),
    ],
)
def test_versions_of_llvm(version: str, specifiers: str, expected: bool) -> None:
    assert version_in(version, specifiers) is expected


def test_the_list_that_is_shipped() -> None:
    entries = load(PROJECT.known_failures)
    assert entries
    for known in entries:
        assert known.suite in SUITES
        assert known.link.startswith("https://github.com/")
        assert len(known.reason) > 20
        assert len(set(known.tests)) == len(known.tests)


@pytest.mark.parametrize(
    "text",
    [
        "[[failure]",
        "[[failure]]\nsuite = 'bindings'\n",
        "[[failure]]\nsuite='s'\ntests=[]\nllvm='>=1'\nreason='r'\nlink='l'\n",
        "[[failure]]\nsuite='s'\ntests=['a']\nllvm='new'\nreason='r'\nlink='l'\n",
        "[[failure]]\nsuite='s'\ntests=['a']\nllvm='>=1'\nreason=''\nlink='l'\n",
        "[[failure]]\nsuite='s'\ntests=['a']\nllvm='>=1'\nreason='r'\nlink='l'\nmood='bad'\n",
        "[[failure]]\nsuite='s'\ntests=['a']\nllvm='>=1'\nreason='r'\nlink='l'\nplatforms=['linux']\n",
        "[[failure]]\nsuite='s'\ntests=['a']\nllvm='>=1'\nreason='r'\nlink='l'\nplatforms=['solaris-*']\n",
    ],
)
def test_a_list_with_a_mistake(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.toml"
    path.write_text(text)
    refused(lambda: load(path), "config-invalid")


def test_platforms_of_an_entry_are_named_or_matched(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    entry = "[[failure]]\nsuite='s'\ntests=['a']\nllvm='>=1'\nreason='r'\nlink='l'\n"
    path.write_text(entry + "platforms=['windows-x64', 'macos-*']\n")
    (known,) = load(path)
    situations = (Situation(llvm_version="22.1.8", platform=platform) for platform in PLATFORMS)
    held = {str(situation.platform) for situation in situations if known.holds(situation)}
    assert held == {"windows-x86_64", "macos-x86_64", "macos-arm64"}


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    refused(lambda: load(tmp_path / "nothing"), said="known failures")


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
    runs = [run("bindings", a=FAIL, b=PASS), run("regression", c=FAIL)]
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
    failed = run("bindings", a=FAIL)
    path = tmp_path / "proposed.toml"
    write_proposal([failed], info, path)
    error = refused(lambda: load(path), "config-invalid")
    assert "failure[0].reason is empty" in error.why
    reviewed = tmp_path / "reviewed.toml"
    text = path.read_text(encoding="utf-8").replace('reason = ""', 'reason = "why"')
    reviewed.write_text(text.replace('link = ""', 'link = "https://example.org"'), encoding="utf-8")
    here = Situation(llvm_version="23.1.4", platform=MACOS)
    (judged,) = judge(failed.results, "bindings", here, load(reviewed))
    assert judged.outcome is EXPECTED
    other = Situation(llvm_version="23.1.4", platform=Platform.parse("linux-x86_64"))
    assert judge(failed.results, "bindings", other, load(reviewed)) == failed.results


def test_a_listed_test_that_passes_is_named(info: SdkInfo) -> None:
    text = proposal([run("bindings", a=UNEXPECTED)], info)
    assert "passes in the suite bindings here: python/a.py" in text
    assert tomllib.loads(text) == {}


def test_nothing_to_propose(info: SdkInfo, tmp_path: Path) -> None:
    good = run("bindings", a=PASS, b=EXPECTED, c=UNSUPPORTED)
    assert proposal([good], info) == ""
    write_proposal([good], info, tmp_path / "x.toml")
    assert not (tmp_path / "x.toml").exists()
