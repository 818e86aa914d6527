"""The GitHub on loopback behaves as GitHub does where it hurts. Plain HTTP and git: no client of ours in between."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.github_server import Fault, GitHubServer
from tests.github_server.stock import add_past

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "llvm/mlir-wheels"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        server.add_repository(NAME, {"README": b"wheels\n"}, workflows=("release.yml",))
        yield server


def ask(
    github: GitHubServer, method: str, path: str, token: str = "", body: Any = None, **options: Any
) -> requests.Response:
    """One request below the repository; ``path`` may be a whole address, too."""
    url = path if path.startswith("http") else f"{github.api_url}/repos/{NAME}{path}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= options.pop("headers", {})
    return requests.request(method, url, headers=headers, json=body, timeout=600, **options)


def make_draft(github: GitHubServer, token: str, tag: str = "v1") -> dict[str, Any]:
    made = ask(github, "POST", "/releases", token, {"tag_name": tag, "draft": True})
    assert made.status_code == 201
    found: dict[str, Any] = made.json()
    return found


def upload(github: GitHubServer, token: str, release: dict[str, Any], name: str, content: bytes) -> requests.Response:
    url = release["upload_url"].partition("{")[0]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    return requests.post(url, params={"name": name}, data=content, headers=headers, timeout=600)


def test_a_draft_is_nobodys_business(github: GitHubServer) -> None:
    token, reader = github.token(), github.token(scopes=())
    release = make_draft(github, token)
    assert ask(github, "GET", "/releases/tags/v1", token).status_code == 404  # not even for its maker
    assert len(ask(github, "GET", "/releases", token).json()) == 1
    for stranger in ("", reader):
        assert ask(github, "GET", "/releases", stranger).json() == []
        assert ask(github, "GET", f"/releases/{release['id']}", stranger).status_code == 404
    asset = upload(github, token, release, "a.whl", b"wheel").json()
    assert requests.get(asset["browser_download_url"], timeout=600).status_code == 404


def test_drafts_share_a_tag_but_one_is_published(github: GitHubServer) -> None:
    token = github.token()
    first, second = make_draft(github, token), make_draft(github, token)
    assert first["id"] != second["id"]
    assert ask(github, "PATCH", f"/releases/{first['id']}", token, {"draft": False}).json()["published_at"]
    refused = ask(github, "PATCH", f"/releases/{second['id']}", token, {"draft": False})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "already_exists"
    assert ask(github, "GET", "/releases/tags/v1").json()["id"] == first["id"]


def test_an_assets_bytes_come_from_a_storage_that_refuses_tokens(github: GitHubServer) -> None:
    token = github.token()
    release = make_draft(github, token)
    asset = upload(github, token, release, "a.whl", b"wheel").json()
    assert asset["digest"] == f"sha256:{hashlib.sha256(b'wheel').hexdigest()}"
    assert (asset["state"], asset["size"]) == ("uploaded", 5)
    assert upload(github, token, release, "a.whl", b"other").status_code == 422
    accept = {"Accept": "application/octet-stream"}
    moved = ask(github, "GET", asset["url"], token, headers=accept, allow_redirects=False)
    assert moved.status_code == 302
    assert requests.get(moved.headers["Location"], timeout=600).content == b"wheel"
    assert ask(github, "GET", moved.headers["Location"], token).status_code == 400
    ask(github, "PATCH", f"/releases/{release['id']}", token, {"draft": False})
    assert requests.get(asset["browser_download_url"], timeout=600).content == b"wheel"
    page = requests.get(f"{github.url}/{NAME}/releases/expanded_assets/v1", timeout=600).text
    assert "/releases/download/v1/a.whl" in page


def test_an_upload_that_breaks_off_leaves_a_starter(github: GitHubServer) -> None:
    token = github.token()
    release = make_draft(github, token)
    github.faults = lambda record: Fault(drop="truncate") if record.operation.endswith("/assets") else None
    with pytest.raises(requests.ConnectionError):
        upload(github, token, release, "a.whl", b"a wheel")
    github.faults = lambda record: None
    (asset,) = ask(github, "GET", f"/releases/{release['id']}/assets", token).json()
    assert (asset["state"], asset["digest"]) == ("starter", None)
    assert upload(github, token, release, "a.whl", b"a wheel").status_code == 422  # its name is taken
    assert ask(github, "DELETE", asset["url"], token).status_code == 204
    assert upload(github, token, release, "a.whl", b"a wheel").status_code == 201


def test_an_immutable_release_burns_its_tag(github: GitHubServer) -> None:
    github.repositories[NAME].settings["immutable"] = True
    token = github.token()
    head = ask(github, "GET", "/git/ref/heads/main").json()["object"]["sha"]
    assert ask(github, "POST", "/git/refs", token, {"ref": "refs/tags/v1", "sha": head}).status_code == 201
    release = make_draft(github, token)
    asset = upload(github, token, release, "a.whl", b"wheel").json()
    assert ask(github, "PATCH", f"/releases/{release['id']}", token, {"draft": False}).json()["immutable"]
    assert upload(github, token, release, "b.whl", b"wheel").status_code == 422
    assert ask(github, "DELETE", asset["url"], token).status_code == 422
    assert ask(github, "DELETE", f"/releases/{release['id']}", token).status_code == 204
    refused = ask(github, "POST", "/releases", token, {"tag_name": "v1", "draft": True})
    assert "immutable" in refused.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("token", "status", "message"),
    [("", 401, "Requires authentication"), ("ghs_x", 401, "Bad credentials"), (None, 403, "Resource not accessible")],
)
def test_who_may_not_write(github: GitHubServer, token: str | None, status: int, message: str) -> None:
    given = github.token(scopes=()) if token is None else token
    refused = ask(github, "POST", "/releases", given, {"tag_name": "v1"})
    assert refused.status_code == status
    assert message in refused.json()["message"]
    assert ask(github, "GET", "/releases").json() == []


def test_every_answer_is_dated_and_counted(github: GitHubServer) -> None:
    token = github.token(scopes=("contents", "actions"), kind="ghp")
    answer = ask(github, "GET", f"{github.api_url}/rate_limit", token)
    assert answer.headers["Date"] == "Fri, 20 Nov 2026 12:00:00 GMT"
    assert answer.headers["X-RateLimit-Reset"] == str(int((NOW + timedelta(hours=1)).timestamp()))
    assert answer.headers["X-OAuth-Scopes"] == "actions, contents"
    assert "X-OAuth-Scopes" not in ask(github, "GET", f"{github.api_url}/rate_limit", github.token()).headers


def test_limits_are_faults(github: GitHubServer) -> None:
    limited = Fault(status=403, headers={"retry-after": "7"}, message="You have exceeded a secondary rate limit.")
    github.faults = lambda record: limited
    answer = ask(github, "POST", "/releases", github.token(), {"tag_name": "v1"})
    assert (answer.status_code, answer.headers["retry-after"]) == (403, "7")
    github.faults = lambda record: None
    assert ask(github, "GET", "/releases").json() == []


def test_an_answer_can_be_lost_before_and_after(github: GitHubServer) -> None:
    token = github.token()
    for drop, count in (("before", 0), ("after", 1)):
        github.faults = lambda record, drop=drop: Fault(drop=drop)  # type: ignore[misc]
        with pytest.raises(requests.ConnectionError):
            ask(github, "POST", "/releases", token, {"tag_name": "v1", "draft": True})
        github.faults = lambda record: None
        assert len(ask(github, "GET", "/releases", token).json()) == count


def test_a_ref_update_is_a_compare_and_swap(github: GitHubServer) -> None:
    token = github.token()
    head = ask(github, "GET", "/git/ref/heads/main").json()["object"]["sha"]
    tree = ask(github, "GET", f"/git/commits/{head}").json()["tree"]["sha"]
    mine, theirs = (
        ask(github, "POST", "/git/commits", token, {"message": text, "tree": tree, "parents": [head]}).json()["sha"]
        for text in ("mine", "theirs")
    )
    update = "/git/refs/heads/main"
    assert ask(github, "PATCH", update, token, {"sha": theirs, "force": False}).status_code == 200
    refused = ask(github, "PATCH", update, token, {"sha": mine, "force": False})
    assert (refused.status_code, refused.json()["message"]) == (422, "Update is not a fast forward")
    assert ask(github, "GET", "/git/ref/heads/main").json()["object"]["sha"] == theirs


def test_git_objects_are_gits(github: GitHubServer) -> None:
    token = github.token()
    encoded = base64.b64encode(b"\x00data").decode()
    blob = ask(github, "POST", "/git/blobs", token, {"content": encoded, "encoding": "base64"}).json()["sha"]
    head = ask(github, "GET", "/git/ref/heads/main").json()["object"]["sha"]
    entry = {"path": "b", "mode": "100644", "type": "blob", "sha": blob}
    tree = ask(github, "POST", "/git/trees", token, {"base_tree": head, "tree": [entry]}).json()["sha"]
    git = github.repositories[NAME].git
    assert git.text("ls-tree", "--name-only", tree).split() == ["README", "b"]
    assert git.read(tree, "b") == b"\x00data"
    given = {"tag": "v1", "message": "text\n\nkey: value", "object": head, "type": "commit"}
    made = ask(github, "POST", "/git/tags", token, given).json()["sha"]
    assert ask(github, "POST", "/git/refs", token, {"ref": "refs/tags/v1", "sha": made}).status_code == 201
    taken = ask(github, "POST", "/git/refs", token, {"ref": "refs/tags/v1", "sha": head})
    assert (taken.status_code, taken.json()["message"]) == (422, "Reference already exists")
    (tag,) = git.refs("refs/tags/v*")
    assert (tag.commit, tag.message) == (head, given["message"])


def test_lists_come_in_pages(github: GitHubServer) -> None:
    token = github.token()
    for number in range(5):
        make_draft(github, token, f"v{number}")
    seen, url = [], f"{github.api_url}/repos/{NAME}/releases?per_page=2"
    while url:
        answer = ask(github, "GET", url, token)
        seen += [row["tag_name"] for row in answer.json()]
        url = answer.links.get("next", {}).get("url", "")
    assert seen == ["v4", "v3", "v2", "v1", "v0"]
    middle = ask(github, "GET", "/releases?per_page=2&page=2", token).links
    assert {name: link["url"].partition("?")[2] for name, link in middle.items()} == {
        "prev": "per_page=2&page=1",
        "next": "per_page=2&page=3",
        "last": "per_page=2&page=3",
        "first": "per_page=2&page=1",
    }


def test_large_pages_of_releases_are_slow_and_too_large_ones_end_in_504(github: GitHubServer) -> None:
    tags = add_past(github, NAME, 100, until=NOW)
    assert ask(github, "GET", "/releases?per_page=100").status_code == 504
    github.seconds_of_an_asset = 0.001
    started = time.monotonic()
    page = ask(github, "GET", "/releases?per_page=10")
    assert time.monotonic() - started > 1.5
    assert [row["tag_name"] for row in page.json()] == tags[:-11:-1]
    assert len(page.content) > 10 * 150 * 1000
    asset = page.json()[0]["assets"][7]
    assert ask(github, "GET", asset["url"]).json()["name"] == asset["name"]
    content = requests.get(asset["browser_download_url"], timeout=600).content
    assert hashlib.sha256(content).hexdigest() == asset["digest"].removeprefix("sha256:")
    assert len(github.repositories[NAME].git.refs("refs/tags/")) == 100


def test_releases_in_graphql_come_without_assets_in_an_order_that_is_documented(github: GitHubServer) -> None:
    token, reader = github.token(), github.token(scopes=())
    tags = add_past(github, NAME, 120, until=NOW - timedelta(hours=1))
    make_draft(github, token, "next")
    query = """query($after: String, $ref: String!) { repository(owner: "llvm", name: "mlir-wheels") {
        ref(qualifiedName: $ref) { target { __typename
            ... on Tag { target { __typename ... on Commit { committedDate } } } } }
        releases(first: 100, after: $after, orderBy: {field: CREATED_AT, direction: DESC}) {
            nodes { databaseId tagName isDraft } pageInfo { hasNextPage endCursor } } } }"""

    def page(who: str, after: str | None) -> dict[str, Any]:
        asked = {"query": query, "variables": {"after": after, "ref": f"refs/tags/{tags[-1]}"}}
        found: dict[str, Any] = ask(github, "POST", f"{github.url}/api/graphql", who, asked).json()["data"]
        return dict(found["repository"])

    first = page(token, None)
    assert first["ref"]["target"]["target"]["committedDate"] == "2026-11-20T11:00:00Z"
    assert (first["releases"]["nodes"][0]["tagName"], first["releases"]["nodes"][0]["isDraft"]) == ("next", True)
    second = page(token, first["releases"]["pageInfo"]["endCursor"])["releases"]
    assert [row["tagName"] for row in second["nodes"]] == tags[20::-1]
    assert not second["pageInfo"]["hasNextPage"]
    assert not any(row["isDraft"] for row in page(reader, None)["releases"]["nodes"])


def test_an_upload_can_stay_a_starter_although_it_arrived(github: GitHubServer) -> None:
    token = github.token()
    github.stuck = lambda name: name == "a.whl"
    made = upload(github, token, make_draft(github, token), "a.whl", b"a wheel")
    assert (made.status_code, made.json()["state"], made.json()["digest"]) == (201, "starter", None)


def test_a_run_appears_late(github: GitHubServer) -> None:
    token = github.token()
    github.runs_appear_after = 2
    place = "/actions/workflows/release.yml"
    assert ask(github, "POST", f"{place}/dispatches", token, {"ref": "main"}).status_code == 204
    assert [ask(github, "GET", f"{place}/runs", token).json()["total_count"] for _ in range(3)] == [0, 0, 1]
    answer = ask(github, "POST", f"{place}/dispatches", token, {"ref": "main", "return_run_details": True})
    assert answer.status_code == 200
    assert answer.json()["workflow_run_id"] == github.repositories[NAME].runs[-1]["id"]


def test_pages_are_yesterdays_for_ten_minutes(tmp_path: Path) -> None:
    now = [NOW]
    site = tmp_path / "site"
    site.mkdir()
    with GitHubServer(tmp_path / "github", clock=lambda: now[0]) as server:
        server.add_repository(NAME, {"README": b"wheels\n"})
        seen = []
        for text, minutes in (("old", 0), ("new", 9), ("new", 1)):
            (site / "index.html").write_text(text)
            address = server.deploy_pages(NAME, site)
            now[0] += timedelta(minutes=minutes)
            seen.append(requests.get(address, timeout=600).text)
        assert seen == ["old", "old", "new"]
        assert requests.get(f"{address}nothing", timeout=600).status_code == 404


def test_runs_and_their_jobs(github: GitHubServer) -> None:
    token = github.token()
    start = NOW - timedelta(days=9)
    old = github.add_run(NAME, "release.yml", created=start)
    job: dict[str, Any] = {"labels": ("ubuntu-24.04",), "started": start, "completed": start + timedelta(minutes=7)}
    github.add_job(old, "wheels", **job, steps=[("build", start, start + timedelta(minutes=5), "success")])
    github.finish_run(old, "success", at=start + timedelta(minutes=8))
    place = "/actions/workflows/release.yml"
    assert ask(github, "POST", f"{place}/dispatches", token, {"ref": "none"}).status_code == 422
    assert ask(github, "POST", "/actions/workflows/x.yml/dispatches", token, {"ref": "main"}).status_code == 404
    assert ask(github, "POST", f"{place}/dispatches", token, {"ref": "main", "inputs": {"a": "1"}}).status_code == 204
    (new,) = github.dispatches
    assert (new.ref, new.inputs) == ("main", {"a": "1"})

    def listed(**query: str) -> list[int]:
        return [row["id"] for row in ask(github, "GET", "/actions/runs", token, params=query).json()["workflow_runs"]]

    assert listed() == [new.run_id, old]
    assert listed(created=">=2026-11-20") == [new.run_id]
    assert listed(created="2026-11-01..2026-11-12") == [old]
    assert listed(status="success", event="schedule") == [old]
    (shown,) = ask(github, "GET", f"/actions/runs/{old}/jobs", token).json()["jobs"]
    assert (shown["started_at"], shown["completed_at"]) == ("2026-11-11T12:00:00Z", "2026-11-11T12:07:00Z")
    assert shown["steps"][0]["completed_at"] == "2026-11-11T12:05:00Z"


def test_issues_and_comments(github: GitHubServer) -> None:
    token = github.token()
    (repository,) = github.repositories.values()
    repository.labels.add("target")
    given = {"title": "a fails", "body": "why", "labels": ["target", "unknown"]}
    issue = ask(github, "POST", "/issues", token, given).json()
    comment = ask(github, "POST", f"/issues/{issue['number']}/comments", token, {"body": "still"}).json()
    assert ask(github, "PATCH", comment["url"], token, {"body": "again"}).json()["body"] == "again"
    assert [row["number"] for row in ask(github, "GET", "/issues?labels=target").json()] == [issue["number"]]
    ask(github, "PATCH", f"/issues/{issue['number']}", token, {"state": "closed"})
    assert ask(github, "GET", "/issues").json() == []
    assert ask(github, "GET", "/issues?state=all").json()[0]["comments"] == 1


def test_a_pull_request_becomes_ready_in_graphql(github: GitHubServer) -> None:
    token = github.token(scopes=("contents", "pull_requests"))
    head = ask(github, "GET", "/git/ref/heads/main").json()["object"]["sha"]
    given = {"head": "work", "base": "main", "title": "work", "draft": True}
    assert ask(github, "POST", "/pulls", token, given).status_code == 422
    ask(github, "POST", "/git/refs", token, {"ref": "refs/heads/work", "sha": head})
    pull = ask(github, "POST", "/pulls", token, given).json()
    assert "already exists" in ask(github, "POST", "/pulls", token, given).json()["errors"][0]["message"]
    assert ask(github, "PATCH", f"/pulls/{pull['number']}", token, {"title": "done"}).json()["title"] == "done"
    wanted = "markPullRequestReadyForReview(input: $input) { clientMutationId pullRequest { isDraft } }"
    query = f"mutation($input: MarkPullRequestReadyForReviewInput!) {{ {wanted} }}"
    asked = {"query": query, "variables": {"input": {"pullRequestId": pull["node_id"]}}}
    url = f"{github.url}/api/graphql"
    assert ask(github, "POST", url, github.token(scopes=()), asked).json()["errors"][0]["type"] == "FORBIDDEN"
    assert ask(github, "POST", url, token, asked).json()["data"]["markPullRequestReadyForReview"]
    (row,) = ask(github, "GET", "/pulls?head=llvm:work").json()
    assert (row["draft"], row["title"]) == (False, "done")


def test_git_over_http(github: GitHubServer, tmp_path: Path) -> None:
    def push(token: str) -> bool:
        address = github.url.replace("://", f"://x-access-token:{token}@") if token else github.url
        command = ["git", "-c", "credential.helper=", "push", "-q", f"{address}/{NAME}.git", "HEAD:refs/heads/work"]
        environment = {"PATH": "/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0"}
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, check=False).returncode == 0

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", f"{github.url}/{NAME}.git", str(clone)], check=True, capture_output=True)
    assert (clone / "README").read_bytes() == b"wheels\n"
    assert not push("")
    assert not push("ghs_wrong")
    assert not push(github.token(scopes=()))
    assert push(github.token())
    assert ask(github, "GET", "/git/ref/heads/work").status_code == 200
