"""What is known of commits: their order, check runs and statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, commit_json, minimal_json, route

if TYPE_CHECKING:
    from tests.github_server.world import Repository


@route(f"GET {REPO}/commits")
def list_commits(call: Call) -> Answer:
    repository = call.repository
    paths = ("--", call.query["path"]) if "path" in call.query else ()
    shas = repository.git.text("rev-list", call.query.get("sha", "main"), *paths).split()
    rows, headers = call.page(shas)
    return Answer(200, [commit_row(repository, sha) for sha in rows], headers)


def commit_row(repository: Repository, sha: str) -> Json:
    data = commit_json(repository, sha)
    address = f"{repository.api}/commits/{sha}"
    somebody = user(repository.github.url, "somebody")
    inner = {key: data[key] for key in ("author", "committer", "message", "tree", "verification")}
    return {
        "sha": sha, "node_id": "C_1", "url": address, "html_url": address, "comments_url": f"{address}/comments",
        "commit": {**inner, "url": data["url"], "comment_count": 0}, "author": somebody, "committer": somebody,
        "parents": data["parents"],
    }  # fmt: skip


@route(f"GET {REPO}/commits/{{ref}}/check-runs")
def check_runs(call: Call) -> Answer:
    repository, sha = call.repository, call.names["ref"]
    given: Any = repository.checks.get(sha, {})  # pairs, oldest first, where a check ran several times
    found = list(given.items()) if isinstance(given, Mapping) else given
    numbered = list(enumerate(found, 1))
    rows, headers = call.page([_check(repository, sha, number, *entry) for number, entry in reversed(numbered)])
    return Answer(200, {"total_count": len(found), "check_runs": rows}, headers)


def _check(repository: Repository, sha: str, number: int, name: str, conclusion: str | None) -> Json:
    address, now = f"{repository.api}/check-runs/{number}", stamp(repository.github.clock())
    output = {"title": None, "summary": None, "text": None, "annotations_count": 0, "annotations_url": address}
    return {
        "id": number, "head_sha": sha, "node_id": "CR_1", "external_id": "", "url": address, "html_url": address,
        "details_url": address, "name": name, "status": "completed" if conclusion else "in_progress",
        "conclusion": conclusion, "started_at": now, "completed_at": now if conclusion else None, "output": output,
        "check_suite": {"id": 1}, "app": None, "pull_requests": [],
    }  # fmt: skip


@route(f"GET {REPO}/commits/{{ref}}/status")
def combined_status(call: Call) -> Answer:
    """The newest status of each context."""
    repository, sha = call.repository, call.names["ref"]
    now, address = stamp(repository.github.clock()), f"{repository.api}/statuses/{sha}"
    found = [
        {
            "id": number, "node_id": "S_1", "url": address, "avatar_url": None, "context": context, "state": state,
            "description": None, "target_url": None, "created_at": now, "updated_at": now,
        }
        for number, (context, state) in enumerate(repository.statuses.get(sha, {}).items(), 1)
    ]  # fmt: skip
    rows, headers = call.page(found)
    states = {row["state"] for row in found}
    overall = "failure" if states & {"failure", "error"} else "success" if states == {"success"} else "pending"
    body = {
        "state": overall, "statuses": rows, "sha": sha, "total_count": len(found), "commit_url": address,
        "repository": minimal_json(repository), "url": address,
    }  # fmt: skip
    return Answer(200, body, headers)


# After those above, as a ref can have slashes.
@route(f"GET {REPO}/commits/{{ref}}")
def get_commit(call: Call) -> Answer:
    """Of a commit by its id, perhaps abbreviated, or of a branch or a tag. What it changes is not told."""
    repository, ref = call.repository, call.names["ref"]
    sha = repository.git.resolve(ref)
    if sha is None:
        raise refuse(422, f"No commit found for SHA: {ref}")
    return Answer(200, commit_row(repository, sha))
