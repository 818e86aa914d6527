"""One round of probes on several machines: a plan names them, each writes a record, and one machine gathers these."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from mlir_release.ground import strategy as st
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import from_json
from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.git.remotes import UnreachableError
from mlir_release.ground.job_names import own_name, probe_job
from mlir_release.ground.storage.files import read_document, write_atomically
from mlir_release.integrate.patches.export import check_fork
from mlir_release.integrate.patches.files import check_files
from mlir_release.integrate.patches.patches import PatchConflict
from mlir_release.integrate.pins.generated import NONE_GENERATED, Contents, contents_of, stored, with_generated
from mlir_release.integrate.state import Record
from mlir_release.integrate.walk.diamond import BUILD, DROP, due
from mlir_release.integrate.walk.together import JointWalk, named

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mlir_release.ground.hosting import RunJob
    from mlir_release.integrate.walk.observe import Observation
    from mlir_release.integrate.walk.walk import Walk


def plan_round(
    joint: JointWalk, strategy: st.Strategy, *, until: str | None = None, probing: bool = True
) -> dict[str, Any]:
    """The next round: ``probes`` (upstream commits; may be empty), and the ``head`` of the branch that they are for.

    ``attempts`` says how often each must fail to be bad: a commit that is about to be blamed is probed again.
    Commits where the carried patches do not apply are found here; no machine is needed for them. Where there are
    several upstreams, a probe is ``NAME@COMMIT``, and ``NAME@COMMIT+NAME@COMMIT`` moves two of them together.

    :param probing: False: there are no probes, whatever the strategy says
    """
    joint.store.pull(joint.project.config.downstream.remote)
    joint.look(until)
    records = joint.store.load()
    for walk in joint.walks:
        probes = [step.spelled for step in due(walk) if step.question.key not in records]
        if probes:
            break
    attempts = joint.project.config.smoke.attempts
    for walk in joint.in_turn() if not probes else ():
        probes, attempts, first = _planned(joint, walk, strategy)
        if first:
            break
    seen = walk.observer.look(until=joint.goals[walk], fetch=False)
    where = {"branch": seen.branch, "head": seen.head, "until": seen.until}
    return {**where, "probes": probes if probing else [], "attempts": attempts}


def _planned(joint: JointWalk, walk: Walk, strategy: st.Strategy) -> tuple[list[str], int, bool]:
    """The probes that one upstream's walk needs; how often each must fail; whether the next upstream has to wait."""
    usual = walk.project.config.smoke.attempts
    seen = walk.observer.look(until=joint.goals[walk], fetch=len(joint.walks) == 1)
    if suspect := joint.suspect(walk):
        return [joint.spelled({walk: seen.upstream_at(suspect)})], usual, True
    check_files(walk.project, seen.head, seen.pin, seen.base)
    check_fork(walk.project, seen.pin, seen.base)
    while True:
        reach, records = walk.observer.reach(seen), walk.observer.verdicts(seen)
        known = walk.observer.knowledge(seen, records, reach=reach)
        decision, attempts = walk.observer.doubted(seen, known, records, strategy.decide(known), strategy)
        positions = decision.positions if isinstance(decision, st.Probe) else ()
        commits = [seen.upstream_at(position) for position in positions]
        applying = [commit for commit in commits if walk.observer.applies(seen, commit)]
        if applying == commits:
            break
    if commits or strategy.reached(known) > 0:
        return [joint.spelled({walk: commit}) for commit in commits], attempts or usual, True
    if not isinstance(decision, st.Culprit | st.Range):
        return [], usual, False
    bad = decision.position if isinstance(decision, st.Culprit) else decision.bad
    recorded = walk.store.load()
    combinations = []
    for moves in joint.candidates(walk, seen.upstream_at(bad))[0]:
        with suppress(PatchConflict):
            record = recorded.get(joint.step(moves).question.key)
            if record is not None and record.verdict is st.Verdict.GOOD:
                return [], usual, True
            if record is None:
                combinations.append(joint.spelled(moves))
    return combinations, usual, bool(combinations)


def probe(joint: JointWalk, revision: str, record_to: Path | None = None, *, attempts: int = 0) -> Record:
    """Test one upstream commit, or a combination, and record the verdict, in the file ``record_to`` too.

    A recorded failure is tested again if the walk would have it confirmed.

    :param revision: as :func:`plan_round` names it
    :param attempts: how often it must fail to be bad, for a machine that can't read what others have recorded
    """
    if record_to is not None:  # one machine of a round
        try:
            joint.store.pull(joint.project.config.downstream.remote)
        except UnreachableError as error:
            console.warn(str(error))
    if revision.startswith((DROP, BUILD)):
        for each in joint.walks:
            each.observer.look()
        step = next((step for each in joint.walks for step in due(each) if step.spelled == revision), None)
        if step is None:
            raise UsageError(
                "revision-unknown",
                f"{revision!r} is no step of this branch",
                where=joint.branch,
                why="the patch or the release is not here, or its dependency has moved on",
                remedy="plan the round again",
            )
        record = step.probe()
    else:
        asked = named([walk.project for walk in joint.walks], revision)
        walks = {walk.project: walk for walk in joint.walks}
        seen = {walks[project]: walks[project].observer.look() for project in asked}
        moves = {walks[project]: project.upstream.commit(wanted).sha for project, wanted in asked.items()}
        (walk, commit), *others = moves.items()
        here = seen[walk]
        line = [here.upstream_at(position) for position in range(len(here.ahead) + 1)]
        if commit in line and not others:
            position, records = line.index(commit), walk.observer.verdicts(here)
            blaming = st.Culprit(position) if position else st.BaseBroken(0)
            again = walk.observer.unconfirmed(walk.observer.knowledge(here, records), records, blaming)
            attempts = max(attempts, again[1] if again else 0)
        record = joint.step(moves).probe() if others else walk.probe(here, commit, attempts=attempts)
    if record.verdict is st.Verdict.BAD:
        console.say(f"    it is bad{joint.project.config.smoke.withheld}")
    if joint.publish:
        joint.store.push(joint.project.config.downstream.remote)
    if record_to is not None:
        known = {name: getattr(record, name) for name in Record.__struct_fields__}
        contents = contents_of(joint.project.outer, record.generated)
        sent = SentRecord(**known | {"generated": NONE_GENERATED, "contents": contents})
        write_atomically(record_to, msgspec.json.format(msgspec.json.encode(sent), indent=1))
    return record


