"""A CPython for Windows that runs here, under wine, with the toolkit's locked packages as Windows gets them.

The interpreter is Maven's ``org.bytedeco:cpython``, which lacks ``python3.dll``: what extension modules for the stable
ABI load. Debian 12's wine lacks ``bcryptprimitives.dll``. Both are linked here, and forward to what is there.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lief
import pytest
from packaging.requirements import Requirement

from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python.venv import VirtualEnvironment
from mlir_release.ground.storage.cache import cache_directory, locked
from tests.platforms.runtimes import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

ARTIFACT = "org.bytedeco:cpython:3.13.5-1.5.12:jar:windows-x86_64"
DIGEST = "cfe5502ffa7ea369be707b6d88bf68344732a7800450665080fb4267c01bfeae"
PYTHON = "3.13"
#: CPython can't begin there with a file as its output, which lit gives it, nor always with a closed input.
_THROUGH_PIPES = """\
#!{here} -IS
import os, stat, subprocess, sys
text = sys.stdin.buffer.read() if stat.S_ISFIFO(os.fstat(0).st_mode) else b""
words = {{"input": text}} if text else {{"stdin": subprocess.DEVNULL}}
command = ["wine", {python!r}, *sys.argv[1:]]
done = subprocess.run(command, env=os.environ | {settings!r}, capture_output=True, **words)
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""
#: Of ``dev``: what unit tests import.
TEST_PACKAGES = ("pytest", "hypothesis", "graphql-core", "openapi-core")


