"""The channel ``latest-good``: the newest snapshot that nothing speaks against, a while after its publication.

Only a snapshot that is older than `good-after-hours`, complete, not yanked, without a known revert that affects MLIR,
and green in every required canary becomes good. The channel goes back only if the snapshot that it named was yanked
or reverted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.times import format_age
from mlir_release.ground.errors import ForgeError, VerificationError
from mlir_release.ground.job_names import probe_tag
from mlir_release.release.forge.base import Forge, public_name
from mlir_release.release.forge.files import matrix_of_branch, read_yanks
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, read_published
from mlir_release.release.latest.canary_records import read_records
from mlir_release.release.model.release_index import Quality, ReleaseQuality
from mlir_release.release.model.release_tags import LATEST_GOOD, SnapshotTag, parse_tag
from mlir_release.release.model.yanks import Yank, yank_reason
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.canaries import CanaryTable
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.model.matrix import Matrix

#: Snapshots that are looked at, the newest first: ten days of two a day.
LOOKED_AT = 20

#: Runs of the check in clean environments that are looked at.
_PROBE_RUNS = 10

PROBE_WORKFLOW = "probe.yml"


@dataclass(frozen=True, kw_only=True)
class GoodChoice:
    """What ``latest-good`` names."""

    tag: str  #: empty: no snapshot is good
    why_not: Mapping[str, str] = field(default_factory=dict)  #: of each newer snapshot, newest first
    unknown: tuple[str, ...] = ()  #: what nothing has recorded, for people

    def text(self) -> str:
        """A line, then one for each newer snapshot."""
        first = f"{LATEST_GOOD} is {self.tag}" if self.tag else f"no snapshot is {LATEST_GOOD} yet"
        return "\n".join([first, *(f"  not {tag}: {why}" for tag, why in self.why_not.items()), *self.unknown])


def choose_good(
    tags: Iterable[str],
    manifest_of: Callable[[str], Manifest | None],
    *,
    matrix: Matrix,
    quality: Quality,
    yanks: Sequence[Yank],
    probes: Mapping[str, bool],
    now: datetime,
    before: str = "",
) -> GoodChoice:
    """The newest good snapshot, and what speaks against each newer one.

    :param tags: of published snapshots, newest first
    :param manifest_of: a tag's manifest, read only if nothing else speaks against the snapshot; None: not believed
    :param matrix: of the branch: its required targets, its canaries, and how old a good snapshot is
    :param probes: whether the check in clean environments passed, by tag, where that is recorded
    :param now: by the forge's clock
    :param before: the tag that the channel named until now, which what is only missing does not unseat
    """
    why_not: dict[str, str] = {}
    for tag in tags:
        known = quality.releases.get(tag, ReleaseQuality())
        reason = yank_reason(yanks, tag)
        against = [] if reason is None else [f"it is yanked: {reason}"]
        against += [
            f"upstream has reverted {each.commit[:12]} ({each.subject}) by {each.by[:12]}"
            for each in known.reverted
            if each.affects
        ]
        if tag != before:
            against += _untested(known, filter(lambda canary: not canary.llvm, matrix.canaries))
            against += ["the check in clean environments failed"] if probes.get(tag) is False else []
        manifest = manifest_of(tag) if not against else None
        if manifest is not None and tag != before:
            against += _incomplete(manifest, matrix)
            fitting = [canary for canary in matrix.canaries if canary.llvm and not canary.misfit(manifest.llvm_version)]
            against += _untested(known, fitting)
            age, wanted = now - manifest.created, timedelta(hours=matrix.release.good_after_hours)
            against += [] if age >= wanted else [f"it is {format_age(age)} old, of {format_age(wanted)}"]
        elif manifest is None and not against:
            against = ["its manifest can't be believed"]
        if against:
            why_not[tag] = "; ".join(against)
            continue
        said = f"{PROBE_WORKFLOW}: nothing is recorded about {tag}, so that it does not count"
        return GoodChoice(tag=tag, why_not=why_not, unknown=() if tag in probes else (said,))
    return GoodChoice(tag="", why_not=why_not)


def _incomplete(manifest: Manifest, matrix: Matrix) -> list[str]:
    """Experimental targets don't count, nor do those that became required later, unless the release lacks them."""
    required = {wheel.name for wheel in matrix.wheels if wheel.required}
    required |= {test.name for test in matrix.tests if test.required}
    waived = [f"{waiver.target} was waived" for waiver in manifest.waivers]
    return waived + [f"{row.target} was left out" for row in manifest.left_out if row.target in required]


def _untested(known: ReleaseQuality, canaries: Iterable[CanaryTable]) -> list[str]:
    found = {each.name: each.status for each in known.canaries}
    words = {"failed": "failed", "broken": "could not be tried"}
    return [
        f"the canary {canary.name} {words.get(found.get(canary.name, ''), 'has not run')}"
        for canary in canaries
        if canary.required and found.get(canary.name) != "passed"
    ]


def known_here(forge: Forge, matrix: Matrix) -> Quality:
    """What a forge that signs nothing knows of its snapshots: the canaries' results."""
    records = read_records(forge)
    known = records.known(set(records.releases), matrix.canaries)
    return Quality(
        repository=public_name(forge), releases={tag: ReleaseQuality(canaries=rows) for tag, rows in known.items()}
    )


# -- what the repository knows -----------------------------------------------------------------------------------------


def find_good(
    forge: Forge,
    quality: Quality,
    *,
    branch: str,
    before: str = "",
    signed_by: SignedBy = AS_DECLARED,
    tags: Collection[str] | None = None,
) -> GoodChoice:
    """The choice for a forge as it is now.

    :param branch: the protected one
    :param before: the tag that the channel named until now; empty: none
    :param tags: of the releases that count, those of the index; None: those that the forge lists
    """

    def manifest_of(tag: str) -> Manifest | None:
        try:
            return read_published(forge, tag, signed_by).manifest
        except VerificationError as error:  # of before releases were signed, or published by hand
            console.warn(f"{tag} can't be {LATEST_GOOD}: {error.what}")
            return None

    if tags is None:
        tags = [row.tag for row in Ledger(forge).rows if not row.draft]
    return choose_good(
        _newest(tags, before),
        manifest_of,
        matrix=matrix_of_branch(forge, branch),
        quality=quality,
        yanks=read_yanks(forge, branch),
        probes=read_probes(forge, branch),
        now=forge.now(),
        before=before,
    )


def _newest(tags: Iterable[str], before: str) -> list[str]:
    """The newest snapshots, newest first; at the end ``before``: the channel keeps it though none was good for long."""
    snapshots = sorted((tag for name in tags if isinstance(tag := parse_tag(name), SnapshotTag)), reverse=True)
    names = [str(tag) for tag in snapshots]
    return names[:LOOKED_AT] + [name for name in names[LOOKED_AT:] if name == before]


def read_probes(forge: Forge, branch: str) -> dict[str, bool]:
    """Whether the check in clean environments passed, by the release's tag: by the newest run's jobs of that name.

    Empty, with a warning, where the token may not read the runs.
    """
    found: dict[str, bool] = {}
    try:
        runs: Sequence[Run] = forge.runs(PROBE_WORKFLOW, ref=branch)
        for run in islice(runs, _PROBE_RUNS):
            for job in sorted(forge.services.runs.jobs(run), key=lambda job: job.started_at, reverse=True):
                tag = probe_tag(job.name)
                if tag and job.status == "completed":
                    found.setdefault(tag, job.conclusion == "success")
    except ForgeError as error:
        console.warn(f"the runs of {PROBE_WORKFLOW} can't be read, so that they don't count: {error.what}")
    return found
