"""Whether a draft may be published, judged from its own assets as the forge returns them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES
from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import LOCK_NAME
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.errors import NeedsPersonError, VerificationError
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.instructions.dependencies import resolve_dependencies
from mlir_release.release.instructions.lockfiles import lock_entries, lock_files
from mlir_release.release.judging.scorecard import Scorecard, score
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest, TestedRelaxed
from mlir_release.release.model.targets import OVERRIDES_NEED
from mlir_release.release.pinning.installable import confirm
from mlir_release.release.provenance.pep740 import publish_provenance
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX
from mlir_release.release.transaction.assets import (
    METADATA_SUFFIX,
    PROVENANCE_SUFFIXES,
    Built,
    Source,
    Wheel,
    check_wheel,
    files_of_wheel,
    read_built,
)
from mlir_release.release.transaction.draft import previous_manifest
from mlir_release.release.transaction.release_assets import is_waiver

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from mlir_release.builder.model.test_report import TestReport
    from mlir_release.release.forge.base import Asset, Release
    from mlir_release.release.model.manifest import Waiver
    from mlir_release.release.transaction.draft import Draft


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A draft that may be published, with the manifest that it then carries."""

    manifest: Manifest
    previous: Manifest | None  #: of the newest older release of the same kind
    digests: Mapping[str, str]  #: asset -> sha256, of all that is to be published, without the manifest
    excluded: tuple[Asset, ...]  #: to be deleted first: wheels that failed, of experimental or waived targets; halves
    locks: Mapping[str, bytes] = field(default_factory=dict)  #: to be added: the files that pin its distributions
    restored: Mapping[str, bytes] = field(default_factory=dict)  #: and metadata files that a stopped upload left out


def verify(draft: Draft) -> Verified:
    """Download a draft's (or a release's) assets and check that they form one complete, tested release.

    Digests, archives, metadata files, required targets, passing reports about these very wheels. Nothing of a wheel is
    run here, beside the right to publish: the reports tell that it was installed in an empty environment, and works.

    :raises VerificationError: ``file-damaged``, …
    :raises NeedsPersonError: ``release-not-ready``, with every target that is missing or fails
    """
    _check_names(draft.release)
    with scratch_folder("verify") as folder:
        with console.step(f"check the {len(draft.release.assets)} assets of {draft.tag}"):
            wheels, restored = _read_wheels(draft, folder)
            reports = draft.reports()
            _check_reports(draft)
            waivers = draft.waivers()
        found = {wheel.slot: wheel for wheel in wheels}
        card = score(confirm(draft.due, draft.state.facts), wheels=found, reports=reports, waivers=waivers)
        if card.problems:
            _check_whole(draft.release)
            raise NeedsPersonError(
                "release-not-ready",
                f"{draft.tag} can't be published yet",
                where=draft.tag,
                why="\n    ".join(["", *card.problems]).rstrip(),
                remedy=f"build and test what is missing (mlir-release matrix --missing {draft.tag} names it), "
                f"or decide to go without: mlir-release release waive {draft.tag} TARGET --reason …",
            )
        previous = previous_manifest(draft.forge, (tag.name for tag in draft.tags), draft.tag)
    accepted = [found[target.slot] for target in card.matrix.wheels if target.name in card.accepted]
    manifest = _manifest(draft, card, accepted, waivers, previous)
    dependencies = resolve_dependencies(manifest, local=not draft.forge.services.url)
    manifest = structs.replace(manifest, dependencies=dependencies)
    locks = lock_files(manifest, partial(draft.forge.file_url, draft.tag))
    excluded = not_published(draft, {wheel.filename for wheel in accepted}, locks)
    kept = {wheel.filename + suffix for wheel in accepted for suffix in (METADATA_SUFFIX, PROVENANCE_SUFFIX)}
    restored = {name: content for name, content in restored.items() if name in kept}
    return Verified(
        manifest=structs.replace(manifest, locks=lock_entries(locks)),
        previous=previous,
        digests={
            **digests_without(draft.release, excluded),
            **{name: sha256_of(content) for name, content in {**restored, **locks}.items()},
        },
        excluded=excluded,
        locks=locks,
        restored=restored,
    )


