"""One round of probes on several machines: a plan names them, each writes a record, and one machine gathers these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.git.remotes import UnreachableError
from mlir_release.host.files import read_document, write_atomically
from mlir_release.integrate import strategy as st
from mlir_release.integrate.state import Record
from mlir_release.model.decode import from_json

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.walk import Walk


def plan_round(walk: Walk, strategy: st.Strategy, *, until: str | None = None) -> dict[str, Any]:
    """The next round: ``probes`` (upstream commits; may be empty), and the ``head`` of the branch that they are for.

    ``attempts`` says of each how often it must fail to be bad: a commit that is about to be blamed is probed again.
    Commits where the carried patches do not apply are found here; no machine is needed for them.
    """
    walk.store.pull(walk.project.config.downstream.remote)
    seen = walk.observer.look(until=until)
    while True:
        records = walk.observer.verdicts(seen)
        known = walk.observer.knowledge(seen, records)
        decision = strategy.decide(known)
        positions = decision.positions if isinstance(decision, st.Probe) else ()
        attempts = walk.project.config.smoke.attempts
        if (again := walk.observer.unconfirmed(known, records, decision)) is not None:
            positions, attempts = again[:1], again[1]
        commits = [seen.upstream_at(position) for position in positions]
        applying = [commit for commit in commits if walk.observer.applies(seen, commit)]
        if applying == commits:
            return {
                "branch": seen.branch,
                "head": seen.head,
                "until": seen.until,
                "probes": commits,
                "attempts": dict.fromkeys(commits, attempts),
            }


def probe(walk: Walk, revision: str, record_to: Path | None = None, *, attempts: int = 0) -> Record:
    """Test one upstream commit and record the verdict, in the file ``record_to`` too.

    A recorded failure is tested again if the walk would have it confirmed.

    :param attempts: how often it must fail to be bad, for a machine that can't read what others have recorded
    """
    if record_to is not None:  # one machine of a round
        try:
            walk.store.pull(walk.project.config.downstream.remote)
        except UnreachableError as error:
            console.warn(str(error))
    seen = walk.observer.look()
    commit = walk.project.upstream.commit(revision).sha
    line = [seen.upstream_at(position) for position in range(len(seen.ahead) + 1)]
    if commit in line:
        position, records = line.index(commit), walk.observer.verdicts(seen)
        blaming = st.Culprit(position) if position else st.BaseBroken(0)
        again = walk.observer.unconfirmed(walk.observer.knowledge(seen, records), records, blaming)
        attempts = max(attempts, again[1] if again else 0)
    record = walk.probe(seen, commit, attempts=attempts)
    if record.verdict is st.Verdict.BAD:
        console.say(f"    it is bad{walk.project.config.smoke.withheld}")
    if walk.publish:
        walk.store.push(walk.project.config.downstream.remote)
    if record_to is not None:
        write_atomically(record_to, msgspec.json.format(msgspec.json.encode(record), indent=1))
    return record


def gather(walk: Walk, folder: Path) -> int:
    """Record the ``*.json`` in ``folder`` that probe jobs wrote. Returns how many.

    Probe jobs run foreign code: a record counts only if it answers a question that this branch asks.

    :raises UsageError: naming the file that is no such record
    :raises NeedsPersonError: without any record, or if all repeat what is known: another round would end the same way
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
    known = walk.store.load([record.key for record in records])
    walk.store.record(*records)
    if all(_repeats(record, known.get(record.key)) for record in records):
        raise NeedsPersonError(
            "smoke-failed",
            "the probes of this round only repeated failures that were known",
            where=str(folder),
            why="their machines could not fetch the recorded verdicts, and tested too few times to confirm one",
            remedy="give each probe what plan says: mlir-release integrate probe COMMIT --attempts N",
        )
    if walk.publish:
        walk.store.push(walk.project.config.downstream.remote)
    return len(records)


def _repeats(record: Record, known: Record | None) -> bool:
    """Whether ``record`` is another test of a known failure, with no more attempts."""
    return known is not None and known != record and known.verdict is st.Verdict.BAD and record.weight <= known.weight


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        "input-invalid",
        "a probe's record is not what was asked for",
        where=str(path),
        why=why,
        remedy="run the round again; nothing was recorded",
    )