class SentRecord(Record, frozen=True, kw_only=True):
    """A record on its way to another machine, with the content of the generated files."""

    contents: Contents = msgspec.field(default_factory=dict)


def gather(joint: JointWalk, folder: Path, jobs: Iterable[RunJob] | None = None) -> int:
    """Record the ``*.json`` in ``folder`` that probe jobs wrote. Returns how many.

    Probe jobs run foreign code, which may write any file, and may replace those of other jobs. So a record counts only
    if it answers a question that this branch asks, and if the job that was to answer it ended as the record says.

    :param jobs: those of the run, as the forge lists them: the newest attempt of each counts. None: there is no forge
        to ask, and the records are believed
    :raises UsageError: naming the file that is no such record
    :raises NeedsPersonError: without any record, or if all repeat what is known: another round would end the same way
    """
    seen = {walk: walk.observer.look() for walk in joint.walks}
    ends = {own_name(job.name): job.conclusion for job in sorted(jobs or (), key=lambda job: job.started_at)}
    records = []
    for path in sorted(folder.rglob("*.json")):
        try:
            sent = from_json(read_document(path), SentRecord)
            known = {name: getattr(sent, name) for name in Record.__struct_fields__}
            record = Record(**known | {"generated": stored(joint.project.outer, sent.contents)})
        except (OSError, ValueError) as error:
            raise _refused(path, str(error)) from error
        walk = next((walk for walk in joint.walks if walk.project.slug == record.of), None)
        if walk is None or not (probes := _answered(joint, walk, seen[walk], record)):
            raise _refused(path, "it is about another commit, other sources or another command")
        wanted = "success" if record.verdict is st.Verdict.GOOD else "failure"
        found = [ends.get(probe_job(probe)) or "no end" for probe in probes]
        if jobs is not None and wanted not in found:
            console.warn(f"{record.upstream[:12]} is not {record.verdict}, as {path.name} says: its job has {found[0]}")
            continue
        with_generated(joint.project.outer, seen[walk].head, record.generated, joint.project.config.upstreams)
        records.append(record)
    if not records:
        raise NeedsPersonError(
            "smoke-failed",
            "no probe of this round came to a verdict",
            where=str(folder),
            why="no probe job ended with an answer of its smoke test",
            remedy="read the logs of the probe jobs, fix what they complain about, and run the round again",
        )
    before = joint.store.load([record.key for record in records])
    joint.store.record(*records)
    pairs = [(record, before.get(record.key, record)) for record in records]
    if all(old.verdict is st.Verdict.BAD and new != old and new.weight <= old.weight for new, old in pairs):
        raise NeedsPersonError(
            "smoke-failed",
            "the probes of this round only repeated failures that were known",
            where=str(folder),
            why="their machines could not fetch the recorded verdicts, and tested too few times to confirm one",
            remedy="give each probe what plan says: mlir-release integrate probe COMMIT --attempts N",
        )
    if joint.publish:
        joint.store.push(joint.project.config.downstream.remote)
    return len(records)


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        "input-invalid",
        "a probe's record is not what was asked for",
        where=str(path),
        why=why,
        remedy="run the round again; nothing was recorded",
    )


def _answered(joint: JointWalk, walk: Walk, seen: Observation, record: Record) -> list[str]:
    """The probes that this record may be of, as a plan names them: of one upstream, or of several moved together."""
    key, line = (record.key, record.pristine_tree), {seen.base, *(commit.sha for commit in seen.ahead)}
    if record.upstream in line and walk.observer.applies(seen, record.upstream):
        question = walk.observer.question(seen, record.upstream)
        if (question.key, question.pristine_tree) == key:
            return [joint.spelled({walk: record.upstream})]
    asked = [(step.spelled, step.question) for each in joint.walks for step in due(each)]
    for each in joint.walks if len(joint.walks) > 1 else ():
        for moves in joint.candidates(each, bad)[0] if (bad := joint.broken(each)) else ():
            with suppress(PatchConflict):
                asked.append((joint.spelled(moves), joint.step(moves).question))
    return [probe for probe, question in asked if (question.key, question.pristine_tree) == key]
