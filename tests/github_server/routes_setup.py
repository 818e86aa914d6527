"""How a repository is set up.

Settings: personal, private, archived, issues, immutable, pages, environments, rulesets, protection, secrets, variables
(and those of the organisation: organization_secrets, organization_variables; and by environment: environment_secrets,
environment_reviewers), disabled (workflows), workflow_permissions, selected_actions, commits_required. And of its git:
commits (names for commits that it lacks).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.release.forge.observations import matches
from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.routes import REPO, Call, minimal_json, route
from tests.github_server.routes_commits import commit_row

if TYPE_CHECKING:
    from tests.github_server.world import Repository


@route(f"GET {REPO}")
def get_repository(call: Call) -> Answer:
    return Answer(200, repository_json(call.repository, call.who[1], installation=call.installation))


def repository_json(repository: Repository, scopes: frozenset[str], *, installation: bool = False) -> Json:
    """GitHub's full-repository, as somebody with these rights sees it. An installation is no user: it is told none."""
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
    rights = {"admin": "admin" in scopes, "push": bool({"contents", "repo", "public_repo"} & scopes), "pull": True}
    owner = {"type": "User" if repository.settings.get("personal") else "Organization"}
    if installation:
        rights = dict.fromkeys(rights, False)
    small = minimal_json(repository)
    return {
        **small, "owner": small["owner"] | owner,
        **dict.fromkeys(urls, f"{repository.github.url}/{repository.name}.git"),
        **dict.fromkeys(counts, 0), **dict.fromkeys(flags, False), "homepage": None, "language": None,
        "mirror_url": None, "license": None, "default_branch": repository.default_branch,
        "has_issues": repository.settings.get("issues", True), "has_pages": bool(repository.settings.get("pages")),
        "private": repository.settings.get("private", False),
        "archived": repository.settings.get("archived", False),
        "created_at": now, "updated_at": now, "pushed_at": now, "permissions": rights,
    }  # fmt: skip


def _admin(call: Call, wanted: str = "administration=read") -> None:
    if "admin" not in call.who[1]:
        refusal = refuse(403, "Resource not accessible by integration")
        refusal.headers["x-accepted-github-permissions"] = wanted
        raise refusal


@route(f"GET {REPO}/immutable-releases")
def immutable_releases(call: Call) -> Answer:
    if "admin" not in call.who[1] or not call.repository.settings.get("immutable"):
        raise refuse(404, "Not Found")
    return Answer(200, {"enabled": True, "enforced_by_owner": False})


@route(f"GET {REPO}/private-vulnerability-reporting")
def private_reports(call: Call) -> Answer:
    if call.repository.settings.get("private"):
        raise refuse(422, "Private vulnerability reporting is not available for this repository.")
    return Answer(200, {"enabled": bool(call.repository.settings.get("private_reports"))})


@route(f"GET {REPO}/codeowners/errors")
def codeowners_errors(call: Call) -> Answer:
    """Only teams of ``settings["teams"]`` have access."""
    repository, ref = call.repository, call.query.get("ref", "main")
    path, known = ".github/CODEOWNERS", repository.settings.get("teams", ())
    content = repository.git.read(ref, path)
    if content is None:
        raise refuse(404, "Not Found")
    errors = [
        {"line": n, "column": line.find("@") + 1, "source": line, "kind": "Unknown owner", "suggestion": None,
         "message": f"Unknown owner on line {n}:\n\n  {line}", "path": path}
        for n, line in enumerate(content.decode().splitlines(), 1)
        if not line.startswith("#") and not set(line.split()[1:]) <= set(known)
    ]  # fmt: skip
    return Answer(200, {"errors": errors})


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
    allowed = "all" if "selected_actions" not in call.repository.settings else "selected"
    required = bool(call.repository.settings.get("commits_required"))
    return Answer(200, {"enabled": True, "allowed_actions": allowed, "sha_pinning_required": required})


@route(f"GET {REPO}/actions/permissions/selected-actions")
def selected_actions(call: Call) -> Answer:
    _admin(call)
    return Answer(200, call.repository.settings["selected_actions"])


def _names(call: Call, kind: str, given: Any, right: str = "") -> Answer:
    """A page of secrets or variables. They are told in capitals, however they were written."""
    _admin(call, f"{right or kind}=read")
    now = stamp(call.github.clock())
    values = {name: {"value": given[name]} for name in given} if kind == "variables" else {name: {} for name in given}
    rows = [{"name": n.upper(), "created_at": now, "updated_at": now, **value} for n, value in values.items()]
    part, headers = call.page(rows)
    return Answer(200, {"total_count": len(rows), kind: part}, headers)


@route(f"GET {REPO}/actions/secrets")
def secrets(call: Call) -> Answer:
    return _names(call, "secrets", call.repository.settings.get("secrets", ()))


@route(f"GET {REPO}/actions/organization-secrets")
def organization_secrets(call: Call) -> Answer:
    if call.repository.settings.get("personal"):
        raise refuse(404, "Not Found")
    return _names(call, "secrets", call.repository.settings.get("organization_secrets", ()))


@route(f"GET {REPO}/actions/variables")
def variables(call: Call) -> Answer:
    return _names(call, "variables", call.repository.settings.get("variables", ()))


@route(f"GET {REPO}/actions/organization-variables")
def organization_variables(call: Call) -> Answer:
    if call.repository.settings.get("personal"):
        raise refuse(404, "Not Found")
    return _names(call, "variables", call.repository.settings.get("organization_variables", ()))


