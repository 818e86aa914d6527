"""Sign the files of a release as the workflow that runs here: a statement for each file, and a bundle beside it.

The files are opened only to take their digests.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES
from mlir_release.builder.model.test_report import REPORT_SUFFIX
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ForgeError, NeedsPersonError, ReleaseError, UsageError, VerificationError
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.provenance.bundle import STATEMENT_TYPE
from mlir_release.release.provenance.policy import (
    BASE_NAME,
    BUNDLE_SUFFIX,
    PREDICATE_TYPE,
    PROVENANCE_SUFFIX,
    REVISION_NAME,
    SignerPolicy,
    Subject,
    check_signer,
)
from mlir_release.release.provenance.policy import Signer as Identity
from mlir_release.release.provenance.trust import TRUST_VARIABLE, load_trust, signing_config
from mlir_release.release.provenance.verify import publish_provenance, verify_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sigstore.models import Bundle
    from sigstore.sign import Signer, SigningContext

    from mlir_release.release.model.stack import CarriedStack

T = TypeVar("T")

#: The kinds of files that can be signed, with patterns of their names.
KINDS: Mapping[str, tuple[str, ...]] = {
    "wheels": tuple(f"*{suffix}" for suffix in DISTRIBUTION_SUFFIXES),
    "reports": (f"*{REPORT_SUFFIX}",),
    "manifest": (MANIFEST_NAME,),
}

#: Seconds to wait before each further attempt, where a service does not answer or asks for patience.
PAUSES = (2.0, 5.0, 15.0, 45.0)

#: A certificate that expires sooner is renewed before it is used again.
_MARGIN = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Attested:
    """The files that were signed. ``stored``: how many statements GitHub's attestations took."""

    tag: str
    signed: tuple[str, ...]
    kept: tuple[str, ...]  #: had a valid bundle already
    folder: str
    stored: int = 0

    def text(self) -> str:
        """A line, and one for each file."""
        lines = [f"{self.tag}: {len(self.signed)} signed, {len(self.kept)} signed already, in {self.folder}"]
        return "\n".join([*lines, *(f"  {name}" for name in self.signed)])


def attest(
    policy: SignerPolicy,
    folder: Path,
    output: Path,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    upstream: str = "",
    stack: CarriedStack | None = None,
    choose: Callable[[Sequence[Subject]], Sequence[Subject]] = list,
    store: Callable[[bytes], bool] | None = None,
) -> Attested:
    """Sign the files below ``folder`` as this workflow run, and write the bundles into ``output``. Safe to repeat.

    :param policy: what readers ask of the signatures: the run has to be of the tag's commit, as somebody may have moved
        the tag since the run began
    :param kinds: keys of :data:`KINDS`; other files are left alone
    :param upstream: where the llvm-project commit is from that the files are built from
    :param stack: what it carries; None: nothing
    :param choose: says which of the files are signed; raises an error if one makes the whole run suspicious
    :param store: has a bundle kept by the forge, too; returns whether it was
    :raises UsageError: ``input-missing``, ``input-invalid``, ``needs-github``
    :raises NeedsPersonError: ``repository-private``
    :raises VerificationError: ``signature-invalid``: readers would refuse this run's signatures, so nothing was signed
    :raises ForgeError: ``forge-unreachable``
    """
    files = choose(_files(folder, kinds))
    signatory = Signatory(os.environ, policy, upstream, stack)
    trust = load_trust()
    signed, kept, stored = [], [], 0
    for subject in files:
        place = output / f"{subject.name}{BUNDLE_SUFFIX}"
        bundle = read_if_there(place) or b""
        try:
            verify_file(subject, bundle, policy, trust)
        except VerificationError:  # there is no bundle yet, or it is not a good one
            with console.step(f"sign {subject.name}"):
                bundle = signatory.sign(subject)
            verify_file(subject, bundle, policy, trust)
            write_atomically(place, bundle)
            stored += store is not None and store(bundle)
            signed.append(subject.name)
        else:
            kept.append(subject.name)
        if subject.name.endswith(DISTRIBUTION_SUFFIXES):
            write_atomically(output / f"{subject.name}{PROVENANCE_SUFFIX}", publish_provenance(bundle))
    return Attested(tag=policy.tag, signed=tuple(signed), kept=tuple(kept), folder=str(output), stored=stored)


