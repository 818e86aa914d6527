"""Wheels of an SDK, made of a miniature one: what is in them, what installers make of them, what is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.sdk_wheel_info import SDK_DISTRIBUTIONS, SDK_WHEEL_INFO, SdkWheelInfo, package_of
from mlir_release.builder.projects.mlir import PROJECT, sdk_wheels
from mlir_release.builder.projects.mlir.sdk_wheels import pack_all
from mlir_release.builder.sdk.packing import pack, unpack
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.ground.python import venv
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.assets import check_wheel, read_wheel
from tests.prefix_factory import REVISION
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import TAG, make_wheel

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk

VERSION = "20261120.2"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the miniature programs are Linux's /bin/true")


@pytest.fixture(scope="module")
def wheels(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return pack_all(sdk, VERSION, output=tmp_path_factory.mktemp("wheels"))


def members(wheel: Path) -> dict[str, zipfile.ZipInfo]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info for info in archive.infolist()}


def modes(wheel: Path) -> dict[str, int]:
    return {name: info.external_attr >> 16 & 0o777 for name, info in members(wheel).items()}


def text(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


def test_all_are_sound_and_say_which_sdk_they_are_of(sdk: Sdk, wheels: dict[str, Path]) -> None:
    for path, name in zip(wheels.values(), SDK_DISTRIBUTIONS, strict=True):
        report = inspect(path)
        assert report.problems == ()
        assert (report.distribution, report.version) == (name, VERSION)
        assert report.tags == (f"py3-none-{report.true_platform_tag}",)
        assert report.true_platform_tag.startswith("manylinux_2_")
        assert report.external == ()
        assert report.sdk is not None
        assert (report.sdk.revision, report.sdk.digest) == (REVISION, sdk.info.digest)
        assert report.sdk.c_runtime.startswith("GLIBC_2.")


def test_the_first_has_what_builds_need_and_no_more(wheels: dict[str, Path]) -> None:
    names = {name.removeprefix("mlir_sdk/") for name in members(wheels["sdk"])}
    assert {"include/mlir/IR/Header.h", "lib/libMLIRIR.a", "lib/cmake/mlir/MLIRConfig.cmake"} <= names
    assert {"bin/mlir-tblgen", "lib/objects/MLIRCAPIIR/IR.cpp.o", "src/python/MLIRPythonSources.Core/ir.py"} <= names
    assert not {name for name in names if name.startswith(("source/", "parts/", "bin/lld", "bin/ld", "bin/mlir-opt"))}


def test_programs_are_executable_and_other_files_are_not(wheels: dict[str, Path]) -> None:
    sdk, tools = modes(wheels["sdk"]), modes(wheels["tools"])
    assert sdk["mlir_sdk/bin/mlir-tblgen"] == sdk["mlir_sdk/bin/llvm-config"] == 0o755
    assert tools[f"mlir_sdk_tools-{VERSION}.data/scripts/mlir-opt"] == 0o755
    assert sdk["mlir_sdk/lib/libMLIRIR.a"] == 0o644


def test_the_third_has_the_programs_of_tests_alone(wheels: dict[str, Path]) -> None:
    """The miniature has no split-file."""
    folder = f"mlir_test_tools-{VERSION}.data/scripts"
    programs = {name: mode for name, mode in modes(wheels["test_tools"]).items() if ".data/" in name}
    assert programs == dict.fromkeys((f"{folder}/FileCheck", f"{folder}/count", f"{folder}/not"), 0o755)
    assert "Requires-Dist" not in text(wheels["test_tools"], f"mlir_test_tools-{VERSION}.dist-info/METADATA")


def test_llvm_config_is_with_what_builds_need(wheels: dict[str, Path]) -> None:
    for path, has in zip(wheels.values(), (True, False, False), strict=True):
        names = members(path)
        assert ("mlir_sdk/bin/llvm-config" in names, any("llvm-config" in name for name in names)) == (has, has)


def test_llvm_config_on_path_is_that_of_the_sdk(environment: venv.VirtualEnvironment) -> None:
    """So is the one where Cargo's mlir-sys looks for it, in the prefix."""
    root = (environment.site_packages() / "mlir_sdk").resolve()
    for program in (environment.scripts / "llvm-config", root / "bin" / "llvm-config"):
        done = subprocess.run([program, "--prefix", "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{root}\n22.1.8\n"
    failed = subprocess.run([environment.scripts / "llvm-config", "--nosuch"], capture_output=True, check=False)
    assert failed.returncode == 1


def test_the_programs_of_tests_alone_run(wheels: dict[str, Path], tmp_path: Path) -> None:
    alone = venv.create(tmp_path / "environment", Path(sys.executable))
    alone.install("--no-index", wheels["test_tools"])
    programs = {path.name for path in alone.scripts.iterdir()}
    assert programs & {"FileCheck", "count", "not", "mlir-opt"} == {"FileCheck", "count", "not"}
    subprocess.run([alone.scripts / "FileCheck"], check=True)


def test_the_same_sdk_gives_the_same_bytes(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    again = pack_all(sdk, VERSION, output=tmp_path)
    assert [path.read_bytes() for path in again.values()] == [path.read_bytes() for path in wheels.values()]
    assert sorted(tmp_path.iterdir()) == sorted(again.values())


def test_metadata_has_the_licences_and_the_revision(wheels: dict[str, Path]) -> None:
    for path, stem in zip(wheels.values(), map(package_of, SDK_DISTRIBUTIONS), strict=True):
        metadata = text(path, f"{stem}-{VERSION}.dist-info/METADATA")
        assert "License-Expression: Apache-2.0 WITH LLVM-exception AND Zlib AND BSD-3-Clause\n" in metadata
        assert "License-File: LLVM.txt\nLicense-File: zlib.txt\nLicense-File: zstd.txt\n" in metadata
        assert f"/tree/{REVISION}\n" in metadata
        assert f"{stem}-{VERSION}.dist-info/licenses/LLVM.txt" in members(path)


@pytest.fixture(scope="module")
def environments(
    wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, venv.VirtualEnvironment]:
    """All wheels installed, by pip and by uv."""
    root = tmp_path_factory.mktemp("environments")
    made = {name: venv.create(root / name, Path(sys.executable)) for name in ("pip", "uv")}
    made["pip"].install("--no-index", *wheels.values())
    uv, options = Path(sys.executable).with_name("uv"), ("--no-index", "--offline", "--no-cache")
    command: list[str | Path] = [uv, "pip", "install", *options, "--python", made["uv"].python, *wheels.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(params=["pip", "uv"])
def environment(
    environments: dict[str, venv.VirtualEnvironment], request: pytest.FixtureRequest
) -> venv.VirtualEnvironment:
    return environments[request.param]


def test_an_installed_sdk_tells_where_it_is(environment: venv.VirtualEnvironment) -> None:
    def ask(*words: str) -> str:
        command: list[str | Path] = [environment.python, "-I", "-m", "mlir_sdk", *words]
        printed: str = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return printed.strip()

    root = environment.site_packages() / "mlir_sdk"
    assert ask() == str(root.resolve())
    assert ask("--cmakedir") == str(root.resolve() / "lib" / "cmake" / "mlir")
    assert ask("--version") == VERSION
    info = SdkWheelInfo.from_text(ask("--info"))
    assert (info.revision, info.llvm_version, info.platform) == (REVISION, "22.1.8", "linux-x86_64")
    assert os.access(root / "bin" / "mlir-tblgen", os.X_OK)


def test_installed_programs_run_also_by_their_second_names(environment: venv.VirtualEnvironment) -> None:
    for name in ("mlir-opt", "FileCheck", "lld", "ld.lld"):
        subprocess.run([environment.scripts / name], check=True)
    assert (environment.scripts / "ld.lld").stat().st_size < 1000  # not a copy


def test_a_second_name_is_what_the_program_sees(
    environments: dict[str, venv.VirtualEnvironment], tmp_path: Path
) -> None:
    """An LLD is the linker that it is called by."""
    shutil.copy(environments["pip"].scripts / "ld.lld", tmp_path / "ld.lld")
    program = tmp_path / "lld"
    shutil.copy(shutil.which("cat") or "/bin/cat", program)  # prints the command that it was started by
    shown = subprocess.run([tmp_path / "ld.lld", "/proc/self/cmdline"], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\0")[:2] == ["ld.lld", "/proc/self/cmdline"]


def test_a_wheel_built_from_it_says_so(wheels: dict[str, Path], tmp_path: Path) -> None:
    """What a downstream's package holds is the file that upstream's group of sources brings."""
    record = text(wheels["sdk"], f"mlir_sdk/src/python/MLIRPythonSources.Core/{SDK_WHEEL_INFO}")
    exports = text(wheels["sdk"], "mlir_sdk/lib/cmake/mlir/MLIRPythonTargets.cmake")
    assert f"src/python/MLIRPythonSources.Core/{SDK_WHEEL_INFO}" in exports
    downstream = make_wheel(tmp_path, files={f"mlir_standalone/{SDK_WHEEL_INFO}": record.encode()})
    found = inspect(downstream).sdk
    assert found is not None
    assert found.title == f"mlir-sdk {VERSION} (LLVM 22.1.8, {REVISION[:12]}, linux-x86_64)"


def test_a_wheel_of_two_sdks_is_a_problem(wheels: dict[str, Path], tmp_path: Path) -> None:
    record = text(wheels["sdk"], f"mlir_sdk/{SDK_WHEEL_INFO}")
    other = json.dumps({**json.loads(record), "digest": "sha256:" + 64 * "0"})
    files = {f"one/{SDK_WHEEL_INFO}": record.encode(), f"two/{SDK_WHEEL_INFO}": other.encode()}
    assert [problem.id for problem in inspect(make_wheel(tmp_path, files=files)).problems] == ["several-sdks"]


@pytest.mark.parametrize("version", ["23.0.0git", "", "snapshot-20261120.02", "22.1.8+debian"])
def test_a_version_that_no_wheel_can_have_is_refused(sdk: Sdk, tmp_path: Path, version: str) -> None:
    refused(lambda: pack_all(sdk, version, output=tmp_path / "wheels"), "option-invalid")
    assert not (tmp_path / "wheels").exists()


@pytest.mark.parametrize("part", ["build", "tools"])
def test_an_sdk_without_one_part_is_refused(sdk: Sdk, tmp_path: Path, part: str) -> None:
    pack(sdk, tmp_path / "packed")
    half = unpack([tmp_path / "packed" / f"{part}.tar.zst"], tmp_path / "half")
    refused(lambda: pack_all(half, VERSION, output=tmp_path / "wheels"), "input-missing")


@pytest.mark.parametrize("profile", ["sdk", "sdk-tools", "test-tools"])
def test_a_releases_wheel_says_which_release_and_target_it_is_of(profile: str, sdk: Sdk, tmp_path: Path) -> None:
    name = PROJECT.profiles[profile].distribution
    matrix = Matrix.parse(make_targets(make_row(name, suites=["sdk"])))
    (target,) = matrix.for_platform(sdk.info.platform, configuration=name).wheels
    request = WheelRequest.of_order(target.order(tag=TAG, version=VERSION), sdk)
    (path,) = sdk_wheels.pack([request], output=tmp_path)
    wheel = read_wheel(path)
    check_wheel(wheel, tag=TAG, revision=REVISION, version=VERSION)
    assert (wheel.info.target, wheel.info.profile) == (target.name, profile)
    assert wheel.slot == target.slot
    report = inspect(wheel.path)
    assert (report.problems, report.release) == ((), wheel.info)
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]