def digests_without(release: Release, excluded: Collection[Asset]) -> dict[str, str]:
    """The digests of a draft's files that are to be published, without the manifest."""
    gone = {asset.name for asset in excluded} | {MANIFEST_NAME, MANIFEST_NAME + BUNDLE_SUFFIX}
    return {asset.name: asset.sha256 for asset in release.assets if asset.name not in gone}


def _check_reports(draft: Draft) -> None:
    """Check who signed the reports that vouch for the wheels. :raises VerificationError: ``signature-invalid``"""
    if draft.signatures is None:
        return
    for asset in draft.release.assets:
        if asset.complete and asset.name.endswith(REPORT_SUFFIX) and draft.is_signed(asset.name):
            draft.signatures.check(asset.name, asset.sha256)


def _check_whole(release: Release) -> None:
    """Name the half that makes a release incomplete. One that nothing needs is deleted when the rest is published."""
    for asset in release.assets:
        if not asset.complete:
            raise VerificationError(
                "file-damaged",
                f"the upload of {asset.name} was cut off",
                where=asset.url,
                remedy=f"upload it again (mlir-release publish {release.tag} DIST), "
                f"or remove it: mlir-release publish {release.tag} --discard {asset.name}",
            )


def _check_names(release: Release) -> None:
    """Every asset must have a known use: what is published is never removed."""
    for asset in release.assets:
        known = (
            (signed := asset.name.removesuffix(BUNDLE_SUFFIX)).endswith((*DISTRIBUTION_SUFFIXES, REPORT_SUFFIX))
            or signed == MANIFEST_NAME
            or re.fullmatch(LOCK_NAME, asset.name)
            or asset.name.endswith((".whl" + METADATA_SUFFIX, *PROVENANCE_SUFFIXES))
            or is_waiver(asset.name)
        )
        if not known:
            raise VerificationError(
                "file-damaged",
                f"{asset.name} is no file that a release has",
                where=asset.url,
                why="someone added it by hand",
                remedy=f"remove it: mlir-release publish {release.tag} --discard {asset.name}",
            )


def _read_wheels(draft: Draft, folder: Path) -> tuple[list[Built], dict[str, bytes]]:
    """Download and check the wheels of a release and their metadata files; those that a draft lacks come second.

    Whoever uploads a wheel can be stopped before its metadata, and as the wheel is there nobody builds it again.
    """
    found: list[Built] = []
    restored: dict[str, bytes] = {}
    for asset in draft.release.assets:
        if not (asset.name.endswith(DISTRIBUTION_SUFFIXES) and asset.complete and draft.is_signed(asset.name)):
            continue
        wheel = read_built(draft.fetch(asset, folder))
        check_wheel(wheel, **draft.state.of_release)
        beside = {METADATA_SUFFIX: wheel.metadata} if isinstance(wheel, Wheel) else {}
        if draft.signatures is not None:
            draft.signatures.check(wheel.filename, wheel.sha256)
            beside[PROVENANCE_SUFFIX] = publish_provenance(draft.signatures.bundle(wheel.filename) or b"")
        restored |= {
            wheel.filename + suffix: content
            for suffix, content in beside.items()
            if _lacks(draft, wheel, suffix, content)
        }
        found.append(wheel)
    return found, restored


