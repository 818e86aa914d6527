"""What GitHub's refusals mean."""

from __future__ import annotations

import time

import pytest
from github import GithubException

from mlir_release.ground.errors import ReleaseError
from mlir_release.release.forge.github.refusals import Unavailable, translated


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
