"""The service that the real actions keep artifacts and caches in, on loopback, with its storage of blobs.

What ``@actions/artifact`` 6 and ``@actions/cache`` 5 ask (github.com/actions/toolkit): Twirp with JSON for
``github.actions.results.api.v1``, and Azure's block blobs at the addresses that it answers. act's own server takes
neither upload-artifact 7 nor blocks that arrive side by side.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import threading
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.loopback import Loopback, Quiet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]


class Refusal(Exception):
    """Status, code and message of an answer that is none."""


class ResultsService:
    """Artifacts are ``FOLDER/RUN/NAME.zip``, caches ``FOLDER/caches/NUMBER``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.artifacts: dict[tuple[str, str], Json] = {}  #: by run and name
        self.is_full = False  #: the account's storage of artifacts is used up
        self.caches: dict[tuple[str, str], Json] = {}  #: by key and version, in the order in which they were made
        self.numbers = itertools.count(1)
        service = self

        class Bound(_Handler):
            results = service

        self._server = Loopback(Bound)
        self.url = self._server.url

    def __enter__(self) -> ResultsService:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._server.__enter__()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._server.__exit__(kind)

    def environment(self, run: int) -> dict[str, str]:
        """What a runner gives to the actions of a run."""
        claims = json.dumps({"scp": f"Actions.Results:{run}:job"}).encode()
        token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", claims, b"unsigned"))
        return {
            "ACTIONS_RUNTIME_TOKEN": token, "ACTIONS_RESULTS_URL": f"{self.url}/",
            "ACTIONS_RUNTIME_URL": f"{self.url}/", "ACTIONS_CACHE_URL": f"{self.url}/",
            "ACTIONS_CACHE_SERVICE_V2": "true",
        }  # fmt: skip

    def address(self, blob: str) -> str:
        """Where a blob is; account and container come first, as in Azure's addresses of an IP."""
        return f"{self.url}/storage/blobs/{blob}?sig=signed"

    # -- artifacts ------------------------------------------------------------------------------------------------

    def create_artifact(self, asked: Json) -> Json:
        key = (asked["workflow_run_backend_id"], asked["name"])
        if key in self.artifacts:
            raise Refusal(409, "already_exists", "an artifact with this name already exists on the workflow run")
        if self.is_full:  # @actions/artifact knows it by these words
            raise Refusal(403, "permission_denied", "insufficient usage to create artifact")
        self.artifacts[key] = {"blob": f"{key[0]}/{key[1]}.zip", "id": str(next(self.numbers)), "size": "0"}
        return {"ok": True, "signed_upload_url": self.address(self.artifacts[key]["blob"])}

    def finalize_artifact(self, asked: Json) -> Json:
        found = self.artifacts[asked["workflow_run_backend_id"], asked["name"]]
        size, digest = asked["size"], asked.get("hash")
        content = (self.folder / found["blob"]).read_bytes()
        assert len(content) == int(size), f"{asked['name']}: {size} bytes were sent, {len(content)} arrived"
        assert digest in (None, f"sha256:{hashlib.sha256(content).hexdigest()}")
        found |= {"size": size, "digest": digest, "finished": True}
        return {"ok": True, "artifact_id": found["id"]}

    def list_artifacts(self, asked: Json) -> Json:
        run = asked["workflow_run_backend_id"]
        rows = self.of_run(run)
        if asked.get("name_filter"):
            rows = [row for row in rows if row["name"] == asked["name_filter"]]
        if asked.get("id_filter"):
            rows = [row for row in rows if row["id"] == str(asked["id_filter"])]
        made = "2026-01-01T00:00:00Z"
        return {"artifacts": [
            {"workflow_run_backend_id": run, "workflow_job_run_backend_id": "job", "database_id": row["id"],
             "name": row["name"], "size": row["size"], "created_at": made, "digest": row["digest"]} for row in rows
        ]}  # fmt: skip

    def get_signed_artifact_u_r_l(self, asked: Json) -> Json:
        found = self.artifacts[asked["workflow_run_backend_id"], asked["name"]]
        return {"signed_url": self.address(found["blob"])}

    def delete_artifact(self, asked: Json) -> Json:
        found = self.artifacts.pop((asked["workflow_run_backend_id"], asked["name"]))
        return {"ok": True, "artifact_id": found["id"]}

    def of_run(self, run: str) -> list[Json]:
        """The finished artifacts of a run, with their names."""
        return [
            {**row, "name": name} for (of, name), row in self.artifacts.items() if of == run and row.get("finished")
        ]

    # -- caches ---------------------------------------------------------------------------------------------------

    def create_cache_entry(self, asked: Json) -> Json:
        key = (asked["key"], asked["version"])
        if key in self.caches:
            return {"ok": False, "message": "cache entry with the same key, version, and scope already exists"}
        self.caches[key] = {"blob": f"caches/{next(self.numbers)}"}
        return {"ok": True, "signed_upload_url": self.address(self.caches[key]["blob"])}

    def finalize_cache_entry_upload(self, asked: Json) -> Json:
        found = self.caches[asked["key"], asked["version"]]
        assert (self.folder / found["blob"]).stat().st_size == int(asked["size_bytes"])
        found["finished"] = True
        return {"ok": True, "entry_id": str(next(self.numbers))}

    def get_cache_entry_download_u_r_l(self, asked: Json) -> Json:
        for prefix in (asked["key"], *asked.get("restore_keys", ())):
            for (key, version), row in reversed(self.caches.items()):
                if version == asked["version"] and row.get("finished") and key.startswith(prefix):
                    return {"ok": True, "signed_download_url": self.address(row["blob"]), "matched_key": key}
        return {"ok": False}


