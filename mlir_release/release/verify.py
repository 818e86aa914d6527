"""Is a draft fit to be published? Answered from the draft's own assets, as the forge gives them back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, VerificationError
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.manifest import MANIFEST_NAME, Manifest, format_time
from mlir_release.model.names import order_of
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.release.assets import (
    METADATA_SUFFIX,
    PROVENANCE_SUFFIX,
    Wheel,
    check_wheel,
    read_wheel,
)
from mlir_release.release.draft import (
    WAIVER_PREFIX,
    Origin,
    fetch,
    find_release,
    origin_of,
    read_reports,
    read_waivers,
)
from mlir_release.release.install_check import Trial, try_wheels
from mlir_release.release.policy import Judgement, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.forge.base import Asset, Forge, Release
    from mlir_release.model.matrix import Matrix


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A draft that may be published, with the manifest that it then carries."""

    release: Release
    manifest: Manifest
    digests: Mapping[str, str]  #: asset -> sha256, of all that is to be published, without the manifest
    excluded: tuple[Asset, ...]  #: to be deleted first: wheels that failed, of experimental or waived targets
    trials: tuple[Trial, ...]

    def text(self) -> str:
        """For people."""
        trials = "".join(f"\n  {trial.text()}" for trial in self.trials)
        return f"{self.manifest.tag} is fit to be published: {len(self.manifest.wheels)} wheels{trials}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.manifest.tag,
            "manifest": self.manifest.to_json(),
            "excluded": [asset.name for asset in self.excluded],
            "trials": [trial.to_json() for trial in self.trials],
        }


def verify(
    forge: Forge,
    tag: str,
    matrix: Matrix,
    *,
    workdir: Path | None = None,
    pythons: Sequence[Path] = (),
    dependencies: Sequence[str] | None = None,
) -> Verified:
    """Download a draft's (or a release's) assets and check that they are one whole, tested release.

    Digests, archives, metadata files, required targets, passing reports about these very wheels; then the wheels are
    installed in empty environments, with ``--no-index``.

    :param pythons: CPythons of this machine to install with; those that no wheel fits are passed over
    :param dependencies: pip's options that say where the wheels' dependencies come from; None: leave them out
    :raises VerificationError: ``asset-corrupt``, ``wheel-…``, ``metadata-mismatch``, ``install-failed``, …
    :raises NeedsPersonError: ``release-incomplete``, with every target that is missing or fails
    """
    origin = origin_of(forge, tag)
    release = find_release(forge, tag)
    matrix = matrix.due(origin.tag)
    _check_names(release)
    holder = scratch_folder("verify") if workdir is None else nullcontext(workdir)
    with holder as folder:
        folder.mkdir(parents=True, exist_ok=True)
        with console.step(f"check the {len(release.assets)} assets of {tag}"):
            wheels = _read_wheels(forge, release, origin, folder)
            reports = read_reports(forge, release, folder)
            waivers = read_waivers(forge, release, folder)
        judgement = judge(matrix, {wheel.slot: wheel for wheel in wheels}, reports, waivers)
        if judgement.problems:
            raise _incomplete(tag, judgement)
        with console.step(f"install the wheels of {tag} in empty environments"):
            trials = try_wheels(judgement.wheels, version=origin.version, pythons=pythons, dependencies=dependencies)
        previous = previous_release(forge, tag, folder)
    doomed = _excluded(release, judgement)
    gone = {asset.name for asset in doomed} | {MANIFEST_NAME}
    return Verified(
        release=release,
        manifest=_manifest(origin, release, matrix, judgement, previous),
        digests={asset.name: asset.sha256 for asset in release.assets if asset.name not in gone},
        excluded=doomed,
        trials=trials,
    )