@route(f"GET {REPO}/environments/{{environment_name}}/secrets")
def environment_secrets(call: Call) -> Answer:
    given = call.repository.settings.get("environment_secrets", {}).get(call.names["environment_name"], ())
    return _names(call, "secrets", given, "environments")


@route(f"POST {REPO}/releases/generate-notes")
def generate_notes(call: Call) -> Answer:
    call.need("contents")
    return Answer(200, {"name": call.input["tag_name"], "body": ""})


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
    rows = [
        {
            "id": number, "name": f"rules {number}", "target": "branch", "source_type": "Repository",
            "source": repository.name, "enforcement": "active", "current_user_can_bypass": "never",
            "bypass_actors": [], **given,
        }
        for number, given in enumerate(repository.settings.get("rulesets", ()), 1)
    ]  # fmt: skip
    if "admin" not in call.who[1]:  # only those who may change a ruleset see who passes it
        for row in rows:
            del row["bypass_actors"]
    return rows


@route(f"GET {REPO}/rulesets")
def list_rulesets(call: Call) -> Answer:
    target = call.query.get("targets")
    rows = [row for row in _rulesets(call) if target in (None, row["target"])]
    if call.query.get("includes_parents", "true") == "false":
        rows = [row for row in rows if row["source_type"] == "Repository"]
    inner = ("rules", "conditions", "bypass_actors", "current_user_can_bypass")
    return Answer(200, [{k: v for k, v in row.items() if k not in inner} for row in rows])


@route(f"GET {REPO}/rulesets/{{ruleset_id}}")
def get_ruleset(call: Call) -> Answer:
    found = next((row for row in _rulesets(call) if str(row["id"]) == call.names["ruleset_id"]), None)
    if found is None:
        raise refuse(404, "Not Found")
    return Answer(200, found)


@route(f"GET {REPO}/rules/branches/{{branch}}")
def branch_rules(call: Call) -> Answer:
    found = [row for row in _rulesets(call) if row["target"] == "branch" and row["enforcement"] == "active"]
    rows = [row for row in found if _covers(row, call.names["branch"], call.repository)]
    return Answer(200, [
        {
            **rule, "ruleset_source_type": row["source_type"], "ruleset_source": row["source"], "ruleset_id": row["id"],
        }
        for row in rows
        for rule in row["rules"]
    ])  # fmt: skip


def _covers(ruleset: Json, branch: str, repository: Repository) -> bool:
    """Whether a ruleset is about a branch; one without conditions is about the default branch."""
    patterns = ruleset.get("conditions", {}).get("ref_name", {}).get("include", ["~DEFAULT_BRANCH"])
    default = repository.settings.get("default_branch", "main")
    return any(
        branch == default if pattern == "~DEFAULT_BRANCH" else matches(pattern, f"refs/heads/{branch}")
        for pattern in patterns
    )


@route(f"GET {REPO}/branches/{{branch}}")
def branch(call: Call) -> Answer:
    repository, name = call.repository, call.names["branch"]
    sha = repository.git.resolve(f"refs/heads/{name}")
    if sha is None:
        raise refuse(404, "Branch not found")
    address = f"{repository.api}/branches/{name}"
    enabled = bool(repository.settings.get("protection"))
    return Answer(200, {
        "name": name, "commit": commit_row(repository, sha), "_links": {"self": address, "html": address},
        "protected": enabled or any(row["target"] == "branch" for row in _rulesets(call)),
        "protection": {"enabled": enabled}, "protection_url": f"{address}/protection",
    })  # fmt: skip


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
    rows, reviewed = [], repository.settings.get("environment_reviewers", {})
    for number, (name, refs) in enumerate(repository.settings.get("environments", {}).items(), 1):
        address = f"{repository.api}/environments/{name}"
        protected = refs == "protected"
        reviewers = [{"type": "User", "reviewer": user(call.github.url, login)} for login in reviewed.get(name, ())]
        rule = {"id": 1, "node_id": "G_1", "type": "required_reviewers", "reviewers": reviewers}
        policy = None if refs is None else {"protected_branches": protected, "custom_branch_policies": not protected}
        rows.append(
            {
                "id": number, "node_id": "E_1", "name": name, "url": address, "html_url": address, "created_at": now,
                "updated_at": now, "protection_rules": [rule] if reviewers else [], "deployment_branch_policy": policy,
            }
        )  # fmt: skip
    return Answer(200, {"total_count": len(rows), "environments": rows})


@route(f"GET {REPO}/environments/{{environment_name}}/deployment-branch-policies")
def policies(call: Call) -> Answer:
    refs = call.repository.settings["environments"][call.names["environment_name"]]  # tags; branches as refs/heads/…
    rows = [
        {
            "id": number, "node_id": "P_1", "name": ref.removeprefix("refs/heads/"),
            "type": "branch" if ref.startswith("refs/heads/") else "tag",
        }
        for number, ref in enumerate(refs, 1)
    ]  # fmt: skip
    return Answer(200, {"total_count": len(rows), "branch_policies": rows})


@route(f"GET {REPO}/actions/permissions/workflow")
def workflow_permissions(call: Call) -> Answer:
    _admin(call)
    standard = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False}
    return Answer(200, standard | call.repository.settings.get("workflow_permissions", {}))
