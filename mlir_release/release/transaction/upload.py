"""Adding build results to a draft: all are checked before the first is sent, and a complete file in the draft wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ForgeError, UsageError
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.provenance.bundle import is_about
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX
from mlir_release.release.transaction.assets import (
    METADATA_SUFFIX,
    Built,
    Dist,
    check_slots,
    check_wheel,
    read_dist,
    read_wheel,
)
from mlir_release.release.transaction.release_assets import Put

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Asset
    from mlir_release.release.transaction.draft import Draft


@dataclass(frozen=True, kw_only=True)
class UploadOutcome:
    """What an upload did. ``text()`` for people, ``to_json()`` for machines."""

    tag: str
    puts: tuple[Put, ...]
    notes: tuple[str, ...] = ()  #: what a person should know: files that were not taken, and why
    published: bool = False  #: the release was published already, so nothing could change
    dry_run: bool = False

    def names(self, action: str) -> list[str]:
        """The files with which ``action`` (``uploaded``, ``present``, ``kept``) happened."""
        return [put.name for put in self.puts if put.action == action]

    def text(self) -> str:
        """One line of what was done, then one for each note."""
        uploaded, present, kept = (len(self.names(action)) for action in ("uploaded", "present", "kept"))
        verb = "to upload" if self.dry_run else "uploaded"
        line = f"{self.tag}: {uploaded} {verb}, {present} there already"
        if kept:
            line += f", {kept} kept as they are in the {'release' if self.published else 'draft'}"
        return "\n".join([line, *(f"  {note}" for note in self.notes)])

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.tag,
            "published": self.published,
            "dry_run": self.dry_run,
            **{action: self.names(action) for action in ("uploaded", "present", "kept")},
            "notes": list(self.notes),
        }


def upload(draft: Draft, dist: Path, *, dry_run: bool = False) -> UploadOutcome:
    """Add the wheels, source distributions and test reports below ``dist`` to a draft, one after the other.

    Every file is read and checked before the first is sent. A wheel whose target already has a complete one in the
    draft is not sent: the draft's wins, and reports about the other one are not taken. A failing report, or one about
    a wheel that is gone, is replaced by the new one. A release that is published, or is meanwhile, takes nothing more.

    :raises VerificationError: for a file that does not belong in this release; nothing was uploaded
    """
    draft.need_pending()
    content = read_dist(dist)
    check_slots(content.wheels)
    for wheel in content.wheels:
        check_wheel(wheel, **draft.state.of_release)
        target = draft.matrix.wheel(wheel.target)
        if target.slot != wheel.slot:
            raise UsageError(
                "input-invalid",
                f"{wheel.name} is not what its target {target.name} makes",
                where=str(wheel.path),
                why=f"the target makes {target.slot}, the file is {wheel.slot}",
                remedy="build it again with the targets.toml of the tag's commit",
            )
    if draft.signatures is not None:
        digests = {wheel.name: wheel.sha256 for wheel in content.wheels}
        digests |= {each.filename: sha256_of(content.files[each.filename]) for each in content.reports}
        for name, digest in digests.items():
            bundle = content.files.get(name + BUNDLE_SUFFIX)
            draft.signatures.accept(name, digest, read_document(bundle) if bundle is not None else None)
    for path in content.files.values():
        if path.name.endswith((REPORT_SUFFIX, BUNDLE_SUFFIX)):
            draft.know(path)
    if draft.release.draft and not dry_run:
        try:
            return _apply(draft, content)
        except (ForgeError, UsageError):
            draft.refresh()
            if draft.release.draft:
                raise
            # A sweep published it meanwhile, without what still was to come.
    # What would be done; nothing is to a published release.
    release, present = draft.release, draft.wheels()
    puts = []
    for wheel in content.wheels:
        asset = present.get(wheel.slot)
        if asset is None:
            puts.append(Put(name=wheel.name, action="uploaded" if release.draft else "kept", sha256=wheel.sha256))
        else:
            same = asset.sha256 == wheel.sha256
            puts.append(Put(name=wheel.name, action="present" if same else "kept", sha256=asset.sha256))
    notes = () if release.draft else (f"{draft.tag} is published and never changes; nothing was uploaded",)
    return UploadOutcome(tag=draft.tag, puts=tuple(puts), notes=notes, published=not release.draft, dry_run=dry_run)


def _apply(draft: Draft, content: Dist) -> UploadOutcome:
    puts: list[Put] = []
    notes: list[str] = []

    def is_worthless(asset: Asset) -> bool:
        """Whether another may replace a report in the draft: it failed, is about no wheel there, or is not signed."""
        present = draft.report(asset)
        return not draft.is_signed(asset.name) or not present.passed or not draft.is_tested_by(present)

    for wheel in content.wheels:
        done = _put_wheel(draft, wheel, content)
        puts += done
        if done[0].action == "kept":
            notes.append(
                f"{wheel.name} stays as it is in the draft (another build of it was complete first); "
                f"to start it over: mlir-release publish {draft.tag} --discard {wheel.target}"
            )
    draft.refresh()
    for report in content.reports:
        if not draft.is_tested_by(report):
            notes.append(f"{report.filename} is about another build than the draft's {report.wheel}; it was not taken")
            continue
        put = draft.put(report.filename, content.files[report.filename], replace=is_worthless)
        puts.append(put)
        if put.action != "kept":
            puts += _put_bundle(draft, put, content)
        if put.action == "uploaded" and not report.passed:
            notes.append(f"{report.target} failed: {', '.join(report.failed[:5]) or 'no test is named'}")
    return UploadOutcome(tag=draft.tag, puts=tuple(puts), notes=tuple(notes))


def _put_bundle(draft: Draft, file: Put, content: Dist) -> list[Put]:
    """Upload the bundle of a file that is in the draft, in place of one that is about another content of it."""
    bundle = content.files.get(file.name + BUNDLE_SUFFIX)
    if bundle is None:
        return []

    def is_stale(there: Asset) -> bool:
        now = draft.release.asset(file.name)  # another process may have replaced the file meanwhile
        return (now is None or now.sha256 == file.sha256) and not is_about(draft.content(there), file.sha256)

    return [draft.put(file.name + BUNDLE_SUFFIX, bundle, replace=is_stale)]


def _put_wheel(draft: Draft, wheel: Built, content: Dist) -> list[Put]:
    """Upload a wheel and what is beside it, the metadata always that of the wheel in the draft; or another file.

    A file in the draft that nobody signed does not count, and is replaced.
    """
    present = draft.wheels().get(wheel.slot)
    if present is not None and present.name != wheel.name:
        return [Put(name=wheel.name, action="kept", sha256=present.sha256)]
    if present is None:
        console.say(f"    {wheel.name} ({format_bytes(wheel.row.size)})")
    first = draft.put(wheel.name, wheel.path, replace=lambda asset: not draft.is_signed(asset.name))
    ours = first.action != "kept"
    done = [first, *(_put_metadata(draft, wheel, ours=ours) if wheel.metadata else ())]
    provenance = content.files.get(wheel.name + PROVENANCE_SUFFIX)
    if ours:
        bundles = _put_bundle(draft, first, content)
        done += bundles
        # It is made from the bundle: beside one of an earlier signature, publication makes it.
        if provenance is not None and all(put.action != "kept" for put in bundles):
            fresh = any(put.action == "uploaded" for put in bundles)
            done.append(draft.put(wheel.name + PROVENANCE_SUFFIX, provenance, replace=lambda _: fresh))
    return done


def _put_metadata(draft: Draft, wheel: Built, *, ours: bool) -> list[Put]:
    """Upload a wheel's metadata. ``ours``: the wheel in the draft is this one, and not another build of it."""
    metadata = wheel.metadata
    if not ours:
        draft.refresh()
        asset = draft.release.asset(wheel.name)
        if asset is None or draft.release.asset(wheel.name + METADATA_SUFFIX) is not None:
            return []
        # Another process uploaded it and was stopped before it uploaded its metadata.
        with scratch_folder("wheel") as folder:
            metadata = read_wheel(draft.fetch(asset, folder)).metadata
    return [draft.put_bytes(wheel.name + METADATA_SUFFIX, metadata, replace=lambda _: ours)]
