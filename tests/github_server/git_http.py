"""Git over HTTP: git's own http-backend on the repositories."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from typing import TYPE_CHECKING

from tests.github_server.records import Answer

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from tests.github_server.server import GitHubServer


#: GitHub answers with and without ``.git``.
_ADDRESS = re.compile(r"(/[^/]+/[^/]+?)(?:\.git)?(/info/refs|/git-upload-pack|/git-receive-pack)")


def repository_of(path: str) -> str | None:
    """The path with ``.git``, if it is one of git's."""
    match = _ADDRESS.fullmatch(path)
    return f"{match[1]}.git{match[2]}" if match else None


def serve(github: GitHubServer, request: BaseHTTPRequestHandler, path: str, query: str, body: bytes) -> Answer:
    """One request of git's smart protocol. Pushes need a token that may write contents."""
    given = request.headers.get("Authorization", "")
    scopes: frozenset[str] = frozenset()
    if given:
        token = base64.b64decode(given.partition(" ")[2]).decode().partition(":")[2]
        if token not in github.tokens:
            return Answer(401, b"Bad credentials", {"WWW-Authenticate": 'Basic realm="GitHub"'})
        scopes = github.tokens[token][1]
    if "git-receive-pack" in path + query and "contents" not in scopes:
        return Answer(401 if not given else 403, b"no", {"WWW-Authenticate": 'Basic realm="GitHub"'})
    if path.partition(".git/")[0].strip("/") not in github.repositories:
        return Answer(404, b"Repository not found.")
    environment = os.environ | {
        "GIT_PROJECT_ROOT": str(github.folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": request.command,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "REMOTE_USER": "somebody",
        "REMOTE_ADDR": "127.0.0.1",
    }
    if b"command=ls-refs" in body:
        place = github.repositories[path.partition(".git/")[0].strip("/")]
        hidden = [ref for ref in list(place.unseen_refs) if place.hides(ref)]
        environment["GIT_CONFIG_COUNT"] = str(len(hidden))
        for number, ref in enumerate(hidden):
            environment |= {f"GIT_CONFIG_KEY_{number}": "transfer.hideRefs", f"GIT_CONFIG_VALUE_{number}": ref}
    done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment, check=False)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
    return Answer(int(headers.pop("Status", "200").split()[0]), content, headers)
