"""The HTTP side: who asks, what GitHub would call the request, what goes wrong, and what the contract says."""

from __future__ import annotations

import re
import secrets
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.github_server import (
    contract,
    git_http,
    graphql,
    routes_commits,  # noqa: F401 - these register their routes
    routes_issues,  # noqa: F401
    routes_runs,  # noqa: F401
    routes_setup,  # noqa: F401
    strangers,
)
from tests.github_server.pages import Pages
from tests.github_server.records import Answer, Dispatch, Fault, Record, refuse
from tests.github_server.routes import ROUTES, Call
from tests.github_server.world import Repository
from tests.loopback import Loopback, Quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.workflows.results_service import ResultsService

API = "/api/v3"
#: The names in GitHub's templates that may have slashes in them.
_SLASHES = {"ref": ".+", "path": ".+", "branch": "(?:.+/)?(?!protection$)[^/]+"}


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    text = "".join(
        re.escape(part) if n % 2 == 0 else f"(?P<{part}>{_SLASHES.get(part, '[^/]+')})" for n, part in enumerate(parts)
    )
    return re.compile(text)


_TABLE = [(operation, operation.partition(" ")[0], _pattern(operation.partition(" ")[2])) for operation in ROUTES]


#: All that the server offers.
OFFERED = frozenset({*ROUTES, contract.GRAPHQL_OPERATION})

#: Operations of this process that the toolkit asked for, that were carried out and held against the contract.
HELD: set[str] = set()

#: Why nothing was held against the contract; empty if it was.
NOT_HELD: set[str] = set()

#: How the toolkit names itself; others who ask are the tests.
_TOOLKIT = "mlir-release"


