"""How a repository on GitHub is set up, as far as the token may see it. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.doctor import PYPI_ENVIRONMENT, REQUIRED_FILES, Observations, TagRule
from mlir_release.errors import ForgeError
from mlir_release.forge.github_client import NotFound

if TYPE_CHECKING:
    from mlir_release.forge.github_client import GitHubClient

_HIDDEN = object()


class Setup:
    """Asks for settings one by one; a refusal or an absence is an answer."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def _ask(self, path: str, *, absent: Any = None) -> Any:
        """The JSON at a path below the repository; ``absent`` for a 404, :data:`_HIDDEN` for a 403 or 401."""

        def request() -> Any:
            address = f"/repos/{self._client.name}{path}"
            return self._client.repository.requester.requestJsonAndCheck("GET", address)[1]

        try:
            return self._client.read(request, about=path)
        except NotFound:
            return absent
        except ForgeError as error:
            if error.id in ("github-forbidden", "github-unauthorized"):
                return _HIDDEN
            raise

    def observe(self, branch: str | None = None) -> Observations:
        """Look at everything. :raises ForgeError: if the repository itself can't be seen"""
        client = self._client
        headers, data = client.read(
            lambda: client.repository.requester.requestJsonAndCheck("GET", f"/repos/{client.name}")
        )
        permissions = data.get("permissions")
        scopes = headers.get("x-oauth-scopes")
        place = branch or str(data["default_branch"])
        admin = isinstance(permissions, dict) and bool(permissions.get("admin"))
        # Without the setting GitHub answers 404; so it does to a token that may not see it.
        immutable = self._ask("/immutable-releases", absent={"enabled": False} if admin else None)
        pages = self._ask("/pages", absent={"build_type": ""})
        enabled = self._ask("/actions/permissions")
        workflows = self._ask("/actions/workflows?per_page=100")
        secrets = self._ask("/actions/secrets?per_page=100")
        return Observations(
            repository=client.name,
            branch=place,
            default_branch=data["default_branch"],
            may_push=bool(permissions.get("push")) if isinstance(permissions, dict) else None,
            scopes=None if scopes is None else frozenset(filter(None, (s.strip() for s in scopes.split(",")))),
            files=self._files(place),
            actions_enabled=None if _unseen(enabled) else bool(enabled["enabled"]),
            workflows=None if _unseen(workflows) else {row["path"]: row["state"] for row in workflows["workflows"]},
            immutable=None if _unseen(immutable) else bool(immutable["enabled"]),
            tag_rules=self._tag_rules(),
            branch_rules=self._branch_rules(place),
            issues=bool(data["has_issues"]),
            pages=None if _unseen(pages) else pages.get("build_type") or "legacy" if pages.get("url") else "",
            environments=self._environments(),
            secrets=None if _unseen(secrets) else frozenset(row["name"] for row in secrets["secrets"]),
        )

    def _files(self, branch: str) -> frozenset[str]:
        wanted = (*REQUIRED_FILES, "integrate.toml")
        return frozenset(
            path for path in wanted if not _unseen(self._ask(f"/contents/{path}?ref={quote(branch, safe='')}"))
        )

    def _tag_rules(self) -> tuple[TagRule, ...] | None:
        rows = self._ask("/rulesets?includes_parents=true&targets=tag&per_page=100")
        if _unseen(rows):
            return None
        found = []
        for row in rows:
            if row["enforcement"] != "active" or row.get("target") != "tag":
                continue
            detail = self._ask(f"/rulesets/{row['id']}?includes_parents=true")
            if _unseen(detail):
                return None
            names = (detail.get("conditions") or {}).get("ref_name") or {}
            found += [
                TagRule(
                    kind=rule["type"],
                    include=tuple(names.get("include", ())),
                    exclude=tuple(names.get("exclude", ())),
                    bypassed=detail.get("current_user_can_bypass") in ("always", "exempt"),
                )
                for rule in detail.get("rules") or ()
            ]
        return tuple(found)

    def _branch_rules(self, branch: str) -> frozenset[str] | None:
        """Rules that stop the one who asks; of classic protection, too, where it can be seen."""
        name = quote(branch, safe="")
        rules = self._ask(f"/rules/branches/{name}?per_page=100")
        if _unseen(rules):
            return None
        found = set()
        passes: dict[int, bool] = {}
        for rule in rules:
            number = rule.get("ruleset_id")
            if number is not None and number not in passes:
                detail = self._ask(f"/rulesets/{number}?includes_parents=true")
                seen = not _unseen(detail)
                passes[number] = seen and detail.get("current_user_can_bypass") in ("always", "exempt")
            if number is None or not passes[number]:
                found.add(str(rule["type"]))
        classic = self._ask(f"/branches/{name}/protection", absent={})
        if not _unseen(classic):
            found |= {
                key
                for key, value in classic.items()
                if value and not (isinstance(value, dict) and value.get("enabled") is False)
            }
        return frozenset(found)

    def _environments(self) -> dict[str, tuple[str, ...] | None] | None:
        rows = self._ask("/environments?per_page=100")
        if _unseen(rows):
            return None
        found: dict[str, tuple[str, ...] | None] = {}
        for row in rows["environments"]:
            found[row["name"]] = None
            if row["name"] == PYPI_ENVIRONMENT and (row.get("deployment_branch_policy") or {}).get(
                "custom_branch_policies"
            ):
                policies = self._ask(f"/environments/{quote(row['name'], safe='')}/deployment-branch-policies")
                if _unseen(policies):
                    return None
                found[row["name"]] = tuple(policy["name"] for policy in policies["branch_policies"])
        return found


def _unseen(answer: Any) -> bool:
    return answer is None or answer is _HIDDEN
