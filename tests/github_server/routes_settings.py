"""What a repository's administrators have set. Names of :attr:`Repository.settings` that count here:

``actions`` (permissions), ``workflow_permissions``, ``environments`` (name -> deployment patterns), ``rulesets``
(GitHub's own form), ``protection`` (branch -> GitHub's own form), ``pages`` (GitHub's ``build_type``, or None),
``immutable``, ``secrets`` and ``variables``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.github_server.records import Answer, Json, refuse, stamp
from tests.github_server.routes import REPO, Call, route

if TYPE_CHECKING:
    from tests.github_server.world import Repository


def _administer(call: Call) -> Repository:
    """Reading these needs more than the right to read the repository."""
    found = call.repository
    call.need("administration")
    return found


@route(f"GET {REPO}/actions/permissions")
def actions_permissions(call: Call) -> Answer:
    return Answer(200, {"enabled": True, "allowed_actions": "all"} | _administer(call).settings.get("actions", {}))


@route(f"GET {REPO}/actions/permissions/workflow")
def workflow_permissions(call: Call) -> Answer:
    standard = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False}
    return Answer(200, standard | _administer(call).settings.get("workflow_permissions", {}))


def _environments(call: Call) -> dict[str, list[Json] | None]:
    """Deployment policies by environment; None: every ref may deploy."""
    found: dict[str, list[Json] | None] = call.repository.settings.get("environments", {})
    return found


def _environment(call: Call, name: str) -> Json:
    address, now = f"{call.repository.api}/environments/{name}", stamp(call.github.clock())
    limited = _environments(call)[name] is not None
    policy = {"protected_branches": False, "custom_branch_policies": True} if limited else None
    rules = [{"id": 1, "node_id": "GA_1", "type": "branch_policy"}] if limited else []
    return {
        "id": 1, "node_id": "EN_1", "name": name, "url": address, "html_url": address, "created_at": now,
        "updated_at": now, "protection_rules": rules, "deployment_branch_policy": policy,
    }  # fmt: skip


@route(f"GET {REPO}/environments")
def environments(call: Call) -> Answer:
    found = [_environment(call, name) for name in _environments(call)]
    rows, headers = call.page(found)
    return Answer(200, {"total_count": len(found), "environments": rows}, headers)


@route(f"GET {REPO}/environments/{{environment_name}}")
def environment(call: Call) -> Answer:
    if call.names["environment_name"] not in _environments(call):
        raise refuse(404, "Not Found")
    return Answer(200, _environment(call, call.names["environment_name"]))


@route(f"GET {REPO}/environments/{{environment_name}}/deployment-branch-policies")
def deployment_policies(call: Call) -> Answer:
    found = _environments(call).get(call.names["environment_name"])
    if found is None:
        raise refuse(404, "Not Found")
    rows, headers = call.page([{"id": n, "node_id": "P_1", **policy} for n, policy in enumerate(found, 1)])
    return Answer(200, {"total_count": len(found), "branch_policies": rows}, headers)


def _ruleset(call: Call, number: int, *, whole: bool) -> Json:
    given = call.repository.settings["rulesets"][number - 1]
    head = {"id": number, "node_id": "RRS_1", "source_type": "Repository", "source": call.repository.name}
    parts = ("name", "target", "enforcement") if not whole else given.keys()
    return head | {name: given[name] for name in parts}


@route(f"GET {REPO}/rulesets")
def rulesets(call: Call) -> Answer:
    count = len(call.repository.settings.get("rulesets", ()))
    rows, headers = call.page([_ruleset(call, number, whole=False) for number in range(1, count + 1)])
    return Answer(200, rows, headers)


@route(f"GET {REPO}/rulesets/{{ruleset_id}}")
def ruleset(call: Call) -> Answer:
    number = int(call.names["ruleset_id"])
    if not 1 <= number <= len(call.repository.settings.get("rulesets", ())):
        raise refuse(404, "Not Found")
    return Answer(200, _ruleset(call, number, whole=True))


@route(f"GET {REPO}/rules/branches/{{branch}}")
def branch_rules(call: Call) -> Answer:
    given = call.repository.settings.get("rulesets", ())
    found = [
        {**rule, "ruleset_id": number, "ruleset_source_type": "Repository", "ruleset_source": call.repository.name}
        for number, ruleset in enumerate(given, 1)
        if ruleset["target"] == "branch" and ruleset["enforcement"] == "active" and _names(call, ruleset)
        for rule in ruleset["rules"]
    ]
    rows, headers = call.page(found)
    return Answer(200, rows, headers)


def _names(call: Call, ruleset: Json) -> bool:
    """Whether a ruleset is about the branch that is asked for."""
    from fnmatch import fnmatchcase

    names: dict[str, list[str]] = ruleset["conditions"]["ref_name"]
    branch, default = call.names["branch"], call.repository.settings.get("default_branch", "main")

    def fits(pattern: str) -> bool:
        if pattern == "~DEFAULT_BRANCH":
            return bool(branch == default)
        return pattern == "~ALL" or fnmatchcase(f"refs/heads/{branch}", pattern)

    return any(map(fits, names["include"])) and not any(map(fits, names["exclude"]))


@route(f"GET {REPO}/branches/{{branch}}/protection")
def protection(call: Call) -> Answer:
    found: Json = _administer(call).settings.get("protection", {})
    if call.names["branch"] not in found:
        raise refuse(404, "Branch not protected")
    return Answer(200, found[call.names["branch"]])


@route(f"GET {REPO}/pages")
def pages(call: Call) -> Answer:
    if not call.who[0] or (kind := call.repository.settings.get("pages")) is None:
        raise refuse(404, "Not Found")
    owner, _, name = call.repository.name.partition("/")
    return Answer(200, {
        "url": f"{call.repository.api}/pages", "status": "built", "cname": None, "custom_404": False, "public": True,
        "html_url": f"https://{owner}.github.io/{name}/", "build_type": kind, "https_enforced": True,
    })  # fmt: skip


@route(f"GET {REPO}/immutable-releases")
def immutable(call: Call) -> Answer:
    if not _administer(call).settings.get("immutable"):
        raise refuse(404, "Not Found")
    return Answer(200, {"enabled": True, "enforced_by_owner": False})


@route(f"GET {REPO}/actions/secrets")
def secrets(call: Call) -> Answer:
    call.need("secrets")
    now = stamp(call.github.clock())
    found = [
        {"name": name, "created_at": now, "updated_at": now} for name in call.repository.settings.get("secrets", ())
    ]
    rows, headers = call.page(found)
    return Answer(200, {"total_count": len(found), "secrets": rows}, headers)


@route(f"GET {REPO}/actions/variables")
def variables(call: Call) -> Answer:
    call.need("variables")
    now, given = stamp(call.github.clock()), call.repository.settings.get("variables", {})
    found = [{"name": name, "value": value, "created_at": now, "updated_at": now} for name, value in given.items()]
    rows, headers = call.page(found)
    return Answer(200, {"total_count": len(found), "variables": rows}, headers)
