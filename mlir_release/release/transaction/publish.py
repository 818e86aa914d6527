"""Publishing a draft: verified from its own assets, completed with its manifest and notes, made public once.

It can be killed anywhere and run again, also by two processes at once: what is complete in the draft wins, and
everything else follows from it.

Where releases are signed, two jobs do it, and wheels are downloaded by the first alone. It hands over one digest of the
names and digests that it has checked. The second compares that with the forge's listing: GitHub computes the digests
there itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES
from mlir_release.builder.model.test_report import REPORT_SUFFIX, TestReport
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.decode import LOCK_NAME
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.errors import ConflictError, NeedsPersonError, ReleaseError, VerificationError
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.instructions.dependencies import resolve_dependencies
from mlir_release.release.instructions.lockfiles import lock_entries, lock_files
from mlir_release.release.instructions.notes import write_page
from mlir_release.release.judging.scorecard import Scorecard, score
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest, SourceEntry, TestedRelaxed, Waiver, WheelEntry
from mlir_release.release.model.targets import OVERRIDES_NEED
from mlir_release.release.pinning.installable import confirm
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.pinning.state import read_states
from mlir_release.release.provenance.bundle import is_about
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX
from mlir_release.release.provenance.verify import publish_provenance
from mlir_release.release.transaction.assets import (
    METADATA_SUFFIX,
    PROVENANCE_SUFFIXES,
    Built,
    check_wheel,
    files_of_wheel,
    read_built,
)
from mlir_release.release.transaction.draft import Draft, previous_manifest
from mlir_release.release.transaction.release_assets import is_waiver

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Asset, Release


# -- whether a draft may be published, judged from its own assets as the forge returns them ----------------------------


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
    for asset in draft.release.assets:  # each must have a known use: what is published is never removed
        signed = asset.name.removesuffix(BUNDLE_SUFFIX)
        known = (
            signed.endswith((*DISTRIBUTION_SUFFIXES, REPORT_SUFFIX))
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
                remedy=f"remove it: mlir-release publish {draft.tag} --discard {asset.name}",
            )
    with scratch_folder("verify") as folder:
        with console.step(f"check the {len(draft.release.assets)} assets of {draft.tag}"):
            wheels, restored = _read_wheels(draft, folder)
            reports = draft.reports()
            if draft.signatures is not None:
                for name in reports:  # those that vouch for the wheels
                    draft.signatures.check(name + REPORT_SUFFIX, draft.release.digest(name + REPORT_SUFFIX))
            waivers = draft.waivers()
        found = {wheel.slot: wheel for wheel in wheels}
        card = score(confirm(draft.due, draft.state.facts), wheels=found, reports=reports, waivers=waivers)
        if card.problems:
            for half in (asset for asset in draft.release.assets if not asset.complete):  # which may be what is missing
                raise VerificationError(
                    "file-damaged",
                    f"the upload of {half.name} was cut off",
                    where=half.url,
                    remedy=f"upload it again (mlir-release publish {draft.tag} DIST), "
                    f"or remove it: mlir-release publish {draft.tag} --discard {half.name}",
                )
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
    excluded = not_published(draft, {wheel.name for wheel in accepted}, locks)
    kept = {wheel.name + suffix for wheel in accepted for suffix in (METADATA_SUFFIX, PROVENANCE_SUFFIX)}
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
        beside = {METADATA_SUFFIX: wheel.metadata} if wheel.metadata else {}
        if draft.signatures is not None:
            draft.signatures.check(wheel.name, wheel.sha256)
            beside[PROVENANCE_SUFFIX] = publish_provenance(draft.signatures.bundle(wheel.name) or b"")
        restored |= {
            wheel.name + suffix: content for suffix, content in beside.items() if _lacks(draft, wheel, suffix, content)
        }
        found.append(wheel)
    return found, restored


def _lacks(draft: Draft, wheel: Built, suffix: str, content: bytes) -> bool:
    """Whether a draft still lacks the file beside a wheel that has to have this content.

    :raises VerificationError: ``file-damaged``: it has another content
    """
    beside = draft.release.asset(wheel.name + suffix)
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
        remedy = f"{wheel.name}{suffix}; it is made again"
    raise VerificationError(
        "file-damaged",
        f"the {what} of {wheel.name} is {'missing' if beside is None else wrong}",
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

    rows: list[WheelEntry | SourceEntry] = []
    for file in files:
        name = file.name + PROVENANCE_SUFFIX
        there = signed is not None or draft.release.asset(name) is not None
        rows.append(structs.replace(file.row, provenance=name if there else ""))
    return Manifest(
        tag=state.name,
        kind=state.tag.kind,
        version=state.wheel_version,
        revision=state.revision,
        revision_date=state.revision_date,
        commit=state.commit,
        upstream=draft.matrix.release.upstream,
        stack=state.stack,
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
        wheels=tuple(row for row in rows if isinstance(row, WheelEntry)),
        sources=tuple(row for row in rows if isinstance(row, SourceEntry)),
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


# -- publication -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PublishOutcome:
    """A published release (or, with ``dry_run``, one that could be)."""

    manifest: Manifest
    url: str  #: its page
    #: ``already``: it was published before. ``unsigned``: not yet: its manifest is in the draft, and is to be signed.
    ended: Literal["published", "already", "planned", "unsigned"]
    checked: str = ""  #: of an unsigned one: :func:`digest_of` the draft as it was checked, with the manifest

    @property
    def already(self) -> bool:
        """Whether it was published before."""
        return self.ended == "already"

    @property
    def unsigned(self) -> bool:
        """Whether its manifest is to be signed first."""
        return self.ended == "unsigned"

    def text(self) -> str:
        """A line, and one for each thing that is not as it should be."""
        wheels = self.manifest.wheels
        if self.unsigned:
            return (
                f"{self.manifest.tag} is verified, and is published once attest.yml has signed its {MANIFEST_NAME}\n"
                f"  {self.url}"
            )
        did = {"planned": "would be published", "already": "was published already"}.get(self.ended, "is published")
        lines = [
            f"{self.manifest.tag} {did}: {len(wheels)} wheels, {format_bytes(self.manifest.size)}"
            + "".join(f"; {source.filename}" for source in self.manifest.sources),
            f"  {self.url}",
        ]
        lines += [f"  waived: {waiver.target}: {waiver.reason}" for waiver in self.manifest.waivers]
        lines += [f"  relaxed: {row.requirement} for {row.upstream}: {row.reason}" for row in self.manifest.relaxed]
        lines += [f"  left out: {target.target}: {target.reason}" for target in self.manifest.left_out]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.manifest.tag,
            "url": self.url,
            "already": self.already,
            "dry_run": self.ended == "planned",
            "unsigned": self.unsigned,
            "manifest": self.manifest.sorted(),
        }


def publish(
    draft: Draft,
    *,
    dist: Path | None = None,
    manifest_to: Path | None = None,
    checked: str = "",
    dry_run: bool = False,
) -> PublishOutcome:
    """Verify a draft from its own assets and publish it, once.

    Where releases are signed, the manifest comes last, and only ``attest.yml`` can sign it: without a signature of this
    very manifest in ``dist`` or in the draft, the manifest is written, and nothing is published.

    :param dist: a folder that may hold the bundle of the manifest
    :param manifest_to: a folder that gets the manifest if it is to be signed
    :param checked: what the call before the signature handed over (:attr:`PublishOutcome.checked`); a draft that is
        still so is not verified again
    :param dry_run: verify only
    :raises VerificationError: those of :func:`verify` and :func:`~mlir_release.release.pinning.pinned.check_pinned`
    :raises NeedsPersonError: ``already-published``
    :raises ConflictError: ``changed-meanwhile``, also if what was signed is not what is in the draft now
    """
    draft.refresh()
    draft.need_pending()
    url = draft.forge.page_url(draft.tag)
    if not draft.release.draft:
        return PublishOutcome(manifest=draft.manifest(), url=url, ended="already")
    check_pinned(draft.forge, draft.state)
    _check_version(draft)
    try:
        before = _checked_before(draft, checked) if checked else None
        verified = before or verify(draft)
        bundle = _bundle_of_manifest(draft, verified, dist)
        unsigned = draft.signatures is not None and bundle is None
        if unsigned and checked and before is None:  # what was signed is another manifest
            raise _changed(draft.release, draft.tag)
        handed_out = ""
        if unsigned and not dry_run:
            # What the draft then holds, if nobody else has changed it since it was verified.
            handed_out = digest_of(_listed(draft.release) | _add(draft, verified))
            if manifest_to is not None:
                write_atomically(manifest_to / MANIFEST_NAME, verified.manifest.to_text().encode())
        elif not dry_run:
            with console.step(f"publish {draft.tag}"):
                _complete(draft, verified, bundle)
    except ReleaseError:
        draft.need_pending()  # or its files were deleted with it
        if draft.forge.published(draft.tag) is None:
            raise
        draft.refresh()
        return PublishOutcome(manifest=draft.manifest(), url=url, ended="already")
    return PublishOutcome(
        manifest=verified.manifest,
        url=url,
        ended="planned" if dry_run else "unsigned" if unsigned else "published",
        checked=handed_out,
    )


def digest_of(files: Mapping[str, str]) -> str:
    """One digest of the names and digests of a draft's files.

    Without the bundle of the manifest, which comes last, so that a job which was killed after it can be run again.
    """
    rows = [f"{sha256} {name}\n" for name, sha256 in sorted(files.items()) if name != MANIFEST_NAME + BUNDLE_SUFFIX]
    return sha256_of("".join(rows))


def _listed(release: Release) -> dict[str, str]:
    """The digests of a release's files, as the forge lists them; of one whose upload was cut off it is empty."""
    return {asset.name: asset.sha256 for asset in release.assets}


