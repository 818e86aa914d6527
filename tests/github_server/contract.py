"""What GitHub publishes of its interfaces, held against requests and answers.

Its description of REST (npm: @octokit/openapi), its schema of GraphQL (npm: @octokit/graphql-schema), and what its
documentation says of every answer, whatever the operation.
"""

from __future__ import annotations

import functools
import json
import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from tests import npm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphql import GraphQLSchema

    from tests.github_server.records import Answer

REST = ("@octokit/openapi", "23.0.2", "generated/api.github.com.json")
GRAPHQL = ("@octokit/graphql-schema", "15.26.1", "schema.graphql")

#: Bytes from which on an answer is held against the description by a sample.
LONG = 100_000

#: The one address of GraphQL, written as REST's operations are.
GRAPHQL_OPERATION = "POST /graphql"


@functools.cache
def published() -> Contract:
    """The contract of all that the server offers. :raises RuntimeError: if npm can't fetch what GitHub publishes"""
    from tests.github_server.routes import ROUTES

    return Contract(ROUTES)


class Contract:
    """The part of the description that concerns ``operations`` (``GET /repos/{owner}/…``), and GraphQL."""

    def __init__(self, operations: Iterable[str]) -> None:
        from openapi_core import Config, OpenAPI

        description = json.loads(npm.file(*REST).read_text(encoding="utf-8"))
        wanted = {operation.partition(" ")[2] for operation in operations}
        unknown = wanted - description["paths"].keys()
        assert not unknown, f"GitHub has no such paths: {sorted(unknown)}"
        description["paths"] = {path: item for path, item in description["paths"].items() if path in wanted}
        description["servers"] = [{"url": "http://github.test"}]
        _allow_null(description)
        parts = description["components"]
        # Both are said in the description's prose only: what an upload that broke off leaves, and GitHub's date search.
        parts["schemas"]["release-asset"]["properties"]["state"]["enum"].append("starter")
        parts["parameters"]["created"]["schema"].pop("format", None)
        # A folder's content is a list, which has no property that could tell what it is.
        contents = description["paths"].get("/repos/{owner}/{repo}/contents/{path}", {}).get("get")
        if contents is not None:
            contents["responses"]["200"]["content"]["application/json"]["schema"].pop("discriminator")
        for item in description["paths"].values():
            for method in item.values():
                if isinstance(method, dict):
                    method.pop("servers", None)  # uploads have a host of their own; ours is one
        self._openapi = OpenAPI.from_dict(description, config=Config(spec_validator_cls=None))
        # Every error has these two (docs.github.com, "Troubleshooting the REST API"); the description requires neither.
        self._error = parts["schemas"]["basic-error"] | {"required": ["message", "documentation_url"]}
        self._graphql_text = npm.file(*GRAPHQL).read_text(encoding="utf-8")

    def violations(
        self,
        operation: str,
        names: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        kind: str,
        answer: Answered,
    ) -> list[str]:
        """What GitHub's publications have against a request and its answer; the request only if it was accepted."""
        from openapi_core.exceptions import OpenAPIError
        from openapi_core.templating.responses.exceptions import ResponseNotFound

        found = [f"{operation} -> {answer.status_code}: {why}" for why in self._of_every_answer(answer)]
        if operation == GRAPHQL_OPERATION:
            return found + [f"{operation}: {why}" for why in self._of_graphql(body, answer)]
        method, _, template = operation.partition(" ")
        request = Asked(method, template, names, query, body, kind)
        checks: list[Callable[[], None]] = [lambda: self._openapi.validate_response(request, answer)]
        if answer.status_code < 400:
            checks.append(lambda: self._openapi.validate_request(request))
        for check in checks:
            try:
                check()
            except ResponseNotFound:
                if answer.status_code < 400:  # errors that any operation may have are not repeated for each
                    found.append(f"{operation} does not answer {answer.status_code}")
            except OpenAPIError as error:
                found.append(f"{operation} -> {answer.status_code}: {_reasons(error)}")
        return found

    # -- whatever the operation -------------------------------------------------------------------------------------

    def _of_every_answer(self, answer: Answered) -> list[str]:
        """Dates, counts, addresses to go on to, and errors (docs.github.com, "Rate limits for the REST API")."""
        headers = answer.headers
        found = []
        try:
            parsedate_to_datetime(headers.get("date", ""))
        except ValueError:
            found.append("it has no date")
        counts = {name: headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "used", "reset")}
        found += [f"x-ratelimit-{name} is {count!r}" for name, count in counts.items() if not count.isdigit()]
        moved = 300 <= answer.status_code < 400 and answer.status_code != 304
        if moved and not re.match(r"https?://", headers.get("location", "")):
            found.append("it does not say where to go")
        if answer.status_code >= 400:
            found += self._of_an_error(answer)
        return found

    def _of_an_error(self, answer: Answered) -> list[str]:
        from openapi_schema_validator import OAS30Validator

        try:
            body = json.loads(answer.data or b"")
        except ValueError:
            return ["it is no JSON"]
        found = [problem.message for problem in OAS30Validator(self._error).iter_errors(body)]
        said, after = str(body.get("message", "")).lower(), answer.headers.get("retry-after")
        if after is not None and not after.isdigit():
            found.append(f"retry-after is {after!r}, not whole seconds")
        if answer.status_code == 429 or (answer.status_code == 403 and "rate limit" in said):
            # A primary limit says when it is reset; a secondary one should say how long to wait, but may be silent.
            used_up = answer.headers.get("x-ratelimit-remaining") == "0"
            if not (used_up or after is not None or "secondary rate limit" in said):
                found.append("it is a limit that says neither how long to wait nor that anything is used up")
        return found

    # -- GraphQL ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _graphql(self) -> GraphQLSchema:
        from graphql import build_schema

        return build_schema(self._graphql_text, assume_valid=True, no_location=True)

    def _of_graphql(self, body: bytes, answer: Answered) -> list[str]:
        """Whether GitHub's schema knows the question, and gives this answer to it."""
        from graphql import execute_sync, parse, validate

        if answer.status_code >= 400:
            return []
        asked, said = json.loads(body), {"data": None, **json.loads(answer.data or b"")}
        document = parse(asked["query"])
        found = [error.message for error in validate(self._graphql, document)]
        if found:
            return found
        variables = asked.get("variables")
        if said.get("errors"):
            found += [f"an error without {key}" for e in said["errors"] for key in ("type", "message") if key not in e]
        # Executed on the answer's own data, the question selects all of it, and every value fits its type.
        result = execute_sync(self._graphql, document, root_value=said["data"] or {}, variable_values=variables)
        found += [error.message for error in result.errors or ()]
        if not found and said["data"] is not None and result.data != said["data"]:
            found.append(f"the question selects {result.data}, not {said['data']}")
        return found


