"""What goes again: refs, labels, and caches; failed jobs that run again."""

from __future__ import annotations

from mlir_release.release.forge.observations import matches
from tests.github_server.records import Answer, refuse
from tests.github_server.routes import REPO, Call, route
from tests.github_server.routes_runs import find_run


@route(f"DELETE {REPO}/git/refs/{{ref}}")
def delete_ref(call: Call) -> Answer:
    call.need("contents")
    repository, name = call.repository, f"refs/{call.names['ref']}"
    for ruleset in repository.settings.get("rulesets", ()):
        patterns = ruleset.get("conditions", {}).get("ref_name", {}).get("include", ())
        if {"type": "deletion"} in ruleset["rules"] and any(matches(pattern, name) for pattern in patterns):
            raise refuse(422, "Repository rule violations found\n\nCannot delete this ref")
    if repository.git.resolve(name) is None:
        raise refuse(422, "Reference does not exist")
    repository.git.run("update-ref", "-d", name)
    return Answer(204)


@route(f"DELETE {REPO}/labels/{{name}}")
def delete_label(call: Call) -> Answer:
    call.need("issues")
    name, issues = call.names["name"], call.repository.issues
    if not any(name in issue["labels"] for issue in issues):
        raise refuse(404, "Not Found")
    for issue in issues:
        issue["labels"] = [label for label in issue["labels"] if label != name]
    return Answer(204)


@route(f"POST {REPO}/actions/runs/{{run_id}}/rerun-failed-jobs")
def rerun_failed(call: Call) -> Answer:
    """Whoever plays the runners sees the same dispatch again."""
    call.need("actions")
    run = find_run(call)
    if run["conclusion"] != "failure":
        raise refuse(403, "The workflow run containing these jobs has no failed jobs")
    run |= {"status": "queued", "conclusion": None}
    again = next(made for made in call.repository.dispatches if made.run_id == run["id"])
    call.github.on_dispatch(call.repository.name, again)
    return Answer(201, {})


@route(f"GET {REPO}/actions/caches")
def caches(call: Call) -> Answer:
    query = call.query
    found = [row for row in call.repository.caches if row["ref"] == query["ref"]]
    assert (query["sort"], query["direction"]) == ("created_at", "desc"), "no other order is played"
    found.sort(key=lambda row: row["created_at"], reverse=True)
    rows, headers = call.page(found)
    return Answer(200, {"total_count": len(found), "actions_caches": rows}, headers)


@route(f"DELETE {REPO}/actions/caches/{{cache_id}}")
def delete_cache(call: Call) -> Answer:
    call.need("actions")
    left = [row for row in call.repository.caches if str(row["id"]) != call.names["cache_id"]]
    if len(left) == len(call.repository.caches):
        raise refuse(404, "Not Found")
    call.repository.caches = left
    return Answer(204)
