"""Servers on the loopback interface that count what they serve, and the index on which somebody else's mlir lies."""

from __future__ import annotations

import http.server
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from json import dumps
from typing import TYPE_CHECKING, Any

from tests.loopback import Loopback, Quiet
from tests.wheel_factory import pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

JSON_TYPE = "application/vnd.pypi.simple.v1+json"


@dataclass
class Served:
    """A folder being served."""

    url: str  #: without a slash at the end
    requests: list[tuple[str, int, int]] = field(default_factory=list)  #: path, status, bytes of the body

    def paths(self, suffix: str = "") -> list[str]:
        """Paths of the successful requests."""
        return [path for path, status, _ in self.requests if status == 200 and path.endswith(suffix)]

    @property
    def transferred(self) -> int:
        """Bytes of all bodies."""
        return sum(size for _, _, size in self.requests)


@contextmanager
def serve(folder: Path, *, json: bool = False) -> Iterator[Served]:
    """Serve ``folder``; with ``json``, folders that have an index.json answer with it to those who accept it."""

    class Handler(Quiet, http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def send_head(self) -> Any:
            accepted = self.headers.get("Accept", "")
            if json and self.path.endswith("/") and JSON_TYPE in accepted:
                path = folder / self.path.strip("/") / "index.json"
                if path.is_file():
                    self.send_response(200)
                    self.send_header("Content-Type", JSON_TYPE)
                    self.send_header("Content-Length", str(path.stat().st_size))
                    self.end_headers()
                    return path.open("rb")
            return super().send_head()

        def copyfile(self, source: Any, outputfile: Any) -> None:
            data = source.read()
            served.requests.append((self.path, 200, len(data)))
            outputfile.write(data)

        def send_error(self, code: int, *args: Any, **options: Any) -> None:
            served.requests.append((self.path, code, 0))
            super().send_error(code, *args, **options)

    with Loopback(Handler) as server:
        served = Served(url=server.url)
        yield served


def make_stub(folder: Path) -> Path:
    """What lies on PyPI under ``mlir``: a pure wheel, version 0.0.1, of someone else."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mlir-0.0.1-py3-none-any.whl"
    info = "mlir-0.0.1.dist-info"
    members = {
        "mlir/__init__.py": b"raise SystemExit('this is the stub')\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: mlir\nVersion: 0.0.1\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path.write_bytes(pack(members, f"{info}/RECORD"))
    return path


@contextmanager
def pypi(folder: Path, projects: Iterable[str], *, owner: str, size: int) -> Iterator[str]:
    """An index that tells what PyPI does: sizes (PEP 700), and who owns a project."""
    name = "mlir-22.1.8-cp312-cp312-manylinux_2_28_x86_64.whl"
    page = {
        "meta": {"api-version": "1.1"}, "name": "mlir", "versions": ["22.1.8"],
        "files": [{"filename": name, "url": f"/{name}", "hashes": {}, "size": size}],
    }  # fmt: skip
    ownership = {"roles": [{"role": "Owner", "user": owner}], "organization": None}
    for project in projects:
        answers = {f"simple/{project}/index.json": page, f"pypi/{project}/json": {"ownership": ownership}}
        for path, data in answers.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(dumps(data))
    with serve(folder, json=True) as served:
        yield f"{served.url}/simple/"


@contextmanager
def package_index(folder: Path, *options: str) -> Iterator[str]:
    """A pypiserver with the files of ``folder``; yields its address, which ends in a slash."""
    probe = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    port = probe.server_port
    probe.server_close()
    command = [sys.executable, "-m", "pypiserver", "run", "-p", str(port), "-i", "127.0.0.1", "--disable-fallback"]
    process = subprocess.Popen([*command, *options, str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(200):
            if process.poll() is not None:
                raise RuntimeError(f"pypiserver ended with {process.returncode}")
            try:
                with urllib.request.urlopen(f"{url}simple/", timeout=5):
                    break
            except OSError:
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def main_index(folder: Path) -> Iterator[str]:
    """A pypiserver that plays PyPI, with the stub on it; yields the URL of its simple index."""
    make_stub(folder)
    with package_index(folder) as url:
        yield f"{url}simple/"
