"""Workflows: dispatches, runs with their jobs and artifacts, and caches."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.github_server.records import Answer, Dispatch, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, minimal_json, route

if TYPE_CHECKING:
    from tests.github_server.world import Repository


@route(f"POST {REPO}/actions/workflows/{{workflow_id}}/dispatches")
def dispatch(call: Call) -> Answer:
    call.need("actions")
    if call.github.dispatch_policy:
        raise refuse(403, call.github.dispatch_policy)
    repository, workflow, given = call.repository, call.names["workflow_id"], call.input
    if workflow not in repository.settings["workflows"]:
        raise refuse(404, "Not Found")
    if "return_run_details" in given and call.github.older_dispatch == "refuses":
        raise refuse(422, 'Invalid request.\n\n"return_run_details" is not a permitted key.')
    ref = given["ref"]
    full = next((f for f in (f"refs/heads/{ref}", f"refs/tags/{ref}") if repository.ref_json(f)), None)
    if full is None or repository.hides(full):
        raise refuse(422, f"No ref found for: {ref}")
    made = Dispatch(workflow, ref, dict(given.get("inputs") or {}), call.github.next_id())
    repository.dispatches.append(made)
    repository.runs.append({
        "id": made.run_id, "workflow": workflow, "head_branch": ref, "status": "queued", "conclusion": None,
        "head_sha": repository.git.resolve(f"{full}^{{commit}}"), "created": call.github.clock(),
        "event": "workflow_dispatch", "updated": call.github.clock(),
    })  # fmt: skip
    repository.unseen[made.run_id] = call.github.runs_appear_after
    call.github.on_dispatch(repository.name, made)
    if not given.get("return_run_details") or call.github.older_dispatch:
        return Answer(204)
    api = f"{repository.api}/actions/runs/{made.run_id}"
    page = f"{call.github.url}/{repository.name}/actions/runs/{made.run_id}"
    return Answer(200, {"workflow_run_id": made.run_id, "run_url": api, "html_url": page})


@route(f"GET {REPO}/actions/workflows/{{workflow_id}}/runs")
def workflow_runs(call: Call) -> Answer:
    name = call.names["workflow_id"]
    if name not in call.repository.settings["workflows"]:
        raise refuse(404, "Not Found")
    return _runs(call, [run for run in reversed(call.repository.runs) if run["workflow"] == name])


@route(f"GET {REPO}/actions/runs")
def all_runs(call: Call) -> Answer:
    return _runs(call, list(reversed(call.repository.runs)))


def _runs(call: Call, found: list[Json]) -> Answer:
    query, unseen = call.query, call.repository.unseen
    late = {run["id"] for run in found if unseen.get(run["id"], 0) > 0}
    for number in late:
        unseen[number] -= 1
    late |= {number for number, when in call.repository.listed_from.items() if when > call.github.clock()}
    found = [run for run in found if run["id"] not in late]
    for name, field in (("branch", "head_branch"), ("event", "event"), ("head_sha", "head_sha")):
        if wanted := query.get(name):
            found = [run for run in found if run[field] == wanted]
    if wanted := query.get("status"):
        found = [run for run in found if wanted in (run["status"], run["conclusion"])]
    if wanted := query.get("created"):
        found = [run for run in found if _within(run["created"], wanted)]
    if query.keys() & {"branch", "event", "status", "created", "head_sha", "actor"}:
        found = found[:1000]  # GitHub's limit on a search
    rows, headers = call.page([run_json(call.repository, run) for run in found])
    return Answer(200, {"total_count": len(found), "workflow_runs": rows}, headers)


def _within(when: datetime, wanted: str) -> bool:
    """GitHub's date search: ``>=2026-11-01``, ``2026-11-01..2026-11-20``, with times or without."""
    if ".." in wanted:
        first, _, last = wanted.partition("..")
        return (first == "*" or _within(when, ">=" + first)) and (last == "*" or _within(when, "<=" + last))
    match = re.fullmatch(r"(>=|<=|>|<|)(.+)", wanted)
    assert match is not None
    day = "T" not in match[2]
    edge = datetime.fromisoformat(match[2])
    edge = edge if edge.tzinfo else edge.replace(tzinfo=UTC)
    if day:
        when = when.replace(hour=0, minute=0, second=0, microsecond=0)
    return {">=": when >= edge, "<=": when <= edge, ">": when > edge, "<": when < edge, "": when == edge}[match[1]]


def _find_run(call: Call) -> Json:
    for run in call.repository.runs:
        if str(run["id"]) == call.names["run_id"]:
            return run
    raise refuse(404, "Not Found")


