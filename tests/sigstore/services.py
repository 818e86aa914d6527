"""The instance on the loopback interface: the authority, the log, and the runner's endpoint for identity tokens."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography import x509

from tests.loopback import Loopback, Quiet
from tests.sigstore.instance import MadeSigstore, workflow_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: The token that a job asks with.
REQUEST_TOKEN = "made-request-token"

IDENTITY = "/identity"
CERTIFICATES = "/api/v2/signingCert"
ENTRIES = "/api/v1/log/entries"


@dataclass
class Services:
    """A served instance. ``requests``: the paths asked for; ``fault``: the status to refuse a path with, 0: none."""

    made: MadeSigstore
    url: str
    folder: Path
    requests: list[str] = field(default_factory=list)
    fault: Callable[[str], int] = lambda path: 0

    @property
    def trusted_root(self) -> Path:
        """The file of its root."""
        return self.folder / "trusted-root.json"

    def environment(self, **claims: str) -> dict[str, str]:
        """What a job needs to sign here: as GitHub's runner sets it, and ours.

        :param claims: of the run, where they are not those of :func:`~tests.sigstore.instance.workflow_claims`;
            ``tag``, ``repository`` and ``commit`` as there; ``server``: instead of https://github.com
        """
        return {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}{IDENTITY}?{urlencode(claims)}",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
            "MLIR_RELEASE_TRUST_CONFIG": str(self.folder / "trust-config.json"),
        }


class _Handler(Quiet):
    protocol_version = "HTTP/1.1"
    services: Services

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if self._faulty(parts.path):
            return
        asked = dict(parse_qsl(parts.query))
        audience = asked.pop("audience", "")
        if parts.path != IDENTITY or self.headers["Authorization"] != f"bearer {REQUEST_TOKEN}":
            self._answer(403, {"message": "no identity for you"})
        else:
            self._answer(200, {"value": self.services.made.token(workflow_claims(**asked), audience=audience)})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._faulty(self.path):
            return
        asked = json.loads(body)
        if self.path == CERTIFICATES:
            self._certify(asked)
        elif self.path == ENTRIES:
            self._answer(201, self.services.made.record(asked))
        else:
            self._answer(404, {"message": f"nothing at {self.path}"})

    def _certify(self, asked: dict[str, Any]) -> None:
        request = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
        try:
            chain = self.services.made.certify(request, self.headers["Authorization"].removeprefix("Bearer "))
        except jwt.InvalidTokenError as error:
            self._answer(400, {"code": 3, "message": str(error)})
            return
        certificates = [one.decode() for one in chain]
        self._answer(200, {"signedCertificateEmbeddedSct": {"chain": {"certificates": certificates}}})

    def _faulty(self, path: str) -> bool:
        self.services.requests.append(path)
        status = self.services.fault(path)
        if status:
            self._answer(status, {"message": "out of order"})
        return bool(status)

    def _answer(self, status: int, data: Any) -> None:
        self.answer(status, json.dumps(data).encode(), {"Content-Type": "application/json"})


@contextmanager
def serve_sigstore(folder: Path, *, made: MadeSigstore | None = None) -> Iterator[Services]:
    """Serve an instance; ``folder`` gets its ``trust-config.json`` and its ``trusted-root.json``."""
    handler = type("Handler", (_Handler,), {})
    server = Loopback(handler)
    services = Services(made or MadeSigstore(), server.url, folder.resolve())
    handler.services = services  # type: ignore[attr-defined]
    folder.mkdir(parents=True, exist_ok=True)
    services.trusted_root.write_text(json.dumps(services.made.trusted_root()))
    (folder / "trust-config.json").write_text(json.dumps(services.made.client_config(services.url)))
    with server:
        yield services
