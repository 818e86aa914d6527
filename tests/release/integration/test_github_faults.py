"""Whatever fails on the way to a release on GitHub, running the same job again ends in the same release.

Every request of a whole job (pin, tag, draft, dispatch, uploads, verification, publication, sweep, issues, index) goes
wrong in turn, in every way: a sample of them, or (marked ``slow``) all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import console
from mlir_release.ground.errors import ReleaseError
from mlir_release.release.forge.github import client as github_client
from tests.github_server import Fault, graphql_limit
from tests.release.integration.github_job import NOW, end_state, environment, job, world

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
def _no_waiting(pauses: list[float]) -> None:
    console.quiet = True


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