def _checked_before(draft: Draft, checked: str) -> Verified | None:
    """What an earlier call checked, from the manifest that it left in the draft; None if something has changed since.

    Nothing is downloaded but that manifest, which the bundle has to be about.
    """
    listed = _listed(draft.release)
    if MANIFEST_NAME not in listed or digest_of(listed) != checked:
        return None
    manifest, state = draft.manifest(), draft.state
    said = (manifest.version, manifest.revision, manifest.commit, manifest.stack)
    if said != (state.wheel_version, state.revision, state.commit, state.stack):
        return None  # the tag was made again
    excluded = not_published(
        draft, {file.filename for file in manifest.files}, {lock.filename for lock in manifest.locks}
    )
    return Verified(
        manifest=manifest,
        previous=previous_manifest(draft.forge, [manifest.previous_tag], draft.tag),
        digests=digests_without(draft.release, excluded),
        excluded=excluded,
    )


def _bundle_of_manifest(draft: Draft, verified: Verified, dist: Path | None) -> bytes | None:
    """The bundle of this very manifest, from a folder or from the draft; None if there is none.

    :raises VerificationError: ``signature-invalid``: someone else signed it
    """
    if draft.signatures is None:
        return None
    digest = sha256_of(verified.manifest.to_text())
    given = dist / (MANIFEST_NAME + BUNDLE_SUFFIX) if dist is not None else None
    for bundle in (read_if_there(given) if given is not None else None, draft.signatures.bundle(MANIFEST_NAME)):
        if bundle is not None and is_about(bundle, digest):
            draft.signatures.accept(MANIFEST_NAME, digest, bundle)
            return bundle
    return None


