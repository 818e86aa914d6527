"""prefix.dev on loopback, as its trusted publishing goes: ``python -m tests.prefix_dev FOLDER`` prints its address.

It is a process of its own, because rattler's library holds Python's lock while it waits for an answer. A file
``FOLDER/untrusted`` has it trust nobody; ``FOLDER/CHANNEL`` has what was uploaded.
"""

from __future__ import annotations

import json
import sys
from email.parser import BytesParser
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

#: What a job of GitHub's has in its environment, and what it becomes.
OF_THE_JOB, IDENTITY, OF_SOME_MINUTES = "of-the-job", "identity", "of-some-minutes"

_UPLOAD = "/api/v1/upload/"


class Handler(BaseHTTPRequestHandler):
    """GitHub's endpoint for a job's identity, and prefix.dev's for tokens, packages and the index of a channel."""

    folder: Path

    def do_GET(self) -> None:
        """GitHub's; and the index of a channel, which is there once it has a package."""
        channel, _, rest = self.path.removeprefix("/").partition("/")
        if (self.folder / channel).is_dir() and rest.endswith("/repodata.json"):
            self._answer(200, self._repodata(self.folder / channel, rest.partition("/")[0]))
            return
        if "identity" not in self.path:
            self._answer(404, b"")
            return
        # The library's audience is the server's name: prefix.dev for its own.
        right = self.path.endswith("audience=127.0.0.1") and self.headers["Authorization"] == f"Bearer {OF_THE_JOB}"
        self._answer(200 if right else 400, json.dumps({"value": IDENTITY}).encode())

    def do_POST(self) -> None:
        """prefix.dev's."""
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = self._chunks() if chunked else self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/oidc/mint_token":
            trusted = json.loads(body) == {"token": IDENTITY} and not (self.folder / "untrusted").exists()
            self._answer(200 if trusted else 403, OF_SOME_MINUTES.encode())
        elif not self.path.startswith(_UPLOAD) or self.headers["Authorization"] != f"Bearer {OF_SOME_MINUTES}":
            self._answer(401, b"")
        else:
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            (part,) = (one for one in BytesParser().parsebytes(head + body).walk() if one.get_filename())
            path = self.folder / self.path.removeprefix(_UPLOAD) / str(part.get_filename())
            known = path.exists()
            if not known:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(bytes(part.get_payload(decode=True)))
            self._answer(409 if known else 201, b"")

    do_HEAD = do_GET

    def _repodata(self, channel: Path, subdir: str) -> bytes:
        rows = {}
        for path in channel.iterdir():
            name, version, build = path.name.removesuffix(".conda").rsplit("-", 2)
            rows[path.name] = {
                "name": name, "version": version, "build": build, "build_number": 0, "depends": [], "subdir": subdir,
                "sha256": sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size,
            }  # fmt: skip
        return json.dumps({"info": {"subdir": subdir}, "packages": {}, "packages.conda": rows}).encode()

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