def _lacks(draft: Draft, wheel: Built, suffix: str, content: bytes) -> bool:
    """Whether a draft still lacks the file beside a wheel that has to have this content.

    :raises VerificationError: ``file-damaged``: it has another content
    """
    beside = draft.release.asset(wheel.filename + suffix)
    if draft.release.draft and (beside is None or not beside.complete):
        return True
    if beside is not None and beside.sha256 == sha256_of(content):
        return False
    if suffix == METADATA_SUFFIX:
        what, wrong = "metadata file", "not the one in the wheel"
        why = "pip would resolve with it and then install something else"
        remedy = f"{wheel.target}, and upload the wheel again"
    else:
        what, wrong = "provenance file", "not made from its bundle"
        why = "indexes would show another attestation than the one that was verified"
        remedy = f"{wheel.filename}{suffix}; it is made again"
    raise VerificationError(
        "file-damaged",
        f"the {what} of {wheel.filename} is {'missing' if beside is None else wrong}",
        where=beside.url if beside is not None else draft.tag,
        why=why,
        remedy=f"mlir-release publish {draft.tag} --discard {remedy}",
    )


def not_published(draft: Draft, kept: Collection[str], locks: Collection[str]) -> tuple[Asset, ...]:
    """The assets of a draft that are deleted before it is published, whatever belongs to a wheel after it.

    :param kept: the wheels and source distributions that are published
    :param locks: the files that pin them; others are of an earlier try
    """

    def stays(name: str) -> bool:
        if re.fullmatch(LOCK_NAME, name):
            return name in locks
        if name.endswith(DISTRIBUTION_SUFFIXES):
            return name in kept
        # A report that nobody signed did not count.
        return not name.endswith(REPORT_SUFFIX) or draft.is_signed(name)

    gone = {asset.name for asset in draft.release.assets if not stays(asset.name)}
    names = {name for file in gone for name in files_of_wheel(file)}
    return tuple(asset for asset in draft.release.assets if asset.name in names or not asset.complete)


def _manifest(
    draft: Draft,
    card: Scorecard,
    files: Sequence[Built],
    waivers: Mapping[str, Waiver],
    previous: Manifest | None,
) -> Manifest:
    """The manifest of a draft. ``files``: that are published"""
    state, signed = draft.state, draft.signatures

    def provenance(file: Built) -> str:
        name = file.filename + PROVENANCE_SUFFIX
        return name if signed is not None or draft.release.asset(name) is not None else ""

    return Manifest(
        tag=state.name,
        kind=state.tag.kind,
        version=state.wheel_version,
        revision=state.revision,
        revision_date=state.revision_date,
        commit=state.commit,
        upstream=draft.matrix.release.upstream,
        # GitHub dates a release by the commit of its tag.
        created_at=format_time(state.created_at or draft.release.created_at),
        toolkit_version=state.toolkit_version,
        provenance="none" if signed is None else "required",
        repository="" if signed is None else signed.policy.repository,
        signed_latest=signed is not None,
        llvm_version=next((wheel.info.llvm_version for wheel in files), ""),
        previous_tag=previous.tag if previous else "",
        previous_revision=previous.revision if previous else "",
        main=draft.matrix.main,
        wheels=tuple(file.entry(provenance=provenance(file)) for file in files if isinstance(file, Wheel)),
        sources=tuple(file.entry(provenance=provenance(file)) for file in files if isinstance(file, Source)),
        tests=tuple(report.entry() for report in card.vouching),
        waivers=tuple(waivers[name] for name in card.waivers),
        left_out=card.left_out,
        relaxed=_relaxed(files, card.vouching),
        notice=draft.matrix.release.notice,
    ).sorted()


def _relaxed(files: Sequence[Built], reports: Sequence[TestReport]) -> tuple[TestedRelaxed, ...]:
    """The requirements that the wheels relax, each with the versions that their bindings were tested with."""
    from packaging.version import Version

    tested: dict[str, set[str]] = {}
    for report in reports:
        if OVERRIDES_NEED in report.suite.split("+"):
            for name, version in report.installed.items():
                tested.setdefault(name, set()).add(version)
    return tuple(
        TestedRelaxed(**structs.asdict(row), tested_with=tuple(sorted(tested.get(row.name, ()), key=Version)))
        for row in dict.fromkeys(row for wheel in files for row in wheel.info.relaxed)
    )
