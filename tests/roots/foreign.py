"""A root of another architecture: Debian's packages for it, unpacked, with qemu to run its programs.

Nothing of it is installed here, and nothing of this machine is changed: the kernel is told of qemu in a user namespace
of its own (Linux 6.7 and later), which ends with what runs in it. No maintainer script runs: what they would set up is
not needed, and emulating them takes longer than everything else.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.port import recipe_of
from mlir_release.ground.console import console
from mlir_release.ground.storage.cache import locked
from tests.roots import network
from tests.roots.debian import Root

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHITECTURE = "arm64"  #: as Debian spells it
QEMU = "qemu-aarch64-static"
TOOLS = ("apt-get", "dpkg-deb", "unshare", QEMU, "aarch64-linux-gnu-g++")
#: Of the oldest kernel whose ``binfmt_misc`` belongs to a user namespace.
KERNEL = (6, 7)
#: A shell and its tools, a CPython with headers, and what the importer calls.
PACKAGES = (
    "base-files", "bash", "binutils", "cmake", "coreutils", "dash", "debianutils", "diffutils", "findutils", "gawk",
    "git", "grep", "gzip", "hostname", "libc-bin", "libpython3-dev", "mount", "ninja-build", "python3", "python3-dev",
    "sed", "tar", "util-linux",
)  # fmt: skip

#: How the kernel recognises a program for aarch64. Source: qemu's ``scripts/qemu-binfmt-conf.sh``.
_MAGIC = "7f454c460201010000000000000000000200b700"
_MASK = "ffffffffffffff00fffffffffffffffffeffffff"


def unusable() -> str | None:
    """Why no such root can be used here, or ``None`` if nothing speaks against it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"this is {sys.platform} on {platform.machine()}, not Linux on x86_64"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"not installed: {', '.join(missing)} (apt install qemu-user-static g++-aarch64-linux-gnu)"
    if platform.freedesktop_os_release().get("ID") != "debian":
        return "the packages of both architectures must be of one version: only Debian's sources have both"
    if os.geteuid() != 0:
        return "unpacking a root and entering it need root"
    kernel = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if kernel < KERNEL:
        return f"Linux {platform.release()} has one binfmt_misc for all; 6.7 and later have one for a user namespace"
    return None


def registration() -> str:
    """What is written to ``binfmt_misc/register``; ``F``: the interpreter is opened now, outside the root."""
    magic, mask = ("".join(rf"\x{text[i : i + 2]}" for i in range(0, len(text), 2)) for text in (_MAGIC, _MASK))
    return f":{QEMU}:M::{magic}:{mask}:{shutil.which(QEMU)}:F"


def prepare(suite: str, llvm: int, cache: Path) -> Path:
    """The root with LLVM ``llvm``, from the cache if it is there. Nothing may be changed in it.

    :raises RuntimeError: apt or dpkg failed; the message ends with what they printed
    """
    packages = [*PACKAGES, *(name.format(v=llvm) for name in recipe_of("mlir").packages)]
    key = hashlib.sha256("\n".join([suite, *packages]).encode()).hexdigest()[:8]
    root = cache / "roots" / f"{suite}-{ARCHITECTURE}-{key}"
    with locked(root.with_name(f".{root.name}.lock")):
        if not root.is_dir():
            making = root.with_name(f"{root.name}.tmp")
            shutil.rmtree(making, ignore_errors=True)  # of a run that was killed
            making.mkdir(parents=True)
            with console.step(f"unpack Debian {suite} for {ARCHITECTURE}, with LLVM {llvm}"):
                _unpack(packages, making, root.with_name(f"{suite}-{ARCHITECTURE}-apt"))
            making.rename(root)
    return root


def _unpack(packages: list[str], root: Path, state: Path) -> None:
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()  # nothing is installed, so everything that is needed is fetched
    settings = {
        "APT::Architecture": ARCHITECTURE,
        "APT::Architectures": ARCHITECTURE,
        "APT::Sandbox::User": "root",
        "Dir::Cache": state / "cache",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
    }
    apt = ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]
    _run(*apt, "update", "-qq")
    shutil.rmtree(state / "cache/archives", ignore_errors=True)
    _run(*apt, "install", "--download-only", "--yes", "-qq", "--no-install-recommends", *packages)
    for archive in sorted((state / "cache/archives").glob("*.deb")):
        _run("dpkg-deb", "--extract", str(archive), str(root))
    shutil.rmtree(state / "cache")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise RuntimeError(f"{' '.join(command[:1])} failed:\n{said}")


@contextmanager
def fresh(suite: str, llvm: int, cache: Path) -> Iterator[Root]:
    """A copy of the root, connected to this machine's network; removed at the end."""
    template = prepare(suite, llvm, cache)
    with tempfile.TemporaryDirectory(prefix=f"{suite}-", dir=template.parent, ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "root"
        subprocess.run(["cp", "--archive", "--reflink=auto", template, path], check=True)
        environment = network.connect(path)
        # Of a package's maintainer script, which did not run.
        certificates = path / "etc/ssl/certs/ca-certificates.crt"
        certificates.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile("/etc/ssl/certs/ca-certificates.crt", certificates)
        yield Root(path=path, environment=environment, emulator=registration())
