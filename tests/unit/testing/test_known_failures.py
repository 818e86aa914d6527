from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.errors import UsageError
from mlir_release.model.platforms import Platform
from mlir_release.model.suites import SUITES
from mlir_release.projects.mlir import KNOWN_FAILURES
from mlir_release.testing.known_failures import KnownFailure, Situation, judge, load, version_in
from mlir_release.testing.report import TestOutcome, TestResult

if TYPE_CHECKING:
    from pathlib import Path

LINUX = Platform("linux", "x86_64")
HERE = Situation(llvm_version="22.1.8", python="3.12", profile="full", provider="debian", platform=LINUX)


def entry(*tests: str, suite: str = "bindings", llvm: str = ">=19", **narrower: Any) -> KnownFailure:
    return KnownFailure(suite=suite, tests=tests, llvm=llvm, reason="why", link="where", **narrower)


def outcomes(
    results: dict[str, TestOutcome], *entries: KnownFailure, suite: str = "bindings"
) -> dict[str, TestOutcome]:
    given = [TestResult(name=name, outcome=outcome, message="said") for name, outcome in results.items()]
    return {result.name: result.outcome for result in judge(given, suite, HERE, entries)}


def test_a_listed_failure_is_expected_and_says_why() -> None:
    (result,) = judge([TestResult(name="a", outcome=TestOutcome.FAIL, message="crash")], "bindings", HERE, [entry("a")])
    assert result.outcome is TestOutcome.EXPECTED_FAIL
    assert result.message == "why (where)"


def test_an_unlisted_failure_stays_one() -> None:
    assert outcomes({"a": TestOutcome.FAIL, "b": TestOutcome.FAIL}, entry("a"))["b"] is TestOutcome.FAIL


def test_a_listed_test_that_passes_is_unexpected() -> None:
    assert outcomes({"a": TestOutcome.PASS}, entry("a")) == {"a": TestOutcome.UNEXPECTED_PASS}


def test_a_listed_test_that_is_unsupported_stays_so() -> None:
    assert outcomes({"a": TestOutcome.UNSUPPORTED}, entry("a")) == {"a": TestOutcome.UNSUPPORTED}


def test_a_listed_test_that_does_not_exist_is_a_failure() -> None:
    assert outcomes({"a": TestOutcome.PASS}, entry("gone")) == {"a": TestOutcome.PASS, "gone": TestOutcome.FAIL}


def test_each_pattern_of_an_entry_must_match() -> None:
    found = outcomes({"CAPI/ir.c": TestOutcome.FAIL, "b": TestOutcome.PASS}, entry("CAPI/*.c", "Other/*.c"))
    assert found == {"CAPI/ir.c": TestOutcome.EXPECTED_FAIL, "b": TestOutcome.PASS, "Other/*.c": TestOutcome.FAIL}


def test_every_match_of_a_pattern_must_fail() -> None:
    found = outcomes({"CAPI/ir.c": TestOutcome.FAIL, "CAPI/pass.c": TestOutcome.PASS}, entry("CAPI/*.c"))
    assert found["CAPI/pass.c"] is TestOutcome.UNEXPECTED_PASS


@pytest.mark.parametrize(
    "narrower",
    [
        {"suite": "regression"},
        {"llvm": "<20"},
        {"python": ">=3.13"},
        {"profiles": ("core",)},
        {"providers": ("source",)},
        {"platforms": (Platform("macos", "arm64"),)},
    ],
)
def test_an_entry_about_another_situation_does_not_count(narrower: dict[str, str]) -> None:
    assert outcomes({"a": TestOutcome.FAIL}, entry("a", **narrower)) == {"a": TestOutcome.FAIL}


def test_an_entry_about_this_situation_counts() -> None:
    narrower = entry(
        "a",
        llvm=">=22,<23",
        python="<3.13",
        profiles=("core", "full"),
        providers=("debian",),
        platforms=(LINUX,),
    )
    assert outcomes({"a": TestOutcome.FAIL}, narrower) == {"a": TestOutcome.EXPECTED_FAIL}


@pytest.mark.parametrize(
    ("version", "specifiers", "expected"),
    [
        ("22.1.8", ">=22,<23", True),
        ("23.0.0git", ">=22,<23", False),
        ("23.0.0git", ">=23", True),
        ("22.0.0rc1", ">=22", False),
        ("22.1.0rc1", ">=22", True),
        ("19.1.7", "<20", True),
    ],
)
def test_versions_of_llvm(version: str, specifiers: str, expected: bool) -> None:
    assert version_in(version, specifiers) is expected


def test_the_list_that_is_shipped() -> None:
    entries = load()
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
    with pytest.raises(UsageError) as raised:
        load(path)
    assert raised.value.id == "config-invalid"


def test_platforms_of_an_entry_are_named_or_matched(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    entry = "[[failure]]\nsuite='s'\ntests=['a']\nllvm='>=1'\nreason='r'\nlink='l'\n"
    path.write_text(entry + "platforms=['windows-x64', 'macos-*']\n")
    (known,) = load(path)
    assert set(map(str, known.platforms)) == {"windows-x86_64", "macos-x86_64", "macos-arm64"}


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="known failures"):
        load(tmp_path / "nothing")
    assert KNOWN_FAILURES.is_file()
