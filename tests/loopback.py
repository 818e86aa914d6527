"""The one HTTP server that tests put on the loopback interface."""

from __future__ import annotations

import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self


class Loopback(ThreadingHTTPServer):
    """A server for this machine alone; use as a context manager.

    What a handler raises is an error at the end of the block: its client would only see that nobody answers. A client
    that goes away is none.
    """

    daemon_threads = True
    request_queue_size = 128  # of many clients at once, none is turned away because the machine is slow

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.shutdown()
        self.server_close()
        if kind is None:
            assert not self.failures, "\n".join(self.failures)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a handler has raised, and print it."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            self.failures.append(traceback.format_exc())
            super().handle_error(request, client_address)


class Quiet(BaseHTTPRequestHandler):
    """Handlers that write nothing to the error output, and whose answers mostly are a status and a body."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send an answer as a whole."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
