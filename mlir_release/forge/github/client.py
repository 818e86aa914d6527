"""The session with GitHub's REST API: who we are, patience, pace, and what its refusals mean.

Reads are repeated by PyGithub itself. Writes are not, because an answer may be lost after GitHub has done what was
asked: :meth:`GitHubClient.write` looks at the world before it asks again.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from mlir_release.errors import ConflictError, ForgeError, MachineError, ReleaseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from github import Github
    from github.Commit import Commit
    from github.Repository import Repository

Answer = TypeVar("Answer")

DEFAULT_API = "https://api.github.com"
DEFAULT_SERVER = "https://github.com"

#: GitHub's limits on requests that create content are 80 a minute and 500 an hour
#: (docs.github.com, "Rate limits for the REST API"); a margin is left for others who act for the same repository.
WRITES_PER_MINUTE = 60
WRITES_PER_HOUR = 450

#: How often one request is tried, and the seconds before the second try; each further wait is twice as long.
ATTEMPTS = 5
FIRST_WAIT = 1.0

#: Longest wait for a rate limit to end, in seconds: a primary limit is reset within the hour.
LONGEST_WAIT = 3700.0

#: Seconds to wait where a limit does not say how long (the same page: at least a minute).
WAIT_FOR_SECONDARY_LIMIT = 60.0

#: Seconds for a connection, and between two pieces of an answer.
TIMEOUT = 60

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


class Pace:
    """Lets so many through in a minute and in an hour, and makes the others wait."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._past: deque[float] = deque(maxlen=WRITES_PER_HOUR)

    def wait(self) -> None:
        """Return when one more write keeps both limits."""
        for count, span in ((WRITES_PER_HOUR, 3600.0), (WRITES_PER_MINUTE, 60.0)):
            if len(self._past) >= count:
                left = self._past[-count] + span - self._clock()
                if left > 0:
                    self._sleep(left)
        self._past.append(self._clock())


