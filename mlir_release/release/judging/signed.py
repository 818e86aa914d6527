"""Which releases must be signed, and the check of their files against the bundles beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.files import settings_if_there
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest, SourceEntry, WheelEntry
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, Signer, SignerPolicy, Subject, need_provenance
from mlir_release.release.provenance.trust import Trust, load_trust
from mlir_release.release.provenance.verify import verify_file
from mlir_release.release.transaction.release_assets import (
    RemoteRelease,
    need_published,
    not_its_manifest,
    parse_manifest,
)

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from mlir_release.release.forge.base import Forge, Release

#: What is asked of a release: ``auto``: what its repository and its manifest say; ``require``: a signature; ``skip``.
Expectation = Literal["auto", "require", "skip"]


@dataclass(frozen=True, kw_only=True)
class SignedBy:
    """Who must have signed a published release, as a reader asks for it.

    Naming a repository or roots asks for a signature, whatever the expectation is: what a mirror says can't undo it.
    """

    repository: str = ""  #: the address of the one that signs; empty: the forge's, or a mirror's source
    branch: str = "main"  #: the protected branch of that repository
    trust: Trust | None = None  #: None: :func:`~mlir_release.release.provenance.trust.load_trust`, when it is needed
    expectation: Expectation = "auto"

    @property
    def required(self) -> bool:
        """Whether a signature is asked for, whatever the release says."""
        return self.expectation == "require" or bool(self.repository) or self.trust is not None

    @property
    def skipped(self) -> bool:
        """Whether no signature is looked at."""
        return self.expectation == "skip" and not self.required


#: As the release's repository and its manifest say.
AS_DECLARED = SignedBy()


def is_required(forge: Forge, configured: str | None) -> bool:
    """Whether the releases of a forge must be signed.

    :param configured: ``provenance`` of ``targets.toml``; None: on GitHub they must, on a local forge not
    """
    return (configured or ("required" if forge.services.url else "none")) == "required"


def repository_of(forge: Forge, known: str = "") -> str:
    """The address of the repository whose workflows sign.

    :param known: what a mirrored manifest says, which is all that a local forge knows
    :raises UsageError: ``option-invalid``
    """
    found = forge.services.url or known
    if not found:
        raise UsageError(
            "option-invalid",
            "nothing says whose workflows must have signed the release",
            where=forge.description,
            remedy="name the repository: --repository https://github.com/OWNER/NAME; a local forge's own releases are "
            "not signed",
        )
    return found


class Signatures:
    """Checks the files of a release, or of a draft, against the bundles beside them.

    :param remote: the release or draft
    :param policy: who must have signed
    :param trust: None: :func:`~mlir_release.release.provenance.trust.load_trust`, when it is needed first
    """

    def __init__(self, remote: RemoteRelease, policy: SignerPolicy, trust: Trust | None = None) -> None:
        self._remote = remote
        self._trust = trust
        self.policy = policy

    @cached_property
    def trust(self) -> Trust:
        """The roots that count."""
        return self._trust or load_trust()

    def bundle(self, name: str) -> bytes | None:
        """The content of a file's bundle; None if there is none."""
        asset = self._remote.complete(BUNDLE_SUFFIX).get(name)
        return self._remote.content(asset) if asset is not None else None

    def check(self, name: str, sha256: str) -> Signer:
        """Check a file of the release. :raises VerificationError: ``signature-invalid``"""
        return self.accept(name, sha256, self.bundle(name))

    def accept(self, name: str, sha256: str, bundle: bytes | None) -> Signer:
        """Check a file against a bundle. :raises VerificationError: ``signature-invalid``"""
        return verify_file(Subject(name=name, sha256=sha256), bundle, self.policy, self.trust)


