"""Patience and pace, and what GitHub's answers mean."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import pytest
import requests
from github import GithubException

from mlir_release.ground.errors import ForgeError, ReleaseError
from mlir_release.release.forge.github.client import (
    ATTEMPTS,
    WRITES_PER_HOUR,
    WRITES_PER_MINUTE,
    WRITES_PER_MINUTE_OF_A_JOB,
    GitHubClient,
    RequestPace,
)
from mlir_release.release.forge.github.pins import PinReader
from mlir_release.release.forge.github.refusals import Unavailable, translated
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def make_client() -> tuple[GitHubClient, Clock]:
    clock = Clock()
    return GitHubClient("llvm/mlir-wheels", token=TOKEN, sleep=clock.sleep), clock


@pytest.mark.parametrize("per_minute", [WRITES_PER_MINUTE, WRITES_PER_MINUTE_OF_A_JOB])
def test_writes_keep_both_limits(per_minute: int) -> None:
    clock = Clock()
    pace = RequestPace(per_minute, clock=clock.read, sleep=clock.sleep)
    moments = []
    for _ in range(2 * WRITES_PER_HOUR + 10):
        pace.wait()
        moments.append(clock.now)
    for limit, span in ((per_minute, 60), (WRITES_PER_HOUR, 3600)):
        assert all(later - earlier >= span for earlier, later in zip(moments, moments[limit:], strict=False))
    assert moments[per_minute - 1] == 0


def test_jobs_that_upload_at_once_keep_the_limit_together(pauses: list[float]) -> None:
    """Of 80 writes a minute, five platforms have 16 each; a person has nearly all of them."""
    assert 5 * WRITES_PER_MINUTE_OF_A_JOB == 80
    for environ, free in (({"GITHUB_ACTIONS": "true"}, WRITES_PER_MINUTE_OF_A_JOB), ({}, WRITES_PER_MINUTE)):
        client = GitHubClient.of_environment("llvm/mlir-wheels", environ)
        for _ in range(free):
            client.write(str)
        assert not pauses
        client.write(str)
        assert 0 < pauses.pop() <= 60


def test_a_lost_answer_is_looked_for_before_the_request_is_repeated() -> None:
    client, clock = make_client()
    applied: list[str] = []

    def write() -> str:
        applied.append("once")
        raise requests.ConnectionError("reset")

    assert client.write(write, done=lambda: applied[0] if applied else None) == "once"
    assert applied == ["once"]
    assert len(clock.waits) == 1


def test_what_was_not_applied_is_repeated() -> None:
    client, _ = make_client()
    tries: list[int] = []

    def write() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise requests.Timeout
        return "made"

    assert client.write(write, done=lambda: None) == "made"
    assert len(tries) == 3


def test_patience_ends() -> None:
    client, clock = make_client()
    tries: list[int] = []

    def read() -> None:
        tries.append(1)
        raise GithubException(502, {"message": "Bad gateway"}, {})

    refused(lambda: client.read(read), "forge-unreachable")
    assert len(tries) == ATTEMPTS
    assert clock.waits == sorted(clock.waits)


def test_a_limit_of_days_is_not_waited_for() -> None:
    client, clock = make_client()

    def read() -> None:
        raise GithubException(429, {"message": "rate limit"}, {"retry-after": "86400"})

    refused(lambda: client.read(read), "forge-rate-limited")
    assert clock.waits == []


def test_a_refusal_is_not_repeated() -> None:
    client, clock = make_client()

    def write() -> None:
        raise GithubException(422, {"message": "Validation Failed", "errors": [{"code": "already_exists"}]}, {})

    error = refused(lambda: client.write(write), kind=ForgeError)
    assert "already_exists" in str(error.why)
    assert clock.waits == []


def test_the_token_is_shown_nowhere() -> None:
    client, _ = make_client()
    assert TOKEN not in f"{client!r}{client.github!r}{client.repository!r}{client.where}{client.git_url}"
    environment = client.git_environment()
    assert environment["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraHeader"
    assert TOKEN not in str(environment)


@pytest.mark.parametrize("name", ["", "llvm", "llvm/", "a/b/c", "https://github.com/llvm/wheels", "llvm/whe els"])
def test_what_is_no_repository(name: str) -> None:
    refused(lambda: GitHubClient(name, token=None), "option-invalid", "is not a repository of GitHub")


# -- what GitHub's answers mean ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "said", "headers", "id"),
    [
        (401, "Bad credentials", {}, "token-invalid"),
        (403, "Resource not accessible by integration", {}, "token-lacks-right"),
        (403, "You have exceeded a secondary rate limit", {}, "forge-rate-limited"),
        (403, "Forbidden", {"Retry-After": "9"}, "forge-rate-limited"),
        (403, "API rate limit exceeded", {"x-ratelimit-remaining": "0"}, "forge-rate-limited"),
        (429, "Too many requests", {}, "forge-rate-limited"),
        (404, "Not Found", {}, "not-on-forge"),
        (404, "Branch not protected", {}, "not-on-forge"),
        (409, "Git Repository is empty.", {}, "forge-refused"),
        (422, "Reference already exists", {}, "forge-refused"),
        (422, "Repository rule violations found", {}, "rule-forbids"),
        (422, "Protected branch update failed", {}, "rule-forbids"),
        (500, "Server Error", {}, "forge-unreachable"),
        (503, "", {}, "forge-unreachable"),
    ],
)
def test_each_refusal_has_one_error(status: int, said: str, headers: dict[str, str], id: str) -> None:
    with pytest.raises(ReleaseError) as caught, translated("there", "this"):
        raise GithubException(status, {"message": said}, headers)
    error = caught.value
    assert error.id == id
    assert error.remedy
    assert f"{status} {said}" in str(error.why)


def test_a_limit_says_how_long() -> None:
    def wait(headers: dict[str, str]) -> float:
        with pytest.raises(Unavailable) as caught, translated("there"):
            raise GithubException(429, {"message": "rate limit"}, headers)
        return caught.value.wait

    assert wait({"Retry-After": "31"}) == 31
    assert wait({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 1800)}) == pytest.approx(
        1800, abs=60
    )
    assert wait({}) == 60  # GitHub: at least a minute


class Answering:
    """A client whose answers are given, by the address below the repository's: a server can't be made to give them."""

    where = "https://github.com/llvm/mlir-wheels"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def read(self, request: Callable[[], Any], *, about: str = "") -> Any:
        return request()

    def request(self, method: str, path: str = "", **options: Any) -> tuple[dict[str, Any], Any]:
        return {}, self.answers[path]


def test_a_list_that_is_cut_off_is_not_taken_for_the_whole() -> None:
    commit = "c" * 40
    answers = {
        f"/git/commits/{commit}": {"parents": [{"sha": "b" * 40}]},
        f"/git/trees/{commit}": {"truncated": True, "tree": []},
    }
    error = refused(lambda: PinReader(cast("GitHubClient", Answering(answers))).read(commit), "forge-refused")
    assert error.remedy