class _Handler(Quiet):
    protocol_version = "HTTP/1.1"
    results: ClassVar[ResultsService]

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "x-ms-request-id": "1", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    @property
    def _blob(self) -> Path:
        return self.results.folder / urlsplit(self.path).path.removeprefix("/storage/blobs/")

    def do_POST(self) -> None:
        method = urlsplit(self.path).path.rpartition("/")[2]
        asked = json.loads(self._body())
        answer: Callable[[Json], Json] = getattr(self.results, re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower())
        try:
            with self.results.lock:
                body, status = answer(asked), 200
        except Refusal as error:
            status, code, message = error.args
            body = {"code": code, "msg": message}
        self._say(status, json.dumps(body).encode(), Content_Type="application/json")

    def do_PUT(self) -> None:
        query, content, blob = parse_qs(urlsplit(self.path).query), self._body(), self._blob
        blocks = blob.with_name(f"{blob.name}.blocks")
        kind = query.get("comp", [""])[0]
        if kind == "block":
            blocks.mkdir(parents=True, exist_ok=True)
            (blocks / query["blockid"][0].replace("/", "_")).write_bytes(content)
        else:
            blob.parent.mkdir(parents=True, exist_ok=True)
            if kind == "blocklist":
                names = re.findall(r"<(?:Latest|Uncommitted)>(.*?)<", content.decode())
                content = b"".join((blocks / name.replace("/", "_")).read_bytes() for name in names)
            blob.write_bytes(content)
        when = "Thu, 01 Jan 2026 00:00:00 GMT"
        self._say(201, ETag='"1"', Last_Modified=when, x_ms_request_server_encrypted="true")

    def do_GET(self) -> None:
        if not self._blob.is_file():
            self._say(404)
            return
        content = self._blob.read_bytes()
        kind = "application/zip" if self._blob.suffix == ".zip" else "application/octet-stream"
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._say(200, content, Content_Type=kind, ETag='"1"')
            return
        first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
        shown = f"bytes {first}-{last}/{len(content)}"
        self._say(206, content[first : last + 1], Content_Type=kind, Content_Range=shown, ETag='"1"')

    do_HEAD = do_GET
