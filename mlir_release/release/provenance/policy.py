"""The rules by which a signature is accepted. Pure functions over facts.

One workflow signs the files of a release: ``attest.yml`` of the protected branch, in a run on the release's tag. It is
called at a fixed ref, so the certificate has its name: a forged tag can call it, but can't replace it. The certificate
also has everything else about the run, and the run can choose none of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir_release.ground.errors import VerificationError
from mlir_release.release.model.release_tags import parse_tag

#: Suffix of a file's Sigstore bundle: its signature, certificate and log entry.
BUNDLE_SUFFIX = ".sigstore.json"

#: Suffix of a distribution's provenance file (PEP 740), made from its bundle.
PROVENANCE_SUFFIX = ".provenance"

#: The workflow that signs, in the release repository.
SIGNER_WORKFLOW = ".github/workflows/attest.yml"

#: The predicate type of our statements (slsa.dev/spec/v1.0/provenance).
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"

#: The name of llvm-project among the resolved dependencies of a statement.
REVISION_NAME = "llvm-project"

#: The same of upstream's commit, below what a fork carries.
BASE_NAME = "llvm-project-base"

#: The issuer of a workflow's identity; an enterprise may have one of its own below it (docs.github.com, "OpenID Connect
#: reference": customizing the issuer value).
ISSUER = "https://token.actions.githubusercontent.com"

_ISSUERS = re.compile(re.escape(ISSUER) + r"(/[A-Za-z0-9_-]+)?")
_TAGS = "refs/tags/"


@dataclass(frozen=True, kw_only=True)
class Signer:
    """The run that a signing certificate was issued to.

    Source: the extensions of Fulcio's certificates, github.com/sigstore/fulcio, docs/oid-info.md.
    """

    issuer: str  #: of the identity token
    workflow: str  #: that signed: ``https://github.com/OWNER/NAME/.github/workflows/attest.yml@refs/heads/main``
    repository: str  #: that the run belongs to: ``https://github.com/OWNER/NAME``
    ref: str  #: that the run was on: ``refs/tags/snapshot-20261120.01``
    commit: str  #: of that ref
    runner: str  #: ``github-hosted`` or ``self-hosted``
    caller: str = ""  #: the run's top-level workflow, as :attr:`workflow`
    run: str = ""  #: address of the run
    revision: str = ""  #: of llvm-project, as the statement says; empty in those of older releases


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A file, by name and content."""

    name: str
    sha256: str  #: empty if a statement names none


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A signed statement (in-toto.io/Statement/v1): the fields that decisions depend on."""

    predicate_type: str
    subjects: tuple[Subject, ...]
    revision: str = ""  #: of llvm-project; empty if it names none


@dataclass(frozen=True, kw_only=True)
class SignerPolicy:
    """Who must have signed, and for which release."""

    repository: str  #: ``https://github.com/OWNER/NAME``
    tag: str = ""  #: of the release; empty: that of any release, and the signature says which
    commit: str = ""  #: of the tag; empty where nothing but the signature tells it
    revision: str = ""  #: of llvm-project; empty where nothing but the signature tells it
    branch: str = "main"  #: the protected branch that the signer comes from
    ref: str = ""  #: that the run has to be on; empty: that of the tag


def check_signer(signer: Signer, policy: SignerPolicy) -> None:
    """Check who signed. :raises VerificationError: ``signature-invalid``"""
    if not _ISSUERS.fullmatch(signer.issuer):
        raise _refused("it was not signed by a workflow of GitHub", f"the identity is {signer.issuer}'s")
    if signer.repository != policy.repository:
        raise _refused(
            "it was signed for another repository",
            f"a run of {signer.repository}, not of {policy.repository}",
        )
    workflow, _, ref = signer.workflow.partition("@")
    if workflow != f"{policy.repository}/{SIGNER_WORKFLOW}":
        raise _refused(
            "it was signed by another workflow",
            f"{workflow}, not {policy.repository}/{SIGNER_WORKFLOW}",
        )
    if ref != f"refs/heads/{policy.branch}":
        raise _refused(
            "the workflow that signed it was not that of the protected branch",
            f"it was at {ref or 'no ref'}, not refs/heads/{policy.branch}",
        )
    if signer.runner != "github-hosted":
        raise _refused(
            "it was not signed on a machine of GitHub's",
            f"the runner was {signer.runner or 'not named'}",
        )
    _check_source(signer, policy)


def _check_source(signer: Signer, policy: SignerPolicy) -> None:
    if policy.ref:
        if signer.ref != policy.ref:
            raise _refused(
                "it was signed in a run on another branch or tag",
                f"the run was on {signer.ref or 'no ref'}, not on {policy.ref}",
            )
        return
    tag = signer.ref.removeprefix(_TAGS)
    if not signer.ref.startswith(_TAGS) or (tag != policy.tag if policy.tag else parse_tag(tag) is None):
        raise _refused(
            "it was signed for another release",
            f"the run was on {signer.ref}, not on {_TAGS}{policy.tag or '<tag of a release>'}",
        )
    if policy.commit and signer.commit != policy.commit:
        raise _refused(
            "it was signed for another commit of the tag",
            f"the tag was at {signer.commit} then, and is at {policy.commit}",
        )


def check_statement(statement: Statement, subject: Subject, policy: SignerPolicy) -> None:
    """Check a signed statement. :raises VerificationError: ``signature-invalid``"""
    check_predicate(statement, PREDICATE_TYPE)
    if len(statement.subjects) != 1:
        raise _refused(
            "what was signed is not about one file",
            f"it names {len(statement.subjects)}: {', '.join(named.name for named in statement.subjects[:5])}",
        )
    (named,) = statement.subjects
    if named.name != subject.name:
        raise _refused("what was signed is another file", f"it is about {named.name}, not {subject.name}")
    if named.sha256 != subject.sha256:
        raise _refused(
            "what was signed is another content of the file",
            f"its sha256 is {subject.sha256}; signed was {named.sha256 or 'none'}",
        )
    if policy.revision and statement.revision and statement.revision != policy.revision:
        raise _refused(
            "it was built from another llvm-project commit",
            f"signed was {statement.revision}, and the release is of {policy.revision}",
        )


def check_predicate(statement: Statement, expected: str) -> None:
    """Refuse a statement of another kind. :raises VerificationError: ``signature-invalid``"""
    if statement.predicate_type != expected:
        raise _refused(
            "what was signed is a statement of another kind",
            f"its type is {statement.predicate_type}, not {expected}",
        )


def _refused(what: str, why: str) -> VerificationError:
    return VerificationError("signature-invalid", what, why=why)


def need_provenance(required: bool, manifest: str, *, where: str) -> bool:
    """Whether a release must be signed. Either the caller or the manifest can ask for it.

    :param required: whether the configuration, or the forge, expects it
    :param manifest: the manifest's ``provenance``: ``required`` or ``none``
    :raises VerificationError: ``provenance-missing``
    """
    if required and manifest != "required":
        raise VerificationError(
            "provenance-missing",
            "the release says that it is not signed, and it has to be",
            where=where,
            why=f"its manifest's provenance is {manifest!r}",
            remedy="do not use it: another manifest may have been put in place of the signed one; a release from "
            "before releases were signed is accepted with --provenance skip only",
        )
    return manifest == "required"