class GitHubServer:
    """A GitHub with repositories in ``folder``; use as a context manager.

    Every request and answer is held against what GitHub publishes. What it finds is in ``violations``, and an error
    at the end, unless npm can't fetch it: then the session says so.

    :param clock: the server's clock, which dates everything
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], datetime] | None = None,
        port: int = 0,
    ) -> None:
        self.folder = folder
        self.clock = clock or (lambda: datetime.now(UTC))
        self.contract = _contract()
        self.repositories: dict[str, Repository] = {}
        self.tokens: dict[str, tuple[str, frozenset[str]]] = {}
        self.requests: list[Record] = []
        self.violations: list[str] = []
        self.faults: Callable[[Record], Fault | None] = lambda record: None
        self.on_dispatch: Callable[[str, Dispatch], None] = lambda repository, dispatch: None
        #: Assets on one page of releases; beyond that GitHub gives up (504). 8,500 were seen to work, 25,000 not to.
        self.assets_of_an_answer = 10_000
        self.seconds_of_an_asset = 0.0  #: how much slower each makes a page
        self.older_dispatch = ""  #: a dispatch that tells no run: "ignores" the parameter, or "refuses" it
        self.refs_appear_after: Callable[[], int] = lambda: 0  #: reads that do not show a ref which was just made
        self.dispatch_policy = ""  #: why nobody may dispatch a workflow, in GitHub's words; empty: anybody may
        self.runs_appear_after = 0  #: listings of runs that do not show a run that was just dispatched
        self.stuck: Callable[[str], bool] = lambda name: False  #: which uploads stay in the state ``starter``
        self.lock = threading.RLock()
        self._last_id = 0
        self.pages = Pages(self)
        self.results: ResultsService | None = None  #: where artifacts are, if actions put any there
        self._http = Loopback(type("Handler", (_Handler,), {"github": self}), port)
        self.url = self._http.url
        self.storage = f"http://localhost:{self._http.server_port}/storage"  # another host, as GitHub's is
        self.api_url = self.url + API

    def __enter__(self) -> GitHubServer:
        self._http.__enter__()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._http.__exit__(kind)
        if self.contract is not None:
            HELD.update(r.operation for r in self.requests if r.operation and r.status < 400 and r.agent == _TOOLKIT)
        if kind is None:
            assert not self.violations, "\n".join(self.violations)

    def next_id(self) -> int:
        """1, 2, 3, …: ids of everything."""
        return self.next_ids(1)[0]

    def next_ids(self, count: int) -> range:
        """So many of them."""
        self._last_id += count
        return range(self._last_id + 1 - count, self._last_id + 1)

    def add_repository(self, name: str, files: Mapping[str, bytes], **settings: Any) -> Path:
        """Make ``owner/name`` with one commit on ``main``; returns its bare git repository."""
        self.repositories[name] = Repository(self, name, self.folder / f"{name}.git", settings)
        self.repositories[name].initialize(files)
        return self.repositories[name].git.directory

    def token(
        self, login: str = "bot", *, scopes: Sequence[str] = ("contents", "actions", "issues"), kind: str = "ghs"
    ) -> str:
        """A token that may write what ``scopes`` name, and read everything.

        :param kind: ghs (a job's or an App's), ghp (a person's, of which alone GitHub tells the scopes) or github_pat
            (a person's fine-grained one)
        """
        token = f"{kind}_{secrets.token_hex(18)}"
        self.tokens[token] = (login, frozenset(scopes))
        return token

    def environment(self, repository: str, token: str = "") -> dict[str, str]:
        """The variables that a workflow's steps would have."""
        found = {"GITHUB_API_URL": self.api_url, "GITHUB_SERVER_URL": self.url, "GITHUB_REPOSITORY": repository}
        return found | ({"GITHUB_TOKEN": token} if token else {})

    def deploy_pages(self, repository: str, folder: Path) -> str:
        """Serve a folder's files from now on, as far as the cache lets them through; returns the address."""
        return self.pages.deploy(repository, folder)

    def add_run(
        self, repository: str, workflow: str, *, ref: str = "main", event: str = "schedule", created: datetime
    ) -> int:
        """A run that nobody dispatched, still in progress; returns its id."""
        place = self.repositories[repository]
        place.runs.append({
            "id": (number := self.next_id()), "workflow": workflow, "head_branch": ref, "status": "in_progress",
            "conclusion": None, "head_sha": place.git.resolve(f"{ref}^{{commit}}"), "created": created,
            "updated": created, "event": event,
        })  # fmt: skip
        return number

    def finish_run(self, run_id: int, conclusion: str, *, at: datetime | None = None) -> None:
        """A run ends."""
        _, run = self._run(run_id)
        run.update(status="completed", conclusion=conclusion, updated=at or self.clock())

    def add_job(
        self,
        run_id: int,
        name: str,
        *,
        labels: Sequence[str],
        started: datetime,
        completed: datetime | None,
        conclusion: str | None = "success",
        steps: Sequence[tuple[str, datetime, datetime | None, str | None]] = (),
    ) -> int:
        """A job of a run; returns its id.

        :param steps: name, start, end, conclusion of each
        """
        repository, _ = self._run(run_id)
        repository.jobs.setdefault(run_id, []).append({
            "id": (number := self.next_id()), "name": name, "labels": labels, "started": started,
            "completed": completed, "conclusion": conclusion if completed else None, "steps": steps,
        })  # fmt: skip
        return number

    def _run(self, run_id: int) -> tuple[Repository, dict[str, Any]]:
        return next((r, run) for r in self.repositories.values() for run in r.runs if run["id"] == run_id)

    @property
    def dispatches(self) -> list[Dispatch]:
        """Every workflow that was asked for, in order."""
        return [dispatch for repository in self.repositories.values() for dispatch in repository.dispatches]


def _contract() -> contract.Contract | None:
    try:
        return contract.published()
    except RuntimeError as error:
        NOT_HELD.add(str(error))
        return None


class _Handler(Quiet):
    github: GitHubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: the second must not wait for an answer

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def _serve(self) -> None:
        address = urlsplit(self.path)
        path = unquote(address.path)
        with self.github.lock:
            agent = self.headers.get("User-Agent", "")
            number, now = len(self.github.requests) + 1, self.github.clock()
            record = Record(number, self.command, path, self._operation(path), agent, now)
            record.query = address.query
            self.github.requests.append(record)
        fault = self.github.faults(record)
        length = int(self.headers.get("Content-Length") or 0)
        if fault and fault.drop == "truncate":
            length //= 2
        body = self.rfile.read(length)
        if fault and (fault.drop == "before" or fault.status):
            record.status = fault.status or 599
            if fault.drop:
                return self._hang_up()
            refusal = refuse(fault.status, fault.message) if fault.body is None else Answer(fault.status, fault.body)
            if not record.operation:  # git and browsers are told in plain words
                refusal.body = fault.message.encode()
                refusal.headers["Content-Type"] = "text/plain"
            refusal.headers |= fault.headers
            return self._send(refusal, record, body)
        truncated = fault is not None and fault.drop == "truncate"
        answer = self._answer(record, path, dict(parse_qsl(address.query)), body, truncated=truncated)
        record.status = answer.status
        if fault:
            fault.on_done()
        if fault and fault.drop:
            if fault.drop == "stall":
                self._outlast_the_client()
            self._hold_against_the_contract(record, body, answer, self._headers(answer, record))
            return self._hang_up()
        return self._send(answer, record, body)

    def _outlast_the_client(self) -> None:
        self.connection.settimeout(600)
        with suppress(OSError):
            while self.connection.recv(1):
                pass

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _operation(self, path: str) -> str:
        if path == "/api/graphql":
            return contract.GRAPHQL_OPERATION
        if not path.startswith(API + "/"):
            return ""
        rest = path.removeprefix(API)
        return next((o for o, method, pattern in _TABLE if method == self.command and pattern.fullmatch(rest)), "")

    def _answer(self, record: Record, path: str, query: dict[str, str], body: bytes, *, truncated: bool) -> Answer:
        try:
            if path.startswith("/storage/"):
                return strangers.storage(self.github, path, self.headers.get("Authorization"))
            if not path.startswith(API + "/"):
                if (repository := git_http.repository_of(path)) is not None:
                    return git_http.serve(self.github, self, repository, urlsplit(self.path).query, body)
                if record.operation == contract.GRAPHQL_OPERATION:
                    with self.github.lock:
                        return graphql.serve(self.github, self._who(), body)
                if path.startswith("/pages/"):
                    return self.github.pages.serve(path)
                return strangers.page(self.github, path, query)
            who = self._who()
            if not record.operation:
                raise refuse(404, "Not Found")
            names = _pattern(record.operation.partition(" ")[2]).fullmatch(path.removeprefix(API))
            assert names is not None
            below, accept = path.removeprefix(API), self.headers.get("Accept", "")
            person = " ghp_" in (given := self.headers.get("Authorization", "")) or " github_pat_" in given
            call = Call(self.github, who, names.groupdict(), query, body, accept, truncated, below, not person)
            with self.github.lock:
                answer = ROUTES[record.operation](call)
        except Answer as refusal:
            answer = refusal
        return answer

    def _hold_against_the_contract(self, record: Record, body: bytes, answer: Answer, headers: dict[str, str]) -> None:
        if self.github.contract is None or not record.path.startswith("/api/"):
            return
        if not record.operation:
            if record.agent == _TOOLKIT:
                with self.github.lock:
                    self.github.violations.append(f"{record.method} {record.path} is nothing that the server offers")
            return
        match = _pattern(record.operation.partition(" ")[2]).fullmatch(record.path.removeprefix(API))
        names = match.groupdict() if match else {}
        query = dict(parse_qsl(urlsplit(self.path).query))
        kind = self.headers.get("Content-Type", "")
        answered = contract.Answered(answer.status, contract.sample(answer), headers)
        found = self.github.contract.violations(record.operation, names, query, body, kind, answered)
        with self.github.lock:
            self.github.violations += found

    def _who(self) -> tuple[str, frozenset[str]]:
        """Login and rights; empty for strangers."""
        given = self.headers.get("Authorization", "")
        if not given:
            return "", frozenset()
        token = given.partition(" ")[2]
        if token not in self.github.tokens:
            raise refuse(401, "Bad credentials")
        return self.github.tokens[token]

    def _headers(self, answer: Answer, record: Record) -> dict[str, str]:
        raw = isinstance(answer.body, bytes)
        headers = {"Date": format_datetime(self.github.clock(), usegmt=True)}
        headers["Content-Type"] = "application/octet-stream" if raw else "application/json; charset=utf-8"
        if record.operation:
            token = self.headers.get("Authorization", "").partition(" ")[2]
            if token.startswith("ghp_") and token in self.github.tokens:
                headers["x-oauth-scopes"] = ", ".join(sorted(self.github.tokens[token][1]))
            headers |= {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4999", "x-ratelimit-used": "1"}
            headers["x-ratelimit-reset"] = str(int(self.github.clock().timestamp()) + 3600)
        return headers | answer.headers

    def _send(self, answer: Answer, record: Record, asked: bytes) -> None:
        headers = self._headers(answer, record)
        self._hold_against_the_contract(record, asked, answer, headers)
        record.sent = len(answer.content)
        time.sleep(answer.seconds)
        self.send_response_only(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if answer.status not in (204, 304) and self.command != "HEAD":
            self.wfile.write(answer.content)