def _add(draft: Draft, verified: Verified) -> dict[str, str]:
    """Add what a draft still lacks, the manifest last. Returns the digests that these files have there."""
    puts = [draft.put_bytes(name, content) for name, content in verified.restored.items()]
    # In the place of an earlier try's, from before a waiver or another report.
    made = {**verified.locks, MANIFEST_NAME: verified.manifest.to_text().encode()}
    puts += [draft.put_bytes(name, content, replace=lambda _: True) for name, content in made.items()]
    return {put.name: put.sha256 for put in puts}


def _check_version(draft: Draft) -> None:
    """Refuse a version that another published release of the same kind has: tag -> version stays injective.

    :raises NeedsPersonError: ``already-published``
    """
    ours = draft.state
    if ours.tag.kind == "snapshot":  # its version is its tag's own
        return
    for other in read_states(draft.tags, ()):
        same = (other.tag.kind, other.wheel_version) == (ours.tag.kind, ours.wheel_version)
        if same and other.name != draft.tag and draft.forge.published(other.name) is not None:
            raise NeedsPersonError(
                "already-published",
                f"version {ours.wheel_version} is published already, as {other.name}",
                where=draft.tag,
                why="both tags were made before either was published",
                remedy=f"mlir-release release abandon {draft.tag}, then number the version again: it becomes a .post",
            )


def _complete(draft: Draft, verified: Verified, bundle: bytes | None) -> None:
    """Remove what the manifest leaves out, add what is lacking, write the notes, and publish.

    :raises ConflictError: ``changed-meanwhile``: the draft is not what was verified
    """
    forge, manifest = draft.forge, verified.manifest
    for asset in verified.excluded:
        forge.delete_asset(draft.release, asset)
    draft.refresh()
    digests = {**verified.digests, MANIFEST_NAME: _add(draft, verified)[MANIFEST_NAME]}
    if bundle is not None:
        name = MANIFEST_NAME + BUNDLE_SUFFIX
        digests[name] = draft.put_bytes(name, bundle, replace=lambda _: True).sha256
    draft.refresh()
    release = draft.release
    if not release.draft:
        return
    if changed := sorted({name for name, _ in _listed(release).items() ^ digests.items()}):
        raise _changed(release, ", ".join(changed))
    release = write_page(forge, release, manifest, verified.previous)
    draft.need_pending()
    _check_version(draft)
    draft.release = forge.publish(release)


def _changed(release: Release, where: str) -> ConflictError:
    """The error for a draft that is not what was verified."""
    return ConflictError(
        "changed-meanwhile",
        f"the draft of {release.tag} changed while it was verified",
        where=where,
        why="another run uploads to it or removes from it",
        remedy="wait for the other run to end, then publish again; nothing was published",
    )
