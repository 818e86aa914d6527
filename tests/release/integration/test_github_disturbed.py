"""Whatever fails on the way to a release on GitHub, running the same job again ends in the same release.

Every request of a whole job (pin, tag, draft, dispatch, uploads, verification, publication, sweep, issues, index) goes
wrong in turn, in every way, or the process is killed before or after it: a sample of them, or (marked ``slow``) all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import console
from mlir_release.ground.errors import ReleaseError
from mlir_release.release.forge.github import client as github_client
from tests.github_server import Fault, graphql_limit
from tests.release.integration import github_job
from tests.release.integration.github_job import NOW, end_state, environment, job, world

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.github_server import GitHubServer, Record
    from tests.release.integration.github_job import Undisturbed
    from tests.sigstore.services import Services

FAULTS: dict[str, Callable[[], Fault]] = {
    "500": lambda: Fault(status=500),
    "secondary limit": lambda: Fault(
        status=403, headers={"retry-after": "30"}, message="You have exceeded a secondary rate limit."
    ),
    "429": lambda: Fault(status=429, headers={"retry-after": "7"}, message="Too many requests"),
    "timeout": lambda: Fault(drop="stall"),
    "reset": lambda: Fault(drop="before"),
    "answer lost": lambda: Fault(drop="after"),
    "truncated": lambda: Fault(drop="truncate"),
    "GraphQL's limit": lambda: graphql_limit(NOW),
}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    console.quiet = True


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("kind", FAULTS)
def test_every_request_may_fail(
    kind: str,
    undisturbed: Undisturbed,
    sigstore: Services,
    exhaustive: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = undisturbed.requests
    stopped: Counter[str] = Counter()
    sent = "" if exhaustive else "POST"  # most of the others have nothing that could be cut off
    method = {"truncated": sent, "GraphQL's limit": "POST /api/graphql"}.get(kind, "")
    tried = undisturbed.sample(list(FAULTS).index(kind), method, exhaustive=exhaustive)
    for number in tried:
        with world(tmp_path / f"{number}") as server:
            environ = environment(server, sigstore)
            server.faults = lambda record, number=number: FAULTS[kind]() if record.number == number else None  # type: ignore[misc]
            said = ""
            try:
                with monkeypatch.context() as impatient:
                    if kind == "timeout":
                        impatient.setattr(github_client, "TIMEOUT", 3)
                    job(environ, undisturbed.dist)
            except ReleaseError as error:
                said = str(error)
                stopped[f"{error.id} at {requests[number - 1]}"] += 1
            assert environ["GITHUB_TOKEN"] not in said
            server.faults = lambda record: None
            job(environ, undisturbed.dist)
            assert end_state(server) == undisturbed.end, f"{kind} at request {number}: {requests[number - 1]}"
    print(f"\n{kind}: {len(tried)} of {len(requests)} requests disturbed; {stopped.total()} jobs needed a second run")
    print(*(f"  {count} × {what}\n" for what, count in stopped.items()), sep="", end="")
    assert tried


# -- kills -------------------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[3]
JOB = f"import os, pathlib, sys; from {github_job.__name__} import job; job(os.environ, pathlib.Path(sys.argv[1]))"


def run_killed(
    server: GitHubServer, environ: Mapping[str, str], dist: Path, at: Callable[[Record], bool], moment: str
) -> None:
    """Run the job in a process that is killed at a request, before or after GitHub has done what that asks."""
    started: Future[subprocess.Popen[bytes]] = Future()

    def kill(record: Record) -> Fault | None:
        if not at(record):
            return None
        if moment == "before":
            started.result().kill()
            return Fault(drop="before")
        return Fault(drop="after", on_done=lambda: started.result().kill())

    server.faults = kill
    process = subprocess.Popen([sys.executable, "-c", JOB, str(dist)], env=os.environ | environ, cwd=ROOT)
    started.set_result(process)
    assert process.wait(timeout=600) == -signal.SIGKILL
    server.faults = lambda record: None


@pytest.mark.usefixtures("without_waiting")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_process_may_be_killed_at_every_request(
    moment: str, undisturbed: Undisturbed, sigstore: Services, exhaustive: bool, tmp_path: Path
) -> None:
    requests = undisturbed.requests
    tried = undisturbed.sample(3 if moment == "before" else 7, exhaustive=exhaustive)
    for number in tried:
        with world(tmp_path / f"{number}") as server:
            environ = environment(server, sigstore)
            run_killed(server, environ, undisturbed.dist, lambda record, at=number: record.number == at, moment)  # type: ignore[misc]
            job(environ, undisturbed.dist)
            assert end_state(server) == undisturbed.end, f"killed {moment} request {number}: {requests[number - 1]}"
    print(f"\nkilled {moment} {len(tried)} of {len(requests)} requests")
    assert tried


@pytest.mark.usefixtures("without_waiting")
def test_the_process_may_be_killed_before_its_run_is_listed(
    undisturbed: Undisturbed, sigstore: Services, tmp_path: Path
) -> None:
    with world(tmp_path) as server:
        server.runs_appear_after = 3
        environ = environment(server, sigstore)
        run_killed(server, environ, undisturbed.dist, lambda record: record.operation.endswith("/dispatches"), "after")
        assert len(server.dispatches) == 1
        job(environ, undisturbed.dist)
        assert len([made for made in server.dispatches if made.workflow == "release.yml"]) == 1
        assert end_state(server) == undisturbed.end
