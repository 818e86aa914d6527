"""GitHub's refusals and silences as errors: each cause is one error with one id."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mlir_release.ground.errors import ForgeError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Seconds to wait where a limit does not say how long (docs.github.com, "Rate limits for the REST API": at least a
#: minute).
WAIT_FOR_SECONDARY_LIMIT = 60.0


class Unavailable(ForgeError):
    """GitHub did not answer, or asks us to come back later.

    :param wait: seconds that it asks us to wait
    :param lost: the request may have been carried out
    """

    def __init__(self, id: str, what: str, *, where: str, why: str, remedy: str = "", wait: float, lost: bool) -> None:
        super().__init__(id, what, where=where, why=why, remedy=remedy)
        self.wait = wait
        self.lost = lost


class NotFound(ForgeError):
    """GitHub's 404."""


class Forbidden(ForgeError):
    """GitHub's 403: the token lacks a permission, or a setting forbids it."""


class Refused(ForgeError):
    """GitHub's 409 and 422: the request does not fit the state there (a name is taken, a ref does not exist …)."""


class _Cause(NamedTuple):
    """A row of the table. A ``{word}`` in a remedy is given by who knows it."""

    kind: type[ForgeError]
    id: str
    what: str
    remedy: str = ""  #: empty: the id's own


_LATER = "then run this again: completed work is kept"

_CAUSES = {
    "unreachable": _Cause(Unavailable, "forge-unreachable", "GitHub did not answer",
                          f"check the network and GitHub's status page, {_LATER}"),
    "failing": _Cause(Unavailable, "forge-unreachable", "GitHub could not carry out a request",
                      f"look at GitHub's status page, {_LATER}"),
    "limited": _Cause(Unavailable, "forge-rate-limited", "GitHub's rate limit is used up",
                      "run this again later (completed work is kept); {hint}"),
    "token": _Cause(ForgeError, "token-invalid", "GitHub does not accept the token",
                    "put a valid one in GITHUB_TOKEN; it may have expired"),
    "forbidden": _Cause(Forbidden, "token-lacks-right", "the token may not do this",
                        "give it {needed}; {policy}`mlir-release doctor` says what is missing"),
    "absent": _Cause(NotFound, "not-on-forge", "GitHub has no such thing, or hides it from this token"),
    "ruled": _Cause(ForgeError, "rule-forbids", "a protection rule of the repository forbids this change",
                    "remove that rule (Settings > Rules), or use a token that may bypass it (a job's own never may); "
                    "`mlir-release doctor` says which rules apply"),
    "refused": _Cause(Refused, "forge-refused", "GitHub refused a request"),
}  # fmt: skip

#: What usually is to be done, where nobody knows it better.
_WORDS = {
    "hint": "fewer concurrent runs use the limit up more slowly",
    "needed": "contents: write and actions: write (in a workflow: its job's permissions)",
    "policy": "",
}


def refused(cause: str, *, where: str, why: str, wait: float = 0, lost: bool = False, **words: str) -> ForgeError:
    """The error for a cause of the table.

    :param wait: seconds that GitHub asks us to wait; 0: it does not say
    :param lost: the request may have been carried out
    :param words: those that the remedy has room for: ``hint``, ``needed``, ``policy``
    """
    kind, id, what, remedy = _CAUSES[cause]
    remedy = remedy.format_map(_WORDS | words)
    if kind is Unavailable:
        return Unavailable(id, what, where=where, why=why, remedy=remedy, wait=wait, lost=lost)
    return kind(id, what, where=where, why=why, remedy=remedy)


@contextmanager
def translated(where: str, about: str = "") -> Iterator[None]:
    """PyGithub's and requests' exceptions as ours, one error for each cause."""
    import requests
    from github import GithubException

    try:
        yield
    except ReleaseError:
        raise
    except GithubException as error:
        raise _refusal(error.status, _said(error), error.headers or {}, where, about) from error
    except (requests.RequestException, ConnectionError, TimeoutError) as error:
        why = type(error).__name__ + (f", {about}" if about else "")
        raise refused("unreachable", where=where, why=why, lost=True) from error


def refusal(response: Any, where: str, about: str = "") -> ForgeError:
    """The error for an answer that was got with requests."""
    try:
        said = str(response.json().get("message", ""))
    except (ValueError, AttributeError):
        said = str(response.reason)
    return _refusal(response.status_code, said, response.headers, where, about)


def graphql_refusal(
    errors: Sequence[Mapping[str, Any]], headers: Mapping[str, str], where: str, about: str
) -> ForgeError:
    """The error for an answer of GraphQL, which reports its refusals with the status 200, and a type for each."""
    kind = errors[0].get("type", "")
    said = "; ".join(str(error.get("message", "")) for error in errors)
    status = {"NOT_FOUND": 404, "FORBIDDEN": 403, "INSUFFICIENT_SCOPES": 403, "RATE_LIMITED": 429}.get(kind, 500)
    return _refusal(status, f"{kind} {said}".strip(), headers, where, about)


def _said(error: Any) -> str:
    """GitHub's own words, with the reasons that it gives for a 422."""
    data = error.data
    if not isinstance(data, dict):
        return str(data or error.message or "")
    reasons = [
        str(entry.get("message") or entry.get("code") or entry) if isinstance(entry, dict) else str(entry)
        for entry in data.get("errors") or []
    ]
    return "; ".join([str(data.get("message", "")), *reasons])


def _refusal(status: int, said: str, headers: Mapping[str, str], where: str, about: str) -> ForgeError:
    why = f"{status} {said}" + (f" ({about})" if about else "")
    headers = {str(key).lower(): str(value) for key, value in headers.items()}
    lower = said.lower()
    limited = "rate limit" in lower or "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    ruled = ("protected", "rule violation", "changes must be made through a pull request")
    if status == 429 or (status == 403 and limited):
        return refused("limited", where=where, why=why, wait=_wait(headers) or WAIT_FOR_SECONDARY_LIMIT)
    if status >= 500:
        return refused("failing", where=where, why=why, wait=_wait(headers), lost=True)
    if status not in (401, 404) and any(words in lower for words in ruled):  # 404: "Branch not protected"
        return refused("ruled", where=where, why=why)
    cause = {401: "token", 403: "forbidden", 404: "absent"}.get(status, "refused")
    return refused(cause, where=where, why=why)


def _wait(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks us to wait (docs.github.com, "Best practices for using the REST API")."""
    after = headers.get("retry-after", "")
    if after.isdigit():
        return max(float(after), 0.01)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return max(0.0, float(reset) - time.time()) + 1
    return 0.0