@dataclass(frozen=True, kw_only=True)
class TrustedRelease:
    """A published release with its manifest, which was checked; ``signatures``: None if nothing is to be signed."""

    remote: RemoteRelease
    manifest: Manifest
    signatures: Signatures | None = None
    signer: Signer | None = None  #: of the manifest
    self_named: bool = False  #: only the release itself says whose signature counts

    @property
    def release(self) -> Release:
        """As its forge lists it."""
        return self.remote.release

    def check(self, name: str, sha256: str) -> None:
        """Check who signed another of its files. :raises VerificationError: ``signature-invalid``"""
        if self.signatures is not None:
            self.signatures.check(name, sha256)

    def fetch_file(self, file: WheelEntry | SourceEntry, folder: Path) -> Path:
        """Download a wheel or a source distribution, if it is the one that the manifest lists, and is signed.

        :raises VerificationError: ``signature-invalid``, ``release-tampered``, ``file-damaged``
        """
        asset = self.release.asset(file.filename)
        if asset is None or asset.sha256 != file.sha256:
            why = "there is no such asset" if asset is None else f"{asset.sha256}, not {file.sha256}"
            raise not_its_manifest(self.remote.forge, self.release.tag, file.filename, why)
        path = self.remote.fetch(asset, folder)
        self.check(file.filename, file.sha256)
        return path


def find_policy(
    forge: Forge, manifest: Manifest, signed_by: SignedBy, *, configured: bool | None = None, commit: str = ""
) -> SignerPolicy | None:
    """The one decision of trust: who must have signed a published release; None if nobody has to.

    Whoever asks decides first, then the release's repository. A release can only ask for more than they do.

    :param configured: whether the forge's releases must be signed; None: as its branch says, which is read only where
        the answer depends on it
    :param commit: that the tag has to be at; empty: what the manifest says
    :raises VerificationError: ``provenance-missing``
    :raises UsageError: ``option-invalid``
    """
    if signed_by.skipped:
        return None
    required = signed_by.required
    if not required and manifest.provenance != "required":
        required = expects_signatures(forge, signed_by.branch) if configured is None else configured
    if not need_provenance(required, manifest.provenance, where=forge.page_url(manifest.tag)):
        return None
    return SignerPolicy(
        repository=signed_by.repository or repository_of(forge, manifest.repository),
        tag=manifest.tag,
        commit=commit or manifest.commit,
        revision=manifest.revision,
        branch=signed_by.branch,
    )


def read_trusted(
    forge: Forge,
    release: Release,
    signed_by: SignedBy = AS_DECLARED,
    *,
    commit: str = "",
    warn: bool = True,
) -> TrustedRelease:
    """The manifest of a published release, if it is signed as it has to be.

    :param commit: that the tag has to be at; empty: what the manifest says. What is signed is a pin commit either way:
        attest.yml looks before it signs.
    :param warn: say so if only the release itself names who signed it
    :raises VerificationError: ``signature-invalid``, and what :meth:`.RemoteRelease.manifest` raises
    :raises UsageError: ``option-invalid``
    """
    remote = RemoteRelease(forge, release)
    manifest = remote.manifest()
    policy = find_policy(forge, manifest, signed_by, commit=commit)
    if policy is None:
        return TrustedRelease(remote=remote, manifest=manifest)
    signatures = Signatures(remote, policy, signed_by.trust)
    signer = signatures.check(MANIFEST_NAME, remote.release.digest(MANIFEST_NAME))
    self_named = not (forge.services.url or signed_by.repository)
    if self_named and warn:
        console.warn(
            f"{release.tag} is signed by {policy.repository}, which only the release itself names: a mirror can offer "
            "the signed files of any repository. If that is the one that you trust, say so: "
            f"--signed-by {policy.repository}"
        )
    return TrustedRelease(remote=remote, manifest=manifest, signatures=signatures, signer=signer, self_named=self_named)


def read_published(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED, *, commit: str = "") -> TrustedRelease:
    """The published release of a tag, with its manifest. See :func:`read_trusted`.

    :raises UsageError: ``release-not-published``
    """
    return read_trusted(forge, need_published(forge, tag), signed_by, commit=commit)


