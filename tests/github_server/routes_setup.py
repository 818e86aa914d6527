"""How a repository is set up. Settings: immutable, pages, environments, rulesets, protection, secrets, disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.github_server.records import Answer, Json, refuse, stamp
from tests.github_server.routes import REPO, Call, minimal_json, route

if TYPE_CHECKING:
    from tests.github_server.world import Repository


@route(f"GET {REPO}")
def get_repository(call: Call) -> Answer:
    return Answer(200, repository_json(call.repository, call.who[1]))


def repository_json(repository: Repository, scopes: frozenset[str]) -> Json:
    """GitHub's full-repository, as somebody with these rights sees it."""
    now = stamp(repository.github.clock())
    urls = ("clone_url", "git_url", "ssh_url", "svn_url")
    counts = ("forks", "forks_count", "open_issues", "open_issues_count", "size", "stargazers_count", "watchers",
              "watchers_count", "network_count", "subscribers_count")  # fmt: skip
    flags = (
        "has_issues",
        "has_projects",
        "has_wiki",
        "has_pages",
        "has_downloads",
        "archived",
        "disabled",
        "has_discussions",
    )
    rights = {"admin": "admin" in scopes, "push": "contents" in scopes, "pull": True}
    return {
        **minimal_json(repository), **dict.fromkeys(urls, f"{repository.github.url}/{repository.name}.git"),
        **dict.fromkeys(counts, 0), **dict.fromkeys(flags, False), "homepage": None, "language": None,
        "mirror_url": None, "license": None, "default_branch": repository.settings.get("default_branch", "main"),
        "has_issues": repository.settings.get("issues", True),
        "created_at": now, "updated_at": now, "pushed_at": now, "permissions": rights,
    }  # fmt: skip


def _admin(call: Call) -> None:
    if "admin" not in call.who[1]:
        raise refuse(403, "Resource not accessible by integration")


@route(f"GET {REPO}/immutable-releases")
def immutable_releases(call: Call) -> Answer:
    if "admin" not in call.who[1] or not call.repository.settings.get("immutable"):
        raise refuse(404, "Not Found")
    return Answer(200, {"enabled": True, "enforced_by_owner": False})


@route(f"GET {REPO}/pages")
def pages(call: Call) -> Answer:
    kind = call.repository.settings.get("pages")
    if not kind:
        raise refuse(404, "Not Found")
    url = f"{call.repository.api}/pages"
    body = {"url": url, "status": "built", "cname": None, "custom_404": False, "public": True, "build_type": kind}
    return Answer(200, body)


@route(f"GET {REPO}/actions/permissions")
def actions_permissions(call: Call) -> Answer:
    _admin(call)
    return Answer(200, {"enabled": True, "allowed_actions": "all"})


@route(f"GET {REPO}/actions/secrets")
def secrets(call: Call) -> Answer:
    _admin(call)
    now = stamp(call.github.clock())
    rows = [{"name": n, "created_at": now, "updated_at": now} for n in call.repository.settings.get("secrets", ())]
    return Answer(200, {"total_count": len(rows), "secrets": rows})


@route(f"GET {REPO}/actions/workflows")
def workflows(call: Call) -> Answer:
    now, repository = stamp(call.github.clock()), call.repository
    disabled = repository.settings.get("disabled", ())
    rows = []
    for number, name in enumerate(repository.settings["workflows"], 1):
        address = f"{repository.api}/actions/workflows/{number}"
        rows.append(
            {
                "id": number, "node_id": "W_1", "name": name, "path": f".github/workflows/{name}", "url": address,
                "state": "disabled_inactivity" if name in disabled else "active", "created_at": now,
                "updated_at": now, "html_url": address, "badge_url": address,
            }
        )  # fmt: skip
    return Answer(200, {"total_count": len(rows), "workflows": rows})


def _rulesets(call: Call) -> list[Json]:
    repository = call.repository
    return [
        {
            "id": number, "name": f"rules {number}", "target": "branch", "source_type": "Repository",
            "source": repository.name, "enforcement": "active", "current_user_can_bypass": "never", **given,
        }
        for number, given in enumerate(repository.settings.get("rulesets", ()), 1)
    ]  # fmt: skip


@route(f"GET {REPO}/rulesets")
def list_rulesets(call: Call) -> Answer:
    target = call.query.get("targets")
    rows = [row for row in _rulesets(call) if target in (None, row["target"])]
    return Answer(200, [{k: v for k, v in row.items() if k not in ("rules", "conditions")} for row in rows])


@route(f"GET {REPO}/rulesets/{{ruleset_id}}")
def get_ruleset(call: Call) -> Answer:
    found = next((row for row in _rulesets(call) if str(row["id"]) == call.names["ruleset_id"]), None)
    if found is None:
        raise refuse(404, "Not Found")
    return Answer(200, found)


@route(f"GET {REPO}/rules/branches/{{branch}}")
def branch_rules(call: Call) -> Answer:
    rows = [row for row in _rulesets(call) if row["target"] == "branch" and row["enforcement"] == "active"]
    source = {"ruleset_source_type": "Repository", "ruleset_source": call.repository.name}
    return Answer(200, [{**rule, **source, "ruleset_id": row["id"]} for row in rows for rule in row["rules"]])


@route(f"GET {REPO}/branches/{{branch}}/protection")
def protection(call: Call) -> Answer:
    _admin(call)
    found = call.repository.settings.get("protection")
    if not found:
        raise refuse(404, "Branch not protected")
    return Answer(200, found)


@route(f"GET {REPO}/environments")
def environments(call: Call) -> Answer:
    repository, now = call.repository, stamp(call.github.clock())
    rows = []
    for number, (name, tags) in enumerate(repository.settings.get("environments", {}).items(), 1):
        address = f"{repository.api}/environments/{name}"
        policy = None if tags is None else {"protected_branches": False, "custom_branch_policies": True}
        rows.append(
            {
                "id": number, "node_id": "E_1", "name": name, "url": address, "html_url": address, "created_at": now,
                "updated_at": now, "protection_rules": [], "deployment_branch_policy": policy,
            }
        )  # fmt: skip
    return Answer(200, {"total_count": len(rows), "environments": rows})


@route(f"GET {REPO}/environments/{{environment_name}}/deployment-branch-policies")
def policies(call: Call) -> Answer:
    tags = call.repository.settings["environments"][call.names["environment_name"]]
    rows = [{"id": n, "node_id": "P_1", "name": tag, "type": "tag"} for n, tag in enumerate(tags, 1)]
    return Answer(200, {"total_count": len(rows), "branch_policies": rows})


@route(f"GET {REPO}/actions/permissions/workflow")
def workflow_permissions(call: Call) -> Answer:
    _admin(call)
    standard = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False}
    return Answer(200, standard | call.repository.settings.get("workflow_permissions", {}))