@route(f"GET {REPO}/actions/runs/{{run_id}}/jobs")
def jobs(call: Call) -> Answer:
    run = _find_run(call)
    found = call.repository.jobs.get(run["id"], [])
    rows, headers = call.page([_job(call.repository, run, job) for job in found])
    return Answer(200, {"total_count": len(found), "jobs": rows}, headers)


def _when(when: datetime | None) -> str | None:
    return stamp(when) if when else None


def _job(repository: Repository, run: Json, job: Json) -> Json:
    address = f"{repository.api}/actions/jobs/{job['id']}"
    steps = [
        {
            "name": name, "number": number, "status": "completed" if ended else "in_progress",
            "conclusion": conclusion, "started_at": _when(started), "completed_at": _when(ended),
        }
        for number, (name, started, ended, conclusion) in enumerate(job["steps"], 1)
    ]  # fmt: skip
    return {
        "id": job["id"], "run_id": run["id"], "run_url": f"{repository.api}/actions/runs/{run['id']}", "node_id": "J_1",
        "head_sha": run["head_sha"], "url": address, "html_url": address, "check_run_url": address, "run_attempt": 1,
        "status": "completed" if job["completed"] else "in_progress", "conclusion": job["conclusion"],
        "created_at": stamp(job["started"]), "started_at": stamp(job["started"]),
        "completed_at": _when(job["completed"]), "name": job["name"], "steps": steps, "labels": list(job["labels"]),
        "runner_id": 1, "runner_name": "runner", "runner_group_id": 1, "runner_group_name": "GitHub Actions",
        "workflow_name": run["workflow"].partition(".")[0], "head_branch": run["head_branch"],
    }  # fmt: skip


def run_json(repository: Repository, run: Json) -> Json:
    """GitHub's workflow-run."""
    api = f"{repository.api}/actions/runs/{run['id']}"
    bot, then = user(repository.github.url, "bot"), stamp(run["created"])
    links = ("jobs", "logs", "check_suite", "artifacts", "cancel", "rerun", "workflow")
    person = {"name": "somebody", "email": "somebody@users.example"}
    place = minimal_json(repository)
    return {
        "id": run["id"], "name": run["workflow"], "node_id": "WFR_1", "head_branch": run["head_branch"],
        "head_sha": run["head_sha"], "path": f".github/workflows/{run['workflow']}", "run_number": 1, "run_attempt": 1,
        "event": run["event"], "display_title": run["workflow"], "status": run["status"],
        "conclusion": run["conclusion"], "workflow_id": 1, "url": api,
        "html_url": f"{repository.github.url}/{repository.name}/actions/runs/{run['id']}", "pull_requests": [],
        "created_at": then, "updated_at": stamp(run["updated"]), "run_started_at": then,
        "actor": bot, "triggering_actor": bot,
        **{f"{name}_url": f"{api}/{name}" for name in links}, "previous_attempt_url": None,
        "head_commit": {"id": run["head_sha"], "tree_id": run["head_sha"], "message": "", "timestamp": then,
                        "author": person, "committer": person},
        "repository": place, "head_repository": place,
    }  # fmt: skip


@route(f"GET {REPO}/actions/runs/{{run_id}}/artifacts")
def run_artifacts(call: Call) -> Answer:
    results = call.github.results
    rows = results.of_run(call.names["run_id"]) if results is not None else []
    wanted = call.query.get("name")
    now, api = stamp(call.github.clock()), call.repository.api
    shown = [
        {"id": int(row["id"]), "node_id": "A_1", "name": row["name"], "size_in_bytes": int(row["size"]),
         "url": f"{api}/actions/artifacts/{row['id']}", "expired": False, "digest": row["digest"],
         "archive_download_url": f"{api}/actions/artifacts/{row['id']}/zip", "created_at": now, "expires_at": now,
         "updated_at": now}
        for row in rows if wanted in (None, row["name"])
    ]  # fmt: skip
    part, headers = call.page(shown)
    return Answer(200, {"total_count": len(shown), "artifacts": part}, headers)


@route(f"GET {REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}")
def download_artifact(call: Call) -> Answer:
    results = call.github.results
    rows = results.artifacts.values() if results is not None else ()
    found = next((row for row in rows if row["id"] == call.names["artifact_id"]), None)
    if found is None or results is None:
        raise refuse(404, "Not Found")
    return Answer(302, None, {"Location": results.address(found["blob"])})


@route(f"POST {REPO}/actions/runs/{{run_id}}/rerun-failed-jobs")
def rerun_failed(call: Call) -> Answer:
    """Whoever plays the runners sees the same dispatch again."""
    call.need("actions")
    run = _find_run(call)
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