def expects_signatures(forge: Forge, branch: str) -> bool:
    """Whether a forge's branch says that releases are signed; if it says nothing, whether they are by default."""
    settings = settings_if_there(forge, branch)
    return is_required(forge, settings.provenance if settings is not None else None)


def signs_itself(forge: Forge, repository: str) -> bool:
    """Whether it is a forge's own workflows that must have signed: a mirror has files that another's did.

    :param repository: the address of the one that must have signed; empty: nothing else is known
    """
    return bool(forge.services.url) and repository in ("", forge.services.url)


@dataclass(frozen=True, kw_only=True)
class KnownManifest:
    """The manifest of a published release, and all that is known of it; it is read once, and checked as it is."""

    manifest: Manifest
    text: str
    bundle: bytes | None = None  #: of its signature; None: nobody has to have signed it
    published_at: datetime | None = None  #: None: nobody asked

    @property
    def tag(self) -> str:
        """The release's tag."""
        return self.manifest.tag

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its text."""
        return sha256_of(self.text)


class Manifests:
    """Reads and checks the manifests of a forge's published releases, one after the other.

    :param required: whether the releases of that forge must be signed (:func:`is_required`)
    :param branch: the protected branch of the repository that signs
    :param signed_by: who must have signed, where that is asked for
    """

    def __init__(self, forge: Forge, *, required: bool, branch: str, signed_by: SignedBy = AS_DECLARED) -> None:
        self._forge = forge
        self._configured = required
        self._signed_by = replace(signed_by, branch=branch)

    @property
    def required(self) -> bool:
        """Whether all of them must be signed, whatever they say."""
        return self._signed_by.required or (self._configured and not self._signed_by.skipped)

    @cached_property
    def _trust(self) -> Trust:
        return self._signed_by.trust or load_trust()

    def _policy(self, manifest: Manifest) -> SignerPolicy | None:
        return find_policy(self._forge, manifest, self._signed_by, configured=self._configured)

    def is_signed(self, manifest: Manifest) -> bool:
        """Whether there must be a bundle. :raises VerificationError: ``provenance-missing``"""
        return self._policy(manifest) is not None

    def check(self, known: KnownManifest) -> None:
        """Check a manifest against its bundle. :raises VerificationError: ``signature-invalid``"""
        policy = self._policy(known.manifest)
        if policy is not None:
            verify_file(Subject(name=MANIFEST_NAME, sha256=known.digest), known.bundle, policy, self._trust)

    def fetch(self, tag: str, folder: Path, *, otherwise: str) -> KnownManifest | None:
        """Read a manifest from its public address; None, with a warning, if the release has none that counts.

        Where releases must be signed, whoever can push can publish one by hand, and must not keep the others from
        being shown.

        :param folder: gets the files
        :param otherwise: what the warning says of a release that is left out
        :raises VerificationError: ``file-damaged``, ``release-tampered``: only where nothing has to be signed
        """
        forge, place = self._forge, folder / tag / MANIFEST_NAME
        place.parent.mkdir(parents=True, exist_ok=True)
        if not forge.fetch_published(tag, MANIFEST_NAME, place):
            console.warn(f"{tag} is published without {MANIFEST_NAME}; {otherwise}")
            return None
        content, known = read_document(place), None
        try:
            manifest = parse_manifest(content, tag, where=forge.file_url(tag, MANIFEST_NAME))
            known = KnownManifest(manifest=manifest, text=content.decode())
            if self.is_signed(manifest):
                beside = place.with_name(MANIFEST_NAME + BUNDLE_SUFFIX)
                if forge.fetch_published(tag, beside.name, beside):
                    known = replace(known, bundle=read_document(beside))
                self.check(known)
        except VerificationError as error:
            if known is None and not self.required:
                raise
            console.warn(f"{tag}: {error.what} ({error.why}); {otherwise}")
            return None
        return known
