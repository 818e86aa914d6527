"""pip installs what a lock has by hash and from wheels, and refuses other bytes of the same version."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.ground.python.locked import Chosen, choose
from tests.refusals import refused
from tests.wheel_factory import make_wheel

ROOT = Path(__file__).parents[4]


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
    error = refused(lambda: environment.install_locked(Chosen(pins=(other,), unlocked=())), "network-failed")
    assert "DO NOT MATCH THE HASHES" in error.why
    assert environment.installed() == {}


# -- the toolkit itself, as workflows install it -----------------------------------------------------------------------

#: uv, as the toolkit's lock has it: with it, everything else is installed.
UV = re.findall(
    r"^uv==.*(?:\n    --hash=.*)+", (ROOT / "requirements" / "toolkit.txt").read_text(encoding="utf-8"), re.MULTILINE
)[0]


@pytest.fixture(scope="module")
def uv_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uv")
    (folder / "uv.txt").write_text(UV)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--dest", folder, "-r", folder / "uv.txt"], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


BACKEND = """
from pathlib import Path

def build_wheel(*arguments):
    Path({marker!r}).touch()
    raise SystemExit("built")

prepare_metadata_for_build_wheel = build_wheel
"""


def test_nothing_of_the_toolkits_lock_is_built(tmp_path: Path, uv_wheel: Path) -> None:
    """What builds a source distribution is not in the lock, and would run beside the right to publish."""
    marker, archive = tmp_path / "built", tmp_path / "x-1.tar.gz"
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"backend.py": BACKEND.format(marker=str(marker)), "pyproject.toml": project, "PKG-INFO": "Name: x\n"}
    with tarfile.open(archive, "w:gz") as packed:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"x-1/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    (tmp_path / "lock.txt").write_text(f"{UV}\nx==1 --hash=sha256:{sha256_of(archive)}\n")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "install.py", tmp_path / "environment", tmp_path / "lock"],
        env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{tmp_path} {uv_wheel.parent}"},
        capture_output=True,
        text=True,
    )
    assert "x==1 has no usable wheels" in done.stderr
    assert not marker.exists()
    assert not (tmp_path / "environment").exists()


#: A checkout whose build needs no other package.
TOOLKIT = {
    "backend.py": """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    info, name = "toolkit-1.dist-info", "toolkit-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        metadata = "Metadata-Version: 2.1\\nName: toolkit\\nVersion: 1\\nRequires-Dist: asks\\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
""",
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
}


class Checkout:
    """A toolkit that asks for ``asks``, which asks for ``plain`` with an extra; of both there are newer ones."""

    def __init__(self, root: Path, uv_wheel: Path) -> None:
        self.root, self.wheels, self.environment = root / "checkout", root / "wheels", root / "environment"
        self.wheels.mkdir()
        shutil.copy(uv_wheel, self.wheels)
        for name, text in TOOLKIT.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "tools").mkdir()
        for script in ("install.py", "bootstrap.py"):
            shutil.copy(ROOT / "tools" / script, self.root / "tools")
        (self.root / "mlir_release" / "ground" / "python").mkdir(parents=True)
        for name in ("__init__.py", "ground/__init__.py", "ground/python/__init__.py", "ground/python/uv_settings.py"):
            shutil.copy(ROOT / "mlir_release" / name, self.root / "mlir_release" / name)
        requires = {"asks": ("plain[extra]>=1",), "plain": ()}
        self.pins = {
            f"{name}=={version}": make_wheel(
                self.wheels, distribution=name, version=version, python=ANY_PYTHON, platform="any", requires=needs
            )
            for name, needs in requires.items()
            for version in ("1", "2")
        }

    def install(self, *pins: str) -> subprocess.CompletedProcess[str]:
        lock = self.root / "requirements" / "toolkit.txt"
        lock.parent.mkdir()
        lock.write_text(UV + "\n" + "".join(f"{pin} --hash=sha256:{sha256_of(self.pins[pin])}\n" for pin in pins))
        return subprocess.run(
            [sys.executable, self.root / "tools" / "install.py", self.environment],
            env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "GITHUB_PATH": ""},
            capture_output=True,
            text=True,
        )

    def installed(self) -> dict[str, str]:
        return venv.VirtualEnvironment(root=self.environment).installed()


def test_a_release_of_today_does_not_touch_what_is_locked(tmp_path: Path, uv_wheel: Path) -> None:
    """``plain`` is locked without its extra, as uv writes locks: nothing must look for a newer one that has it."""
    checkout = Checkout(tmp_path, uv_wheel)
    done = checkout.install("asks==1", "plain==1")
    assert done.returncode == 0, done.stderr
    assert {"asks": "1", "plain": "1", "toolkit": "1"}.items() <= checkout.installed().items()


def test_a_lock_that_lacks_something_is_refused(tmp_path: Path, uv_wheel: Path) -> None:
    checkout = Checkout(tmp_path, uv_wheel)
    done = checkout.install("asks==1")
    assert done.returncode != 0
    assert "asks 1 requires plain, which is not installed" in done.stderr
    assert not checkout.environment.exists()
