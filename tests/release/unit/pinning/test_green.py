"""Which commit is green."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.release.forge.services import Commit
from mlir_release.release.model.release_settings import GreenPolicy, ReleaseConfig
from mlir_release.release.pinning.green import Search, search, select
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NAMES = ("linux", "windows")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
States = dict[str, str]


class PaperChecks:
    """States that were written down, newest commit first, each an hour older than the one before."""

    def __init__(self, history: Mapping[str, States]) -> None:
        self.history = history
        self.asked: list[str] = []

    def newest(self, branch: str, count: int) -> Sequence[Commit]:
        commits = [
            Commit(sha=sha, when=NOON - timedelta(hours=n), subject=f"[mlir] {sha}")
            for n, sha in enumerate(self.history)
        ]
        return commits[:count]

    def states(self, commit: str, names: Collection[str]) -> Mapping[str, str]:
        self.asked.append(commit)
        return self.history[commit]


def look(history: Mapping[str, States], depth: int = 50) -> Search:
    return search(PaperChecks(history), "main", GreenPolicy(checks=NAMES, depth=depth))


@given(st.lists(st.dictionaries(st.sampled_from([*NAMES, "docs"]), st.sampled_from(["success", "failure", "pending"]))))
def test_the_first_commit_with_every_check_good(history: list[States]) -> None:
    checks = PaperChecks({str(number): states for number, states in enumerate(history)})
    found = search(checks, "main", GreenPolicy(checks=NAMES, depth=6))
    good = [sha for sha, states in list(checks.history.items())[:6] if all(states.get(n) == "success" for n in NAMES)]
    assert (found.chosen.sha if found.chosen else None) == (good[0] if good else None)
    # Nothing is asked after the green one, and everything that was asked is explained.
    assert checks.asked == [candidate.commit.sha for candidate in found.candidates]
    assert checks.asked == list(checks.history)[: int(good[0]) + 1 if good else 6]
    assert all(candidate.states.keys() == set(NAMES) for candidate in found.candidates)


class PaperUpstream:
    """Resolves everything to itself."""

    url = "https://github.com/llvm/llvm-project.git"
    base = None

    def resolve(self, selector: str) -> str:
        return selector


def choose(history: Mapping[str, States], **policy: object) -> object:
    green = GreenPolicy(checks=NAMES, **policy)  # type: ignore[arg-type]
    config = ReleaseConfig(upstream=PaperUpstream.url, green=green)
    return select(config, "green", PaperUpstream(), checks=PaperChecks(history))  # type: ignore[arg-type]


GREEN = dict.fromkeys(NAMES, "success")
HISTORY = {
    "d": {"docs": "success"},
    "c": {"linux": "success", "windows": "pending"},
    "b": {"linux": "success", "windows": "timed_out"},
    "a": GREEN,
}


def test_each_commit_says_why_it_was_or_was_not_taken() -> None:
    found = look(HISTORY)
    assert [candidate.row() for candidate in found.candidates] == [
        ("d", "2026-11-20 12:00", "[mlir] d", "missing: linux, windows"),
        ("c", "2026-11-20 11:00", "[mlir] c", "success: linux; pending: windows"),
        ("b", "2026-11-20 10:00", "[mlir] b", "success: linux; timed_out: windows"),
        ("a", "2026-11-20 09:00", "[mlir] a", "taken"),
    ]
    assert found.text() == "green: a, 3 commits and 3 h 00 min older than the head of main"
    assert look({"a": GREEN}).text() == "green: a, the head of main"
    assert found.counts() == "linux: 3 success, 1 missing; windows: 1 missing, 1 pending, 1 timed_out, 1 success"


def test_the_explanation_as_json() -> None:
    data = look(HISTORY).to_json()
    assert (data["commit"], data["seconds_behind"]) == ("a", 10800.0)
    assert data["candidates"][2] == {  # type: ignore[index]
        "commit": "b", "date": "2026-11-20T10:00:00+00:00", "subject": "[mlir] b", "green": False,
        "checks": {"linux": "success", "windows": "timed_out"},
    }  # fmt: skip
    nothing = look(HISTORY, depth=2).to_json()
    assert (nothing["commit"], nothing["seconds_behind"]) == (None, None)
    empty = look({})
    assert (empty.counts(), empty.to_json()["candidates"]) == ("", [])


def test_only_the_newest_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert choose(HISTORY, depth=3, fallback="head") == "head"
    said = capsys.readouterr().err
    assert "none of the last 3" in said
    assert "windows: 1 missing, 1 pending, 1 timed_out" in said


def test_stopping_when_nothing_is_green() -> None:
    refused(lambda: choose(HISTORY, depth=3), "nothing-green", "upstream commits has")


@pytest.mark.parametrize(
    ("seen", "hint"), [("windows (vs2022)", "did you mean 'windows (vs2022)'?"), ("docs", "a check 'windows'")]
)
def test_a_check_that_occurs_nowhere_is_likely_misspelt(
    seen: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    history = {"b": {"linux": "success", seen: "success"}, "a": {"linux": "success"}}
    error = refused(lambda: choose(history), "nothing-green", "upstream commits has a check")
    assert hint in error.what
    assert "'linux'" not in error.what
    assert choose(history, fallback="head") == "head"
    assert hint in capsys.readouterr().err


def test_new_commits_without_any_check_do_not_make_names_suspicious() -> None:
    error = refused(lambda: choose({"b": {}, "a": {}}), "nothing-green", "upstream commits has")
    assert "linux: 2 missing" in error.why


@pytest.mark.parametrize(
    ("config", "id"),
    [
        (ReleaseConfig(upstream=PaperUpstream.url), "config-invalid"),
        (ReleaseConfig(upstream="/srv/llvm.git", green=GreenPolicy(checks=NAMES)), "needs-github"),
    ],
)
def test_what_green_needs(config: ReleaseConfig, id: str) -> None:
    refused(lambda: select(config, "green", PaperUpstream()), id)  # type: ignore[arg-type]


def test_any_other_policy_is_the_upstreams_affair() -> None:
    config = ReleaseConfig(upstream=PaperUpstream.url)
    assert select(config, "llvmorg-22.1.8", PaperUpstream()) == "llvmorg-22.1.8"  # type: ignore[arg-type, comparison-overlap]
