"""What tests see of the server, and how GitHub's answers look."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

Json = dict[str, Any]


@dataclass
class Fault:
    """How a request goes wrong: an answer of its own, or a connection that breaks.

    ``drop``: before or after the request is carried out; halfway through its body; or once it was carried out and the
    client no longer waits for the answer (``stall``).
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "Server Error"
    body: Json | None = None  #: the answer, where it is not GitHub's usual way to refuse
    drop: Literal["", "before", "after", "truncate", "stall"] = ""
    on_done: Callable[[], None] = lambda: None  #: called once it is carried out


@dataclass
class Record:
    """One request. ``operation``: GitHub's template, for example ``GET /repos/{owner}/{repo}/releases``."""

    number: int
    method: str
    path: str
    operation: str
    agent: str  #: who asks, as they name themselves
    at: datetime  #: by the server's clock
    status: int = 0
    query: str = ""  #: as it was asked, ``per_page=10&page=2``
    sent: int = 0  #: bytes of the answer's body


@dataclass(frozen=True)
class Dispatch:
    """A workflow that was asked for."""

    workflow: str
    ref: str
    inputs: dict[str, str]
    run_id: int


class Answer(Exception):
    """An answer that ends a request; also what a handler raises to refuse."""

    def __init__(
        self, status: int, body: Any = None, headers: dict[str, str] | None = None, *, seconds: float = 0.0
    ) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.seconds = seconds  #: that GitHub takes for it

    @cached_property
    def content(self) -> bytes:
        """The body as it is sent: JSON, unless it is bytes already."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


def graphql_limit(reset: datetime) -> Fault:
    """How GraphQL says that its limit is used up: with the status 200."""
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(reset.timestamp()))}
    error = {"type": "RATE_LIMITED", "message": "API rate limit exceeded for installation ID 1."}
    return Fault(status=200, headers=headers, body={"errors": [error]})


def refuse(status: int, message: str, *errors: Json) -> Answer:
    """GitHub's way to say no."""
    body: Json = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    if errors:
        body["errors"] = list(errors)
    return Answer(status, body)


def stamp(when: datetime) -> str:
    """GitHub's times."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def user(base: str, login: str) -> Json:
    """GitHub's simple-user."""
    api = f"{base}/api/v3/users/{login}"
    links = ("followers", "following", "gists", "starred", "subscriptions", "organizations", "repos", "events")
    return {
        "login": login, "id": 1, "node_id": "U_1", "avatar_url": f"{base}/a.png", "gravatar_id": "", "url": api,
        "html_url": f"{base}/{login}", "received_events_url": f"{api}/received_events", "type": "Bot",
        "site_admin": False, **{f"{name}_url": f"{api}/{name}" for name in links},
    }  # fmt: skip
