"""Issues."""

from __future__ import annotations

from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, route


@route(f"GET {REPO}/issues")
def list_issues(call: Call) -> Answer:
    state, labels = call.query.get("state", "open"), set(filter(None, call.query.get("labels", "").split(",")))
    found = [
        issue
        for issue in reversed(call.repository.issues)
        if state in ("all", issue["state"]) and labels <= {label["name"] for label in issue["labels"]}
    ]
    rows, headers = call.page(found)
    return Answer(200, rows, headers)


@route(f"POST {REPO}/issues")
def create_issue(call: Call) -> Answer:
    call.need("issues")
    repository, given = call.repository, call.input
    number, now = len(repository.issues) + 1, stamp(call.github.clock())
    api = f"{repository.api}/issues/{number}"
    links = ("labels", "comments", "events")
    issue: Json = {
        "id": call.github.next_id(), "node_id": "I_1", "number": number, "title": given["title"],
        "body": given.get("body"), "state": "open", "locked": False, "comments": 0, "assignee": None,
        "assignees": [], "milestone": None, "created_at": now, "updated_at": now, "closed_at": None, "url": api,
        "html_url": f"{call.github.url}/{repository.name}/issues/{number}", "repository_url": repository.api,
        **{f"{name}_url": f"{api}/{name}" for name in links}, "user": user(call.github.url, call.who[0]),
        "author_association": "NONE", "labels": [_label(call, name) for name in given.get("labels", ())],
    }  # fmt: skip
    repository.issues.append(issue)
    return Answer(201, dict(issue))


def _label(call: Call, name: str) -> Json:
    address = f"{call.repository.api}/labels/{name}"
    return {
        "id": 1, "node_id": "L_1", "url": address, "name": name, "color": "ededed", "default": False,
        "description": None,
    }  # fmt: skip


@route(f"PATCH {REPO}/issues/{{issue_number}}")
def update_issue(call: Call) -> Answer:
    call.need("issues")
    number = int(call.names["issue_number"])
    if not 0 < number <= len(call.repository.issues):
        raise refuse(404, "Not Found")
    issue = call.repository.issues[number - 1]
    issue.update({key: value for key, value in call.input.items() if key in ("title", "body", "state")})
    issue["closed_at"] = stamp(call.github.clock()) if issue["state"] == "closed" else None
    return Answer(200, dict(issue))