class GitHubClient:
    """One repository on GitHub as one token sees it.

    :param repository: ``OWNER/NAME``
    :param token: of a person, an App or a job; None reads what is public
    :param api: the REST API's address, as ``GITHUB_API_URL`` gives it
    :param server: the address for people and git, as ``GITHUB_SERVER_URL`` gives it
    """

    def __init__(
        self,
        repository: str,
        *,
        token: str | None,
        api: str = DEFAULT_API,
        server: str = DEFAULT_SERVER,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(
                "repository-invalid",
                f"{repository!r} is not a repository of GitHub",
                remedy="write it as OWNER/NAME",
            )
        self.name = repository
        self.api = api.rstrip("/")
        self.server = server.rstrip("/")
        self._token = token
        self._sleep = sleep or time.sleep
        self._pace = Pace(sleep=self._sleep)
        self.github = _session(token, self.api)
        self.repository = _repository(self.github, repository)

    @classmethod
    def of_environment(cls, repository: str, environ: Mapping[str, str] = os.environ) -> GitHubClient:
        """The client that the variables of a workflow (or a shell) describe."""
        return cls(
            repository,
            token=environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or None,
            api=environ.get("GITHUB_API_URL") or DEFAULT_API,
            server=environ.get("GITHUB_SERVER_URL") or DEFAULT_SERVER,
        )

    @property
    def authenticated(self) -> bool:
        """Whether there is a token at all."""
        return self._token is not None

    @property
    def installation(self) -> bool:
        """Whether the token is that of an App's installation, as a job's is: no user stands behind it."""
        return (self._token or "").startswith("ghs_")

    @property
    def where(self) -> str:
        """For people: the repository's address."""
        return f"{self.server}/{self.name}"

    @property
    def git_url(self) -> str:
        """What git fetches from."""
        return f"{self.where}.git"

    def git_environment(self) -> dict[str, str]:
        """Variables that let git in as this client: a header for this server alone, on no command line."""
        if self._token is None:
            return {}
        credentials = base64.b64encode(f"x-access-token:{self._token}".encode()).decode()
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{self.server}/.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {credentials}",
        }

    def fetch(self, url: str, destination: Path, *, accept: str = "application/octet-stream") -> None:
        """Write what the API has at ``url`` (an asset, a log) into a file.

        GitHub redirects to its storage. requests leaves the token out there, because the host is another one.
        """
        import requests

        headers = {"Accept": accept, "User-Agent": "mlir-release"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if not response.ok:
                raise refusal(response, self.where, url)
            with destination.open("wb") as file:
                for piece in response.iter_content(1 << 20):
                    file.write(piece)

    def lazy_commit(self, sha: str) -> Commit:
        """A commit, of which nothing is asked before it is needed."""
        return _commit(self.repository, sha)

    # -- asking -------------------------------------------------------------------------------------------------

    def read(self, request: Callable[[], Answer], *, about: str = "") -> Answer:
        """Ask for something. What a bad moment spoils is asked for again; what GitHub refuses is an error.

        :param about: a tag, a branch, a file, for the error
        """
        return self._ask(request, None, about)

    def write(
        self, request: Callable[[], Answer], *, done: Callable[[], Answer | None] | None = None, about: str = ""
    ) -> Answer:
        """Ask for a change, at a pace that GitHub allows.

        :param done: looks whether a request without an answer was carried out all the same, and returns what it would
            have answered; None (the function): the change can be asked for twice without harm
        """

        def paced() -> Answer:
            self._pace.wait()
            return request()

        return self._ask(paced, done, about)

    def _ask(self, request: Callable[[], Answer], done: Callable[[], Answer | None] | None, about: str) -> Answer:
        wait = FIRST_WAIT
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with translated(self.where, about):
                    return request()
            except Unavailable as error:
                if attempt == ATTEMPTS or error.wait > LONGEST_WAIT:
                    raise
                self._sleep(max(wait, error.wait))
                wait *= 2
                if error.lost and done is not None and (answer := self._ask(done, None, about)) is not None:
                    return answer
        raise AssertionError("the loop returns or raises")


def _session(token: str | None, api: str) -> Github:
    try:
        from github import Auth, Github
    except ImportError as error:
        raise MachineError(
            "pygithub-missing",
            "this needs PyGithub, which is not installed",
            remedy="pip install 'mlir-release[github]'",
        ) from error
    # Repeating is ours (see the module's text): PyGithub would give up on a limit, or repeat a write blindly.
    return Github(
        base_url=api,
        auth=Auth.Token(token) if token else None,
        retry=None,
        per_page=100,
        timeout=TIMEOUT,
        seconds_between_requests=0,
        seconds_between_writes=0,
        user_agent="mlir-release",
    )


def _repository(github: Github, name: str) -> Repository:
    """The repository, of which nothing is asked before it is needed."""
    from github.Repository import Repository

    return Repository(github.requester, {}, {"url": f"/repos/{name}"}, completed=False)


def _commit(repository: Repository, sha: str) -> Commit:
    from github.Commit import Commit

    return Commit(repository.requester, {}, {"url": f"{repository.url}/commits/{sha}", "sha": sha}, completed=False)


class Unavailable(ForgeError):
    """GitHub did not answer, or asks us to come back later.

    :param wait: seconds that it asks us to wait
    :param lost: the request may have been carried out
    """

    def __init__(self, id: str, what: str, *, where: str, why: str, remedy: str, wait: float, lost: bool) -> None:
        super().__init__(id, what, where=where, why=why, remedy=remedy)
        self.wait = wait
        self.lost = lost


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
        raise _refusal(error.status, _said(error), _headers(error), where, about) from error
    except (requests.RequestException, ConnectionError, TimeoutError) as error:
        raise Unavailable(
            "github-unreachable",
            "GitHub did not answer",
            where=where,
            why=type(error).__name__ + (f", {about}" if about else ""),
            remedy="check the network and GitHub's status page, then run this again: what is done stays done",
            wait=0,
            lost=True,
        ) from error


def refusal(response: Any, where: str, about: str = "") -> ForgeError | UsageError | ConflictError:
    """The error for an answer that was got with requests."""
    try:
        said = str(response.json().get("message", ""))
    except (ValueError, AttributeError):
        said = str(response.reason)
    headers = {key.lower(): value for key, value in response.headers.items()}
    return _refusal(response.status_code, said, headers, where, about)


def _headers(error: Any) -> dict[str, str]:
    return {str(key).lower(): str(value) for key, value in (error.headers or {}).items()}


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


def _refusal(
    status: int, said: str, headers: Mapping[str, str], where: str, about: str
) -> ForgeError | UsageError | ConflictError:
    why = f"{status} {said}" + (f" ({about})" if about else "")
    lower = said.lower()
    limited = "rate limit" in lower or "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    if status == 429 or (status == 403 and limited):
        return Unavailable(
            "github-rate-limited",
            "GitHub's rate limit is used up",
            where=where,
            why=why,
            remedy="run this again later (what is done stays done); fewer things at once use the same limit up slower",
            wait=_wait(headers) or WAIT_FOR_SECONDARY_LIMIT,
            lost=False,
        )
    if status >= 500:
        return Unavailable(
            "github-failing",
            "GitHub could not carry a request out",
            where=where,
            why=why,
            remedy="look at GitHub's status page, then run this again: what is done stays done",
            wait=_wait(headers),
            lost=True,
        )
    if status == 401:
        return ForgeError(
            "github-unauthorized",
            "GitHub does not accept the token",
            where=where,
            why=why,
            remedy="give a valid one in GITHUB_TOKEN; it may have expired",
        )
    ruled = ("protected", "rule violation", "changes must be made through a pull request")
    if status != 404 and any(words in lower for words in ruled):  # 404: "Branch not protected"
        return ForgeError(
            "github-protected",
            "a protection rule of the repository forbids this change",
            where=where,
            why=why,
            remedy="take that rule off (Settings > Rules), or use a token that may bypass it: a job's own never may; "
            "`mlir-release doctor` says which rules it meets",
        )
    if status == 403:
        return ForgeError(
            "github-forbidden",
            "the token may not do this",
            where=where,
            why=why,
            remedy="give it contents: write and actions: write (in a workflow: its job's permissions); "
            "`mlir-release doctor` says what is missing",
        )
    if status == 404:
        return NotFound(
            "github-not-found",
            "GitHub has no such thing, or hides it from this token",
            where=where,
            why=why,
            remedy="check the name, and that the token may see the repository",
        )
    return Refused(
        "github-refused",
        "GitHub refused a request",
        where=where,
        why=why,
        remedy="see what it says; if it makes no sense, run this again and then report it",
    )


class NotFound(ForgeError):
    """GitHub's 404."""


class Refused(ForgeError):
    """GitHub's 409 and 422: the request does not fit what is there (a name is taken, a ref does not exist …)."""


def _wait(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks us to wait (docs.github.com, "Best practices for using the REST API")."""
    after = headers.get("retry-after", "")
    if after.isdigit():
        return max(float(after), 0.01)
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return max(0.0, float(reset) - time.time()) + 1
    return 0.0
