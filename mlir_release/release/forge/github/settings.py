"""How a repository on GitHub is set up, as far as the token may see it. Nothing is changed.

One question is asked by a write: GitHub does not tell whether a token may write. Drafting release notes, which are "not
saved anywhere", needs the same permission as releases.
"""

from __future__ import annotations

import base64
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from mlir_release.ground.errors import ForgeError, ReleaseError
from mlir_release.release.forge.github.refs import WORKFLOWS
from mlir_release.release.forge.github.refusals import NotFound, Refused, Unavailable
from mlir_release.release.forge.observations import (
    AllowedActions,
    BranchRules,
    Bypass,
    Environment,
    Names,
    Observations,
    Refusal,
    Rule,
    Token,
    WorkflowDefaults,
)
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.pin_commit import PINS_BRANCH, numbered_branch
from mlir_release.release.model.release_settings import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mlir_release.release.forge.github.client import GitHubClient

_PASSES = ("always", "exempt")

#: Of a numbered release, to ask for the rules of its branch.
SAMPLE_VERSION = "22.1.8"


class SettingsReader:
    """Asks for settings one by one; a refusal or an absence is an answer."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self._refusals: dict[str, Refusal] = {}
        self._ruleset = cache(lambda number: self._ask(f"/rulesets/{number}?includes_parents=true"))

    def _ask(self, path: str, *, absent: Any = None, method: str = "GET", body: Any = None) -> Any:
        """The JSON at a path below the repository; None for a 403 or 401.

        :param absent: for a 404 (or 410, 422); a function of what GitHub says
        """
        read, request = self._client.read, self._client.request
        return self._answer(path, lambda: read(lambda: request(method, path, input=body), about=path)[1], absent)

    def _rows(self, path: str, key: str = "", **parameters: Any) -> Any:
        """All pages of a list, which is the value at ``key`` or the whole answer; None if it is hidden."""
        pages = self._client.pages(path, key, **parameters)
        return self._answer(path, lambda: list(chain.from_iterable(pages)), None)

    def _answer(self, path: str, ask: Callable[[], Any], absent: Any) -> Any:
        try:
            return ask()
        except (NotFound, Refused) as error:
            return absent(error.why) if callable(absent) else absent
        except ForgeError as error:
            if error.id not in ("token-lacks-right", "token-invalid"):
                raise
            headers = getattr(error.__cause__, "headers", None) or {}
            permissions = str(headers.get("x-accepted-github-permissions", ""))
            self._refusals[path.partition("?")[0]] = Refusal(said=error.why, permissions=permissions)
            return None

    def observe(self, files: Iterable[str], branch: str | None = None) -> Observations:
        """Look at everything.

        :param files: paths to read, besides workflows
        :param branch: that the toolkit comes from; None: the default one
        :raises ForgeError: if the repository itself can't be seen
        """
        client = self._client
        headers, data = client.read(lambda: client.request("GET"))
        place = branch or str(data["default_branch"])
        workflows = self._rows("/actions/workflows", "workflows")
        token = self._token(headers.get("x-oauth-scopes"), data.get("permissions") or {})
        personal = data["owner"]["type"] == "User"
        admin = bool((data.get("permissions") or {}).get("admin"))
        # Without the setting GitHub answers 404; so it does to a token that may not see it.
        immutable = self._ask("/immutable-releases", absent={"enabled": False} if admin else None)
        pages = self._ask("/pages", absent=None if data.get("has_pages") else {})
        enabled = self._ask("/actions/permissions")
        defaults = self._ask("/actions/permissions/workflow")
        environments = self._environments()
        contents = self._files(files, place)
        return Observations(
            repository=client.name,
            private=bool(data["private"]),
            archived=bool(data.get("archived")),
            branch=place,
            default_branch=data["default_branch"],
            token=token,
            files=contents,
            actions_enabled=None if enabled is None else bool(enabled["enabled"]),
            commits_required=None if enabled is None else bool(enabled.get("sha_pinning_required")),
            allowed_actions=self._allowed_actions(enabled),
            defaults=None
            if defaults is None
            else WorkflowDefaults(
                write=defaults["default_workflow_permissions"] == "write",
                pull_requests=bool(defaults["can_approve_pull_request_reviews"]),
            ),
            workflows=None if workflows is None else {row["path"]: row["state"] for row in workflows},
            immutable=None if immutable is None else bool(immutable["enabled"]),
            tag_rules=self._tag_rules(token),
            rules=self._rules(place, token),
            pins={name: self._rules(name, token) for name in _pin_branches(contents or {})},
            issues=bool(data["has_issues"]),
            pages=None if pages is None else pages.get("build_type") or "legacy" if pages.get("url") else "",
            environments=environments,
            secrets=self._names("secrets", personal=personal),
            environment_secrets={
                name: None if rows is None else frozenset(row["name"] for row in rows)
                for name in environments or ()
                for rows in [self._rows(f"/environments/{quote(name, safe='')}/secrets", "secrets")]
            },
            variables=self._names("variables", personal=personal),
            codeowners_errors=None
            if (errors := self._ask(f"/codeowners/errors?ref={quote(place)}", absent={"errors": []})) is None
            else tuple(f"line {row['line']}: {row['kind']}" for row in errors["errors"]),
            # GitHub answers 422 for a repository that can't have them: a private one.
            private_reports=None
            if (reports := self._ask("/private-vulnerability-reporting", absent={"enabled": False})) is None
            else bool(reports["enabled"]),
            refusals=dict(self._refusals),
        )

    def _token(self, scopes: str | None, permissions: dict[str, bool]) -> Token:
        if not self._client.authenticated:
            return Token(kind="none")
        if scopes is not None:
            granted = frozenset(filter(None, (scope.strip() for scope in scopes.split(","))))
            return Token(kind="classic", scopes=granted, role=permissions.get("push"))
        app = self._client.installation
        # The permissions of an answer are those of a user. An installation has none: all are false, whatever it may do.
        role = None if app else permissions.get("push")
        for path in ("/issues", "/pulls"):  # the workflows were listed already
            self._ask(f"{path}?per_page=1")
        lists = {"actions": "/actions/workflows", "issues": "/issues", "pull-requests": "/pulls"}
        refused = frozenset(name for name, path in lists.items() if path in self._refusals)
        try:  # whether it has contents: write
            notes = self._ask("/releases/generate-notes", absent=(), method="POST", body={"tag_name": "snapshot"})
        except Unavailable:  # more work for GitHub than any other question; the others tell whether it is well
            notes = ()
        writes = None if notes == () else notes is not None
        return Token(kind="app" if app else "fine-grained", role=role, writes=writes, refused=refused)

    def _files(self, paths: Iterable[str], branch: str) -> dict[str, bytes] | None:
        ref = f"?ref={quote(branch, safe='')}"
        listed = self._ask(f"/contents/{WORKFLOWS}{ref}", absent=[])
        if listed is None:
            return None
        rows = listed if isinstance(listed, list) else []  # a file of that name is not a folder
        names = [row["path"] for row in rows if row["type"] == "file" and row["name"].endswith((".yml", ".yaml"))]
        found = {}
        for path in (*paths, *names):
            answer = self._ask(f"/contents/{quote(path)}{ref}", absent={})
            if answer is None:
                return None
            if answer.get("encoding") == "base64":  # not for a folder, or a file of more than 1 MB
                found[path] = base64.b64decode(answer["content"])
        return found

    def file(self, path: str, ref: str) -> bytes | None:
        """A file of the repository; None if it is not there, or hidden."""
        answer = self._ask(f"/contents/{quote(path)}?ref={quote(ref, safe='')}", absent={})
        found = isinstance(answer, dict) and answer.get("encoding") == "base64"
        return base64.b64decode(answer["content"]) if found else None

    # -- rules ----------------------------------------------------------------------------------------------------

    def _bypass(self, ruleset: dict[str, Any] | None, token: Token) -> Bypass | None:
        """Who passes; None: that is hidden. A person's token sees whom the list has, which is not who commits pins."""
        if ruleset is None:
            return None
        if token.kind == "app":
            return "asker" if ruleset.get("current_user_can_bypass") in _PASSES else "nobody"
        actors = ruleset.get("bypass_actors")
        if actors is None:
            return None
        apps = [actor for actor in actors if actor["actor_type"] == "Integration"]
        return "another" if any(actor.get("bypass_mode", "always") in _PASSES for actor in apps) else "nobody"

    def _tag_rules(self, token: Token) -> tuple[Rule, ...] | None:
        rows = self._rows("/rulesets", includes_parents="true", targets="tag")
        if rows is None:
            return None
        found = []
        for row in rows:
            if row["enforcement"] != "active" or row.get("target") != "tag":  # "evaluate" only watches
                continue
            detail = self._ruleset(row["id"])
            if detail is None:
                return None
            names = (detail.get("conditions") or {}).get("ref_name") or {}
            found += [
                Rule(
                    kind=rule["type"],
                    ruleset=row["name"],
                    include=tuple(names.get("include", ())),
                    exclude=tuple(names.get("exclude", ())),
                    bypass=self._bypass(detail, token),
                )
                for rule in detail.get("rules") or ()
            ]
        return tuple(found)

    def _rules(self, branch: str, token: Token) -> BranchRules:
        return BranchRules(rules=self._branch_rules(branch, token), protection=self._protection(branch))

    def _branch_rules(self, branch: str, token: Token) -> tuple[Rule, ...] | None:
        """Every active rule for a branch; GitHub itself has matched its name with the rulesets, the parents' too."""
        address = f"/rules/branches/{quote(branch, safe='')}"
        rows = self._rows(address)
        if rows is None:
            refusal = self._refusals.get(address)
            return () if refusal is not None and refusal.by_plan else None
        numbers = {row["ruleset_id"] for row in rows if "ruleset_id" in row}
        rulesets = {number: self._ruleset(number) for number in sorted(numbers)}
        found = []
        for row in rows:
            ruleset = rulesets.get(row.get("ruleset_id"))
            name = str((ruleset or {}).get("name", row.get("ruleset_id", "")))
            found.append(Rule(kind=row["type"], ruleset=name, bypass=self._bypass(ruleset, token)))
        return tuple(found)

    def _protection(self, branch: str) -> frozenset[str] | None:
        """The demands of classic protection on a job. Anybody can see whether the branch is protected."""
        name = quote(branch, safe="")
        shown = self._ask(f"/branches/{name}", absent={"protected": False})
        if shown is not None and not shown["protected"]:
            return frozenset()
        # A ruleset protects it, too. Who may not see classic protection is told Not Found.
        rules = self._ask(f"/branches/{name}/protection", absent=lambda why: {} if "not protected" in why else None)
        if rules is None:
            return None
        return frozenset(
            key
            for key, value in rules.items()
            if value and not (isinstance(value, dict) and (value.get("enabled") is False or _admits_jobs(value)))
        )

    # -- the rest -------------------------------------------------------------------------------------------------

    def _allowed_actions(self, permissions: dict[str, Any] | None) -> AllowedActions | None:
        policy = (permissions or {}).get("allowed_actions")
        if policy != "selected":
            return AllowedActions(policy=policy) if policy else None
        selected = self._ask("/actions/permissions/selected-actions")
        if selected is None:
            return None
        return AllowedActions(
            policy="selected",
            github_owned=bool(selected.get("github_owned_allowed")),
            verified=bool(selected.get("verified_allowed")),
            patterns=tuple(selected.get("patterns_allowed") or ()),
        )

    def _environments(self) -> dict[str, Environment] | None:
        rows = self._rows("/environments", "environments")
        if rows is None:
            return None
        found: dict[str, Environment] = {}
        for row in rows:
            policy = row.get("deployment_branch_policy") or {}
            reviewed = any(rule.get("reviewers") for rule in row.get("protection_rules") or ())
            if not policy.get("custom_branch_policies"):
                refs: Literal["protected", "any"] = "protected" if policy.get("protected_branches") else "any"
                found[row["name"]] = Environment(refs=refs, reviewed=reviewed)
                continue
            path = f"/environments/{quote(row['name'], safe='')}/deployment-branch-policies"
            policies = self._rows(path, "branch_policies")
            if policies is None:
                return None
            tags = tuple(entry["name"] for entry in policies if entry.get("type") == "tag")
            branches = tuple(entry["name"] for entry in policies if entry.get("type") != "tag")
            found[row["name"]] = Environment(refs="selected", branches=branches, tags=tags, reviewed=reviewed)
        return found

    def _names(self, kind: str, *, personal: bool) -> Names:
        """Of ``secrets`` or ``variables``: the repository's, and those that its organisation shares with it.

        :param personal: a person's repository: there is no organisation
        """
        shared = [] if personal else self._rows(f"/actions/organization-{kind}", kind)
        lists = [self._rows(f"/actions/{kind}", kind), shared]
        # The repository's come last: they win over its organisation's.
        seen = {row["name"]: str(row.get("value", "")) for rows in reversed(lists) for row in rows or ()}
        return Names(seen=seen, complete=None not in lists)


def _pin_branches(files: Mapping[str, bytes]) -> tuple[str, str]:
    """The branch of snapshots' pins, and one of a numbered release. A mistake in the file is reported elsewhere."""
    try:
        pins = Matrix.parse(files.get(TARGETS_FILE, b"").decode(errors="replace"), where=TARGETS_FILE).release.pins
    except ReleaseError:
        pins = PINS_BRANCH
    return pins, numbered_branch(SAMPLE_VERSION)


def _admits_jobs(rule: dict[str, Any]) -> bool:
    """Whether a rule of classic protection names the App whose tokens jobs have among those who pass."""
    passing = rule.get("bypass_pull_request_allowances") or rule
    apps = passing.get("apps") if isinstance(passing, dict) else None
    return any(app.get("slug") == "github-actions" for app in apps or () if isinstance(app, dict))
