"""The operations, by the names that GitHub's description gives them."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mlir_release.release.forge.observations import matches
from tests.github_server.records import Answer, Json, refuse, stamp, user
from tests.github_server.world import Asset, Release, Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.github_server.server import GitHubServer

ROUTES: dict[str, Callable[[Call], Answer]] = {}


@dataclass
class Call:
    """A request of somebody who was let in: ``who`` is login and rights."""

    github: GitHubServer
    who: tuple[str, frozenset[str]]
    names: dict[str, str]
    query: dict[str, str]
    body: bytes
    accept: str
    truncated: bool
    path: str  #: below the API's address
    installation: bool = True  #: the token is an App's or a job's

    @property
    def repository(self) -> Repository:
        found = self.github.repositories.get(f"{self.names['owner']}/{self.names['repo']}")
        if found is None:
            raise refuse(404, "Not Found")
        return found

    @property
    def input(self) -> Json:
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            raise refuse(400, "Problems parsing JSON") from None
        assert isinstance(found, dict)
        return found

    def need(self, scope: str) -> None:
        """Refuse who may not write ``scope``, in GitHub's words."""
        if not self.who[0]:
            raise refuse(401, "Requires authentication")
        if scope not in self.who[1]:
            raise refuse(403, "Resource not accessible by integration")

    def page(self, rows: Sequence[Any]) -> tuple[list[Any], dict[str, str]]:
        """One page, and the Link header that leads to the others."""
        size, number = int(self.query.get("per_page", "30")), int(self.query.get("page", "1"))
        last = max(1, -(-len(rows) // size))
        others = {"prev": number - 1, "next": number + 1, "last": last, "first": 1}
        links = [
            f'<{self.github.api_url}{self.path}?{urlencode(self.query | {"page": str(page)})}>; rel="{name}"'
            for name, page in others.items()
            if 1 <= page <= last and page != number
        ]
        return list(rows[size * (number - 1) : size * number]), {"Link": ", ".join(links)} if links else {}

    def release(self) -> Release:
        """The release that the address names; drafts only for those who may write."""
        found = self.repository.releases.get(int(self.names["release_id"]))
        if found is None or (found.draft and "contents" not in self.who[1]):
            raise refuse(404, "Not Found")
        return found


def route(operation: str) -> Callable[[Callable[[Call], Answer]], Callable[[Call], Answer]]:
    """Register a handler."""

    def register(handler: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
        assert operation not in ROUTES, operation
        ROUTES[operation] = handler
        return handler

    return register


REPO = "/repos/{owner}/{repo}"

#: What GitHub says after ten seconds, for example to those who list many releases with many assets (astral-sh/rye#1475,
#: softprops/action-gh-release#829).
TOO_SLOW = (
    "We couldn't respond to your request in time. Sorry about that. Please try resubmitting your request and contact "
    "us if the problem persists."
)


@route("GET /rate_limit")
def rate_limit(call: Call) -> Answer:
    limit = {"limit": 5000, "remaining": 4999, "reset": int(call.github.clock().timestamp()) + 3600, "used": 1}
    return Answer(200, {"resources": {"core": limit, "search": limit}, "rate": limit})


@route("GET /user")
def whoami(call: Call) -> Answer:
    if not call.who[0]:
        raise refuse(401, "Requires authentication")
    if call.who[0] == "job":
        raise refuse(403, "Resource not accessible by integration")
    counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    texts = dict.fromkeys(("name", "company", "location", "email", "hireable", "bio"), None)
    now = stamp(call.github.clock())
    return Answer(
        200,
        {
            **user(call.github.url, call.who[0]),
            **texts,
            **counts,
            "blog": "",
            "user_view_type": "public",
            "created_at": now,
            "updated_at": now,
        },
    )


# -- git data ----------------------------------------------------------------------------------------------------------


@route(f"GET {REPO}/git/ref/{{ref}}")
def get_ref(call: Call) -> Answer:
    name = f"refs/{call.names['ref']}"
    found = call.repository.ref_json(name)
    if found is None or call.repository.hides(name):
        raise refuse(404, "Not Found")
    return Answer(200, found)


def _check_workflows(call: Call, commit: str) -> None:
    """Refuse a ref to other workflow files than the default branch's, to those who may not write workflows.

    GitHub gives no reason (vercel/next.js#94596, mkb79/Audible#882).
    """
    git, names = call.repository.git, (commit, call.repository.default_branch)
    asked = ("rev-parse", "--verify", "--quiet")
    trees = {git.run(*asked, f"{name}:.github/workflows", check=False).stdout for name in names}
    if len(trees) > 1 and not call.who[1] & {"workflows", "workflow"}:
        refusal = refuse(403, "Resource not accessible by integration")
        refusal.headers["x-accepted-github-permissions"] = "contents=write; contents=write,workflows=write"
        raise refusal


@route(f"POST {REPO}/git/refs")
def create_ref(call: Call) -> Answer:
    call.need("contents")
    repository, name, sha = call.repository, call.input["ref"], call.input["sha"]
    if name.removeprefix("refs/tags/") in repository.burned:
        raise refuse(422, "Repository rule violations found: tag_name was used by an immutable release")
    if any(re.fullmatch(rule, name) for rule in repository.settings.get("rules", ())):
        raise refuse(422, "Repository rule violations found: Cannot create ref due to creations being restricted.")
    if repository.git.run("cat-file", "-e", sha, check=False).returncode != 0:
        raise refuse(422, "Object does not exist")
    _check_workflows(call, sha)
    if repository.git.run("update-ref", name, sha, "0" * 40, check=False).returncode != 0:
        raise refuse(422, "Reference already exists")
    repository.unseen_refs[name] = call.github.refs_appear_after()
    return Answer(201, repository.ref_json(name))


@route(f"PATCH {REPO}/git/refs/{{ref}}")
def update_ref(call: Call) -> Answer:
    call.need("contents")
    git, name, sha = call.repository.git, f"refs/{call.names['ref']}", call.input["sha"]
    if name.removeprefix("refs/heads/") in call.repository.settings["protected"]:
        raise refuse(
            422,
            "Protected branch update failed for " + name,
            {"resource": "Branch", "code": "custom", "message": "Changes must be made through a pull request."},
        )
    old = git.resolve(name)
    if old is None:
        raise refuse(422, "Reference does not exist")
    _check_workflows(call, sha)
    forward = git.run("merge-base", "--is-ancestor", old, sha, check=False).returncode == 0
    if not (forward or call.input.get("force")):
        raise refuse(422, "Update is not a fast forward")
    git.run("update-ref", name, sha, old)
    return Answer(200, call.repository.ref_json(name))


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


def _person(git_line: str) -> Json:
    name, email, date = git_line.split("\0")
    return {"name": name, "email": email, "date": date}


_NO_SIGNATURE = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


def commit_json(repository: Repository, sha: str) -> Json:
    show = "%T%x01%P%x01%an%x00%ae%x00%aI%x01%cn%x00%ce%x00%cI%x01%B"
    done = repository.git.run("log", "-1", f"--format={show}", sha, check=False)
    if done.returncode != 0 or not done.stdout:  # there is none, or it is a tree
        raise refuse(404, "Not Found")
    tree, parents, author, committer, message = done.stdout.decode().split("\x01", 4)
    address = f"{repository.api}/git/commits/{sha}"
    return {
        "sha": sha, "node_id": "C_1", "url": address, "html_url": address, "author": _person(author),
        "committer": _person(committer), "message": message.rstrip("\n"), "verification": _NO_SIGNATURE,
        "tree": {"sha": tree, "url": f"{repository.api}/git/trees/{tree}"},
        "parents": [{"sha": p, "url": address, "html_url": address} for p in parents.split()],
    }  # fmt: skip


@route(f"GET {REPO}/git/commits/{{commit_sha}}")
def get_commit(call: Call) -> Answer:
    return Answer(200, commit_json(call.repository, call.names["commit_sha"]))


@route(f"POST {REPO}/git/commits")
def create_commit(call: Call) -> Answer:
    call.need("contents")
    given, repository = call.input, call.repository
    parents = [word for parent in given["parents"] for word in ("-p", parent)]
    environment = repository.signature(call.who[0]).environment()
    done = repository.git.run("commit-tree", given["tree"], *parents, input=given["message"].encode(), env=environment)
    return Answer(201, commit_json(repository, done.stdout.decode().strip()))


@route(f"POST {REPO}/git/blobs")
def create_blob(call: Call) -> Answer:
    call.need("contents")
    given = call.input
    content = base64.b64decode(given["content"]) if given.get("encoding") == "base64" else given["content"].encode()
    sha = call.repository.git.run("hash-object", "-w", "--stdin", input=content).stdout.decode().strip()
    return Answer(201, {"sha": sha, "url": f"{call.repository.api}/git/blobs/{sha}"})


@route(f"POST {REPO}/git/trees")
def create_tree(call: Call) -> Answer:
    call.need("contents")
    git, given = call.repository.git, call.input
    index = {"GIT_INDEX_FILE": str(git.directory / f"index-{call.github.next_id()}")}
    git.run("read-tree", *([given["base_tree"]] if given.get("base_tree") else ["--empty"]), env=index)
    for entry in given["tree"]:
        git.run("update-index", "--add", "--cacheinfo", f"{entry['mode']},{entry['sha']},{entry['path']}", env=index)
    sha = git.run("write-tree", env=index).stdout.decode().strip()
    return Answer(201, {"sha": sha, "url": f"{call.repository.api}/git/trees/{sha}", "truncated": False, "tree": []})


@route(f"POST {REPO}/git/tags")
def create_tag(call: Call) -> Answer:
    call.need("contents")
    given, repository = call.input, call.repository
    signature = repository.signature(call.who[0])
    sha = repository.git.make_tag_object(given["tag"], given["object"], given["message"], signature)
    return Answer(201, tag_json(repository, sha))


def tag_json(repository: Repository, sha: str) -> Json:
    """A tag object, read from git."""
    done = repository.git.run("cat-file", "tag", sha, check=False)
    if done.returncode != 0:
        raise refuse(404, "Not Found")
    head, _, message = done.stdout.decode().partition("\n\n")
    fields = dict(line.split(" ", 1) for line in head.splitlines())
    match = re.fullmatch(r"(?P<name>.*) <(?P<email>.*)> (?P<seconds>\d+) (?P<offset>[+-]\d{4})", fields["tagger"])
    assert match is not None
    when = datetime.fromtimestamp(int(match["seconds"]), UTC)
    place = "tags" if fields["type"] == "tag" else "commits"
    return {
        "node_id": "T_1", "tag": fields["tag"], "sha": sha, "url": f"{repository.api}/git/tags/{sha}",
        "message": message, "tagger": {"name": match["name"], "email": match["email"], "date": stamp(when)},
        "object": {
            "sha": fields["object"], "type": fields["type"], "url": f"{repository.api}/git/{place}/{fields['object']}",
        },
        "verification": _NO_SIGNATURE,
    }  # fmt: skip


@route(f"GET {REPO}/git/tags/{{tag_sha}}")
def get_tag(call: Call) -> Answer:
    return Answer(200, tag_json(call.repository, call.names["tag_sha"]))


# -- releases ----------------------------------------------------------------------------------------------------------


@route(f"GET {REPO}/releases")
def list_releases(call: Call) -> Answer:
    repository = call.repository
    seen = [r for r in repository.releases.values() if not r.draft or "contents" in call.who[1]]
    shown, headers = call.page(seen[::-1])
    rows = [repository.release_json(release) for release in shown]
    assets = sum(len(row["assets"]) for row in rows)
    if assets > call.github.assets_of_an_answer:
        raise refuse(504, TOO_SLOW)
    return Answer(200, rows, headers, seconds=assets * call.github.seconds_of_an_asset)


@route(f"GET {REPO}/releases/{{release_id}}")
def get_release(call: Call) -> Answer:
    return Answer(200, call.repository.release_json(call.release()))


@route(f"GET {REPO}/releases/tags/{{tag}}")
def get_release_by_tag(call: Call) -> Answer:
    repository = call.repository
    for release in repository.releases.values():
        if release.tag == call.names["tag"] and not release.draft:
            return Answer(200, repository.release_json(release))
    raise refuse(404, "Not Found")


@route(f"POST {REPO}/releases")
def create_release(call: Call) -> Answer:
    call.need("contents")
    given, repository, now = call.input, call.repository, call.github.clock()
    _check_body(given)
    release = Release(
        call.github.next_id(), given["tag_name"], given.get("name", ""), given.get("body", ""), True,
        given.get("prerelease", False), now,
    )  # fmt: skip
    _check_latest(given, draft=given.get("draft", False), prerelease=release.prerelease)
    if release.tag in repository.burned:
        raise refuse(422, "Validation Failed", {
            "resource": "Release", "code": "custom", "field": "tag_name",
            "message": "tag_name was used by an immutable release",
        })  # fmt: skip
    if not given.get("draft", False):
        _check_publishable(repository, release)
        repository.publish(release)
    repository.releases[release.id] = release
    return Answer(201, repository.release_json(release))


def _check_body(given: Json) -> None:
    """GitHub's limit, which its documentation does not name (scikit-build/github-release#65)."""
    if len(given.get("body", "")) > 125_000:
        error = {"field": "body", "message": "body is too long (maximum is 125000 characters)"}
        raise refuse(422, "Validation Failed", {"resource": "Release", "code": "custom", **error})


def _check_publishable(repository: Repository, release: Release) -> None:
    if any(r.tag == release.tag and not r.draft and r is not release for r in repository.releases.values()):
        raise refuse(422, "Validation Failed", {"resource": "Release", "code": "already_exists", "field": "tag_name"})


def _check_latest(given: Json, *, draft: bool, prerelease: bool) -> None:
    """Refuse to make "latest" what can't be (getsentry/craft#583, kaito-project/kaito#1680)."""
    if given.get("make_latest") == "true" and (draft or prerelease):
        message = "Latest release cannot be draft or prerelease."
        raise refuse(422, "Validation Failed", {"resource": "Release", "code": "custom", "message": message})


@route(f"PATCH {REPO}/releases/{{release_id}}")
def update_release(call: Call) -> Answer:
    call.need("contents")
    release, given = call.release(), call.input
    _check_body(given)
    draft, prerelease = (given.get(name, getattr(release, name)) for name in ("draft", "prerelease"))
    _check_latest(given, draft=draft, prerelease=prerelease)
    if release.draft and given.get("draft") is False:
        _check_publishable(call.repository, release)
        call.repository.publish(release)
    release.name, release.body = given.get("name", release.name), given.get("body", release.body)
    release.draft = given.get("draft", release.draft) and not release.immutable
    release.prerelease = given.get("prerelease", release.prerelease)
    return Answer(200, call.repository.release_json(release))


@route(f"DELETE {REPO}/releases/{{release_id}}")
def delete_release(call: Call) -> Answer:
    call.need("contents")
    del call.repository.releases[call.release().id]
    return Answer(204)


@route(f"GET {REPO}/releases/{{release_id}}/assets")
def list_assets(call: Call) -> Answer:
    release = call.release()
    rows, headers = call.page([call.repository.asset_json(release, asset) for asset in release.assets])
    return Answer(200, rows, headers)


@route(f"POST {REPO}/releases/{{release_id}}/assets")
def upload_asset(call: Call) -> Answer:
    call.need("contents")
    release, name = call.release(), call.query["name"]
    _check_changeable(release)
    if any(asset.name == name for asset in release.assets):
        raise refuse(422, "Validation Failed", {"resource": "ReleaseAsset", "code": "already_exists", "field": "name"})
    state = "starter" if call.truncated or call.github.stuck(name) else "uploaded"
    asset = Asset(call.github.next_id(), name, call.body, call.github.clock(), state)
    release.own.append(asset)
    return Answer(201, call.repository.asset_json(release, asset))


def _check_changeable(release: Release) -> None:
    if release.immutable:
        raise refuse(422, "Cannot change the assets of an immutable release.")


def _find_asset(call: Call) -> tuple[Release, Asset]:
    for release in call.repository.releases.values():
        asset = release.asset(int(call.names["asset_id"]))
        if asset is not None and (not release.draft or "contents" in call.who[1]):
            return release, asset
    raise refuse(404, "Not Found")


@route(f"GET {REPO}/releases/assets/{{asset_id}}")
def get_asset(call: Call) -> Answer:
    release, asset = _find_asset(call)
    if "application/octet-stream" in call.accept:
        return Answer(302, None, {"Location": f"{call.github.storage}/{asset.id}"})
    return Answer(200, call.repository.asset_json(release, asset))


@route(f"DELETE {REPO}/releases/assets/{{asset_id}}")
def delete_asset(call: Call) -> Answer:
    call.need("contents")
    release, asset = _find_asset(call)
    _check_changeable(release)
    release.own.remove(asset)
    return Answer(204)


def minimal_json(repository: Repository) -> Json:
    """GitHub's minimal-repository."""
    owner, _, name = repository.name.partition("/")
    names = ("archive", "assignees", "blobs", "branches", "collaborators", "comments", "commits", "compare", "contents",
             "contributors", "deployments", "downloads", "events", "forks", "git_commits", "git_refs", "git_tags",
             "hooks", "issue_comment", "issue_events", "issues", "keys", "labels", "languages", "merges", "milestones",
             "notifications", "pulls", "releases", "stargazers", "statuses", "subscribers", "subscription", "tags",
             "teams", "trees")  # fmt: skip
    return {
        "id": 1, "node_id": "R_1", "name": name, "full_name": repository.name, "private": False, "fork": False,
        "owner": user(repository.github.url, owner), "html_url": f"{repository.github.url}/{repository.name}",
        "description": None, "url": repository.api, **{f"{key}_url": f"{repository.api}/{key}" for key in names},
    }  # fmt: skip
