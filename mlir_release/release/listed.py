"""The files that a published release may have, by its manifest; and reading one of them, checked as it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.host.files import read_document
from mlir_release.model.decode import MalformedError, parse_json
from mlir_release.model.manifest import MANIFEST_NAME, Waiver
from mlir_release.model.names import DISTRIBUTION_SUFFIXES
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.provenance.pep740 import publish_provenance
from mlir_release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX
from mlir_release.release.assets import METADATA_SUFFIX
from mlir_release.release.remote import WAIVER_PREFIX, WAIVER_SUFFIX, fetch, not_its_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.forge.base import Asset, Forge, Release
    from mlir_release.model.manifest import Manifest
    from mlir_release.release.signed import TrustedRelease

#: How the names of reports end, and of their bundles: a release keeps those of its experimental targets, too, which its
#: manifest does not name.
_REPORTS = (REPORT_SUFFIX, REPORT_SUFFIX + BUNDLE_SUFFIX)


def listed_files(manifest: Manifest) -> Mapping[str, str]:
    """The files that a manifest names and what lies beside them, with their SHA-256; empty if it does not say that."""
    found = dict.fromkeys((MANIFEST_NAME, MANIFEST_NAME + BUNDLE_SUFFIX), "")
    for file in manifest.files:
        found[file.filename] = file.sha256
        found |= {file.filename + suffix: "" for suffix in (PROVENANCE_SUFFIX, BUNDLE_SUFFIX)}
    found |= {lock.filename: lock.sha256 for lock in manifest.locks}
    return found | {wheel.filename + METADATA_SUFFIX: wheel.metadata_sha256 for wheel in manifest.wheels}


def unlisted_files(release: Release, manifest: Manifest) -> tuple[str, ...]:
    """The files of a release that it would not have if its manifest were all that was published: someone added them."""
    listed = listed_files(manifest)
    return tuple(
        sorted(
            asset.name
            for asset in release.assets
            if asset.name not in listed and not asset.name.endswith(_REPORTS) and not _is_waiver(asset.name)
        )
    )


def _is_waiver(name: str) -> bool:
    return name.startswith(WAIVER_PREFIX) and name.endswith(WAIVER_SUFFIX)


def need_listed(forge: Forge, release: Release, manifest: Manifest) -> None:
    """Refuse a release whose files, as the forge records them, are not those of its manifest.

    :raises VerificationError: ``release-not-its-manifest``, which names every such file
    """
    listed = listed_files(manifest)
    recorded = {asset.name: asset.sha256 for asset in release.assets}
    named = (*manifest.files, *manifest.locks)
    why = [f"there is no {file.filename}" for file in named if file.filename not in recorded]
    why += [f"it does not list {name}" for name in unlisted_files(release, manifest)]
    why += [
        f"{name} has the sha256 {sha256}, not {listed[name]}"
        for name, sha256 in recorded.items()
        if listed.get(name) not in ("", None, sha256)
    ]
    if why:
        raise not_its_manifest(forge, release.tag, "the set of files", "; ".join(why))


def need_its_tag(forge: Forge, manifest: Manifest, *, revision: str, version: str) -> None:
    """Refuse a tag that says something else than the manifest: nobody signs a tag, and a mirror's can say anything.

    :param revision: that the tag names, and the version of the wheels
    :raises VerificationError: ``release-not-its-manifest``
    """
    if (revision, version) != (manifest.revision, manifest.version):
        why = f"it is of {revision or 'no revision'}, version {version or 'none'}, and the manifest"
        raise not_its_manifest(forge, manifest.tag, "the tag", f"{why} of {manifest.revision}, {manifest.version}")


def fetch_listed(forge: Forge, trusted: TrustedRelease, asset: Asset, folder: Path) -> Path:
    """Download a file of a release that :func:`need_listed` accepts, and check its content and its signature.

    :raises VerificationError: ``release-not-its-manifest``, ``asset-corrupt``, ``provenance-…``, ``waiver-invalid``
    """
    release, name = trusted.release, asset.name
    if name.endswith(BUNDLE_SUFFIX) and trusted.signatures is not None:
        bundle = trusted.signatures.bundle(name.removesuffix(BUNDLE_SUFFIX))
        if bundle is not None:  # it was read to check its file, and GitHub counts each download
            path = folder / name
            path.write_bytes(bundle)
            return path
    path = fetch(forge, release, asset, folder)
    if name.endswith((*DISTRIBUTION_SUFFIXES, REPORT_SUFFIX)):
        trusted.check(name, asset.sha256)
    elif name.endswith(PROVENANCE_SUFFIX) and trusted.signatures is not None:
        signed = name.removesuffix(PROVENANCE_SUFFIX)
        trusted.check(signed, listed_files(trusted.manifest)[signed])
        if not _is_json(path, publish_provenance(trusted.signatures.bundle(signed) or b"")):
            raise not_its_manifest(forge, release.tag, name, "it is not made from the bundle of its file")
    elif _is_waiver(name):
        waiver = Waiver.from_text(read_document(path), where=asset.url)
        said = {row.target: row for row in trusted.manifest.waivers}.get(waiver.target, waiver)
        if (name, waiver) != (f"{WAIVER_PREFIX}{waiver.target}{WAIVER_SUFFIX}", said):
            raise not_its_manifest(forge, release.tag, name, f"it is not the waiver of {waiver.target} there")
    return path


def _is_json(path: Path, wanted: bytes) -> bool:
    """Whether a file holds the same JSON document: another version of a library may write it with other spaces."""
    try:
        return bool(parse_json(read_document(path)) == parse_json(wanted))
    except MalformedError:
        return False
