"""prefix.dev on loopback, as its trusted publishing goes: ``python -m tests.prefix_dev FOLDER`` prints its address.

It is a process of its own, because rattler's library holds Python's lock while it waits for an answer. A file
``FOLDER/untrusted`` has it trust nobody; ``FOLDER/CHANNEL`` has what was uploaded.
"""

from __future__ import annotations

import hashlib
import json
import sys
from email.parser import BytesParser
from pathlib import Path

from tests.loopback import Loopback, Quiet

#: What a job of GitHub's has in its environment, and what it becomes.
OF_THE_JOB, IDENTITY, OF_SOME_MINUTES = "of-the-job", "identity", "of-some-minutes"

_UPLOAD = "/api/v1/upload/"


class Handler(Quiet):
    """GitHub's endpoint for a job's identity, and prefix.dev's for tokens and packages."""

    folder: Path

    def do_GET(self) -> None:
        """GitHub's; and the index of a channel, which prefix.dev makes of the packages that it has."""
        if self.path.endswith("/repodata.json"):
            channel, subdir = self.path.strip("/").split("/")[:2]
            names = (path.name for path in sorted(self.folder.glob(f"{channel}/*.conda")))
            records = {name: record for name in names if (record := self._record(channel, name))["subdir"] == subdir}
            answer = json.dumps({"info": {"subdir": subdir}, "packages": {}, "packages.conda": records}).encode()
            self.answer(200 if (self.folder / channel).is_dir() else 404, answer)
            return
        # The library's audience is the server's name: prefix.dev for its own.
        right = self.path.endswith("audience=127.0.0.1") and self.headers["Authorization"] == f"Bearer {OF_THE_JOB}"
        self.answer(200 if right else 400, json.dumps({"value": IDENTITY}).encode())

    def _record(self, channel: str, name: str) -> dict[str, str]:
        content = (self.folder / channel / name).read_bytes()
        package, version, build = name.removesuffix(".conda").rsplit("-", 2)
        known = {"name": package, "version": version, "build": build, "subdir": "linux-64"}
        return {**known, "sha256": hashlib.sha256(content).hexdigest()}

    def do_POST(self) -> None:
        """prefix.dev's."""
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = self._chunks() if chunked else self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/api/oidc/mint_token":
            trusted = json.loads(body) == {"token": IDENTITY} and not (self.folder / "untrusted").exists()
            self.answer(200 if trusted else 403, OF_SOME_MINUTES.encode())
        elif not self.path.startswith(_UPLOAD) or self.headers["Authorization"] != f"Bearer {OF_SOME_MINUTES}":
            self.answer(401, b"")
        else:
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            (part,) = (one for one in BytesParser().parsebytes(head + body).walk() if one.get_filename())
            path = self.folder / self.path.removeprefix(_UPLOAD) / str(part.get_filename())
            known = path.exists()
            if not known:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(bytes(part.get_payload(decode=True)))
            self.answer(409 if known else 201, b"")

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[1])
    server = Loopback(Handler)
    print(server.url, flush=True)
    server.serve_forever()
