"""GitHub's published description of its REST API (npm: @octokit/openapi), and what is held against it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_release.cache import cache_directory, locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

VERSION = "23.0.2"
_MEMBER = "package/generated/api.github.com.json"


def fetch_description() -> Path:
    """The description's file, fetched once with npm. :raises RuntimeError: if it can't be had"""
    path = cache_directory() / "openapi" / f"github-{VERSION}.json"
    with locked(path.with_suffix(".lock")):
        if path.is_file():
            return path
        if shutil.which("npm") is None:
            raise RuntimeError("npm is not installed, and GitHub's description is fetched with it")
        with tempfile.TemporaryDirectory() as folder:
            command = ["npm", "pack", "--silent", f"@octokit/openapi@{VERSION}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"npm could not fetch @octokit/openapi: {done.stderr.strip()[-500:]}")
            with tarfile.open(Path(folder) / done.stdout.split()[-1]) as archive:
                member = archive.extractfile(_MEMBER)
                assert member is not None
                temporary = path.with_suffix(".part")
                temporary.write_bytes(member.read())
                temporary.replace(path)
    return path


class Contract:
    """The part of the description that concerns ``operations`` (``GET /repos/{owner}/…``)."""

    def __init__(self, operations: Iterable[str]) -> None:
        from openapi_core import Config, OpenAPI

        description = json.loads(fetch_description().read_text(encoding="utf-8"))
        wanted = {operation.partition(" ")[2] for operation in operations}
        unknown = wanted - description["paths"].keys()
        assert not unknown, f"GitHub has no such paths: {sorted(unknown)}"
        description["paths"] = {path: item for path, item in description["paths"].items() if path in wanted}
        description["servers"] = [{"url": "http://github.test"}]
        _allow_null(description)
        for item in description["paths"].values():
            for method in item.values():
                if isinstance(method, dict):
                    method.pop("servers", None)  # uploads have a host of their own; ours is one
        self._openapi = OpenAPI.from_dict(description, config=Config(spec_validator_cls=None))

    def violations(
        self,
        operation: str,
        names: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        kind: str,
        answer: Answered,
    ) -> list[str]:
        """What GitHub's description has against a request and its answer; the request only if it was accepted."""
        from openapi_core.exceptions import OpenAPIError
        from openapi_core.templating.responses.exceptions import ResponseNotFound

        method, _, template = operation.partition(" ")
        request = Asked(method, template, names, query, body, kind)
        found: list[str] = []
        checks: list[Callable[[], None]] = [lambda: self._openapi.validate_response(request, answer)]
        if answer.status_code < 400:
            checks.append(lambda: self._openapi.validate_request(request))
        for check in checks:
            try:
                check()
            except ResponseNotFound:
                if answer.status_code < 400:  # errors that any operation may have are described elsewhere
                    found.append(f"{operation} does not answer {answer.status_code}")
            except OpenAPIError as error:
                found.append(f"{operation} -> {answer.status_code}: {error}: {_reasons(error)}")
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
    cause = error.__cause__
    problems = getattr(cause, "schema_errors", None)
    return "; ".join(f"{'/'.join(map(str, p.absolute_path))}: {p.message[:200]}" for p in problems or []) or str(cause)


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

    def __init__(self, status: int, body: bytes, kind: str) -> None:
        self.status_code = status
        self.data = body or None
        self.content_type = kind
        self.headers: dict[str, str] = {}
