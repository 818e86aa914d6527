"""Starting a target over: its files leave the draft, so that it is built and tested again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.model.manifest import MANIFEST_NAME
from mlir_release.model.names import Slot
from mlir_release.model.suites import needs_wheel
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.release.assets import METADATA_SUFFIX, PROVENANCE_SUFFIX
from mlir_release.release.draft import find_release, need_draft, origin_of

if TYPE_CHECKING:
    from mlir_release.forge.base import Asset, Forge, Release
    from mlir_release.model.matrix import Matrix


@dataclass(frozen=True, kw_only=True)
class DiscardOutcome:
    """What was removed from a draft."""

    tag: str
    target: str
    removed: tuple[str, ...]

    def text(self) -> str:
        """One line."""
        files = ", ".join(self.removed) if self.removed else "nothing was there"
        return f"{self.tag}: {self.target} starts over: {files}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"tag": self.tag, "target": self.target, "removed": list(self.removed)}


def discard(forge: Forge, tag: str, target: str, matrix: Matrix, *, dry_run: bool = False) -> DiscardOutcome:
    """Remove a target's files from the draft, so that it is built (or tested) again.

    :param target: a wheel target (its reports go too), a test target, or the name of an asset
    :raises UsageError: ``target-unknown``, ``release-published``
    """
    origin_of(forge, tag)
    release = find_release(forge, tag)
    need_draft(release)
    doomed = _files_of(release, target, matrix)
    if not dry_run:
        # The manifest first, for it would be wrong at once; the wheel last, for the rest is found by it.
        for asset in doomed:
            forge.delete_asset(release, asset)
    return DiscardOutcome(tag=tag, target=target, removed=tuple(asset.name for asset in doomed))


def _files_of(release: Release, target: str, matrix: Matrix) -> list[Asset]:
    tests = {test.name for test in matrix.tests}
    names: list[str] = [MANIFEST_NAME]
    if target in tests:
        names.append(target + REPORT_SUFFIX)
    elif release.asset(target) is not None:
        names += [target + METADATA_SUFFIX, target + PROVENANCE_SUFFIX, target]
    else:
        wheel = matrix.wheel(target)
        # A platform's suites test the SDK's tools, so they stay valid without this wheel.
        names += [wheel.test_name(suite) + REPORT_SUFFIX for suite in wheel.suites if needs_wheel(suite)]
        slot = Slot.of_target(wheel)
        for asset in release.assets:
            if asset.name.endswith(".whl") and Slot.of_file(asset.name) == slot:
                names += [asset.name + METADATA_SUFFIX, asset.name + PROVENANCE_SUFFIX, asset.name]
    return [asset for asset in map(release.asset, names) if asset is not None]