def _files(folder: Path, kinds: Sequence[str]) -> list[Subject]:
    """The files of some kinds, by name."""
    patterns = [pattern for kind in kinds for pattern in KINDS[kind]]
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if not (path.is_file() and any(fnmatchcase(path.name, pattern) for pattern in patterns)):
            continue
        digest = sha256_of(path)
        if found.setdefault(path.name, digest) != digest:
            raise UsageError(
                "input-invalid",
                f"two different files are called {path.name}",
                where=str(folder),
                remedy="sign them in two runs, or remove the one that is not meant",
            )
    if not found:
        raise UsageError(
            "input-missing",
            "there is nothing to sign",
            where=str(folder),
            why=f"no file is one of the {', '.join(kinds)} of a release",
            remedy="name the folder that the artifacts were downloaded to",
        )
    return [Subject(name=name, sha256=digest) for name, digest in sorted(found.items())]


def own_repository(environ: Mapping[str, str]) -> str:
    """The address of the repository that a workflow runs in."""
    return f"{_server(environ)}/{environ.get('GITHUB_REPOSITORY', '')}"


def _server(environ: Mapping[str, str]) -> str:
    return environ.get("GITHUB_SERVER_URL", "https://github.com")


class Signatory:
    """Signs as the workflow run in whose job it is. Its identity and its key last ten minutes, and are renewed.

    :param environ: of the job
    :param policy: that has to accept its signatures
    :param upstream: where the policy's revision of llvm-project is from
    :param stack: what that carries
    :raises UsageError: ``needs-github`` outside of a workflow run; nobody is asked anything to find that out
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        policy: SignerPolicy,
        upstream: str = "",
        stack: CarriedStack | None = None,
    ) -> None:
        if environ.get("GITHUB_ACTIONS") != "true":
            raise UsageError(
                "needs-github",
                "only a workflow run can sign",
                why="the signature says which workflow made the file",
                remedy="run attest.yml in the release repository; a local forge's releases are not signed",
            )
        self._environ = environ
        self._policy = policy
        self._sources = {REVISION_NAME: (upstream, policy.revision)}
        if stack is not None:
            self._sources[BASE_NAME] = (stack.upstream, stack.base)
        self._claims: dict[str, Any] = {}
        self._context: SigningContext | None = None
        self._signer: Signer | None = None
        self._renew_at: datetime | None = None  #: None: no bundle has said yet until when the certificate is good

    def sign(self, subject: Subject | Mapping[str, Any]) -> bytes:
        """The bundle of a statement about how a file was built, or of another statement.

        :raises ForgeError: ``forge-unreachable``
        """
        from sigstore.dsse import Statement

        self._ready_signer()
        if isinstance(subject, Subject):
            subject = _statement(subject, self._claims, self._sources)
        statement = Statement(json.dumps(subject).encode())

        def once() -> Bundle:
            signer = self._ready_signer()
            try:
                return signer.sign_dsse(statement)
            except Exception:
                self._signer = None  # its certificate may have expired, which sigstore-python has no public error for
                raise

        bundle = _patiently(once)
        self._renew_at = bundle.signing_certificate.not_valid_after_utc - _MARGIN
        return bundle.to_json().encode()

    def _ready_signer(self) -> Signer:
        """A signer whose certificate is good for some time. Who is going to sign is checked before it gets one."""
        from sigstore.oidc import IdentityToken
        from sigstore.sign import Signer, SigningContext

        if self._signer is not None and (self._renew_at is None or datetime.now(UTC) <= self._renew_at):
            return self._signer
        token = _patiently(lambda: IdentityToken(_ambient_token()), of="GitHub's service of identities")
        # A JSON Web Token (RFC 7519): header.payload.signature. Whoever issues the certificate verifies it.
        claims = parse_json(base64.urlsafe_b64decode(str(token).split(".")[1] + "=="))
        self._claims = {**claims, "server": _server(self._environ)}
        _check_visibility(self._claims, self._environ)
        _check_identity(self._claims, self._policy)
        self._renew_at = None

        def signer() -> Signer:
            if self._context is None:
                config = signing_config(self._environ)
                if not self._environ.get(TRUST_VARIABLE):
                    # PEP 740 has no place for timestamps of others, so the log itself has to date the signature.
                    config.force_tlog_version = 1
                self._context = SigningContext.from_trust_config(config)
            return Signer(token, self._context, cache=True)

        self._signer = _patiently(signer)
        return self._signer


def _ambient_token() -> str:
    """The identity of the workflow run, for Sigstore. :raises AmbientCredentialError: GitHub does not give it now"""
    from id import GitHubOidcPermissionCredentialError, detect_credential

    try:
        token = detect_credential("sigstore")
    except GitHubOidcPermissionCredentialError as error:
        raise UsageError(
            "needs-github",
            "the job has no identity to sign with",
            why=str(error),
            remedy="give the job the permission id-token: write",
        ) from error
    assert token is not None  # a workflow run has one, or its lack was an error
    return token


def _check_visibility(claims: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """The public instance writes the repository's name, workflow and commit into a log that anyone can read."""
    if claims.get("repository_visibility", "public") != "public" and not environ.get(TRUST_VARIABLE):
        raise NeedsPersonError(
            "repository-private",
            f"{claims.get('repository')} is {claims['repository_visibility']}, and the log of signatures is public",
            why="signing would publish the names of the repository, its workflows, tags and files",
            remedy='set provenance = "none" in [release] of targets.toml, or name a Sigstore of your own in '
            f"{TRUST_VARIABLE}",
        )


