"""What GitHub publishes finds what GitHub would not say, and the server's end tells it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.github_server import GitHubServer
from tests.github_server.contract import GRAPHQL_OPERATION, Answered, Contract, published

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {"owner": "llvm", "repo": "mlir-wheels", "asset_id": "1"}
REPO = "/repos/{owner}/{repo}"
RELEASES = f"GET {REPO}/releases"
HEADERS = {
    "date": "Fri, 20 Nov 2026 12:00:00 GMT",
    "content-type": "application/json; charset=utf-8",
    **{f"x-ratelimit-{name}": "7" for name in ("limit", "remaining", "used", "reset")},
}
REFUSAL = {"message": "No", "documentation_url": "https://docs.github.com/rest", "status": "403"}
READY = (
    "mutation Mutation($input: MarkPullRequestReadyForReviewInput!) "
    "{ markPullRequestReadyForReview(input: $input) { clientMutationId pullRequest { isDraft } } }"
)


@pytest.fixture
def contract() -> Contract:
    try:
        return published()
    except RuntimeError as error:
        pytest.skip(f"NOT HELD AGAINST WHAT GITHUB PUBLISHES: {error}")


def found(contract: Contract, status: int, body: Any, operation: str = RELEASES, **headers: str) -> str:
    """What the contract has against an answer."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = Answered(status, b"" if body is None else json.dumps(body).encode(), HEADERS | given)
    return "\n".join(contract.violations(operation, NAMES, {}, b"", "application/json", answer))


@pytest.mark.parametrize("status", [401, 403, 500, 502])
def test_an_error_says_what_and_where_to_read_on(contract: Contract, status: int) -> None:
    assert not found(contract, status, REFUSAL)
    assert "documentation_url" in found(contract, status, {"message": "No"})
    assert "7" in found(contract, status, REFUSAL | {"message": 7})
    assert "no JSON" in found(contract, status, None)


@pytest.mark.parametrize("status", [403, 429])
def test_a_limit_says_when_it_ends(contract: Contract, status: int) -> None:
    limit = REFUSAL | {"message": "API rate limit exceeded"}
    assert "how long to wait" in found(contract, status, limit)
    assert not found(contract, status, limit, retry_after="7")
    assert not found(contract, status, limit, **{"x-ratelimit-remaining": "0"})
    assert "whole seconds" in found(contract, status, limit, retry_after="soon")
    assert not found(contract, status, REFUSAL | {"message": "You have exceeded a secondary rate limit."})


def test_a_redirect_says_where_to(contract: Contract) -> None:
    asset = f"GET {REPO}/releases/assets/{{asset_id}}"
    assert not found(contract, 302, None, asset, location="https://storage.test/1")
    assert "where to go" in found(contract, 302, None, asset)
    assert "does not answer 302" in found(contract, 302, None, location="https://storage.test/1")


def test_every_answer_is_dated_and_counted(contract: Contract) -> None:
    assert not found(contract, 200, [])
    assert "no date" in found(contract, 200, [], date="today")
    assert "x-ratelimit-reset" in found(contract, 200, [], **{"x-ratelimit-reset": ""})


def test_a_body_is_as_described(contract: Contract) -> None:
    assert "tag_name" in found(contract, 200, [{"tag_name": 7}])


@pytest.mark.parametrize(
    ("query", "data", "why"),
    [
        (READY, {"clientMutationId": None, "pullRequest": {"isDraft": False}}, ""),
        (READY, {"clientMutationId": None, "pullRequest": {"isDraft": "no"}}, "Boolean cannot represent"),
        (READY, {"clientMutationId": None, "pullRequest": {"isDraft": False, "id": "PR_1"}}, "the question selects"),
        (READY.replace("isDraft", "isDone"), {}, "Cannot query field 'isDone'"),
        (READY.replace("ForReviewInput", "Input"), {}, "Unknown type"),
    ],
)
def test_graphql_is_executed_on_githubs_schema(contract: Contract, query: str, data: dict[str, Any], why: str) -> None:
    asked = json.dumps({"query": query, "variables": {"input": {"pullRequestId": "PR_1"}}}).encode()
    said = json.dumps({"data": {"markPullRequestReadyForReview": data}}).encode()
    answer = Answered(200, said, HEADERS)
    problems = "\n".join(contract.violations(GRAPHQL_OPERATION, {}, {}, asked, "application/json", answer))
    assert why in problems
    assert bool(why) == bool(problems)


def test_variables_of_graphql_have_githubs_types(contract: Contract) -> None:
    asked = json.dumps({"query": READY, "variables": {"input": {"pullRequest": "PR_1"}}}).encode()
    answer = Answered(200, b'{"data": null}', HEADERS)
    (problem, *_) = contract.violations(GRAPHQL_OPERATION, {}, {}, asked, "application/json", answer)
    assert "pullRequestId" in problem


@pytest.mark.usefixtures("contract")
def test_the_servers_end_is_an_error(tmp_path: Path) -> None:
    server = GitHubServer(tmp_path / "github").__enter__()
    server.add_repository("llvm/mlir-wheels", {"README": b"wheels\n"})
    token = {"Authorization": f"Bearer {server.token()}"}
    releases, given = f"{server.api_url}/repos/llvm/mlir-wheels/releases", {"tag_name": "v2", "draft": "yes"}
    requests.post(releases, json=given, headers=token, timeout=600)
    requests.get(f"{server.api_url}/nothing", headers={"User-Agent": "mlir-release"}, timeout=600)
    with pytest.raises(AssertionError) as caught:
        server.__exit__(None)
    draft, nothing = str(caught.value).splitlines()
    assert "draft" in draft
    assert "/nothing is nothing that the server offers" in nothing
