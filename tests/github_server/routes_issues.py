"""Issues, their comments and labels; pull requests, which are issues, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, route
from tests.github_server.routes_setup import repository_json

if TYPE_CHECKING:
    from tests.github_server.world import Repository


def issue_json(repository: Repository, issue: Json) -> Json:
    """GitHub's issue; a pull request is one, too."""
    kind = "pull" if "head" in issue else "issues"
    api, page = f"{repository.api}/issues/{issue['number']}", f"{repository.github.url}/{repository.name}/{kind}"
    links = ("comments", "events", "labels", "timeline")
    closed = stamp(issue["closed"]) if issue["closed"] else None
    body = {
        "id": issue["number"], "node_id": "I_1", "number": issue["number"], "url": api,
        "html_url": f"{page}/{issue['number']}",
        "repository_url": repository.api, **{f"{name}_url": f"{api}/{name}" for name in links},
        "title": issue["title"], "body": issue["body"], "state": issue["state"], "state_reason": issue.get("reason"),
        "user": user(repository.github.url, issue["by"]),
        "labels": [label_json(repository, name) for name in issue["labels"]],
        "assignee": None, "assignees": [], "milestone": None, "locked": False, "active_lock_reason": None,
        "comments": sum(comment["issue"] == issue["number"] for comment in repository.comments.values()),
        "created_at": stamp(issue["created"]), "updated_at": stamp(issue["updated"]), "closed_at": closed,
        "author_association": "NONE",
    }  # fmt: skip
    if "head" in issue:
        address = f"{repository.api}/pulls/{issue['number']}"
        body["pull_request"] = dict.fromkeys(("url", "html_url", "diff_url", "patch_url"), address)
    return body


def label_json(repository: Repository, name: str) -> Json:
    """GitHub's label, as it makes one that an issue brings along."""
    api = f"{repository.api}/labels/{name}"
    more = {"color": "ededed", "default": False, "description": None}
    return {"id": 1, "node_id": "L_1", "url": api, "name": name, **more}


def comment_json(repository: Repository, comment: Json) -> Json:
    """GitHub's issue-comment."""
    api = f"{repository.api}/issues/comments/{comment['id']}"
    return {
        "id": comment["id"], "node_id": "IC_1", "url": api, "html_url": api, "body": comment["body"],
        "issue_url": f"{repository.api}/issues/{comment['issue']}", "user": user(repository.github.url, comment["by"]),
        "created_at": stamp(comment["created"]), "updated_at": stamp(comment["updated"]), "author_association": "NONE",
    }  # fmt: skip


def add_issue(call: Call, **more: object) -> Json:
    """Record a new issue or pull request from the request's title, body and labels."""
    given, now, number = call.input, call.github.clock(), 1 + len(call.repository.issues)
    labels = list(given.get("labels", []))
    if call.installation:  # since January 2025, what an App names and nobody has made is dropped without a word
        labels = [name for name in labels if name in call.repository.labels]
    call.repository.labels.update(labels)
    issue: Json = {
        "number": number, "title": given["title"], "body": given.get("body"), "state": "open", "by": call.who[0],
        "labels": labels, "created": now, "updated": now, "closed": None, **more,
    }  # fmt: skip
    call.repository.issues.append(issue)
    return issue


def edit_issue(call: Call, issue: Json) -> None:
    """Apply the request's title, body, labels and state."""
    given, now = call.input, call.github.clock()
    issue |= {key: given[key] for key in ("title", "body", "state", "labels") if key in given}
    issue |= {"updated": now, "closed": (issue["closed"] or now) if issue["state"] == "closed" else None}
    if "state" in given:
        issue["reason"] = given.get("state_reason") or ("completed" if issue["state"] == "closed" else "reopened")


def _issue(call: Call) -> Json:
    number = call.names["issue_number"]
    if not number.isdigit() or not 0 < int(number) <= len(call.repository.issues):
        raise refuse(404, "Not Found")
    return call.repository.issues[int(number) - 1]


@route(f"GET {REPO}/issues")
def list_issues(call: Call) -> Answer:
    repository, state = call.repository, call.query.get("state", "open")
    labels = {name for name in call.query.get("labels", "").split(",") if name}
    found = [i for i in repository.issues if state in ("all", i["state"]) and labels <= set(i["labels"])]
    if call.query.get("direction") != "asc":
        found.reverse()
    rows, headers = call.page([issue_json(repository, issue) for issue in found])
    return Answer(200, rows, headers)


@route(f"POST {REPO}/labels")
def create_label(call: Call) -> Answer:
    call.need("issues")
    name = call.input["name"]
    if name in call.repository.labels:
        error = {"resource": "Label", "code": "already_exists", "field": "name"}
        raise refuse(422, "Validation Failed", error)
    call.repository.labels.add(name)
    return Answer(201, label_json(call.repository, name))


@route(f"DELETE {REPO}/labels/{{name}}")
def delete_label(call: Call) -> Answer:
    call.need("issues")
    name, issues = call.names["name"], call.repository.issues
    if not any(name in issue["labels"] for issue in issues):
        raise refuse(404, "Not Found")
    for issue in issues:
        issue["labels"] = [label for label in issue["labels"] if label != name]
    return Answer(204)


@route(f"POST {REPO}/issues")
def create_issue(call: Call) -> Answer:
    call.need("issues")
    return Answer(201, issue_json(call.repository, add_issue(call)))


@route(f"PATCH {REPO}/issues/{{issue_number}}")
def update_issue(call: Call) -> Answer:
    call.need("issues")
    issue = _issue(call)
    edit_issue(call, issue)
    return Answer(200, issue_json(call.repository, issue))


@route(f"GET {REPO}/issues/{{issue_number}}/comments")
def list_comments(call: Call) -> Answer:
    repository, number = call.repository, _issue(call)["number"]
    found = [comment for comment in repository.comments.values() if comment["issue"] == number]
    rows, headers = call.page([comment_json(repository, comment) for comment in found])
    return Answer(200, rows, headers)


@route(f"POST {REPO}/issues/{{issue_number}}/comments")
def create_comment(call: Call) -> Answer:
    if not call.who[1] & {"issues", "pull_requests"}:
        call.need("issues")
    number, now = call.github.next_id(), call.github.clock()
    comment: Json = {
        "id": number, "issue": _issue(call)["number"], "body": call.input["body"], "by": call.who[0], "created": now,
        "updated": now,
    }  # fmt: skip
    call.repository.comments[number] = comment
    return Answer(201, comment_json(call.repository, comment))


def _comment(call: Call) -> Json:
    found = call.repository.comments.get(int(call.names["comment_id"]))
    if found is None:
        raise refuse(404, "Not Found")
    return found


@route(f"PATCH {REPO}/issues/comments/{{comment_id}}")
def update_comment(call: Call) -> Answer:
    if not call.who[1] & {"issues", "pull_requests"}:
        call.need("issues")
    comment = _comment(call)
    comment |= {"body": call.input["body"], "updated": call.github.clock()}
    return Answer(200, comment_json(call.repository, comment))


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
