"""A release from its draft to its publication: its tag, its files and its build matrix, read once a command."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.builder.model.test_report import REPORT_SUFFIX, TestReport
from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.job_names import is_experimental, split_job_name
from mlir_release.release.forge.services import BAD_ENDS
from mlir_release.release.judging.scorecard import Scorecard, score, score_published
from mlir_release.release.judging.signed import Signatures, is_required, repository_of
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.matrix_jobs import Kind, Row, job_rows
from mlir_release.release.model.release_tags import parse_release_tag, parse_tag
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.pinning.state import ABANDONED_PREFIX, TagState, find_state, matrix_of
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, SignerPolicy
from mlir_release.release.transaction.ledger import once
from mlir_release.release.transaction.release_assets import RemoteRelease, draft_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.builder.model.names import WheelKey
    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.forge.base import Asset, Forge, Release, Tag
    from mlir_release.release.model.matrix import Matrix


class Draft(RemoteRelease):
    """A tag's draft, or its release once that is published.

    :param state: of the tag
    :param matrix: of the tag (:func:`~mlir_release.release.pinning.state.matrix_of`), or a part of it
    """

    def __init__(self, forge: Forge, state: TagState, release: Release, matrix: Matrix) -> None:
        super().__init__(forge, release)
        self.state = state
        self.matrix = matrix
        #: Missing wheels and tests that the filter of the last :meth:`missing_rows` left out.
        self.left_out: tuple[str, ...] = ()

    @classmethod
    def load(cls, forge: Forge, tag: str, *, matrix: Matrix | None = None) -> Draft:
        """Read everything about a tag, by lookups: its state, its draft or release, the matrix.

        :param matrix: None: that of the tag
        :raises UsageError: ``option-invalid``, ``tag-missing``, ``input-missing``, …
        :raises NeedsPersonError: ``tag-foreign``
        """
        return cls.of(forge, find_state(forge, tag), matrix=matrix)

    @classmethod
    def of(
        cls, forge: Forge, state: TagState, *, matrix: Matrix | None = None, release: Release | None = None
    ) -> Draft:
        """As :meth:`load`, for a tag whose state (and perhaps its draft or release) was read already."""
        if release is None:
            drafts = forge.drafts(state.name) if state.state != "published" else ()
            release = next(iter(drafts), None) or forge.published(state.name)
        if release is None:
            raise draft_missing(forge, state.name)
        return cls(forge, state, release, matrix or matrix_of(forge, state))

    @once
    def tags(self) -> Sequence[Tag]:
        """All tags of the forge, as they were when they were first asked for."""
        return self.forge.tags()

    @property
    def due(self) -> Matrix:
        """The part of the matrix that this release is to have."""
        return self.matrix.for_tag(self.state.tag)

    @cached_property
    def signatures(self) -> Signatures | None:
        """The check of its files' signatures; None if they need none. :raises UsageError:"""
        if not is_required(self.forge, self.matrix.release.provenance):
            return None
        policy = SignerPolicy(
            repository=repository_of(self.forge),
            tag=self.tag,
            commit=self.state.commit,
            revision=self.state.revision,
            branch=self.matrix.release.branch,
        )
        return Signatures(self, policy)

    def is_signed(self, name: str) -> bool:
        """Whether a file has a bundle beside it, if it has to; what the bundle says is checked before publication."""
        return self.signatures is None or name in self.complete(BUNDLE_SUFFIX)

    def wheels(self) -> dict[WheelKey, Asset]:
        """As :meth:`RemoteRelease.wheels`, but a wheel that nobody signed does not count: nothing can sign it later."""
        return {slot: asset for slot, asset in super().wheels().items() if self.is_signed(asset.name)}

    def reports(self) -> dict[str, TestReport]:
        """As :meth:`RemoteRelease.reports`, without those that nobody signed."""
        return {name: report for name, report in super().reports().items() if self.is_signed(name + REPORT_SUFFIX)}

    def need_pending(self) -> None:
        """Refuse to continue with a draft whose tag is abandoned by now. :raises NeedsPersonError: ``tag-abandoned``"""
        if self.release.draft and self.forge.tag(ABANDONED_PREFIX + self.tag) is not None:
            raise tag_abandoned(self.tag)

    def card(self, *, jobs: Mapping[str, RunJob] | None = None, read: bool = True) -> Scorecard:
        """Where its targets stand: by a draft's assets, or by the manifest of a published release.

        :param jobs: as :func:`~mlir_release.release.judging.scorecard.score` takes them
        :param read: False: download no report of a draft. Each complete one counts as passing, unless the job that ran
            the test ended badly.
        :raises NeedsPersonError: ``tag-foreign``: it was published without a manifest
        """
        if not self.release.draft:  # its wheels that failed are deleted; their reports say why
            manifest = self.manifest()
            lacking = {test.name for test in self.due.tests} - {test.name for test in manifest.tests}
            there = self.complete(REPORT_SUFFIX)
            failed = {name: self.report(there[name]) for name in sorted(lacking & there.keys())}
            return score_published(self.due, manifest, reports=failed, waivers=self.waived(), jobs=jobs)
        bad = {
            (split_job_name(name)[1], is_experimental(name))
            for name, job in (jobs or {}).items()
            if split_job_name(name)[0] == "tests" and job.conclusion in BAD_ENDS
        }
        doubtful = {test.name for test in self.due.tests if (test.runtime.name, not test.required) in bad}
        found = [name for name in self.complete(REPORT_SUFFIX) if self.is_signed(name + REPORT_SUFFIX)]
        unread = dict.fromkeys(name for name in found if name not in doubtful)
        reports: Mapping[str, TestReport | None] = self.reports() if read else unread
        return score(self.due, wheels=self.wheels(), reports=reports, waivers=self.waived(), jobs=jobs)

    def missing_rows(self, kind: Kind, *, only: str = "") -> list[Row]:
        """The jobs that make what it still lacks, as rows for a workflow's matrix; none once it is published.

        A wheel that serves several CPythons is made for all of them, whichever of them the filter accepts.

        :param only: a filter of the matrix; what it leaves out stays missing, and is in :attr:`left_out`
        :raises UsageError: ``option-invalid``: no target fits the filter
        :raises VerificationError: those of :func:`~mlir_release.release.pinning.pinned.check_pinned`
        """
        check_pinned(self.forge, self.state)
        chosen = self.due.only(only) if only else self.due
        if not self.release.draft:
            return []
        card, release = self.card(), self.state.of_release
        names = {wheel.name for wheel in chosen.wheels} | {test.name for test in chosen.tests}
        lacking = (*card.lacking_wheels, *card.lacking_tests)
        self.left_out = tuple(name for name in lacking if name not in names)
        wheels, tests = names.intersection(card.lacking_wheels), names.intersection(card.lacking_tests)
        return job_rows(self.due, kind, wheels=wheels, tests=tests, release=release)

    def fetch_wheel(self, target: str, folder: Path) -> Path:
        """Download a target's wheel into ``folder``. :raises UsageError: ``option-invalid``, ``release-unsuitable``"""
        asset = self.wheels().get(self.matrix.wheel(target).slot)
        if asset is None:
            raise UsageError(
                "release-unsuitable",
                f"{self.tag} has no complete wheel of {target}",
                where=self.forge.description,
                remedy="build and upload it first: mlir-release publish --dist … --upload-only",
            )
        folder.mkdir(parents=True, exist_ok=True)
        return self.fetch(asset, folder)


def previous_manifest(forge: Forge, names: Iterable[str], tag: str) -> Manifest | None:
    """The manifest of the newest older release of the same kind as ``tag``.

    :param names: of the tags to look at; one after the other, from the newest, until one is published with a manifest
    """
    this = parse_release_tag(tag)
    older = [order for name in names if (order := parse_tag(name)) is not None and order.kind == this.kind]
    for order in sorted((order for order in older if order < this), reverse=True):
        release = forge.published(str(order))
        asset = release.asset(MANIFEST_NAME) if release is not None else None
        if release is not None and asset is not None:
            return Manifest.from_text(RemoteRelease(forge, release).content(asset), where=asset.url)
    return None


def tag_abandoned(tag: str, *, why: str = "") -> NeedsPersonError:
    """The error for a tag that was given up. ``why``: the reason that was recorded."""
    return NeedsPersonError("tag-abandoned", f"{tag} was abandoned", where=tag, why=why)