@dataclass(frozen=True)
class Windows:
    """The interpreter, and the folder that wine takes for a machine."""

    python: Path
    machine: Path

    @property
    def settings(self) -> dict[str, str]:
        """wine's own environment variables."""
        return {"WINEPREFIX": str(self.machine), "WINEDEBUG": "-all"}

    def run(self, *words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """Run the interpreter; a program that it starts is one of Windows, too."""
        own = {"PYTHONPATH": f"Z:{ROOT}", "PYTHONPYCACHEPREFIX": "C:\\pycache"}
        return subprocess.run(
            ["wine", self.python, *words],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **self.settings, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )

    def install(self, wheel: Path, folder: Path) -> Installed:
        """A copy of the interpreter at ``folder``, with a wheel and what that requires."""
        beside = self.python.parent
        shutil.copytree(beside, folder, ignore=lambda parent, _: ["site-packages"] * (Path(parent) == beside / "lib"))
        installed = Installed(root=folder, machine=self)
        installed.install(wheel)
        return installed


@dataclass(frozen=True, kw_only=True)
class Installed(VirtualEnvironment):
    """What takes the place of an environment on this machine: its interpreter is a script that runs wine."""

    machine: Windows

    @property
    def python(self) -> Path:
        """The script."""
        path = self.root / "python"
        if not path.is_file():
            program = _THROUGH_PIPES.format(
                here=sys.executable, settings=self.machine.settings, python=str(self.root / "python.exe")
            )
            path.write_text(program, encoding="utf-8")
            path.chmod(0o755)
        return path

    def site_packages(self) -> Path:
        """See :class:`VirtualEnvironment`."""
        return self.root / "lib/site-packages"

    def install(self, *words: str | Path) -> None:
        """See :class:`VirtualEnvironment`; by this machine's uv, as Windows gets it."""
        pip_install(self.site_packages(), *words)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter."""
        return subprocess.run(
            [self.python, *words],
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )


def skip_without(*others: str) -> None:
    """Skip a test where this machine lacks wine, what installs the interpreter, or another program."""
    if lacks := next((name for name in ("wine", "mvn", "dpkg-deb", *others) if shutil.which(name) is None), ""):
        # Loud on purpose: no other test runs or loads anything of Windows.
        sys.stderr.write(f"\n*** WINDOWS WAS NOT TRIED: this machine has no {lacks} ***\n")
        pytest.skip(f"NOT TRIED: this machine has no {lacks}")


def provide() -> Windows:
    """The interpreter, as this tree needs it: made once, kept in the cache.

    :raises subprocess.CalledProcessError: if it can't be had
    """
    cache = cache_directory() / "wine"
    made_of = [Path(__file__), ROOT / "pyproject.toml", ROOT / "requirements/toolkit.txt"]
    folder = cache / f"cpython-{sha256_of(path.read_bytes() for path in made_of)[:12]}"
    found = Windows(folder / "python.exe", cache / "machine")
    with locked(cache / ".lock"):
        if not folder.is_dir():
            staging = folder.with_name(f"{folder.name}.tmp")
            shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
            _unpack(_download(cache), staging)
            _link_forwarders(staging)
            _install(staging / "lib/site-packages")
            staging.rename(folder)
        if not found.machine.is_dir():
            subprocess.run(
                ["wine", "wineboot", "--init"], env=os.environ | found.settings, check=True, capture_output=True
            )
    return found


def _download(cache: Path) -> Path:
    words = [
        "mvn",
        "--quiet",
        "--batch-mode",
        "dependency:copy",
        f"-Dartifact={ARTIFACT}",
        f"-DoutputDirectory={cache}",
    ]
    subprocess.run(words, check=True, cwd=cache)
    (archive,) = cache.glob("cpython-*.jar")
    assert sha256_of(archive) == DIGEST
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """With the C runtime where the interpreter looks for it, and without what wine lacks ``VariantToString`` for."""
    whole = folder.with_name(f"{folder.name}.whole")
    with zipfile.ZipFile(archive) as file:
        file.extractall(whole)
    (python,) = whole.glob("**/windows-x86_64/python.exe")
    python.parent.rename(folder)
    shutil.rmtree(whole)
    for runtime in folder.glob("lib/vcruntime*.dll"):
        runtime.rename(folder / runtime.name)
    (folder / "lib/_wmi.pyd").unlink()


def _link_forwarders(folder: Path) -> None:
    """The libraries that are missing, made of nothing but names that others have.

    What is written in Rust asks ``ProcessPrng`` for random bytes; ``SystemFunction036`` takes the same arguments.
    """
    library = lief.parse(folder / "python313.dll")
    assert isinstance(library, lief.PE.Binary)
    exports = library.get_export()
    assert exports is not None
    names = [str(entry.name) for entry in exports.entries if entry.name]
    release, _ = next(available_releases(cache=cache_directory()))
    sdk = provide_sdk(release, release, cache=cache_directory())
    linker = sdk.root / "bin/lld-link"
    _link(linker, folder / "python3.dll", {name: f"python313.{name}" for name in names})
    _link(linker, folder / "bcryptprimitives.dll", {"ProcessPrng": "advapi32.SystemFunction036"})


def _link(linker: Path, target: Path, forwards: Mapping[str, str]) -> None:
    definitions, nothing = target.with_suffix(".def"), target.with_suffix(".obj")
    definitions.write_text("\n".join(["EXPORTS", *(f"  {name}={other}" for name, other in forwards.items()), ""]))
    nothing.write_bytes(struct.pack("<HHIIIHH", 0x8664, 0, 0, 0, 0, 0, 0))  # the header of an object file, for x86-64
    options = ["/dll", "/noentry", "/machine:x64", f"/def:{definitions}", f"/out:{target}"]
    subprocess.run([linker, *options, nothing], check=True)


def _install(packages: Path) -> None:
    """The lock of the toolkit, by hash; then what tests need."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        named = map(Requirement, tomllib.load(file)["project"]["optional-dependencies"]["dev"])
    tests = [str(requirement) for requirement in named if requirement.name in TEST_PACKAGES]
    pip_install(packages, "--require-hashes", "-r", ROOT / "requirements/toolkit.txt")
    pip_install(packages, *tests)


def pip_install(packages: Path, *words: str | Path) -> None:
    """Install what pip's arguments ``words`` name, as Windows gets it."""
    options = [f"--target={packages}", "--only-binary=:all:", "--python-platform=windows", f"--python-version={PYTHON}"]
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "pip", "install", "--quiet", *options, *words], check=True)
