"""The one downloader: bounded, hashed as it arrives, by the proxies and certificates of the environment."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.storage.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import requests

T = TypeVar("T")

#: Seconds without an answer, or without more of it, after which an attempt has failed.
HTTP_TIMEOUT = 60.0

#: Seconds before the second attempt, and before the third.
PAUSES = (1.0, 5.0)

#: Bytes that a file may have by default: more than a file of a release on GitHub can have.
LIMIT = 4 << 30

#: Bytes that arrive in each :data:`HTTP_TIMEOUT`, or an attempt has failed: a kilobyte a second.
_CHUNK = 1 << 16

#: Where certificate authorities are named; OpenSSL's own variable comes after those of requests.
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")

_TRANSIENT = frozenset({429, 500, 502, 503, 504})


def download(url: str, destination: Path, *, sha256: str = "", limit: int = LIMIT, secure: bool = False) -> None:
    """Fetch ``url`` (``http:``, ``https:`` or ``file:``) into a file, which appears complete or not at all.

    Connections that break, and servers that are overloaded, are tried again. Proxies and certificates are those of the
    environment (``HTTPS_PROXY``, ``NO_PROXY``, ``REQUESTS_CA_BUNDLE``, ``SSL_CERT_FILE``).

    :param sha256: that the file must have, in hex; default: not checked
    :param limit: bytes that it may have
    :param secure: see :func:`receive`
    :raises MachineError: ``network-failed``
    :raises VerificationError: ``file-damaged``
    """
    with replacing(destination) as temporary:
        found = _patiently(url, temporary, limit, secure=secure)
        if sha256 and found != sha256:
            raise VerificationError(
                "file-damaged",
                f"{destination.name} is not the file that it should be",
                where=url,
                why=f"its sha256 is {found}, expected {sha256}",
                remedy="download it again; if the digest is still another one, the file was replaced at its source",
            )


def receive(
    url: str,
    file: BinaryIO,
    *,
    headers: Mapping[str, str] | None = None,
    limit: int = LIMIT,
    timeout: float | None = None,
    secure: bool = False,
) -> str:
    """Write what a server answers into ``file``, in one attempt; returns its SHA-256 in hex.

    :param headers: more of them; requests leaves ``Authorization`` out where the server redirects to another host
    :param timeout: seconds; default: :data:`HTTP_TIMEOUT`
    :param secure: go only where :func:`is_secure` lets us
    :raises MachineError: ``network-failed``: it leads elsewhere
    :raises requests.RequestException: no answer, or only a part of one; ``HTTPError``, with the answer: a refusal
    :raises VerificationError: ``file-damaged``: it has more than ``limit`` bytes
    """
    import requests

    verify = next((os.environ[name] for name in _CERTIFICATES if os.environ.get(name)), True)
    named = {"User-Agent": "mlir-release", **(headers or {})}
    seconds = timeout or HTTP_TIMEOUT

    def check(response: requests.Response, **_: object) -> None:  # before requests goes where that leads
        target = urljoin(response.url, response.headers["location"]) if response.is_redirect else response.url
        if not is_secure(url, target):
            response.close()
            raise _failed(url, f"it leads to {target}, which is not HTTPS")

    hooks = {"response": check} if secure else None

    def transfer() -> str:
        with requests.get(url, headers=named, stream=True, timeout=seconds, verify=verify, hooks=hooks) as response:
            if not response.ok:
                _ = response.content  # what the server says of it, read while the connection is open
                response.raise_for_status()
            return _write(url, file, response.iter_content(_CHUNK), limit)

    return waited_for(transfer, seconds=seconds, arrived=file.tell)


def waited_for(work: Callable[[], T], *, seconds: float, arrived: Callable[[], int] = int) -> T:
    """The result of what talks to a server, which may send a byte a second: that never exceeds a timeout of a socket.

    :param seconds: in which ``work`` ends, or ``arrived`` grows; then again as many
    :param arrived: bytes that are there
    :raises requests.Timeout: neither happens; ``work`` is left alone, and ends with this process at the latest
    """
    import requests

    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:  # raised again where it is waited for
            ended.set_exception(error)

    Thread(target=run, daemon=True).start()
    there = -1
    while there < (there := arrived()):
        with suppress(TimeoutError):
            ended.exception(seconds)
            return ended.result()
    raise requests.Timeout(f"too little arrived in {seconds:g} s")


def is_secure(asked: str, url: str) -> bool:
    """Whether a server at ``asked`` may send us on to ``url``: by HTTPS, or from this machine to itself."""
    here = all(urlsplit(each).hostname in ("localhost", "127.0.0.1", "::1") for each in (asked, url))
    return urlsplit(url).scheme == "https" or (here and urlsplit(url).scheme == "http")


def _patiently(url: str, path: Path, limit: int, *, secure: bool) -> str:
    """Write a file of this machine, or one that is served, which is tried again; returns its SHA-256."""
    import requests

    if url.startswith("file:"):
        try:
            with open_regular(Path(url2pathname(urlsplit(url).path))) as source, path.open("wb") as file:
                return _write(url, file, iter(lambda: source.read(_CHUNK), b""), limit)
        except OSError as error:
            raise _failed(url, str(error)) from error
    for pause in (*PAUSES, None):
        try:
            with path.open("wb") as file:
                return receive(url, file, limit=limit, secure=secure)
        except requests.HTTPError as error:
            answer = error.response
            assert answer is not None
            why, again = f"{answer.status_code} {answer.reason}", answer.status_code in _TRANSIENT
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            why, again = str(error), True
        except requests.RequestException as error:
            why, again = str(error), False
        if pause is None or not again:
            raise _failed(url, why)
        time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _write(url: str, file: BinaryIO, chunks: Iterable[bytes], limit: int) -> str:
    def written() -> Iterator[bytes]:
        for chunk in chunks:
            file.write(chunk)
            if file.tell() > limit:
                raise VerificationError(
                    "file-damaged",
                    f"{urlsplit(url).path.rpartition('/')[2]} is not the file that it should be",
                    where=url,
                    why=f"it has more than {limit:,} bytes",
                    remedy="find out who put it there; no file of ours is that large",
                )
            yield chunk

    return sha256_of(written())


def _failed(url: str, why: str) -> MachineError:
    return MachineError("network-failed", "a file could not be downloaded", where=url, why=why)