def _check_names(release: Release) -> None:
    """Every asset must be complete and have a known use: what is published stays for ever."""
    for asset in release.assets:
        if not asset.complete:
            raise VerificationError(
                "asset-incomplete",
                f"the upload of {asset.name} was cut off",
                where=asset.url,
                remedy=f"upload it again (mlir-release publish {release.tag} DIST), "
                f"or remove it: mlir-release publish {release.tag} --discard {asset.name}",
            )
        known = (
            asset.name.endswith((".whl", ".whl" + METADATA_SUFFIX, ".whl" + PROVENANCE_SUFFIX, REPORT_SUFFIX))
            or asset.name.startswith(WAIVER_PREFIX)
            or asset.name == MANIFEST_NAME
        )
        if not known:
            raise VerificationError(
                "asset-unexpected",
                f"nothing knows what {asset.name} is for",
                where=asset.url,
                why="somebody added it by hand",
                remedy=f"remove it: mlir-release publish {release.tag} --discard {asset.name}",
            )


def _read_wheels(forge: Forge, release: Release, origin: Origin, folder: Path) -> list[Wheel]:
    """Download and check the wheels of a release and their metadata files."""
    found = []
    for asset in release.assets:
        if not asset.name.endswith(".whl"):
            continue
        wheel = read_wheel(fetch(forge, release, asset, folder))
        check_wheel(wheel, origin.expected)
        beside = release.asset(asset.name + METADATA_SUFFIX)
        if beside is None or fetch(forge, release, beside, folder).read_bytes() != wheel.metadata:
            raise VerificationError(
                "metadata-mismatch",
                f"the metadata file of {asset.name} is {'missing' if beside is None else 'not the one in the wheel'}",
                where=asset.url,
                why="pip would resolve with it and then install something else",
                remedy=f"mlir-release publish {release.tag} --discard {wheel.target}, and upload the wheel again",
            )
        found.append(wheel)
    return found


def _incomplete(tag: str, judgement: Judgement) -> NeedsPersonError:
    return NeedsPersonError(
        "release-incomplete",
        f"{tag} can't be published yet",
        where=tag,
        why="\n    ".join(["", *judgement.problems]).rstrip(),
        remedy=f"build and test what is missing (mlir-release matrix --missing {tag} names it), "
        f"or decide to go without: mlir-release release waive {tag} TARGET --reason …",
    )


def _excluded(release: Release, judgement: Judgement) -> tuple[Asset, ...]:
    names = set()
    for wheel in judgement.excluded:
        names |= {wheel.filename, wheel.filename + METADATA_SUFFIX, wheel.filename + PROVENANCE_SUFFIX}
    return tuple(asset for asset in release.assets if asset.name in names)


def _manifest(
    origin: Origin, release: Release, matrix: Matrix, judgement: Judgement, previous: Manifest | None
) -> Manifest:
    names = {asset.name for asset in release.assets}

    def provenance(wheel: Wheel) -> str:
        name = wheel.filename + PROVENANCE_SUFFIX
        return name if name in names else ""

    return Manifest(
        tag=str(origin.tag),
        kind=origin.kind,
        version=origin.version,
        revision=origin.revision,
        commit=origin.commit,
        upstream=matrix.release.upstream,
        created_at=format_time(release.created_at),
        toolkit_version=origin.toolkit_version,
        llvm_version=next((wheel.info.llvm_version for wheel in judgement.wheels), ""),
        previous_tag=previous.tag if previous else "",
        previous_revision=previous.revision if previous else "",
        wheels=tuple(wheel.entry(provenance=provenance(wheel)) for wheel in judgement.wheels),
        tests=tuple(report.entry() for report in judgement.reports),
        waivers=judgement.waivers,
        left_out=judgement.left_out,
    ).sorted()


def previous_release(forge: Forge, tag: str, folder: Path) -> Manifest | None:
    """The manifest of the newest published release of the same kind that is older than ``tag``."""
    this = order_of(tag)
    older = [
        (order, release.tag, release, asset)
        for release in forge.releases()
        if not release.draft
        and (order := order_of(release.tag)) is not None
        and (asset := release.asset(MANIFEST_NAME)) is not None
        and this is not None
        and order.kind == this.kind
        and order < this
    ]
    if not older:
        return None
    _, _, newest, asset = max(older, key=lambda row: row[0])
    place = folder / "previous"
    place.mkdir(parents=True, exist_ok=True)
    return Manifest.from_text(fetch(forge, newest, asset, place).read_bytes(), where=asset.url)
