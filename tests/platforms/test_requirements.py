"""Each target's wheel, and the pages' requirements and lock files, as pip and uv read them on each platform, from here.

uv evaluates markers for another platform by itself. pip evaluates them for the machine that it runs on, so it is told
what they are on the other one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from packaging.utils import parse_wheel_filename

from mlir_release.builder.model.names import WheelKey
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.resolver import wheel_options
from mlir_release.release.instructions.lockfiles import newest_requirements, pylock, requirements
from mlir_release.release.model.manifest import Manifest
from tests.paper_forge import make_manifest
from tests.platforms.runtimes import RUNTIMES, UV_PLATFORMS, make_wheels, pythons_of
from tests.processes import run
from tests.wheel_factory import TAG, VERSION

if TYPE_CHECKING:
    from mlir_release.release.model.targets import Runtime

#: A manifest, and the addresses of its wheels.
Pinned = tuple[Manifest, dict[str, str]]

UV = Path(sys.executable).with_name("uv")
#: No wheel is for it.
TOO_OLD = CPython(3, 9)

#: pip, with the markers of another machine.
PIP = """
import sys
from pip._vendor.packaging import markers
here = markers.default_environment
system, machine, version = sys.argv[1:4]
there = {"sys_platform": system, "platform_machine": machine, "python_version": version}
markers.default_environment = lambda: here() | there
sys.argv[1:4] = []
from pip._internal.cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Pinned:
    """A release with a wheel for each target of ``mlir``, in a folder."""
    folder = make_wheels(tmp_path_factory.mktemp("release"))
    platforms = [str(runtime.tag) for runtime in RUNTIMES.values()]
    pythons = sorted({python for runtime in RUNTIMES.values() for python in pythons_of(runtime)})
    manifest = make_manifest(TAG, platforms=platforms, pythons=[python.tag for python in pythons])
    wheels = tuple(
        structs.replace(wheel, sha256=sha256_of(file), size=file.stat().st_size)
        for wheel in manifest.wheels
        if (file := folder / wheel.filename).is_file()
    )
    manifest = structs.replace(manifest, wheels=wheels)
    assert len(wheels) == len(list(folder.glob("*.whl"))) > 20
    return manifest, {wheel.filename: (folder / wheel.filename).as_uri() for wheel in wheels}


@pytest.fixture(params=["release", "newest", "lock"])
def file(request: pytest.FixtureRequest, release: Pinned, tmp_path: Path) -> Path:
    """Each of the files that pages offer."""
    manifest, urls = release
    if request.param == "lock":
        text, path = pylock(manifest, "mlir", urls), tmp_path / "pylock.toml"
    elif request.param == "newest":
        text = newest_requirements("snapshot", "mlir", manifest.wheels, urls)
        path = tmp_path / "requirements.txt"
    else:
        text, path = requirements(manifest, "mlir", urls), tmp_path / f"requirements-{TAG}.txt"
    path.write_text(text, encoding="utf-8")
    return path


def expected(runtime: Runtime, python: CPython) -> str:
    return f"mlir-{VERSION}-{python.tag.removesuffix('t')}-{python.tag}-{runtime.tag}.whl"


def test_names_are_read_back(runtime: Runtime, release: Pinned) -> None:
    for python in pythons_of(runtime):
        name = expected(runtime, python)
        assert name in release[1]
        _, version, _, tags = parse_wheel_filename(name)
        assert str(version) == VERSION
        assert {tag.platform for tag in tags} == {str(runtime.tag)}
        slot = WheelKey.of_file(name)
        assert slot is not None
        assert (slot.platform, slot.python) == (runtime.platform, python.tag)


def test_pip_takes_each_wheel_on_its_platform(runtime: Runtime, release: Pinned, tmp_path: Path) -> None:
    (folder,) = {Path(url.removeprefix("file://")).parent for url in release[1].values()}
    for python in pythons_of(runtime)[::3]:
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps"),
            *(f"--dest={tmp_path / python.tag}", f"--find-links={folder}"),
            *(*wheel_options(python, runtime.tag.accepted), f"mlir=={VERSION}"),
        )
        assert [path.name for path in (tmp_path / python.tag).iterdir()] == [expected(runtime, python)]


def selectable(runtime: Runtime) -> list[CPython]:
    """Markers don't tell free-threaded CPythons from others."""
    return [python for python in pythons_of(runtime) if not python.free_threaded]


def uv(file: Path, runtime: Runtime, python: CPython) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(str(UV), "pip", "install", f"--target={file.parent / str(python)}", "--no-index", "--no-cache"),
            *(f"--python-platform={UV_PLATFORMS[runtime.name]}", f"--python-version={python.marker}", "-r", file),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_uv_installs_the_wheel_of_the_platform(file: Path, runtime: Runtime) -> None:
    for python in selectable(runtime):
        done = uv(file, runtime, python)
        assert done.returncode == 0, done.stderr
        (metadata,) = (file.parent / str(python)).glob("*.dist-info/WHEEL")
        assert f"Tag: {python.tag}-{python.tag}-{runtime.tag}\n" in metadata.read_text(encoding="utf-8")


def test_uv_refuses_a_cpython_that_no_wheel_is_for(file: Path, runtime: Runtime) -> None:
    done = uv(file, runtime, TOO_OLD)
    assert done.returncode != 0
    assert "mlir" in done.stderr
    assert not list(file.parent.glob("*/*.dist-info"))


def pip(file: Path, runtime: Runtime, python: CPython) -> subprocess.CompletedProcess[str]:
    assert runtime.platform.markers is not None
    return subprocess.run(
        [
            *(sys.executable, "-c", PIP, *runtime.platform.markers, python.marker),
            *("download", "--quiet", "--no-index", "--no-deps", f"--dest={file.parent / 'chosen'}", "-r", str(file)),
            *wheel_options(python, runtime.tag.accepted),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("file", ["release", "newest"], indirect=True)
def test_pip_takes_the_wheel_of_the_platform_and_checks_it(file: Path, runtime: Runtime) -> None:
    python = selectable(runtime)[-1]
    done = pip(file, runtime, python)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (file.parent / "chosen").iterdir()] == [expected(runtime, python)]
    text = file.read_text(encoding="utf-8")
    (digest,) = {line.split("#sha256=")[1][:64] for line in text.splitlines() if expected(runtime, python) in line}
    shutil.rmtree(file.parent / "chosen")
    file.write_text(text.replace(digest, "0" * 64), encoding="utf-8")
    done = pip(file, runtime, python)
    assert done.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr


@pytest.mark.parametrize("file", ["release", "newest"], indirect=True)
def test_pip_refuses_a_cpython_that_no_wheel_is_for(file: Path, runtime: Runtime) -> None:
    done = pip(file, runtime, TOO_OLD)
    assert done.returncode != 0
    assert "is not a supported wheel on this platform" in done.stderr
