"""Signing the files of a release: those that its matrix makes, and that the jobs which made them handed over."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, parse_json
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.files import read_document
from mlir_release.release.judging.scorecard import score_published
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.pinning.installable import confirm
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.pinning.state import TagState, find_state, matrix_of
from mlir_release.release.provenance.policy import SignerPolicy, Subject
from mlir_release.release.provenance.sign import Attested, attest, own_repository
from mlir_release.release.transaction.release_assets import parse_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.matrix import Matrix

#: Who hands the manifest over: it is of no target.
MANIFEST = "manifest"

_FILE = re.compile(r"([0-9a-f]{64}) (\S+)")
_FILES = re.compile(rf"{_FILE.pattern}(?: {_FILE.pattern})*")


@dataclass(frozen=True, kw_only=True)
class HandedOver:
    """What a job made."""

    targets: frozenset[str]  #: as its workflow says
    files: tuple[Subject, ...]  #: as it says itself


def attest_release(
    forge: Forge,
    tag: str,
    folder: Path,
    output: Path,
    *,
    kinds: Sequence[str],
    branch: str,
    handed_over: str | None = None,
) -> Attested:
    """Sign the files of a release, if its tag is one of ours that only pins a revision of upstream's.

    Whoever can push can make a tag whose workflows call the one that signs. So this is where a signature is refused,
    and a signature proves that the tag was checked, at the run's commit: a tag that was moved meanwhile names another.

    :param handed_over: the outputs of the jobs that made the files, as JSON (:func:`read_handed_over`); None: they made
        none, and only names are checked
    :raises VerificationError: those of :func:`~mlir_release.release.pinning.pinned.check_pinned`; ``tampered``,
        ``file-damaged``; see :func:`~mlir_release.release.provenance.sign.attest`, too
    """
    state = find_state(forge, tag)
    config = check_pinned(forge, state)
    matrix = matrix_of(forge, state).for_tag(state.tag)
    jobs = None if handed_over is None else read_handed_over(handed_over)

    def choose(files: Sequence[Subject]) -> list[Subject]:
        chosen = _choose(files, matrix, state.wheel_version, jobs)
        if any(file.name == MANIFEST_NAME for file in chosen):
            _check_manifest(next(folder.rglob(MANIFEST_NAME)), state, matrix)
        return chosen

    policy = SignerPolicy(
        repository=own_repository(os.environ), tag=tag, commit=state.commit, revision=state.revision, branch=branch
    )
    return attest(
        policy,
        folder,
        output,
        kinds=kinds,
        upstream=config.upstream,
        stack=state.stack,
        choose=choose,
        store=forge.services.keep_attestation,
    )


def read_handed_over(text: str) -> list[HandedOver]:
    """The files of each job, from the outputs of the jobs that made them: an object, or a list of several.

    An output is ``TARGET TARGET = SHA256 NAME SHA256 NAME``. The workflow writes the targets, and the job
    the rest, so that no job can hand over a file of another's targets. What is not of that form is left out: a job that
    failed early made no file.

    :raises UsageError: ``option-invalid``
    """
    try:
        found = parse_json(text)
    except MalformedError as error:
        found, why = None, str(error)
    else:
        why = "it is no object, and no list of objects"
    groups = [outputs or {} for outputs in found] if isinstance(found, list) and found else [found]
    if not all(isinstance(outputs, dict) for outputs in groups):
        raise UsageError(
            "option-invalid",
            "what --handed-over gives can't be read",
            why=why,
            remedy="give the outputs of the jobs as JSON, as platform.yml does",
        )
    rows = (str(value).partition(" = ") for outputs in groups for value in outputs.values())
    return [
        HandedOver(
            targets=frozenset(targets.split(" ")),
            files=tuple(Subject(sha256=digest, name=name) for digest, name in _FILE.findall(files)),
        )
        for targets, _, files in rows
        if _FILES.fullmatch(files)
    ]


def _choose(
    files: Sequence[Subject], matrix: Matrix, version: str, handed_over: Sequence[HandedOver] | None
) -> list[Subject]:
    """The files that are signed: of those that the matrix makes, the ones that were handed over.

    :raises VerificationError: ``tampered``, before anything is signed
    """
    targets = {file.name: _target_of(file.name, matrix, version) for file in files}
    for name, target in targets.items():
        if not target:
            raise _foreign(name, f"no target of the release makes a file of that name in version {version}")
    if handed_over is None:
        return list(files)
    digests: dict[str, Subject] = {}
    for job in handed_over:
        for file in job.files:
            target = _target_of(file.name, matrix, version)
            if target not in job.targets:
                raise _foreign(file.name, f"a job handed it over whose targets are {', '.join(sorted(job.targets))}")
            digests[target] = file
    chosen = []
    for file in files:
        made = digests.get(targets[file.name])
        if made is None:
            console.warn(f"{file.name} is not signed: the job of {targets[file.name]} handed nothing over")
        elif made != file:
            why = f"the job of {targets[file.name]} made {made.name} with the digest {made.sha256}, not {file.sha256}"
            raise _foreign(file.name, why)
        else:
            chosen.append(file)
    return chosen


def _target_of(name: str, matrix: Matrix, version: str) -> str:
    """The target that a file is of; empty if there is none that makes it."""
    if name == MANIFEST_NAME:
        return MANIFEST
    if name.endswith(REPORT_SUFFIX):
        target = name.removesuffix(REPORT_SUFFIX)
        return target if any(test.name == target for test in matrix.tests) else ""
    return next((wheel.name for wheel in matrix.wheels if wheel.makes(name, version)), "")


def _check_manifest(path: Path, state: TagState, matrix: Matrix) -> None:
    """Check that a manifest is of the tag, and has what the release requires or a person's waiver for it.

    It was written by the toolkit at the tag, which may be an older one; this is that of the protected branch.
    """
    manifest = parse_manifest(read_document(path), state.name, where=str(path))
    date = manifest.revision_date and state.revision_date  # an older toolkit records none
    said = (manifest.version, manifest.revision, manifest.revision_date, manifest.commit)
    if said != (state.wheel_version, state.revision, date, state.commit):
        raise _foreign(path.name, f"it is of {', '.join(said)}, which is not what {state.name} pins")
    if manifest.stack != state.stack:
        raise _foreign(path.name, f"it does not list the patches that {state.name} has")
    waivers = {waiver.target for waiver in manifest.waivers}
    card = score_published(confirm(matrix, state.facts), manifest, reports={}, waivers=waivers)
    lacking = [row.name for row in card.members.values() if row.required and row.state == "missing"]
    lacking += [row.name for row in card.excluded_targets.values() if row.state == "unconfirmed"]
    if lacking:
        raise _foreign(path.name, f"the release requires {', '.join(lacking)}, which it lacks, and nobody waived that")


def _foreign(name: str, why: str) -> VerificationError:
    return VerificationError(
        "tampered",
        f"{name} is not what the release's own jobs made",
        why=why,
        remedy="nothing was signed; find out which job of the run left it, then run all jobs of the run again",
    )
