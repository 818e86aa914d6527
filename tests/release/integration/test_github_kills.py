"""Wherever a job on GitHub is killed, running it again ends in the same release.

The process dies at each request of the job in turn, before and after GitHub has done what it asked. A sample
of the requests is tried, or (marked ``slow``) all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import console
from tests.github_server import Fault
from tests.release.integration import github_job
from tests.release.integration.github_job import end_state, environment, job, world

if TYPE_CHECKING:
    from tests.github_server import Record
    from tests.release.integration.github_job import Undisturbed
    from tests.sigstore.services import Services

ROOT = Path(__file__).parents[3]
JOB = f"import os, pathlib, sys; from {github_job.__name__} import job; job(os.environ, pathlib.Path(sys.argv[1]))"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_process_may_be_killed_at_every_request(
    moment: str,
    undisturbed: Undisturbed,
    sigstore: Services,
    exhaustive: bool,
    tmp_path: Path,
    without_waiting: None,
) -> None:
    console.quiet = True
    requests = undisturbed.requests
    tried = undisturbed.sample(3 if moment == "before" else 7, exhaustive=exhaustive)
    for number in tried:
        with world(tmp_path / f"{number}") as server:
            environ = environment(server, sigstore)
            started: Future[subprocess.Popen[bytes]] = Future()

            def kill(
                record: Record, number: int = number, started: Future[subprocess.Popen[bytes]] = started
            ) -> Fault | None:
                if record.number != number:
                    return None
                if moment == "before":
                    started.result().kill()
                    return Fault(drop="before")
                return Fault(drop="after", on_done=lambda: started.result().kill())

            server.faults = kill
            command = [sys.executable, "-c", JOB, str(undisturbed.dist)]
            process = subprocess.Popen(command, env=os.environ | environ, cwd=ROOT)
            started.set_result(process)
            assert process.wait(timeout=600) == -signal.SIGKILL, requests[number - 1]
            server.faults = lambda record: None
            job(environ, undisturbed.dist)
            assert end_state(server) == undisturbed.end, f"killed {moment} request {number}: {requests[number - 1]}"
    print(f"\nkilled {moment} {len(tried)} of {len(requests)} requests")
    assert tried


def test_the_process_may_be_killed_before_its_run_is_listed(
    undisturbed: Undisturbed, sigstore: Services, tmp_path: Path, without_waiting: None
) -> None:
    console.quiet = True
    with world(tmp_path) as server:
        server.runs_appear_after = 3
        environ = environment(server, sigstore)
        started: Future[subprocess.Popen[bytes]] = Future()

        def kill(record: Record) -> Fault | None:
            if not record.operation.endswith("/dispatches"):
                return None
            return Fault(drop="after", on_done=lambda: started.result().kill())

        server.faults = kill
        command = [sys.executable, "-c", JOB, str(undisturbed.dist)]
        process = subprocess.Popen(command, env=os.environ | environ, cwd=ROOT)
        started.set_result(process)
        assert process.wait(timeout=600) == -signal.SIGKILL
        server.faults = lambda record: None
        assert len(server.dispatches) == 1
        job(environ, undisturbed.dist)
        assert len([made for made in server.dispatches if made.workflow == "release.yml"]) == 1
        assert end_state(server) == undisturbed.end
