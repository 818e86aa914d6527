"""The README's first command, as a new user runs it on a machine of each distribution that the README names.

The machine has ``python3``, ``git`` and ``make``; ``make rehearsal`` installs the rest. Only downloads are kept from
one run to the next: nothing that was compiled, unpacked or installed.
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.storage.cache import cache_directory
from tests.roots import debian

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Suite -> what the README calls it. CPython and LLVM are whatever the distribution has on that day.
SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13", "sid": "Debian sid"}

pytestmark = pytest.mark.slow


@contextmanager
def new_machine(suite: str) -> Iterator[debian.Root]:
    if reason := debian.unusable():
        # Loud on purpose: without these tests nothing shows that the README is right.
        sys.stderr.write(f"\n*** {', '.join(SUITES.values())} ARE NOT TESTED here: {reason} ***\n")
        pytest.skip(f"distributions are not tested here: {reason}")
    with debian.fresh(suite, cache_directory()) as root:
        root.clone()
        yield root


@pytest.fixture
def machine() -> Iterator[debian.Root]:
    with new_machine("trixie") as root:
        yield root


@pytest.mark.parametrize("suite", SUITES)
def test_a_new_user_rehearses_a_release_without_an_extra_step(suite: str, tmp_path: Path) -> None:
    log = tmp_path / "rehearsal.log"
    with new_machine(suite) as root, log.open("w", encoding="utf-8") as file:
        done = root.run(["make", "rehearsal"], folder=debian.CLONE, log=file)
    said = log.read_text(encoding="utf-8")
    assert done.returncode == 0, f"see {log}{os.linesep}{said[-5000:]}"
    assert re.search(r"MLIR \d+\.\d+\.\d+ of snapshot-\d+\.\d+ works", said), said[-2000:]


def assert_stopped(root: debian.Root, done: subprocess.CompletedProcess[str], expected: str) -> None:
    """One message, and nothing half-made."""
    assert done.returncode != 0
    assert re.findall(r"^error\[([a-z-]+)\]", done.stdout, re.MULTILINE) == [expected], done.stdout
    assert "Traceback" not in done.stdout
    assert "to do: " in done.stdout
    assert not (root.path / debian.CLONE.lstrip("/") / ".venv").exists()
    assert not (root.path / debian.CLONE.lstrip("/") / "build").exists()


def test_a_machine_without_a_network_says_so(machine: debian.Root) -> None:
    done = machine.run(["make", "rehearsal"], folder=debian.CLONE, offline=True)
    assert_stopped(machine, done, "network-failed")
    assert "apt-get could not install g++" in done.stdout


def test_a_user_who_may_not_install_packages_is_told_which(machine: debian.Root) -> None:
    machine.path.joinpath("root").chmod(0o755)
    done = machine.run(["setpriv", "--reuid=nobody", "--clear-groups", "make", "rehearsal"], folder=debian.CLONE)
    assert_stopped(machine, done, "tool-missing")
    assert "apt-get install g++ cmake" in done.stdout


def test_a_machine_that_does_not_know_the_index_s_authority_says_so(machine: debian.Root, tmp_path: Path) -> None:
    """It has no certificates at all; those that the setup installs do not include the authority of this index."""
    assert machine.run(["dpkg", "--purge", "ca-certificates"]).returncode == 0
    with untrusted_index(tmp_path) as url:
        done = machine.run(["make", "rehearsal"], folder=debian.CLONE, environment={"PIP_INDEX_URL": url})
    assert_stopped(machine, done, "network-failed")
    assert "the certificate of the package index can't be verified" in done.stdout


@contextmanager
def untrusted_index(folder: Path) -> Iterator[str]:
    """A server on loopback whose certificate no authority signed."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}/simple"
    server.shutdown()
    server.server_close()
