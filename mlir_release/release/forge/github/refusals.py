"""GitHub's refusals and silences as errors: each cause is one error with one id."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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


def unreachable(*, where: str, why: str, lost: bool) -> Unavailable:
    """No answer. ``lost``: the request may have been carried out."""
    return Unavailable(
        "forge-unreachable",
        "GitHub did not answer",
        where=where,
        why=why,
        remedy="check the network and GitHub's status page, then run this again: completed work is kept",
        wait=0,
        lost=lost,
    )


def rate_limited(*, where: str, why: str, wait: float = 0, hint: str) -> Unavailable:
    """A limit is used up. ``wait``: the seconds that GitHub asks for, 0 if it does not say; ``hint``: what helps."""
    return Unavailable(
        "forge-rate-limited",
        "GitHub's rate limit is used up",
        where=where,
        why=why,
        remedy=f"run this again later (completed work is kept); {hint}",
        wait=wait or WAIT_FOR_SECONDARY_LIMIT,
        lost=False,
    )


def unauthorized(*, where: str, why: str) -> ForgeError:
    """The token is wrong, or has expired."""
    return ForgeError(
        "token-invalid",
        "GitHub does not accept the token",
        where=where,
        why=why,
        remedy="put a valid one in GITHUB_TOKEN; it may have expired",
    )


def forbidden(*, where: str, why: str, needed: str, policy: str = "") -> Forbidden:
    """The token is valid, but lacks a permission.

    :param needed: which
    :param policy: another rule that may forbid it, and how to change that
    """
    return Forbidden(
        "token-lacks-right",
        "the token may not do this",
        where=where,
        why=why,
        remedy=f"give it {needed}; {policy}`mlir-release doctor` says what is missing",
    )


def not_found(*, where: str, why: str) -> NotFound:
    """A 404, which GitHub also answers where a token may not look."""
    return NotFound(
        "not-on-forge",
        "GitHub has no such thing, or hides it from this token",
        where=where,
        why=why,
        remedy="check the name, and that the token may see the repository",
    )


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
        raise unreachable(where=where, why=why, lost=True) from error


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
    if status == 429 or (status == 403 and limited):
        hint = "fewer concurrent runs use the limit up more slowly"
        return rate_limited(where=where, why=why, wait=_wait(headers), hint=hint)
    if status >= 500:
        return Unavailable(
            "forge-unreachable",
            "GitHub could not carry out a request",
            where=where,
            why=why,
            remedy="look at GitHub's status page, then run this again: completed work is kept",
            wait=_wait(headers),
            lost=True,
        )
    if status == 401:
        return unauthorized(where=where, why=why)
    ruled = ("protected", "rule violation", "changes must be made through a pull request")
    if status != 404 and any(words in lower for words in ruled):  # 404: "Branch not protected"
        return ForgeError(
            "rule-forbids",
            "a protection rule of the repository forbids this change",
            where=where,
            why=why,
            remedy="remove that rule (Settings > Rules), or use a token that may bypass it (a job's own never "
            "may); `mlir-release doctor` says which rules apply",
        )
    if status == 403:
        needed = "contents: write and actions: write (in a workflow: its job's permissions)"
        return forbidden(where=where, why=why, needed=needed)
    if status == 404:
        return not_found(where=where, why=why)
    return Refused(
        "forge-refused",
        "GitHub refused a request",
        where=where,
        why=why,
        remedy="see the reason above; if it makes no sense, run this again, and report it if that fails, too",
    )


def _wait(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks us to wait (docs.github.com, "Best practices for using the REST API")."""
    after = headers.get("retry-after", "")
    if after.isdigit():
        return max(float(after), 0.01)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return max(0.0, float(reset) - time.time()) + 1
    return 0.0
