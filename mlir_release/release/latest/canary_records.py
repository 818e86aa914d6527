"""Canaries: the tests of other projects, which ``canary.yml`` runs with a release's wheels; and their record.

Each canary has a job of its own, and a job without foreign code records. It takes every result from the jobs as GitHub
lists them, because a canary's code could replace the artifacts of the other canaries. The record is
``index/canaries.json`` on the branch ``latest``.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, alternatives
from mlir_release.ground.errors import UsageError
from mlir_release.ground.job_names import FAILED_STEP, canary_job, own_name
from mlir_release.ground.programs.process import LONGEST
from mlir_release.ground.programs.races import Races
from mlir_release.release.forge.base import BranchMoved, Forge
from mlir_release.release.forge.files import head_of, matrix_of_branch
from mlir_release.release.forge.services import Run
from mlir_release.release.model.canaries import CANARIES_NAME, CanaryRecords, CanaryTable, parse_records
from mlir_release.release.model.release_index import CanaryResult
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.model.release_tags import SnapshotTag, parse_tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.model.matrix import Matrix


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What was recorded."""

    tag: str
    results: tuple[CanaryResult, ...]
    stored: bool  #: False: the record has it already

    def text(self) -> str:
        """A line each, and what became of them."""
        lines = [f"{each.name}: {each.status} with {self.tag}" for each in self.results]
        return "\n".join([*lines, f"{'recorded in' if self.stored else 'as in'} {CANARIES_NAME} on {LATEST_BRANCH}"])


def chosen(matrix: Matrix, only: Sequence[str]) -> tuple[CanaryTable, ...]:
    """The matrix's canaries of these names; without a name all. :raises UsageError: ``option-invalid``"""
    known = {canary.name: canary for canary in matrix.canaries}
    for name in only:
        if name not in known:
            raise UsageError(
                "option-invalid",
                f"{matrix.file} has no canary {name!r}",
                why=alternatives(name, known) if known else f"{matrix.file} has no [[canary]]",
                remedy="name one of its canaries",
            )
    return tuple(known[name] for name in (only or known))


def jobs(canaries: Sequence[CanaryTable], tag: str) -> list[dict[str, str]]:
    """The rows of GitHub's matrix. ``minutes``: what the job may take, its preparation included.

    Commands are run one after the other by a shell, in which their words stand for nothing but themselves.
    """
    return [
        {
            "name": canary.name,
            "job": canary_job(canary.name, tag),
            "python": canary.cpython.version,
            "minutes": str(min(canary.timeout + round(LONGEST / 60) + 30, 350)),
            "timeout": str(canary.timeout),
            "repository": canary.repository,
            "ref": canary.ref,
            "distribution": canary.distribution or "",
            "needs": " ".join(canary.needs),
            "requirements": shlex.join(("pip", "install", "--quiet", *canary.requirements)),
            "prepare": _script(canary.prepare),
            "commands": _script(canary.commands),
        }
        for canary in canaries
    ]


def _script(commands: Sequence[str]) -> str:
    return "\n".join(shlex.join(shlex.split(command)) for command in commands)


def read_records(forge: Forge) -> CanaryRecords:
    """The record of a forge. One that can't be read counts as empty, with a warning."""
    head = forge.head(LATEST_BRANCH)
    return _parse(forge.read(CANARIES_NAME, commit=head) if head is not None else None, forge.description)


def _parse(content: bytes | None, where: str) -> CanaryRecords:
    if content is None:
        return CanaryRecords()
    try:
        return parse_records(content)
    except MalformedError as error:
        console.warn(f"{CANARIES_NAME} on the branch {LATEST_BRANCH} of {where} is passed over: {error}")
        return CanaryRecords()


def record(forge: Forge, tag: str, results: Sequence[CanaryResult], *, branch: str) -> Recorded:
    """Put results on the branch ``latest``, beside those of other snapshots of `linked-days`. Safe to repeat.

    :param branch: the protected one, whose ``targets.toml`` counts
    :raises ConflictError: ``lost-race``
    """
    config = matrix_of_branch(forge, branch).release
    since = (forge.now() - timedelta(days=config.linked_days)).date()
    races = Races(where=f"{LATEST_BRANCH} of {forge.description}")
    while True:
        head = forge.head(LATEST_BRANCH)
        content = forge.read(CANARIES_NAME, commit=head) if head is not None else None
        there = _parse(content, forge.description)
        tags = (tag for tag in map(parse_tag, there.releases) if isinstance(tag, SnapshotTag))
        kept = {str(tag) for tag in tags if tag.date >= since}
        made = there.with_results(tag, results, kept=kept).to_bytes()
        if made == content:
            return Recorded(tag=tag, results=tuple(results), stored=False)
        try:
            forge.commit(
                LATEST_BRANCH,
                expected=head,
                files={CANARIES_NAME: made},
                message=f"Record the canaries of {tag}\n",
                base=None if head is not None else head_of(forge, branch),  # the pointer's files stay as they are
            )
            return Recorded(tag=tag, results=tuple(results), stored=True)
        except BranchMoved as error:
            races.retry(f"commit to {LATEST_BRANCH}", error)


def results_of_run(
    forge: Forge, run: str, tag: str, canaries: Sequence[CanaryTable], version: str = ""
) -> tuple[CanaryResult, ...]:
    """The results of a run's jobs, as the forge lists them: of the newest attempt, where a job was run again.

    :param run: its id
    :param version: of the release's LLVM
    :raises ForgeError: ``not-on-forge``
    """
    shell = Run(id=run, workflow="", ref="", status="", conclusion=None, created_at=forge.now())
    jobs = {own_name(job.name): job for job in sorted(forge.services.runs.jobs(shell), key=lambda job: job.started_at)}
    return tuple(_result(canary, jobs.get(canary_job(canary.name, tag)), version) for canary in canaries)


def _result(canary: CanaryTable, job: RunJob | None, version: str) -> CanaryResult:
    if job is None:
        said = canary.misfit(version) or "it has no job in this run"
        return CanaryResult(name=canary.name, status="broken", said=said)
    failed = any(step.name == FAILED_STEP and step.conclusion == "failure" for step in job.steps)
    status = "passed" if job.conclusion == "success" else "failed" if failed else "broken"
    end = job.completed_at or job.started_at
    return CanaryResult(
        name=canary.name,
        status=status,  # type: ignore[arg-type]  # mypy widens the literals
        commit=canary.commit,
        seconds=max(0, round((end - job.started_at).total_seconds())),
        url=job.url,
    )
