"""Downloads are complete and the right ones, or errors."""

from __future__ import annotations

import hashlib
import socket
import time
from contextlib import contextmanager, suppress
from io import BytesIO
from threading import Thread
from typing import TYPE_CHECKING

import pytest
import requests

from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.storage.download import download, receive
from tests.loopback import Loopback, Quiet
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = b"content" * 1000


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    """No pauses, and no proxy between the test and its own server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@contextmanager
def server(*answers: tuple[int, bytes, int]) -> Iterator[tuple[str, list[str]]]:
    """Serves the answers one after the other: status, body, and how long the body is claimed to be."""
    asked: list[str] = []
    left = iter(answers)

    class Handler(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body, length = next(left)
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

    with Loopback(Handler) as http:
        yield f"{http.url}/file", asked


GOOD = (200, CONTENT, len(CONTENT))


def test_a_file_arrives_with_its_digest(tmp_path: Path) -> None:
    with server(GOOD) as (url, _):
        download(url, tmp_path / "new" / "file", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("bad", [(503, b"busy", 4), (200, CONTENT[:100], len(CONTENT))], ids=["busy", "truncated"])
def test_a_transient_failure_is_tried_again(tmp_path: Path, bad: tuple[int, bytes, int]) -> None:
    with server(bad, bad, GOOD) as (url, asked):
        download(url, tmp_path / "file")
    assert len(asked) == 3
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_attempts_end(tmp_path: Path) -> None:
    with server(*[(503, b"", 0)] * 9) as (url, asked), pytest.raises(MachineError, match="503") as caught:
        download(url, tmp_path / "file")
    assert (caught.value.id, caught.value.where, len(asked)) == ("network-failed", url, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_asked_for_once(tmp_path: Path) -> None:
    with server((404, b"", 0)) as (url, asked), pytest.raises(MachineError, match="404"):
        download(url, tmp_path / "file")
    assert len(asked) == 1


def test_no_server(tmp_path: Path) -> None:
    with server() as (url, _):
        pass
    refused(lambda: download(url, tmp_path / "file"), "network-failed")


def test_another_file_does_not_replace_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with server(GOOD) as (url, _), pytest.raises(VerificationError) as caught:
        download(url, tmp_path / "file", sha256="0" * 64)
    assert caught.value.id == "file-damaged"
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "with space").write_bytes(CONTENT)
    download((tmp_path / "with space").as_uri(), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    with pytest.raises(MachineError, match="no-such"):
        download((tmp_path / "no-such").as_uri(), tmp_path / "other")


def test_an_address_that_is_none(tmp_path: Path) -> None:
    refused(lambda: download("gopher://127.0.0.1/file", tmp_path / "file"), "network-failed")


@contextmanager
def trickling(*pieces: bytes) -> Iterator[str]:
    """A server that sends these at once, and then a byte every few milliseconds, without an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    Thread(target=feed, args=(client,), daemon=True).start()

        def feed(client: socket.socket) -> None:
            with suppress(OSError), client:
                for piece in pieces:
                    client.sendall(piece)
                while server.fileno() >= 0:  # it is -1 once the test has ended
                    client.sendall(b"a")
                    time.sleep(0.05)

        Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/file"


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 200 OK\r\nX: ",),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000\r\n", b"a" * 200_000),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 999\r\n\r\n",),
    ],
    ids=["status", "header", "body", "after a part", "refusal"],
)
def test_a_server_of_a_few_bytes_a_second_has_failed(pieces: tuple[bytes, ...]) -> None:
    """No single read exceeds its limit."""
    with trickling(*pieces) as url, pytest.raises(requests.Timeout, match="too little arrived"):
        receive(url, BytesIO(), timeout=0.5)