def _check_identity(claims: Mapping[str, Any], policy: SignerPolicy) -> None:
    """Check the coming certificate's claims before anything is signed, because a signature stays in the log.

    :raises VerificationError: ``signature-invalid``
    """
    identity = Identity(
        issuer=str(claims.get("iss", "")),
        workflow=f"{claims['server']}/{claims.get('job_workflow_ref', '')}",
        repository=f"{claims['server']}/{claims.get('repository', '')}",
        ref=str(claims.get("ref", "")),
        commit=str(claims.get("sha", "")),
        runner=str(claims.get("runner_environment", "")),
    )
    try:
        check_signer(identity, policy)
    except VerificationError as error:
        error.where = error.where or policy.tag
        error.what = f"what this run signs would be refused: {error.what}"
        raise


def _statement(subject: Subject, claims: Mapping[str, Any], origins: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """How a file was built, as GitHub's own action says it, and from which llvm-project commit.

    :param origins: by names of llvm-project: its address, and the commit, or nothing

    Source: github.com/actions/toolkit, packages/attest/src/provenance.ts; slsa.dev/spec/v1.0/provenance.
    """
    repository = f"{claims['server']}/{claims['repository']}"
    path = str(claims["workflow_ref"]).removeprefix(f"{claims['repository']}/").partition("@")[0]
    names = ("event_name", "repository_id", "repository_owner_id", "runner_environment")
    sources = [{"uri": f"git+{repository}@{claims['ref']}", "digest": {"gitCommit": claims["sha"]}}]
    for name, (upstream, revision) in origins.items():
        if revision:
            uri = f"git+{upstream.removesuffix('.git')}@{revision}"
            sources.append({"name": name, "uri": uri, "digest": {"gitCommit": revision}})
    predicate = {
        "buildDefinition": {
            "buildType": "https://actions.github.io/buildtypes/workflow/v1",
            "externalParameters": {"workflow": {"ref": claims["ref"], "repository": repository, "path": path}},
            "internalParameters": {"github": {name: claims.get(name, "") for name in names}},
            "resolvedDependencies": sources,
        },
        "runDetails": {
            "builder": {"id": f"{claims['server']}/{claims['job_workflow_ref']}"},
            "metadata": {
                "invocationId": f"{repository}/actions/runs/{claims['run_id']}/attempts/{claims['run_attempt']}"
            },
        },
    }
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": subject.name, "digest": {"sha256": subject.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def _patiently(ask: Callable[[], T], *, of: str = "Sigstore") -> T:
    """Ask a service; again after a pause if it does not answer or asks for patience.

    :param ask: does nothing else: whatever it raises is taken for a failure of the service
    :param of: the service
    :raises ForgeError: ``forge-unreachable``
    """
    for pause in (*PAUSES, None):
        try:
            return ask()
        except ReleaseError:
            raise
        except Exception as error:  # sigstore-python's errors of its services have no public class
            if pause is None or not _is_passing(error):
                raise ForgeError(
                    "forge-unreachable",
                    f"nothing is signed: {of} refuses or does not answer",
                    why=f"{type(error).__name__}: {error or error.__cause__}",
                    remedy="see https://status.sigstore.dev and https://www.githubstatus.com; re-run the job: what is "
                    "signed is kept",
                ) from error
            console.say(f"    {of} does not answer ({error or error.__cause__}); again in {pause:.0f} s")
            time.sleep(pause)
    raise AssertionError("the last attempt raises")


def _is_passing(error: BaseException) -> bool:
    """Whether a failure can be over soon: no answer, too many requests, a fault of the server, an identity too old."""
    from id import AmbientCredentialError
    from requests import HTTPError, RequestException
    from sigstore.oidc import ExpiredIdentity

    for found in (error, error.__cause__, error.__context__):
        if isinstance(found, AmbientCredentialError):  # it has no status, only says it
            return re.search(r"\(code=4(?!08|29)\d\d,", str(found)) is None
        if isinstance(found, HTTPError):
            status = found.response.status_code if found.response is not None else 503
            return status in (408, 429) or status >= 500
        if isinstance(found, RequestException | ExpiredIdentity):
            return True
    return False
