"""Pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, route
from tests.github_server.routes_issues import add_issue, edit_issue
from tests.github_server.routes_setup import repository_json

if TYPE_CHECKING:
    from tests.github_server.world import Repository


def pull_json(repository: Repository, pull: Json) -> Json:
    """GitHub's pull-request."""
    number = pull["number"]
    api, page = f"{repository.api}/pulls/{number}", f"{repository.github.url}/{repository.name}/pull/{number}"
    names = {side: repository.git.resolve(f"refs/heads/{pull[side]}") or "0" * 40 for side in ("head", "base")}
    owner = repository.name.partition("/")[0]
    sides = {
        side: {
            "label": f"{owner}:{pull[side]}", "ref": pull[side], "sha": sha, "user": user(repository.github.url, owner),
            "repo": repository_json(repository, frozenset()),
        }
        for side, sha in names.items()
    }  # fmt: skip
    closed = stamp(pull["closed"]) if pull["closed"] else None
    links = ("commits", "comments", "issue", "self", "html", "review_comments", "review_comment", "statuses")
    counts = ("comments", "review_comments", "commits", "additions", "deletions", "changed_files")
    return {
        "id": number, "node_id": f"PR_{repository.name}#{number}", "number": number, "url": api, "html_url": page,
        "diff_url": page, "patch_url": page, "issue_url": f"{repository.api}/issues/{number}",
        "commits_url": api, "review_comments_url": api, "review_comment_url": api, "comments_url": api,
        "statuses_url": api, "title": pull["title"], "body": pull["body"], "state": pull["state"],
        "draft": pull["draft"], "user": user(repository.github.url, pull["by"]), "labels": [], "assignee": None,
        "assignees": [], "requested_reviewers": [], "requested_teams": [], "milestone": None, "locked": False, **sides,
        "created_at": stamp(pull["created"]), "updated_at": stamp(pull["updated"]), "closed_at": closed,
        "merged_at": None, "merge_commit_sha": None, "merged": False, "mergeable": True, "mergeable_state": "clean",
        "rebaseable": None, "merged_by": None, "maintainer_can_modify": False, "auto_merge": None,
        "author_association": "NONE", "active_lock_reason": None, **dict.fromkeys(counts, 0),
        "_links": {name: {"href": api} for name in links},
    }  # fmt: skip


@route(f"GET {REPO}/pulls")
def list_pulls(call: Call) -> Answer:
    repository, query = call.repository, call.query
    found = [issue for issue in repository.issues if "head" in issue]
    if (state := query.get("state", "open")) != "all":
        found = [pull for pull in found if pull["state"] == state]
    if head := query.get("head"):
        owner = repository.name.partition("/")[0]
        found = [pull for pull in found if f"{owner}:{pull['head']}" == head]
    if base := query.get("base"):
        found = [pull for pull in found if pull["base"] == base]
    rows, headers = call.page([pull_json(repository, pull) for pull in reversed(found)])
    whole = ("comments", "review_comments", "commits", "additions", "deletions", "changed_files", "merged", "mergeable",
             "mergeable_state", "rebaseable", "merged_by", "maintainer_can_modify")  # fmt: skip
    return Answer(200, [{key: value for key, value in row.items() if key not in whole} for row in rows], headers)


@route(f"POST {REPO}/pulls")
def create_pull(call: Call) -> Answer:
    call.need("pull_requests")
    repository, given = call.repository, call.input
    head = given["head"].rpartition(":")[2]
    for side, name in (("head", head), ("base", given["base"])):
        if repository.ref_json(f"refs/heads/{name}") is None:
            raise refuse(422, "Validation Failed", {"resource": "PullRequest", "field": side, "code": "invalid"})
    if any(p.get("head") == head and p["base"] == given["base"] and p["state"] == "open"
           for p in repository.issues if "head" in p):  # fmt: skip
        said = f"A pull request already exists for {repository.name.partition('/')[0]}:{head}."
        raise refuse(422, "Validation Failed", {"resource": "PullRequest", "code": "custom", "message": said})
    pull = add_issue(call, head=head, base=given["base"], draft=given.get("draft", False))
    return Answer(201, pull_json(repository, pull))


def _pull(call: Call) -> Json:
    number = int(call.names["pull_number"])
    for issue in call.repository.issues:
        if issue["number"] == number and "head" in issue:
            return issue
    raise refuse(404, "Not Found")


@route(f"PATCH {REPO}/pulls/{{pull_number}}")
def update_pull(call: Call) -> Answer:
    call.need("pull_requests")
    pull = _pull(call)
    edit_issue(call, pull)
    return Answer(200, pull_json(call.repository, pull))
