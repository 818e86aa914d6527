"""The files that a published release may have, by its manifest, and who made them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES
from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.documents.decode import MalformedError, parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ReleaseError, VerificationError
from mlir_release.ground.storage.files import read_document, read_if_there
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, TrustedRelease, read_trusted, signs_itself
from mlir_release.release.latest.latest import concrete_tag
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest, Waiver
from mlir_release.release.pinning.pinned import check_facts
from mlir_release.release.pinning.state import find_state
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX, Signer, SignerPolicy, Subject
from mlir_release.release.provenance.verify import publish_provenance, verify_file
from mlir_release.release.transaction.assets import METADATA_SUFFIX
from mlir_release.release.transaction.release_assets import is_waiver, need_published, not_its_manifest, waiver_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.release.forge.base import Asset, Forge
    from mlir_release.release.provenance.trust import Trust

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


def _foreign_files(trusted: TrustedRelease) -> tuple[list[str], dict[str, str]]:
    """The files that someone added to a published release, and those that someone changed, with their other digests."""
    listed, assets = listed_files(trusted.manifest), trusted.release.assets
    names = sorted(asset.name for asset in assets if asset.name not in listed)
    added = [name for name in names if not name.endswith(_REPORTS) and not is_waiver(name)]
    changed = {
        asset.name: f"{asset.sha256}, not {listed[asset.name]}"
        for asset in assets
        if listed.get(asset.name) not in ("", None, asset.sha256)
    }
    return added, changed


def need_listed(trusted: TrustedRelease) -> None:
    """Refuse a release whose files, as the forge records them, are not those of its manifest.

    :raises VerificationError: ``release-tampered``, which names every such file
    """
    remote, named = trusted.remote, (*trusted.manifest.files, *trusted.manifest.locks)
    added, changed = _foreign_files(trusted)
    why = [f"there is no {file.filename}" for file in named if remote.release.asset(file.filename) is None]
    why += [f"it does not list {name}" for name in added]
    why += [f"{name} has the sha256 {digests}" for name, digests in changed.items()]
    if why:
        raise not_its_manifest(remote.forge, remote.tag, "the set of files", "; ".join(why))


def need_its_tag(forge: Forge, manifest: Manifest, *, revision: str, version: str) -> None:
    """Refuse a tag that says something else than the manifest: nobody signs a tag, and a mirror's can say anything.

    :param revision: that the tag names, and the version of the wheels
    :raises VerificationError: ``release-tampered``
    """
    if (revision, version) != (manifest.revision, manifest.version):
        why = f"it is of {revision or 'no revision'}, version {version or 'none'}, and the manifest"
        raise not_its_manifest(forge, manifest.tag, "the tag", f"{why} of {manifest.revision}, {manifest.version}")


def fetch_listed(trusted: TrustedRelease, asset: Asset, folder: Path) -> Path:
    """Download a file of a release that :func:`need_listed` accepts, and check its content and its signature.

    :raises VerificationError: ``release-tampered``, ``file-damaged``, ``signature-invalid``
    """
    remote, name = trusted.remote, asset.name
    if name == MANIFEST_NAME or (name.endswith(BUNDLE_SUFFIX) and trusted.signatures is not None):
        path = folder / name
        path.write_bytes(remote.content(asset))  # which was read already, and GitHub counts each download
        return path
    path = remote.fetch(asset, folder)
    if name.endswith((*DISTRIBUTION_SUFFIXES, REPORT_SUFFIX)):
        trusted.check(name, asset.sha256)
    elif name.endswith(PROVENANCE_SUFFIX) and trusted.signatures is not None:
        signed = name.removesuffix(PROVENANCE_SUFFIX)
        trusted.check(signed, listed_files(trusted.manifest)[signed])
        made = parse_json(publish_provenance(trusted.signatures.bundle(signed) or b""))
        found = None
        with suppress(MalformedError):  # another version of a library may write the same document with other spaces
            found = parse_json(read_document(path))
        if found != made:
            raise not_its_manifest(remote.forge, remote.tag, name, "it is not made from the bundle of its file")
    elif is_waiver(name):
        waiver = Waiver.from_text(read_document(path), where=asset.url)
        said = {row.target: row for row in trusted.manifest.waivers}.get(waiver.target, waiver)
        if (name, waiver) != (waiver_name(waiver.target), said):
            raise not_its_manifest(remote.forge, remote.tag, name, f"it is not the waiver of {waiver.target} there")
    return path


@dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """A file that was made by the release process."""

    name: str
    sha256: str
    signer: Signer

    def text(self) -> str:
        """What is known of it."""
        rows = {
            "file": self.name,
            "sha256": self.sha256,
            "repository": self.signer.repository,
            "release": self.signer.ref.removeprefix("refs/tags/"),
            "commit": self.signer.commit,
            "llvm-project": self.signer.revision or "not said",
            "signed by": self.signer.workflow,
            "run": self.signer.run,
        }
        return "\n".join(f"{name:<12} {value}" for name, value in rows.items())


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """A file of a release. ``error``: why it is refused; None: it is as it has to be."""

    name: str
    result: str  #: signed, not signed, refused
    error: ReleaseError | None = None

    @property
    def why(self) -> str:
        """For people."""
        error = self.error
        return f"{error.what}: {error.why} [{error.id}]" if error is not None else ""


@dataclass(frozen=True, kw_only=True)
class CheckedRelease:
    """A release, and each of its files."""

    COLUMNS = ("file", "result", "why")

    tag: str
    provenance: str  #: required or none, as its manifest says
    repository: str  #: whose workflow signed; empty: nobody did, or that was not checked
    files: tuple[FileCheck, ...]
    self_named: bool = False  #: only the release itself says that this repository's signature counts
    unsigned: ReleaseError | None = None  #: nobody signed the release, and nobody said that this is right

    @property
    def refused(self) -> tuple[ReleaseError, ...]:
        """Why files are refused; and the release, if all of them have their digests and nobody signed it."""
        found = tuple(row.error for row in self.files if row.error is not None)
        return found if self.unsigned is None else (*found, self.unsigned)

    def text(self) -> str:
        """The sum."""
        good = sum(row.error is None for row in self.files)
        whose = f", signed by {self.repository}" if self.repository else ""
        whose += ", as only the release itself says" if self.self_named else ""
        word = "as they have to be" if self.repository else "with their digests"
        return f"{self.tag}: provenance {self.provenance}{whose}; {good} of {len(self.files)} files {word}"

    def cells(self) -> list[tuple[str, ...]]:
        """A row for each file."""
        return [(row.name, row.result, row.why) for row in self.files]


def check_file(path: Path, bundle: Path | None, policy: SignerPolicy, trust: Trust) -> CheckedFile:
    """Check a file by the bundle beside it. :raises VerificationError: ``signature-invalid``"""
    content = read_if_there(bundle or path.with_name(path.name + BUNDLE_SUFFIX))
    subject = Subject(name=path.name, sha256=sha256_of(path))
    signer = verify_file(subject, content, policy, trust)
    return CheckedFile(name=subject.name, sha256=subject.sha256, signer=signer)


def check_release(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED) -> CheckedRelease:
    """Check a published release: its tag, its manifest, each file that is signed, and that it has no others.

    :raises UsageError: ``release-not-published``; :raises VerificationError: if the tag or the manifest is refused
    """
    tag = concrete_tag(forge, tag, signed_by)
    release = need_published(forge, tag)
    commit = ""
    if signs_itself(forge, signed_by.repository):  # a mirror's commits are its own
        state = find_state(forge, tag)
        check_facts(forge.pin_facts(state.commit), state)  # that it is upstream's was asked before it was published
        commit = state.commit
    with scratch_folder("check") as folder:
        trusted = read_trusted(forge, release, signed_by, commit=commit)
        listed = {file.filename: file for file in trusted.manifest.files}
        reports = sorted(asset.name for asset in release.assets if asset.name.endswith(REPORT_SUFFIX))
        refused: dict[str, ReleaseError | None] = {MANIFEST_NAME: None}
        for name in (*listed, *reports):
            try:
                refused[name] = None
                if name in listed:
                    trusted.fetch_file(listed[name], folder).unlink()
                elif (asset := release.asset(name)) is not None:
                    # GitHub computes the digests that it says. In a folder, anyone may have written them.
                    if not forge.services.url:
                        trusted.remote.fetch(asset, folder).unlink()
                    trusted.check(name, asset.sha256)
            except ReleaseError as error:
                refused[name] = error
    added, changed = _foreign_files(trusted)
    for name, why in sorted((dict.fromkeys(added, "it does not list it") | changed).items()):
        if name not in listed:
            refused[name] = not_its_manifest(forge, tag, name, why)
    good = "signed" if trusted.signatures is not None else "not signed"
    files = [
        FileCheck(name=name, result=good if error is None else "refused", error=error)
        for name, error in refused.items()
    ]
    signer = trusted.signer
    unsigned = None
    if signer is None and not signed_by.skipped:
        unsigned = VerificationError(
            "provenance-missing",
            f"nobody signed {tag}: its files have the digests that it says itself",
            where=forge.page_url(tag),
            why="its manifest and its repository ask for no signature, so whoever can write there can change both",
            remedy="if you trust everyone who can, say so: --provenance skip; else use a release that is signed",
        )
    return CheckedRelease(
        tag=tag,
        provenance=trusted.manifest.provenance,
        repository=signer.repository if signer is not None else "",
        files=tuple(files),
        self_named=trusted.self_named,
        unsigned=unsigned,
    )
