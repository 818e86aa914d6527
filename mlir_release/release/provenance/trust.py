"""The roots of trust by which signatures are verified, from a file or from the sigstore package.

sigstore-python carries the root of the public instance and refreshes it (TUF) where there is a network. A file is used
instead without any request: a trusted root (``gh attestation trusted-root`` prints several, one a line), or a client
trust configuration, which also names the services that sign.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, parse_json
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sigstore.models import ClientTrustConfig, TrustedRoot

#: Names a Sigstore client trust configuration that is used instead of the public instance, to sign and to verify.
TRUST_VARIABLE = "MLIR_RELEASE_TRUST_CONFIG"


@dataclass(frozen=True)
class Trust:
    """Roots of trust. A signature counts if one of them accepts it."""

    roots: Sequence[TrustedRoot]


def load_trust(trusted_root: Path | None = None, environ: Mapping[str, str] = os.environ) -> Trust:
    """The trusted roots of a file, else of :data:`TRUST_VARIABLE`, else of the public instance.

    :raises UsageError: ``input-invalid``
    """
    path = trusted_root or (Path(environ[TRUST_VARIABLE]) if environ.get(TRUST_VARIABLE) else None)
    if path is not None:
        return Trust([_root(document, path) for document in _documents(path)])
    return Trust([public_config().trusted_root])


def signing_config(environ: Mapping[str, str] = os.environ) -> ClientTrustConfig:
    """The services that sign: those of :data:`TRUST_VARIABLE`, else the public instance's.

    :raises UsageError: ``input-invalid``
    """
    from sigstore.models import ClientTrustConfig

    if not environ.get(TRUST_VARIABLE):
        return public_config()
    path = Path(environ[TRUST_VARIABLE])
    try:
        return ClientTrustConfig.from_json(json.dumps(parse_json(read_document(path))))
    except (OSError, ValueError) as error:
        raise _invalid(path, str(error)) from error


def public_config() -> ClientTrustConfig:
    """The public instance. If its server does not answer: as it was last seen, or as the package carries it."""
    from sigstore.errors import TUFError
    from sigstore.models import ClientTrustConfig

    try:
        return ClientTrustConfig.production()
    except TUFError as error:
        console.warn(f"Sigstore's root of trust could not be refreshed, and the carried one is used: {error}")
        return ClientTrustConfig.production(offline=True)


def _documents(path: Path) -> list[dict[str, Any]]:
    """The JSON documents of a file: one, or one a line."""
    try:
        content = read_document(path)
        try:
            found = [parse_json(content)]
        except MalformedError:
            found = [parse_json(line) for line in content.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise _invalid(path, str(error)) from error
    if not found or not all(isinstance(document, dict) for document in found):
        raise _invalid(path, "it holds no JSON object")
    # A root without logs is that of GitHub's Sigstore for private repositories: sigstore-python can't verify with it.
    roots = [document.get("trustedRoot", document) for document in found]
    usable = [root for root in roots if isinstance(root, dict) and root.get("tlogs")]
    if not usable:
        raise _invalid(path, "it names no transparency log, as GitHub's own root for private repositories does not")
    return usable


def _root(document: dict[str, Any], path: Path) -> TrustedRoot:
    from sigstore.errors import Error
    from sigstore.models import TrustedRoot
    from sigstore_models.trustroot.v1 import TrustedRoot as Document

    try:
        return TrustedRoot(Document.from_json(json.dumps(document)))
    except (ValueError, TypeError, LookupError, AttributeError, Error) as error:
        raise _invalid(path, str(error)) from error


def _invalid(path: Path, why: str) -> UsageError:
    return UsageError(
        "input-invalid",
        "the root of trust can't be used",
        where=str(path),
        why=why,
        remedy="give a Sigstore trusted root (gh attestation trusted-root prints it) or a client trust configuration",
    )
