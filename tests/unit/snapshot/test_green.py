"""Which commit is green."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.model.targets import GreenPolicy, ReleaseConfig
from mlir_release.snapshot.green import client_of_upstream, newest_green, select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = ("linux", "windows")
Results = dict[str, bool]


@given(st.lists(st.dictionaries(st.sampled_from([*NAMES, "docs"]), st.booleans()), max_size=8))
def test_the_first_commit_with_every_check_good(history: list[Results]) -> None:
    asked: list[str] = []

    def results(commit: str) -> Results:
        asked.append(commit)
        return history[int(commit)]

    commits = [str(number) for number in range(len(history))]
    found = newest_green(commits, results, NAMES)
    good = [c for c in commits if all(history[int(c)].get(name) is True for name in NAMES)]
    assert found == (good[0] if good else None)
    assert asked == (commits[: int(found) + 1] if found is not None else commits)


class PaperChecks:
    """Results that were written down."""

    def __init__(self, history: dict[str, Results]) -> None:
        self.history = history

    def newest(self, branch: str, count: int) -> Sequence[str]:
        return list(self.history)[:count]

    def results(self, commit: str, names: Sequence[str]) -> Mapping[str, bool]:
        return self.history[commit]


class PaperUpstream:
    """Resolves everything to itself."""

    url = "https://github.com/llvm/llvm-project.git"

    def resolve(self, selector: str) -> str:
        return selector


def choose(history: dict[str, Results], **policy: object) -> object:
    green = GreenPolicy(checks=NAMES, **policy)  # type: ignore[arg-type]
    config = ReleaseConfig(upstream=PaperUpstream.url, green=green)
    return select(config, "green", PaperUpstream(), checks=PaperChecks(history))  # type: ignore[arg-type]


GREEN = dict.fromkeys(NAMES, True)
HISTORY = {"c": {"linux": True}, "b": {"linux": True, "windows": False}, "a": GREEN}


def test_missing_and_failed_results_are_not_green() -> None:
    assert choose(HISTORY) == "a"


def test_only_the_newest_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert choose(HISTORY, depth=2, fallback="head") == "head"
    assert "none of the last 2" in capsys.readouterr().err


def test_stopping_when_nothing_is_green() -> None:
    with pytest.raises(NeedsPersonError) as caught:
        choose(HISTORY, depth=2)
    assert caught.value.id == "nothing-green"


@pytest.mark.parametrize(
    ("config", "id"),
    [
        (ReleaseConfig(upstream=PaperUpstream.url), "green-not-configured"),
        (ReleaseConfig(upstream="/srv/llvm.git", green=GreenPolicy(checks=NAMES)), "green-not-on-github"),
    ],
)
def test_what_green_needs(config: ReleaseConfig, id: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(config, "green", PaperUpstream())  # type: ignore[arg-type]
    assert caught.value.id == id


def test_any_other_policy_is_the_upstreams_affair() -> None:
    config = ReleaseConfig(upstream=PaperUpstream.url)
    assert select(config, "llvmorg-22.1.8", PaperUpstream()) == "llvmorg-22.1.8"  # type: ignore[arg-type, comparison-overlap]


ENTERPRISE = {
    "GITHUB_SERVER_URL": "https://git.example",
    "GITHUB_API_URL": "https://git.example/api/v3",
    "GITHUB_TOKEN": "secret",
}


@pytest.mark.parametrize(
    ("url", "environ", "api", "token"),
    [
        ("https://github.com/llvm/llvm-project.git", {"GITHUB_TOKEN": "secret"}, "https://api.github.com", True),
        ("git@github.com:llvm/llvm-project.git", {"GITHUB_TOKEN": "secret"}, "https://api.github.com", True),
        ("ssh://git@github.com/llvm/llvm-project", {}, "https://api.github.com", False),
        ("https://git.example/llvm/llvm-project/", ENTERPRISE, "https://git.example/api/v3", True),
        ("https://github.com/llvm/llvm-project", ENTERPRISE, "https://api.github.com", False),
        ("https://git.example/llvm/llvm-project", {"GITHUB_TOKEN": "x"}, "https://git.example/api/v3", False),
    ],
)
def test_the_token_goes_to_its_own_server_only(url: str, environ: dict[str, str], api: str, token: bool) -> None:
    client = client_of_upstream(url, environ)
    assert (client.name, client.api, client.authenticated) == ("llvm/llvm-project", api, token)


@pytest.mark.parametrize("url", ["/srv/llvm-project.git", "file:///srv/llvm/project", "https://github.com/llvm", ""])
def test_what_is_not_on_github(url: str) -> None:
    with pytest.raises(UsageError, match="only GitHub"):
        client_of_upstream(url, {})
