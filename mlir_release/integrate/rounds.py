"""One round of probes on several machines: a plan names them, each writes a record, and one machine gathers these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.host.files import read_document, write_atomically
from mlir_release.integrate import strategy as st
from mlir_release.integrate.state import Record
from mlir_release.model.decode import from_json

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.walk import Walk


def plan_round(walk: Walk, strategy: st.Strategy, *, until: str | None = None, probing: bool = True) -> dict[str, Any]:
    """The next round: ``probes`` (upstream commits; may be empty), and the ``head`` of the branch that they are for.

    Commits where the carried patches do not apply are found here; no machine is needed for them.

    :param probing: False: there are no probes, whatever the strategy says
    """
    walk.store.pull(walk.project.config.downstream.remote)
    seen = walk.observer.look(until=until)
    date = walk.project.upstream.text("log", "-1", "--format=%cs", seen.until)
    while True:
        decision = strategy.decide(walk.observer.knowledge(seen, walk.observer.verdicts(seen)))
        positions = decision.positions if isinstance(decision, st.Probe) and probing else ()
        commits = [seen.upstream_at(position) for position in positions]
        applying = [commit for commit in commits if walk.observer.applies(seen, commit)]
        if applying == commits:
            return {"branch": seen.branch, "head": seen.head, "until": seen.until, "date": date, "probes": commits}


def probe(walk: Walk, revision: str, record_to: Path | None = None) -> Record:
    """Test one upstream commit and record the verdict, in the file ``record_to`` too."""
    record = walk.probe(walk.observer.look(), walk.project.upstream.commit(revision).sha)
    if record.verdict is st.Verdict.BAD:
        console.say(f"    it is bad{walk.project.config.smoke.withheld}")
    walk.store.record(record)
    if walk.publish:
        walk.store.push(walk.project.config.downstream.remote)
    if record_to is not None:
        write_atomically(record_to, msgspec.json.format(msgspec.json.encode(record), indent=1))
    return record


def gather(walk: Walk, folder: Path) -> int:
    """Record the ``*.json`` in ``folder`` that probe jobs wrote. Returns how many.

    Probe jobs run foreign code: a record counts only if it answers a question that this branch asks.

    :raises UsageError: naming the file that is no such record
    :raises NeedsPersonError: without any record: another round would end the same way
    """
    seen = walk.observer.look()
    ahead = {seen.base, *(commit.sha for commit in seen.ahead)}
    records = []
    for path in sorted(folder.rglob("*.json")):
        try:
            record = from_json(read_document(path), Record)
        except (OSError, ValueError) as error:
            raise _refused(path, str(error)) from error
        if record.upstream not in ahead or not walk.observer.asks(seen, record):
            raise _refused(path, "it is about another commit, other sources or another command")
        records.append(record)
    if not records:
        raise NeedsPersonError(
            "smoke-failed",
            "no probe of this round came to a verdict",
            where=str(folder),
            why="every probe job failed before its smoke test had an answer",
            remedy="read the logs of the probe jobs, fix what they complain about, and run the round again",
        )
    walk.store.record(*records)
    if walk.publish:
        walk.store.push(walk.project.config.downstream.remote)
    return len(records)


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        "input-invalid",
        "a probe's record is not what was asked for",
        where=str(path),
        why=why,
        remedy="run the round again; nothing was recorded",
    )