def _allow_null(node: Any) -> None:
    """Let every nullable enumeration have null: the description means it so, but does not list it."""
    if isinstance(node, dict):
        if node.get("nullable") and isinstance(node.get("enum"), list) and None not in node["enum"]:
            node["enum"].append(None)
        for value in node.values():
            _allow_null(value)
    elif isinstance(node, list):
        for value in node:
            _allow_null(value)


def _reasons(error: BaseException) -> str:
    problems = getattr(error.__cause__, "schema_errors", None) or ()
    said = [f"{'/'.join(map(str, problem.absolute_path))}: {problem.message[:200]}" for problem in problems]
    return "; ".join(said) or f"{error}: {error.__cause__}"


def sample(answer: Answer) -> bytes:
    """An answer's body; of a long one, the first and last rows of each list: what makes them is one function."""
    if len(answer.content) < LONG or isinstance(answer.body, bytes):
        return answer.content
    return json.dumps(_shortened(answer.body)).encode()


def _shortened(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _shortened(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_shortened(value) for value in (node if len(node) < 4 else [*node[:2], node[-1]])]
    return node


class Asked:
    """A request as openapi-core reads it."""

    def __init__(
        self, method: str, template: str, names: Mapping[str, str], query: Mapping[str, str], body: bytes, kind: str
    ) -> None:
        from urllib.parse import quote

        from openapi_core.datatypes import RequestParameters
        from werkzeug.datastructures import Headers, ImmutableMultiDict

        self.host_url = "http://github.test"
        self.method = method.lower()
        self.path = template.format(**{name: quote(value, safe="") for name, value in names.items()})
        self.parameters: Any = RequestParameters(query=ImmutableMultiDict(query), header=Headers(), cookie={})
        self.body = body or None
        self.content_type = kind or "application/json"


class Answered:
    """An answer as openapi-core reads it."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        from werkzeug.datastructures import Headers

        self.status_code = status
        self.data = body or None
        self.headers: Any = Headers(dict(headers))
        self.content_type = self.headers.get("content-type", "").partition(";")[0]
