"""A release from its draft to its publication: its tag, its files and its build matrix, read once a command."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.model.matrix_jobs import missing_rows
from mlir_release.model.release_tags import parse_release_tag, parse_tag
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.pinning.pinned import check_pinned
from mlir_release.pinning.state import ABANDONED_PREFIX, find_state, matrix_of
from mlir_release.provenance.policy import BUNDLE_SUFFIX, Policy
from mlir_release.release.assets import Expected
from mlir_release.release.release_assets import RemoteRelease, draft_missing, fetch
from mlir_release.release.scorecard import Scorecard, score
from mlir_release.release.signed import Signatures, is_required, repository_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.forge.base import Asset, Forge, Release, RunJob, Tag
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.matrix_jobs import Kind, Row
    from mlir_release.model.names import WheelKey
    from mlir_release.model.test_report import TestReport
    from mlir_release.pinning.state import TagState


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Targets of the build matrix that a draft still lacks, in the matrix's order."""

    wheels: tuple[str, ...]
    tests: tuple[str, ...]  #: no report, a failing one, or one about another build of the wheel


class Draft(RemoteRelease):
    """A tag's draft, or its release once that is published.

    :param state: of the tag
    :param matrix: of the tag (:func:`~mlir_release.pinning.state.matrix_of`), or a part of it
    """

    def __init__(self, forge: Forge, state: TagState, release: Release, matrix: Matrix) -> None:
        super().__init__(forge, release)
        self.state = state
        self.matrix = matrix

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

    @cached_property
    def tags(self) -> Sequence[Tag]:
        """All tags of the forge, as they were when they were first asked for."""
        return self.forge.tags()

    @property
    def due(self) -> Matrix:
        """The part of the matrix that this release is to have."""
        return self.matrix.for_tag(self.state.tag)

    @property
    def expected(self) -> Expected:
        """What each wheel must declare."""
        return Expected(tag=self.state.tag, revision=self.state.revision, version=self.state.wheel_version)

    @cached_property
    def signatures(self) -> Signatures | None:
        """The check of its files' signatures; None if they need none. :raises UsageError:"""
        if not is_required(self.forge, self.matrix.release.provenance):
            return None
        policy = Policy(
            repository=repository_of(self.forge),
            tag=self.tag,
            commit=self.state.commit,
            revision=self.state.revision,
            branch=self.matrix.release.branch,
        )
        return Signatures(self, policy)

    def is_signed(self, name: str) -> bool:
        """Whether a file has a bundle beside it, if it has to; what the bundle says is checked before publication."""
        return self.signatures is None or self._is_complete(name + BUNDLE_SUFFIX)

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

    def need_pinned(self) -> None:
        """Refuse to build or publish a tag that does more than pin upstream's own (:func:`~.pinned.check_pinned`)."""
        check_pinned(self.forge, self.state)

    def previous(self, folder: Path) -> Manifest | None:
        """The manifest of the newest published release of the same kind that is older; downloaded into ``folder``."""
        return previous_manifest(self.forge, (tag.name for tag in self.tags), self.tag, folder)

    def card(self, *, jobs: Mapping[str, RunJob] | None = None, read: bool = True) -> Scorecard:
        """Where its targets stand, by its assets.

        :param jobs: as :func:`~mlir_release.release.scorecard.score` takes them
        :param read: False: take each complete report for a passing one, and download none
        """
        reports: Mapping[str, TestReport | None] = self.reports() if read else dict.fromkeys(self._reported())
        return score(self.due, wheels=self.wheels(), reports=reports, waivers=self.waived(), jobs=jobs)

    def _reported(self) -> list[str]:
        """The tests that there are complete reports of."""
        names = [asset.name for asset in self.release.assets if asset.complete]
        return [name.removesuffix(REPORT_SUFFIX) for name in names if name.endswith(REPORT_SUFFIX)]

    def missing(self) -> Missing:
        """What it still lacks; waived targets are not asked for again, and a published release lacks nothing."""
        if not self.release.draft:
            return Missing(wheels=(), tests=())
        card = self.card()
        return Missing(wheels=card.lacking_wheels, tests=card.lacking_tests)

    def lacking_required(self, *, quick: bool = False) -> tuple[str, ...]:
        """The required targets that keep it from being published: wheels that are not there, tests of those that are.

        :param quick: where any is missing altogether, name only those, and read no reports
        """
        return (quick and self.card(read=False).lacking_required) or self.card().lacking_required

    def _is_complete(self, name: str) -> bool:
        asset = self.release.asset(name)
        return asset is not None and asset.complete

    def missing_rows(self, kind: Kind, *, only: str = "") -> list[Row]:
        """The jobs that make what it still lacks, as rows for a workflow's matrix.

        :param only: a filter of the matrix
        :raises VerificationError: see :meth:`need_pinned`
        """
        self.need_pinned()
        if only:
            self.matrix = self.due.only(only)
        lacking = self.missing()
        release = self.state.of_release
        return missing_rows(self.due, kind, wheels=lacking.wheels, tests=lacking.tests, release=release)

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


def previous_manifest(forge: Forge, names: Iterable[str], tag: str, folder: Path) -> Manifest | None:
    """The manifest of the newest older release of the same kind as ``tag``.

    :param names: of the tags to look at; one after the other, from the newest, until one is published with a manifest
    """
    this = parse_release_tag(tag)
    older = [order for name in names if (order := parse_tag(name)) is not None and order.kind == this.kind]
    for order in sorted((order for order in older if order < this), reverse=True):
        release = forge.published(str(order))
        asset = release.asset(MANIFEST_NAME) if release is not None else None
        if release is not None and asset is not None:
            place = folder / "previous"
            place.mkdir(parents=True, exist_ok=True)
            return Manifest.from_text(fetch(forge, release, asset, place).read_bytes(), where=asset.url)
    return None


def tag_abandoned(tag: str, *, why: str = "") -> NeedsPersonError:
    """The error for a tag that was given up. ``why``: the reason that was recorded."""
    return NeedsPersonError(
        "tag-abandoned",
        f"{tag} was abandoned",
        where=tag,
        why=why,
        remedy="make another release: mlir-release snapshot --force, or mlir-release release start",
    )
