"""Saying of a file, or of a release's, who made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import ReleaseError, VerificationError
from mlir_release.host.files import read_if_there
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.digests import sha256_of
from mlir_release.model.manifest import MANIFEST_NAME
from mlir_release.model.test_report import REPORT_SUFFIX
from mlir_release.provenance.policy import BUNDLE_SUFFIX, Policy, Subject
from mlir_release.provenance.verify import verify_file
from mlir_release.release.listed import listed_files, unlisted_files
from mlir_release.release.remote import fetch, fetch_published_wheel, need_published, not_its_manifest
from mlir_release.release.signed import AS_DECLARED, SignedBy, read_trusted, signs_itself
from mlir_release.snapshot.pinned import check_facts
from mlir_release.snapshot.state import find_state

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.forge.base import Forge, Release
    from mlir_release.provenance.policy import Signer
    from mlir_release.provenance.trust import Trust
    from mlir_release.release.signed import TrustedRelease


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
class Row:
    """A file of a release. ``error``: why it is refused; None: it is as it has to be."""

    name: str
    result: str  #: signed, not signed, refused
    error: ReleaseError | None = None

    def cells(self) -> tuple[str, ...]:
        """As :attr:`CheckedRelease.COLUMNS`."""
        return self.name, self.result, f"{self.error.id}: {self.error.why}" if self.error is not None else ""

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "name": self.name,
            "result": self.result,
            "error": self.error.as_json() if self.error is not None else None,
        }


@dataclass(frozen=True, kw_only=True)
class CheckedRelease:
    """A release, and each of its files."""

    COLUMNS = ("file", "result", "why")

    tag: str
    provenance: str  #: required or none, as its manifest says
    repository: str  #: whose workflow signed; empty: nobody did, or that was not checked
    rows: tuple[Row, ...]
    self_named: bool = False  #: only the release itself says that this repository's signature counts
    unsigned: ReleaseError | None = None  #: nobody signed the release, and nobody said that this is right

    @property
    def refused(self) -> tuple[ReleaseError, ...]:
        """Why files are refused; and the release, if all of them have their digests and nobody signed it."""
        files = tuple(row.error for row in self.rows if row.error is not None)
        return files if self.unsigned is None else (*files, self.unsigned)

    def text(self) -> str:
        """The sum."""
        good = sum(row.error is None for row in self.rows)
        whose = f", signed by {self.repository}" if self.repository else ""
        whose += ", as only the release itself says" if self.self_named else ""
        word = "as they have to be" if self.repository else "with their digests"
        return f"{self.tag}: provenance {self.provenance}{whose}; {good} of {len(self.rows)} files {word}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.tag,
            "provenance": self.provenance,
            "repository": self.repository,
            "files": [row.to_json() for row in self.rows],
            "self_named": self.self_named,
            "unsigned": self.unsigned.as_json() if self.unsigned is not None else None,
        }


def check_file(path: Path, bundle: Path | None, policy: Policy, trust: Trust) -> CheckedFile:
    """Check a file by the bundle beside it. :raises VerificationError: ``provenance-…``"""
    content = read_if_there(bundle or path.with_name(path.name + BUNDLE_SUFFIX))
    subject = Subject(name=path.name, sha256=sha256_of(path))
    signer = verify_file(subject, content, policy, trust)
    return CheckedFile(name=subject.name, sha256=subject.sha256, signer=signer)


def check_release(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED) -> CheckedRelease:
    """Check a published release: its tag, its manifest, each file that is signed, and that it has no others.

    :raises UsageError: ``release-not-published``; :raises VerificationError: if the tag or the manifest is refused
    """
    release = need_published(forge, tag)
    commit = ""
    if signs_itself(forge, signed_by.repository):  # a mirror's commits are its own
        state = find_state(forge, tag)
        check_facts(forge.pin_facts(state.commit), state)  # that it is upstream's was asked before it was published
        commit = state.commit
    with scratch_folder("check") as folder:
        trusted = read_trusted(forge, release, folder, signed_by, commit=commit)
        rows = [Row(name=MANIFEST_NAME, result=_word(trusted))]
        rows += [_check_wheel(forge, trusted, number, folder) for number in range(len(trusted.manifest.files))]
        rows += [_check_report(forge, trusted, name, folder) for name in _reports(release)]
        rows += _refused_companions(forge, trusted)
    signer = trusted.signer
    return CheckedRelease(
        tag=tag,
        provenance=trusted.manifest.provenance,
        repository=signer.repository if signer is not None else "",
        rows=tuple(rows),
        self_named=trusted.self_named,
        unsigned=_unsigned(forge, tag) if signer is None and not signed_by.skipped else None,
    )


def _unsigned(forge: Forge, tag: str) -> VerificationError:
    return VerificationError(
        "release-unsigned",
        f"nobody signed {tag}: its files have the digests that it says itself",
        where=forge.page_url(tag),
        why="its manifest and its repository ask for no signature, so whoever can write there can change both",
        remedy="if you trust everyone who can, say so: --provenance skip; else use a release that is signed",
    )


def _word(trusted: TrustedRelease) -> str:
    return "signed" if trusted.signatures is not None else "not signed"


def _check_wheel(forge: Forge, trusted: TrustedRelease, number: int, folder: Path) -> Row:
    wheel = trusted.manifest.files[number]
    try:
        fetch_published_wheel(forge, trusted.release, wheel, folder).unlink()
        trusted.check(wheel.filename, wheel.sha256)
    except ReleaseError as error:
        return Row(name=wheel.filename, result="refused", error=error)
    return Row(name=wheel.filename, result=_word(trusted))


def _reports(release: Release) -> list[str]:
    return sorted(asset.name for asset in release.assets if asset.name.endswith(REPORT_SUFFIX))


def _check_report(forge: Forge, trusted: TrustedRelease, name: str, folder: Path) -> Row:
    asset = trusted.release.asset(name)
    assert asset is not None
    try:
        if (
            forge.services is None
        ):  # GitHub computes the digests that it says; in a folder, anyone may have written them
            fetch(forge, trusted.release, asset, folder).unlink()
        trusted.check(name, asset.sha256)
    except ReleaseError as error:
        return Row(name=name, result="refused", error=error)
    return Row(name=name, result=_word(trusted))


def _refused_companions(forge: Forge, trusted: TrustedRelease) -> list[Row]:
    """The files that the manifest does not list, and those beside a wheel that it lists with another digest."""
    release, listed = trusted.release, listed_files(trusted.manifest)
    wheels = {file.filename for file in trusted.manifest.files}
    why = dict.fromkeys(unlisted_files(release, trusted.manifest), "it does not list it")
    for asset in release.assets:
        if asset.name not in wheels and listed.get(asset.name) not in ("", None, asset.sha256):
            why[asset.name] = f"{asset.sha256}, not {listed[asset.name]}"
    return [
        Row(name=name, result="refused", error=not_its_manifest(forge, release.tag, name, reason))
        for name, reason in sorted(why.items())
    ]
