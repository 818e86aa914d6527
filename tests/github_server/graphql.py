"""What the toolkit asks GitHub in GraphQL: releases without their assets, and that a pull request is ready.

A question is answered by walking its selection over plain data, so it may select what it likes of that data. GitHub's
published schema says afterwards whether question and answer are right (:mod:`.contract`).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from graphql import FieldNode, InlineFragmentNode, OperationDefinitionNode, parse, value_from_ast_untyped

from tests.github_server.records import Answer, Json, refuse, stamp
from tests.github_server.routes import commit_json, tag_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphql import SelectionSetNode

    from tests.github_server.server import GitHubServer
    from tests.github_server.world import Release, Repository

#: Nodes on a page at most (docs.github.com, "Rate limits and query limits for the GraphQL API").
MOST = 100


class _Problem(Exception):
    """GraphQL's way to say no: an answer with errors."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.error = {"type": kind, "message": message}


def serve(github: GitHubServer, who: tuple[str, frozenset[str]], body: bytes) -> Answer:
    """One question."""
    if not who[0]:
        raise refuse(401, "This endpoint requires you to be authenticated.")
    try:
        asked = json.loads(body)
    except ValueError:
        raise refuse(400, "Problems parsing JSON") from None
    (operation,) = parse(asked["query"]).definitions
    assert isinstance(operation, OperationDefinitionNode)
    root = {
        "markPullRequestReadyForReview": lambda input: _ready(github, who, input),
        "repository": lambda owner, name: _repository(github, who, f"{owner}/{name}"),
    }
    try:
        return Answer(200, {"data": _selected(operation.selection_set, root, asked.get("variables") or {})})
    except _Problem as problem:
        return Answer(200, {"data": None, "errors": [problem.error]})


def _selected(selection: SelectionSetNode, node: Mapping[str, Any], variables: Json) -> Json:
    """What a selection selects of a node, whose values are data, nodes, or functions of the field's arguments."""
    found: Json = {}
    for part in selection.selections:
        if isinstance(part, InlineFragmentNode):
            if part.type_condition is None or part.type_condition.name.value == node["__typename"]:
                found |= _selected(part.selection_set, node, variables)
            continue
        assert isinstance(part, FieldNode)
        value, inner = node[part.name.value], part.selection_set
        if callable(value):
            value = value(**{a.name.value: value_from_ast_untyped(a.value, variables) for a in part.arguments or ()})
        if inner is not None and isinstance(value, list):
            value = [_selected(inner, row, variables) for row in value]
        elif inner is not None and value is not None:
            value = _selected(inner, value, variables)
        found[(part.alias or part.name).value] = value
    return found


def _repository(github: GitHubServer, who: tuple[str, frozenset[str]], name: str) -> Json:
    repository = github.repositories.get(name)
    if repository is None:
        raise _Problem("NOT_FOUND", f"Could not resolve to a Repository with the name '{name}'.")
    seen = [release for release in repository.releases.values() if not release.draft or "contents" in who[1]]
    return {
        "releases": lambda **options: _releases(seen, **options),
        "ref": lambda qualifiedName: _ref(repository, qualifiedName),
    }


def _releases(seen: list[Release], *, first: int, orderBy: Json, after: str | None = None) -> Json:
    if not 1 <= first <= MOST:
        raise _Problem("EXCESSIVE_PAGINATION", f"Requesting {first} records exceeds the `first` limit of {MOST}.")
    rows = sorted(seen, key=lambda release: (release.created, release.id), reverse=orderBy["direction"] == "DESC")
    start = int(after or 0)
    nodes = [_release(release) for release in rows[start : start + first]]
    end = start + len(nodes)
    return {"nodes": nodes, "pageInfo": {"hasNextPage": end < len(rows), "endCursor": str(end)}}


def _release(release: Release) -> Json:
    return {
        "databaseId": release.id, "tagName": release.tag, "name": release.name, "isDraft": release.draft,
        "isPrerelease": release.prerelease, "createdAt": stamp(release.created),
        "publishedAt": stamp(release.published) if release.published else None,
    }  # fmt: skip


def _ref(repository: Repository, name: str) -> Json | None:
    found = repository.ref_json(name)
    return None if found is None else {"target": _object(repository, found["object"])}


def _object(repository: Repository, named: Json) -> Json:
    if named["type"] == "tag":
        tag = tag_json(repository, named["sha"])
        return {"__typename": "Tag", "target": _object(repository, tag["object"]), "message": tag["message"]}
    commit = commit_json(repository, named["sha"])
    when = datetime.fromisoformat(commit["committer"]["date"]).astimezone(UTC)
    return {"__typename": "Commit", "committedDate": stamp(when), "oid": commit["sha"]}


def _ready(github: GitHubServer, who: tuple[str, frozenset[str]], input: Json) -> Json:
    match = re.fullmatch(r"PR_(.+)#(\d+)", input.get("pullRequestId", ""))
    if match is None:
        raise _Problem("NOT_FOUND", "Could not resolve to a node")
    if "pull_requests" not in who[1]:
        raise _Problem("FORBIDDEN", "Resource not accessible by integration")
    pull = github.repositories[match[1]].issues[int(match[2]) - 1]
    pull["draft"] = False
    return {"clientMutationId": None, "pullRequest": {"isDraft": False}}
