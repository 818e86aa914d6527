"""The session with GitHub's REST API: who we are, patience and pace.

PyGithub itself repeats reads. It does not repeat writes, because GitHub may have carried out a write whose answer was
lost: :meth:`GitHubClient.write` looks first, and asks again only then.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import time
from collections import deque
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.download import receive, waited_for
from mlir_release.release.forge.github.refusals import (
    NotFound,
    Refused,
    Unavailable,
    graphql_refusal,
    refusal,
    translated,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from github import Github

Answer = TypeVar("Answer")

DEFAULT_API = "https://api.github.com"
DEFAULT_SERVER = "https://github.com"

#: GitHub's limits on requests that create content are 80 a minute and 500 an hour
#: (docs.github.com, "Rate limits for the REST API"); a margin is left for others who act for the same repository.
WRITES_PER_MINUTE = 60
WRITES_PER_HOUR = 450

#: Jobs of a repository share their limits, and five platforms may upload at once.
WRITES_PER_MINUTE_OF_A_JOB = 16

#: How often one request is tried, and the seconds before the second try; each further wait is twice as long.
ATTEMPTS = 5
FIRST_WAIT = 1.0

#: Longest wait for a rate limit to end, in seconds: a primary limit is reset within the hour.
LONGEST_WAIT = 3700.0

#: Seconds between two reads of a new ref or run, because not every read shows it at once.
PAUSES = (2.0, 4.0, 8.0, 16.0)

#: Seconds for a connection, and between two pieces of an answer.
TIMEOUT = 60

#: Seconds for a whole answer.
LONGEST_ANSWER = 5.0 * TIMEOUT

#: Rows on a page of a list, at GitHub's most.
PER_PAGE = 100

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


class RequestPace:
    """Lets so many through in a minute and in an hour, and makes the others wait."""

    def __init__(
        self,
        per_minute: int = WRITES_PER_MINUTE,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limits = ((WRITES_PER_HOUR, 3600.0), (per_minute, 60.0))
        self._clock = clock
        self._sleep = sleep
        self._past: deque[float] = deque(maxlen=WRITES_PER_HOUR)

    def wait(self) -> None:
        """Return when one more write keeps both limits."""
        for count, span in self._limits:
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
                "option-invalid",
                f"{repository!r} is not a repository of GitHub",
                remedy="write it as OWNER/NAME",
            )
        self.name = repository
        self.api = api.rstrip("/")
        self.server = server.rstrip("/")
        self._token = token
        self._sleep = sleep or time.sleep
        self._pace = RequestPace(clock=time.monotonic, sleep=self._sleep)
        self.github = _session(token, self.api)
        from github.Repository import Repository

        # Nothing is asked of the repository before it is needed.
        url = f"/repos/{repository}"
        self.repository = Repository(self.github.requester, {}, {"url": url}, completed=False)

    @classmethod
    def of_environment(cls, repository: str, environ: Mapping[str, str] = os.environ) -> GitHubClient:
        """The client that the variables of a workflow (or a shell) describe."""
        client = cls(
            repository,
            token=environ.get("GITHUB_TOKEN") or environ.get("GH_TOKEN") or None,
            api=environ.get("GITHUB_API_URL") or DEFAULT_API,
            server=environ.get("GITHUB_SERVER_URL") or DEFAULT_SERVER,
        )
        if environ.get("GITHUB_ACTIONS") == "true":
            client._pace = RequestPace(WRITES_PER_MINUTE_OF_A_JOB, clock=time.monotonic, sleep=client._sleep)
        return client

    def beside(self, repository: str) -> GitHubClient:
        """The client of another repository, with the same token. :raises UsageError: ``option-invalid``"""
        return GitHubClient(repository, token=self._token, api=self.api, server=self.server, sleep=self._sleep)

    @property
    def authenticated(self) -> bool:
        """Whether there is a token at all."""
        return self._token is not None

    @property
    def installation(self) -> bool:
        """Whether the token is that of an App's installation, as a job's is: it belongs to no user."""
        return (self._token or "").startswith("ghs_")

    @property
    def where(self) -> str:
        """For people: the repository's address."""
        return f"{self.server}/{self.name}"

    @property
    def git_url(self) -> str:
        """The address that git fetches from."""
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

    @cached_property
    def default_branch(self) -> str:
        """The repository's default branch: a setting, which only its administrators can change."""
        return str(self.read(lambda: self.request("GET"), about="default branch")[1]["default_branch"])

    def pause(self, seconds: float) -> None:
        """Wait, by the clock that all waits of this client go by."""
        self._sleep(seconds)

    def fetch(self, url: str, destination: Path, *, public: bool = False) -> None:
        """Write the asset that is at ``url`` into a file.

        GitHub redirects to its storage. requests leaves the token out there, because the host is another one.

        :param public: anyone gets it: no token is shown
        """
        from requests import HTTPError

        headers = {} if public else {"Accept": "application/octet-stream"}
        if self._token is not None and not public:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with destination.open("wb") as file:
                receive(url, file, headers=headers, timeout=TIMEOUT)
        except HTTPError as error:
            raise refusal(error.response, url) from error

    def request(self, method: str, path: str = "", **options: Any) -> tuple[dict[str, Any], Any]:
        """Headers and JSON of a request that PyGithub has no method for; ``path`` is below the repository's."""
        requester = self.repository.requester
        asked = partial(requester.requestJsonAndCheck, method, f"/repos/{self.name}{path}", **options)
        return waited_for(asked, seconds=LONGEST_ANSWER)

    def graphql(self, query: str, variables: dict[str, Any], *, about: str) -> dict[str, Any]:
        """The data that GraphQL answers to a question. :raises ForgeError: also for errors that come with a 200"""
        requester = self.repository.requester

        def ask() -> dict[str, Any]:
            body = {"query": query, "variables": variables}
            asked = partial(requester.requestJsonAndCheck, "POST", requester.graphql_url, input=body)
            headers, answer = waited_for(asked, seconds=LONGEST_ANSWER)
            if answer.get("errors"):
                raise graphql_refusal(answer["errors"], headers, self.where, about)
            data: dict[str, Any] = answer["data"]
            return data

        return self.read(ask, about=about)

    def pages(
        self, path: str, key: str = "", *, size: int = PER_PAGE, **parameters: str
    ) -> Iterator[list[dict[str, Any]]]:
        """The pages of a list, which is the value at ``key`` or the whole answer; each is read when it is needed."""
        for number in itertools.count(1):
            asked = parameters | {"per_page": str(size), "page": str(number)}
            _, data = self.read(lambda asked=asked: self.request("GET", path, parameters=asked), about=path)  # type: ignore[misc]
            rows = data[key] if key else data
            yield rows
            if len(rows) < size:
                return

    def is_reachable(self, commit: str, head: str) -> bool:
        """Whether one commit is another, or an ancestor of it; a request, unless they are the same."""
        found = (0, 0) if commit == head else self.distance(head, commit)
        return found is not None and found[0] == 0

    def distance(self, one: str, other: str) -> tuple[int, int] | None:
        """The commits that only ``other`` has, and those that only ``one`` has; a request.

        :returns: None: there is no such commit, or no common ancestor
        """
        found = self.compare(other, one)
        return (int(found["ahead_by"]), int(found["behind_by"])) if found is not None else None

    def compare(self, commit: str, head: str) -> dict[str, Any] | None:
        """How a commit differs from ``head``, without the commits; a request.

        :returns: None: there is no such commit, or no common ancestor
        """
        # In this direction an ancestor has nothing that the other lacks. Only the first page lists files.
        path, asked = f"/compare/{head}...{commit}", {"per_page": "1", "page": "2"}
        try:
            return self.read(lambda: self.request("GET", path, parameters=asked), about=path)[1]  # type: ignore[no-any-return]
        except NotFound:
            return None

    def full_id(self, commit: str) -> str | None:
        """The id of the commit that an abbreviation means; None: of none, or of several. A request."""
        path = f"/commits/{commit}"
        try:
            _, found = self.read(lambda: self.request("GET", path), about=path)
        except (NotFound, Refused):
            return None
        sha = str(found["sha"])
        return sha if sha.startswith(commit) else None  # else a branch or a tag has that name

    # -- asking -------------------------------------------------------------------------------------------------

    def read(self, request: Callable[[], Answer], *, about: str = "") -> Answer:
        """Ask for something: again after a passing failure. A refusal of GitHub's is an error.

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
    from github import Auth, Github

    # Retries are ours (see the module's text): PyGithub would give up at a rate limit, or repeat a write blindly.
    return Github(
        base_url=api,
        auth=Auth.Token(token) if token else None,
        retry=None,
        per_page=PER_PAGE,
        timeout=TIMEOUT,
        seconds_between_requests=0,
        seconds_between_writes=0,
        user_agent="mlir-release",
    )
