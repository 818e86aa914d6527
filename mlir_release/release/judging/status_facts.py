"""Read from a forge the facts that :mod:`.status` needs. The requests don't grow with the number of releases.

Published releases are asked for their manifests, from their public addresses; pending ones for their runs, and for
their drafts where the token may see them. What can't be read is noted, and the rest is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.files import DEFAULT_BRANCH, matrix_of_branch
from mlir_release.release.judging.scorecard import merge_jobs, score
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.judging.status import Facts, TagFacts
from mlir_release.release.latest.catalogue import read_learnt
from mlir_release.release.latest.reverts import note_of
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.release_index import Quality, ReleaseQuality
from mlir_release.release.pinning.state import TagState, matrix_of
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.release_assets import parse_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.hosting import Issue, RunJob
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.transaction.ledger import Ledger

Answer = TypeVar("Answer")

#: Releases of each kind that are shown.
SHOWN = 10

#: The newest runs of a pending release whose jobs are read: a second run builds only what the first left missing.
MAX_RUNS = 2


def observe_status(
    ledger: Ledger,
    matrix: Matrix,
    *,
    limit: int = SHOWN,
    known: Mapping[str, Manifest] | None = None,
    branch: str = DEFAULT_BRANCH,
    learnt: tuple[Quality, str] | None = None,
) -> Facts:
    """Read the facts about the newest releases.

    :param matrix: of the branch
    :param limit: so many releases of each kind
    :param known: manifests of published releases that need not be read
    :param branch: the protected one
    :param learnt: what is known of releases since they were published, and the tag of the channel latest-good, or
        empty; None: they are looked up
    """
    forge, states, seen = ledger.forge, ledger.newest(limit), _Observer(ledger, matrix, dict(known or {}))
    asked = SignedBy(branch=branch)
    none: Sequence[Issue] = ()
    issues = seen.attempt("issues", forge.services.tracker.open_issues, none)
    if learnt is None:
        nothing = (Quality(repository=""), "")
        learnt = seen.attempt("what was reverted since", lambda: read_learnt(forge, asked), nothing)
    quality, good = learnt
    lines = {
        line: seen.attempt(f"the matrix of LLVM {line}", partial(matrix_of_branch, forge, branch, line), matrix)
        for line in sorted({state.tag.line for state in states if state.tag.line is not None})
    }
    with scratch_folder("status") as folder:
        found = [seen.release(state, folder) for state in reversed(states)]
    for state in reversed(states):
        if note := note_of(state.name, quality.releases.get(state.name, ReleaseQuality()).reverted):
            seen.notes[note] = None
    return Facts(
        now=forge.now(),
        source=forge.services.location or forge.description,
        releases=tuple(found),
        matrix=matrix,
        lines=lines,
        manifests=tuple((seen.known | {row.state.name: row.manifest for row in found if row.manifest}).values()),
        issues=tuple(issues),
        good=good,
        notes=tuple(seen.notes),
    )


@dataclass
class _Observer:
    ledger: Ledger
    matrix: Matrix
    known: dict[str, Manifest]
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def forge(self) -> Forge:
        return self.ledger.forge

    def attempt(self, what: str, read: Callable[[], Answer], otherwise: Answer) -> Answer:
        """Return the answer of ``read``. If the forge refuses, add a note, and return ``otherwise``."""
        try:
            return read()
        except ReleaseError as error:
            self.notes[f"{what} can't be read: {error.what}"] = None
            return otherwise

    def release(self, state: TagState, folder: Path) -> TagFacts:
        if state.state == "published":
            rows = [row for row in self.ledger.rows if row.tag == state.name and not row.draft]
            return TagFacts(
                state=state,
                published_at=rows[0].published_at if rows else None,
                manifest=self.manifest(state.name, folder),
                page=self.forge.page_url(state.name),
            )
        if state.state == "abandoned":
            return TagFacts(state=state)
        matrix = self.attempt("the build matrix of a tag", lambda: matrix_of(self.forge, state), self.matrix)
        runs: Sequence[Run] = ()
        runs = self.attempt("runs", lambda: self.ledger.runs(matrix.release.workflow, ref=state.name), runs)
        oldest = next(iter(self.ledger.drafted(state.name)), None)
        release = self.attempt("drafts", lambda: self.forge.refresh(oldest), None) if oldest is not None else None
        draft = Draft(self.forge, state, release, matrix) if release is not None and release.draft else None
        none: Sequence[RunJob] = ()  # the forge may not tell of any
        read_jobs = self.forge.services.runs.jobs
        jobs = merge_jobs(self.attempt("jobs", partial(read_jobs, run), none) for run in runs[:MAX_RUNS])
        unseen = score(matrix.for_tag(state.tag), wheels={}, reports={}, waivers=(), jobs=jobs)
        card = unseen
        if draft is not None:
            # Where no jobs tell, as in a folder, the reports do, and reading them costs no request.
            read = not self.forge.services.url
            card = self.attempt(f"the draft of {state.name}", lambda: draft.card(jobs=jobs, read=read), unseen)
        seen = card is not unseen
        return TagFacts(state=state, card=card, seen=seen, runs=tuple(runs))

    def manifest(self, tag: str, folder: Path) -> Manifest | None:
        """A published release's manifest; None if it has none that can be read."""
        if tag in self.known:
            return self.known[tag]
        place = folder / f"{tag}.json"
        try:
            if not self.forge.fetch_published(tag, MANIFEST_NAME, place):
                return None
            return parse_manifest(read_document(place), tag, where=self.forge.file_url(tag, MANIFEST_NAME))
        except ReleaseError as error:
            self.notes[f"the manifest of {tag} can't be read: {error.what}"] = None
            return None
