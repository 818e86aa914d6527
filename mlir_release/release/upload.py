"""Putting build results into a draft: all is checked before the first is sent, and what stands complete wins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mlir_release.console import console, format_bytes
from mlir_release.errors import UsageError
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.names import Slot
from mlir_release.release.assets import (
    METADATA_SUFFIX,
    PROVENANCE_SUFFIX,
    Dist,
    Wheel,
    check_slots,
    check_wheel,
    read_dist,
    read_report,
    read_wheel,
)
from mlir_release.release.draft import (
    Put,
    fetch,
    find_release,
    is_about,
    need_pending,
    origin_of,
    put,
    put_bytes,
    wheel_assets,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.forge.base import Asset, Forge, Release
    from mlir_release.model.matrix import Matrix


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


def upload(forge: Forge, tag: str, dist: Path, matrix: Matrix, *, dry_run: bool = False) -> UploadOutcome:
    """Put the wheels and test reports below ``dist`` into the draft of ``tag``, one after the other.

    Every file is read and checked before the first is sent. A wheel whose target already has a complete one in the
    draft is not sent: the draft's wins, and reports about the other one are not taken. A failing report, or one about
    a wheel that is gone, gives way to the new one.

    :raises VerificationError: for a file that does not belong in this release; nothing was uploaded
    """
    origin = origin_of(forge, tag)
    release = find_release(forge, tag)
    need_pending(origin, release)
    content = read_dist(dist)
    check_slots(content.wheels)
    for wheel in content.wheels:
        check_wheel(wheel, origin.expected)
        _check_target(wheel, matrix)
    if dry_run or not release.draft:
        return _planned(release, content, dry_run=dry_run)
    return _apply(forge, release, content)


def _check_target(wheel: Wheel, matrix: Matrix) -> None:
    target = matrix.wheel(wheel.target)
    if Slot.of_target(target) != wheel.slot:
        raise UsageError(
            "wheel-target-mismatch",
            f"{wheel.filename} is not what its target {target.name} makes",
            where=str(wheel.path),
            why=f"the target makes {Slot.of_target(target)}, the file is {wheel.slot}",
            remedy="build it again with the targets.toml of the tag's commit",
        )


def _planned(release: Release, content: Dist, *, dry_run: bool) -> UploadOutcome:
    """What an upload would do (it does nothing to a published release)."""
    standing = wheel_assets(release)
    puts = []
    for wheel in content.wheels:
        asset = standing.get(wheel.slot)
        if asset is None:
            puts.append(Put(name=wheel.filename, action="uploaded" if release.draft else "kept", sha256=wheel.sha256))
        else:
            same = asset.sha256 == wheel.sha256
            puts.append(Put(name=wheel.filename, action="present" if same else "kept", sha256=asset.sha256))
    said = () if release.draft else (f"{release.tag} is published, and never changes; nothing was uploaded",)
    return UploadOutcome(tag=release.tag, puts=tuple(puts), notes=said, published=not release.draft, dry_run=dry_run)


def _apply(forge: Forge, release: Release, content: Dist) -> UploadOutcome:
    puts: list[Put] = []
    said: list[str] = []
    for wheel in content.wheels:
        release, done = _put_wheel(forge, release, wheel, content.provenance.get(wheel.filename))
        puts += done
        if done[0].action == "kept":
            said.append(
                f"{wheel.filename} stays as it is in the draft (another build of it was complete first); "
                f"to start it over: mlir-release publish {release.tag} --discard {wheel.target}"
            )
    release = find_release(forge, release.tag)
    for path, report in content.reports.items():
        if not is_about(report, release):
            said.append(f"{report.filename} is about another build than the draft's {report.wheel}; it was not taken")
            continue
        worthless = partial(_is_worthless, forge, release)
        release, one = put(forge, release, report.filename, path, replace=worthless)
        puts.append(one)
        if one.action == "uploaded" and not report.passed:
            said.append(f"{report.target} failed: {', '.join(report.failed[:5]) or 'no test is named'}")
    return UploadOutcome(tag=release.tag, puts=tuple(puts), notes=tuple(said))


def _is_worthless(forge: Forge, release: Release, asset: Asset) -> bool:
    """Whether a report that stands in the draft speaks for no wheel there, so that another may take its place."""
    with scratch_folder("report") as folder:
        standing = read_report(fetch(forge, release, asset, folder))
    return not standing.passed or not is_about(standing, release)


def _put_wheel(forge: Forge, release: Release, wheel: Wheel, provenance: Path | None) -> tuple[Release, list[Put]]:
    """Upload a wheel, its metadata and its provenance; the metadata is always the one of the wheel that stands."""
    standing = wheel_assets(release).get(wheel.slot)
    if standing is not None and standing.name != wheel.filename:
        return release, [Put(name=wheel.filename, action="kept", sha256=standing.sha256)]
    if standing is None:
        console.say(f"    {wheel.filename} ({format_bytes(wheel.size)})")
    release, first = put(forge, release, wheel.filename, wheel.path)
    metadata = wheel.metadata
    if first.action == "kept":
        release = find_release(forge, release.tag)
        asset = release.asset(wheel.filename)
        if asset is None or release.asset(wheel.filename + METADATA_SUFFIX) is not None:
            return release, [first]
        # Somebody uploaded another build and was stopped before its metadata.
        with scratch_folder("wheel") as folder:
            metadata = read_wheel(fetch(forge, release, asset, folder)).metadata
    release, second = put_bytes(
        forge, release, wheel.filename + METADATA_SUFFIX, metadata, replace=lambda _: first.action != "kept"
    )
    done = [first, second]
    if provenance is not None and first.action != "kept":
        release, third = put(forge, release, wheel.filename + PROVENANCE_SUFFIX, provenance)
        done.append(third)
    return release, done
