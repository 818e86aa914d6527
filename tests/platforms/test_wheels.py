"""The names and tags of every target's wheel, as those who install them read them: packaging, pip, uv; from here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.markers import Marker
from packaging.utils import parse_wheel_filename

from mlir_release.builder.model.names import WheelKey
from mlir_release.ground.python.resolver import wheel_options
from tests.platforms.runtimes import RUNTIMES, UV_PLATFORMS, make_wheels, pythons_of
from tests.wheel_factory import VERSION

if TYPE_CHECKING:
    from mlir_release.release.model.targets import Runtime

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small wheel for each target of the distribution ``mlir``."""
    return make_wheels(tmp_path_factory.mktemp("wheels"))


def expected(runtime: Runtime, tag: str) -> str:
    return f"mlir-{VERSION}-{tag.removesuffix('t')}-{tag}-{runtime.tag}.whl"


def test_names_are_read_back(runtime: Runtime, wheels: Path) -> None:
    for python in pythons_of(runtime):
        name = expected(runtime, python.tag)
        assert (wheels / name).is_file()
        _, version, _, tags = parse_wheel_filename(name)
        assert str(version) == VERSION
        assert {tag.platform for tag in tags} == {str(runtime.tag)}
        slot = WheelKey.of_file(name)
        assert slot is not None
        assert (slot.platform, slot.python) == (runtime.platform, python.tag)


def test_pip_takes_each_wheel_on_its_platform(runtime: Runtime, wheels: Path, tmp_path: Path) -> None:
    for python in pythons_of(runtime)[::3]:
        folder = tmp_path / python.tag
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps", f"--dest={folder}"),
                *(f"--find-links={wheels}", *wheel_options(python, runtime.tag.accepted), f"mlir=={VERSION}"),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [path.name for path in folder.iterdir()] == [expected(runtime, python.tag)]


def test_uv_takes_each_wheel_on_its_platform(runtime: Runtime, wheels: Path, tmp_path: Path) -> None:
    for python in (one for one in pythons_of(runtime) if not one.free_threaded):
        done = subprocess.run(
            [
                *(str(UV), "pip", "compile", "--quiet", "--no-index", "--no-header", "--generate-hashes", "-"),
                *(f"--find-links={wheels}", f"--python-platform={UV_PLATFORMS[runtime.name]}"),
                *(f"--python-version={python.marker}", "--no-deps", "--no-cache"),
                f"--python={sys.executable}",  # or uv starts every Python that it finds
            ],
            input=f"mlir=={VERSION}\n", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"mlir=={VERSION}" in done.stdout


def test_uv_refuses_a_platform_without_a_wheel(wheels: Path, tmp_path: Path) -> None:
    only = tmp_path / "linux"
    only.mkdir()
    name = expected(RUNTIMES["linux-x86_64"], "cp312")
    (only / name).write_bytes((wheels / name).read_bytes())
    done = subprocess.run(
        [
            *(str(UV), "pip", "install", "--dry-run", f"--target={tmp_path / 't'}", "--no-index", "--no-deps"),
            *(f"--find-links={only}", "--python-platform=x86_64-pc-windows-msvc", "--python-version=3.12"),
            f"mlir=={VERSION}",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "no wheels with a matching platform tag" in " ".join(done.stderr.split())


def test_markers_select_one_runtime(runtime: Runtime) -> None:
    """The pages' requirements files select by these."""
    environments = {
        name: {"sys_platform": other.platform.markers[0], "platform_machine": other.platform.markers[1]}
        for name, other in RUNTIMES.items()
        if other.platform.markers
    }
    assert runtime.platform.markers is not None
    system, machine = runtime.platform.markers
    marker = Marker(f"sys_platform == '{system}' and platform_machine == '{machine}'")
    holds = {name for name, environment in environments.items() if marker.evaluate(environment)}
    assert holds == {runtime.name}
