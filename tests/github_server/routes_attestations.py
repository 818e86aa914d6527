"""The attestations of a repository."""

from __future__ import annotations

from tests.github_server.records import Answer
from tests.github_server.routes import REPO, Call, route


@route(f"POST {REPO}/attestations")
def create_attestation(call: Call) -> Answer:
    call.need("attestations")
    call.repository.attestations.append(call.input["bundle"])
    return Answer(201, {"id": call.repository.github.next_id()})
