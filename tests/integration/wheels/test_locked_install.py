"""pip installs what a lock has by hash and from wheels, and refuses other bytes of the same version."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_release.errors import MachineError
from mlir_release.host import venv
from mlir_release.host.files import sha256_of
from mlir_release.host.locked import Chosen, choose

ROOT = Path(__file__).parents[3]


@pytest.fixture
def environment(tmp_path: Path) -> venv.VirtualEnvironment:
    return venv.create(tmp_path / "environment", Path(sys.executable))


def test_the_lock_installs(environment: venv.VirtualEnvironment) -> None:
    environment.install_locked(choose(["scikit-build-core>=1.1,<2", "nanobind~=2.9.0"]))
    installed = environment.installed()
    assert installed["nanobind"] == "2.9.2"
    assert {"scikit-build-core", "pathspec", "packaging"} <= installed.keys()


def test_other_bytes_of_the_same_version_are_refused(environment: venv.VirtualEnvironment) -> None:
    (pin,) = choose(["nanobind~=2.9.0"]).pins
    other = replace(pin, hashes=("sha256:" + "0" * 64,))
    with pytest.raises(MachineError) as caught:
        environment.install_locked(Chosen(pins=(other,), unlocked=()))
    assert caught.value.id == "pip-failed"
    assert "DO NOT MATCH THE HASHES" in caught.value.why
    assert environment.installed() == {}


# -- the toolkit itself, as workflows install it -----------------------------------------------------------------------

BACKEND = """
from pathlib import Path

def build_wheel(*arguments):
    Path({marker!r}).touch()
    raise SystemExit("built")

prepare_metadata_for_build_wheel = build_wheel
"""


def test_nothing_of_the_toolkits_lock_is_built(tmp_path: Path) -> None:
    """What builds a source distribution is not in the lock, and would run beside the right to publish."""
    marker, archive = tmp_path / "built", tmp_path / "x-1.tar.gz"
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"backend.py": BACKEND.format(marker=str(marker)), "pyproject.toml": project, "PKG-INFO": "Name: x\n"}
    with tarfile.open(archive, "w:gz") as packed:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"x-1/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    (tmp_path / "lock.txt").write_text(f"x==1 --hash=sha256:{sha256_of(archive)}\n")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "install.py", tmp_path / "environment", tmp_path / "lock"],
        env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "No matching distribution found for x==1" in done.stderr
    assert not marker.exists()
    assert not (tmp_path / "environment" / "bin" / "installed").exists()
