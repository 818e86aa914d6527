"""Fetch files from the network."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mlir_release.errors import MachineError, VerificationError
from mlir_release.host.files import replacing, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds without an answer, or without more of it, after which an attempt has failed.
TIMEOUT = 60.0

#: Seconds before the second attempt, and before the third.
PAUSES = (1.0, 5.0)

_CHUNK = 1 << 20

#: Where certificate authorities are named; OpenSSL's own variable comes after those of requests.
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")

_TRANSIENT = frozenset({429, 500, 502, 503, 504})


def download(url: str, destination: Path, *, sha256: str = "", limit: int = 4 << 30) -> None:
    """Fetch ``url`` (``http:``, ``https:`` or ``file:``) into a file, which appears complete or not at all.

    Connections that break, and servers that are overloaded, are tried again. Proxies and certificates are those of the
    environment (``HTTPS_PROXY``, ``NO_PROXY``, ``REQUESTS_CA_BUNDLE``, ``SSL_CERT_FILE``).

    :param sha256: that the file must have, in hex; default: not checked
    :param limit: bytes that it may have; default: more than a file of a release on GitHub can have
    :raises MachineError: ``download-failed``
    :raises VerificationError: ``download-wrong``
    """
    with replacing(destination) as temporary:
        _fetch(url, temporary, limit)
        if sha256 and (found := sha256_of(temporary)) != sha256:
            raise VerificationError(
                "download-wrong",
                f"{destination.name} is not the file that it should be",
                where=url,
                why=f"its sha256 is {found}, expected {sha256}",
                remedy="download it again; if the digest is still another one, the file was replaced at its source",
            )


def _fetch(url: str, path: Path, limit: int) -> None:
    import requests

    if url.startswith("file:"):
        try:
            with Path(url2pathname(urlsplit(url).path)).open("rb") as source:
                _write(url, path, iter(lambda: source.read(_CHUNK), b""), limit)
        except OSError as error:
            raise _failed(url, str(error)) from error
        return
    verify = next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), True)
    for pause in (*PAUSES, None):
        try:
            with requests.get(url, stream=True, timeout=TIMEOUT, verify=verify) as response:
                if response.ok:
                    _write(url, path, response.iter_content(_CHUNK), limit)
                    return
            why, again = f"{response.status_code} {response.reason}", response.status_code in _TRANSIENT
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            why, again = str(error), True
        except requests.RequestException as error:
            why, again = str(error), False
        if pause is None or not again:
            raise _failed(url, why)
        time.sleep(pause)


def _write(url: str, path: Path, chunks: Iterator[bytes], limit: int) -> None:
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            if file.tell() > limit:
                raise VerificationError(
                    "download-wrong",
                    f"{urlsplit(url).path.rpartition('/')[2]} is not the file that it should be",
                    where=url,
                    why=f"it has more than {limit:,} bytes",
                    remedy="find out who put it there; no file of ours is that large",
                )


def _failed(url: str, why: str) -> MachineError:
    return MachineError(
        "download-failed",
        "a file could not be downloaded",
        where=url,
        why=why,
        remedy="check the network and the proxy settings (HTTPS_PROXY, NO_PROXY), then run this again",
    )
