"""What goes wrong with GitHub: hours in which it is down or refuses, and single requests that are lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.github_server import Fault, graphql_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from random import Random

    from tests.github_server import Record

Kind = Literal["down", "primary limit", "secondary limit", "no dispatches"]

#: Of a thousand requests, how many go wrong in each way.
_OF_A_THOUSAND = {"502": 2, "before": 2, "after": 3}
_HALF_UPLOADS = 0.02

#: How a policy of Actions forbids to dispatch a workflow.
FORBIDDEN = "Event 'workflow_dispatch' is not allowed to trigger Actions workflows."

#: What creates something, as the secondary limit counts.
_CREATES = ("POST", "PATCH", "PUT", "DELETE")


@dataclass(frozen=True)
class Spell:
    """A time in which GitHub is not well."""

    kind: Kind
    begin: datetime
    end: datetime


class Weather:
    """Tells of each request how it goes wrong, if it does."""

    def __init__(self, spells: Sequence[Spell], random: Random, now: Callable[[], datetime], calm: datetime) -> None:
        self.spells = spells
        self.random = random
        self.now = now
        self.calm = calm  #: from then on nothing goes wrong
        self.seen: dict[str, int] = {}  #: how often each kind of fault struck

    def fault(self, record: Record) -> Fault | None:
        """For :attr:`GitHubServer.faults`."""
        now = self.now()
        for spell in self.spells:
            if spell.begin <= now < spell.end and (fault := self._in_a_spell(spell, record)) is not None:
                return self._count(spell.kind, fault)
        if now >= self.calm or not record.operation or record.operation == "GET /rate_limit":
            return None
        if record.path.endswith("/assets") and record.method == "POST" and self.random.random() < _HALF_UPLOADS:
            return self._count("truncated", Fault(drop="truncate"))
        draw = self.random.random() * 1000
        for kind, weight in _OF_A_THOUSAND.items():
            if draw < weight:
                fault = Fault(status=502, message="Bad Gateway") if kind == "502" else Fault(drop=kind)  # type: ignore[arg-type]
                return self._count({"before": "reset", "after": "answer lost"}.get(kind, kind), fault)
            draw -= weight
        return None

    def _in_a_spell(self, spell: Spell, record: Record) -> Fault | None:
        if spell.kind == "down":
            api = record.operation and record.number % 2
            return Fault(drop="before") if api else Fault(status=503, message="No server is currently available")
        if spell.kind == "no dispatches":
            forbids = record.operation.endswith("/dispatches")
            return Fault(status=403, message=FORBIDDEN) if forbids else None
        if not record.operation or record.operation == "GET /rate_limit":
            return None
        asks = record.operation.endswith("/graphql")
        if spell.kind == "primary limit":
            if asks:
                return graphql_limit(spell.end)
            headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(spell.end.timestamp()))}
            return Fault(status=403, headers=headers, message="API rate limit exceeded for installation ID 1.")
        if asks or record.method not in _CREATES:
            return None
        return Fault(status=403, headers={"retry-after": "60"}, message="You have exceeded a secondary rate limit.")

    def _count(self, kind: str, fault: Fault) -> Fault:
        self.seen[kind] = self.seen.get(kind, 0) + 1
        return fault
