"""CMake as it configures on Windows, on macOS and here: the toolkit's own code calls it, and nothing is compiled.

Windows' CMake, Ninja and CPython are real, and run under wine. macOS' are this machine's, which a toolchain file tells
that they are there. On both, a stub poses as compiler, linker and librarian (``stub.c``); here they are real.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

import pytest
from msgspec import structs

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.sdk import build
from mlir_release.builder.sdk.build import configure, prepare
from mlir_release.builder.sdk.build_environment import Native
from mlir_release.builder.sdk.components import SdkSpec, cmake_settings
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.progress import StageLog
from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.wheels.backends import BuildBackend, BuildJob
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import fill_in, stage
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import StepFailed
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.locked import choose
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.pythons import find_pythons
from mlir_release.ground.storage.cache import cache_directory, locked
from tests.platforms import wine
from tests.platforms.mingw import ZIG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.builder.sdk.build import BuildTree
    from mlir_release.builder.sdk.build_environment import BuildEnvironment
    from mlir_release.ground.python.locked import LockedPin
    from mlir_release.ground.python.pythons import Python

HERE = Path(__file__).parent

#: CMake configures and lists its targets, instead of building them; nothing of that is installed.
ONLY_CONFIGURE = {"SKBUILD_BUILD_TARGETS": "help", "SKBUILD_INSTALL_COMPONENTS": "nothing"}

#: What CMake finds in a file that a real compiler makes of its checks.
_CLANG_CL = {
    "compiler": "Clang",
    "compiler_version": "00019.00001.00005",
    "simulate": "MSVC",
    "simulate_version": "00019.00044",
    "platform": "Windows",
    "arch": "x64",
    "standard_default": "17",
    "extensions_default": "OFF",
    "sizeof_dptr": "8",
    "byte_order": "LITTLE_ENDIAN",
}
_APPLE_CLANG = {
    "compiler": "AppleClang",
    "compiler_version": "00017.00000.00000.17000013",
    "platform": "Darwin",
    "arch": "",
    "standard_default": "17",
    "extensions_default": "ON",
    "sizeof_dptr": "8",
    "byte_order": "LITTLE_ENDIAN",
}

#: What no compiler knows there that the stubs pose as: a processor, and a library of Linux.
REFUSED = ("&_M_ARM64EC", "-lrt")

#: What ``uname`` prints there, by its option; but for ``-p``, from which LLVM would go on to ask the compiler.
_UNAME = "$(case $1 in -m | -p) echo arm64;; -r) echo 24.5.0;; *) echo Darwin;; esac)"

#: Run by each CPython that starts there: wine lacks that function, and this machine's paths are below ``Z:``.
_SITE_CUSTOMIZE = """\
import _winapi, re, sys
del _winapi.CopyFile2
sys.argv = [re.sub("(^|=)/", r"\\1Z:/", word) for word in sys.argv]
"""


@dataclass(frozen=True)
class Machine:
    """Where CMake configures: this machine as it is. ``folder`` holds what is made for another one."""

    platform: ClassVar[Platform] = Platform("linux", Platform.of_host().arch)
    floor: ClassVar[str] = ""  #: the oldest platform, as in ``targets.toml``
    nth: ClassVar[int] = 0  #: which LLVM, of those that this machine has packages of

    folder: Path

    def python(self) -> Python:
        """The interpreter that wheels are built for."""
        (python,) = find_pythons([f"{sys.version_info.major}.{sys.version_info.minor}"])
        return python

    def sdk(self) -> Sdk:
        """Of this machine: with the newest LLVM that it has packages of."""
        release, _ = list(available_releases(cache=cache_directory()))[self.nth]
        return provide_sdk(release, release, cache=cache_directory())

    def become(self, patch: pytest.MonkeyPatch) -> None:
        """Let the toolkit find that machine. A compiler cache would ask the stub what compiler it is."""
        for language in ("C", "CXX"):
            patch.setenv(f"CMAKE_{language}_COMPILER_LAUNCHER", "")

    def configure_wheel(self, sdk: Sdk, *, stable_abi: bool = False) -> Path:
        """Configure the wheel project as the toolkit does; return CMake's folder."""
        workdir, python = self.folder / "wheel", self.python()
        workdir.mkdir(exist_ok=True)
        serves = (python.cpython,) if stable_abi else ()
        request = replace(WheelRequest.of_profile("host", sdk=sdk), floor=self.floor, serves=serves)
        job = BuildJob(
            sdk=sdk,
            python=python,
            project=stage(request, workdir / "project"),
            smoke=request.project.smoke,
            requirements=(*BUILD_TOOLS, *fill_in(request)["build-system"]["requires"]),
            profile=request.profile,
            workdir=workdir,
            cache=cache_directory(),
            log=workdir / "log",
            slots=ONLY_CONFIGURE,
            addon=True,  # there is nothing in the wheel to tag
            floor=self.floor,
        )
        with pytest.MonkeyPatch.context() as patch:
            self.become(patch)
            BuildBackend().build(job)
        return workdir / "tree"

    def configure_llvm(self) -> BuildTree:
        """Configure LLVM as the toolkit does."""
        release, _ = next(available_releases(cache=cache_directory()))
        source = fetch_source(release, cache=cache_directory(), whole=True).root
        with pytest.MonkeyPatch.context() as patch:
            self.become(patch)
            tree = prepare(source, SdkSpec(floor=self.floor), output=self.folder / "llvm", source_epoch=release.epoch)
            tree = replace(tree, environment=self.place(tree.environment))
            configure(tree, StageLog(tree.output))
        return tree

    def place(self, environment: BuildEnvironment) -> BuildEnvironment:
        """Where LLVM's compilers run."""
        return environment


class Windows(Machine):
    """A CPython under wine, and PyPI's packages for Windows in the versions of the toolkit's lock."""

    platform = Platform("windows", "x86_64")
    floor = "win_amd64"

    def python(self) -> Python:
        return replace(super().python(), cpython=CPython.of_tag(f"cp{wine.PYTHON.replace('.', '')}"))

    def sdk(self) -> Sdk:
        return sdk_of(self.platform, self.floor, super().sdk(), self.folder / "sdk")

    def become(self, patch: pytest.MonkeyPatch) -> None:
        super().become(patch)
        programs = {"clang-cl": _CLANG_CL, "lld-link": {}, "llvm-lib": {}, "rc": {}, "mt": {}}
        make_stubs(self.folder / "compiler", windows_stub(), programs)
        patch.setattr(build, "sys", SimpleNamespace(platform="win32"))
        patch.setattr(venv, "cached", lambda _folder, _python, requirements: self.environment(requirements))

    def configure_wheel(self, sdk: Sdk, *, stable_abi: bool = False) -> Path:
        try:
            return super().configure_wheel(sdk, stable_abi=stable_abi)
        except StepFailed as error:
            _raise_unless_wine_failed(error, error.log)
            return super().configure_wheel(sdk, stable_abi=stable_abi)

    def configure_llvm(self) -> BuildTree:
        try:
            return super().configure_llvm()
        except MachineError as error:
            _raise_unless_wine_failed(error, Path(error.where))
            return super().configure_llvm()

    def environment(self, requirements: tuple[str, ...]) -> _Environment:
        """In place of a virtual environment of this machine."""
        packages, root = self.folder / "packages", self.folder / "python"
        windows = wine.provide()
        if not root.is_dir():
            packages.symlink_to(windows_packages(choose(requirements).on(self.python().cpython, self.platform)))
            root.mkdir()
            for entry in windows.python.parent.iterdir():
                (root / entry.name).symlink_to(entry)
        own = {
            "CC": "clang-cl",
            "CXX": "clang-cl",
            "PYTHONPATH": windows_path(packages),
            "PYTHONPYCACHEPREFIX": "C:\\pycache",
            "WINEPATH": ";".join(map(windows_path, (self.folder / "compiler", packages / "bin"))),
        }
        return _Environment(root=root, machine=windows, own=own)

    def place(self, environment: BuildEnvironment) -> BuildEnvironment:
        return _UnderWine(source=environment.source, root=environment.root, tools=environment.tools)


class Mac(Machine):
    """This machine's CMake, which takes its system from a toolchain file, and asks programs that answer as macOS'."""

    platform = Platform("macos", "arm64")
    floor = "macosx_13_0"

    def sdk(self) -> Sdk:
        return sdk_of(self.platform, self.floor, super().sdk(), self.folder / "sdk")

    def become(self, patch: pytest.MonkeyPatch) -> None:
        super().become(patch)
        programs, stub, system = self.folder / "programs", self.folder / "stub", self.folder / "system.cmake"
        subprocess.run(["cc", "-o", stub, HERE / "stub.c"], check=True)
        make_stubs(programs, stub, {"cc": _APPLE_CLANG, "c++": _APPLE_CLANG, "ar": {}, "ranlib": {}, "libtool": {}})
        answers = {"sw_vers": "15.5", "uname": _UNAME, "xcrun": self.folder, "xcode-select": self.folder}
        for name in (*answers, "install_name_tool", "otool", "lipo", "strip", "ld"):
            (programs / name).write_text(f"#!/bin/sh\necho {answers.get(name, '')}\n")
            (programs / name).chmod(0o755)
        # Not CMAKE_SYSTEM_NAME, which would make it a cross build.
        system.write_text("set(CMAKE_HOST_SYSTEM_NAME Darwin)\nset(CMAKE_HOST_APPLE 1)\n")
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        patch.setenv("CC", str(programs / "cc"))
        patch.setenv("CXX", str(programs / "c++"))
        patch.setenv("CMAKE_TOOLCHAIN_FILE", str(system))


@dataclass(frozen=True, kw_only=True)
class _Environment(wine.Installed):
    """With the toolkit's variables as they are there."""

    own: Mapping[str, str]

    def variables(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        there = {name: windows_path(value) if value[:1] == "/" else value for name, value in (extra or {}).items()}
        return super().variables(there | dict(self.own))


def _raise_unless_wine_failed(error: Exception, log: Path) -> None:
    """Where CMake could not start Ninja: once in hundreds of times, wine refuses to start a program."""
    if "execution of make failed" not in log.read_text(encoding="utf-8", errors="replace"):
        raise error


@dataclass(frozen=True, kw_only=True)
class _UnderWine(Native):
    """LLVM's build there: as :class:`Native`, with programs and paths of Windows."""

    @property
    def _there(self) -> _Environment:
        assert isinstance(self.tools, _Environment)
        return self.tools

    @property
    def _packages(self) -> Path:
        return self._there.root.with_name("packages")

    def settings(self) -> dict[str, str]:
        return {
            "CMAKE_MAKE_PROGRAM": windows_path(self._packages / "bin/ninja.exe"),
            "Python3_EXECUTABLE": windows_path(self._there.root / "python.exe"),
        }

    def path(self, path: Path) -> str:
        return windows_path(path)

    def command(self, program: str, *words: str) -> list[str]:
        folder = {"cmake": "cmake/data/bin", "ninja": "bin"}[program]
        return ["wine", str(self._packages / folder / f"{program}.exe"), *words]

    def variables(self) -> dict[str, str]:
        return self._there.variables() | self._there.machine.settings


def windows_path(path: str | Path) -> str:
    """What wine calls a file of this machine."""
    return f"Z:{path}"


def make_stubs(folder: Path, stub: Path, programs: Mapping[str, Mapping[str, str]]) -> None:
    """Programs in ``folder`` that pose as compilers and what belongs to them, each with what it says of itself."""
    folder.mkdir(exist_ok=True)
    for name, says in programs.items():
        shutil.copy(stub, folder / f"{name}{stub.suffix}")
        (folder / f"{name}.txt").write_text("stub\n" + "".join(f"INFO:{key}[{value}]\n" for key, value in says.items()))
        (folder / f"{name}.refused").write_text("\n".join(REFUSED))


def windows_stub() -> Path:
    """``stub.c``, compiled for Windows: once, as that takes most of a minute."""
    cache = cache_directory() / "wine"
    stub = cache / f"stub-{sha256_of(HERE / 'stub.c')[:12]}.exe"
    with locked(stub.with_suffix(".lock")):
        if not stub.is_file():
            tools = venv.cached(cache_directory() / "environments", Path(sys.executable), (ZIG,))
            made = stub.with_suffix(".tmp.exe")
            words = ("cc", "-target", "x86_64-windows-gnu", "-O1", "-s", "-o", made, HERE / "stub.c")
            subprocess.run([tools.python, "-m", "ziglang", *words], env=tools.variables(), check=True)
            made.rename(stub)
    return stub


def windows_packages(pins: Sequence[LockedPin]) -> Path:
    """A folder with packages as Windows gets them, and what wine needs of each CPython that imports from it."""
    wanted = [f"{pin.name}=={pin.version}" for pin in pins]
    digest = hashlib.sha256("\n".join([*wanted, _SITE_CUSTOMIZE]).encode()).hexdigest()[:12]
    folder = cache_directory() / f"wine/packages-{digest}"
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            staging = folder.with_suffix(".tmp")
            shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
            wine.pip_install(staging, "--no-deps", *wanted)
            (staging / "sitecustomize.py").write_text(_SITE_CUSTOMIZE)
            staging.rename(folder)
    return folder


def sdk_of(platform: Platform, floor: str, sdk: Sdk, folder: Path) -> Sdk:
    """An SDK of another platform, by its CMake files: made of this machine's ``sdk``, with libraries that are empty."""
    system = platform.system
    folder.mkdir()
    for name in ("include", "source", "licenses", "src", "parts", "sdk.json"):
        (folder / name).symlink_to(sdk.root / name)
    shutil.copytree(sdk.root / "lib/cmake", folder / "lib/cmake")
    for exports in ("llvm/LLVMExports", "mlir/MLIRTargets"):
        file = folder / f"lib/cmake/{exports}.cmake"
        targets = [target for target in cmake_exports.read(file).values() if target.kind != "SHARED"]
        for target in targets:
            location = target.properties.get("IMPORTED_LOCATION", "")
            if target.kind == "STATIC":
                target.properties["IMPORTED_LOCATION"] = (
                    f"{cmake_exports.PREFIX}lib/{system.static_library(target.name)}"
                )
            elif target.kind == "EXECUTABLE":
                target.properties["IMPORTED_LOCATION"] = system.program(location)
            for path in target.files:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).touch()
            _forget_linux(target)
        file.write_text(cmake_exports.write(targets, origin="Of a test."), encoding="utf-8")
    config = folder / "lib/cmake/llvm/LLVMConfig.cmake"
    text = config.read_text(encoding="utf-8")
    settings = cmake_settings(
        read_source(sdk.root / "source"), SdkSpec(floor=floor, code_generators=sdk.info.code_generators)
    )
    if platform.os == "windows":
        settings |= {"LLVM_ON_UNIX": "0", "LLVM_ENABLE_PLUGINS": "OFF"}
    lines = [f"set({name} {value})\n" for name, value in settings.items() if f"\nset({name} " in text]
    config.write_text(text + "".join(lines), encoding="utf-8")
    return Sdk(root=folder, info=structs.replace(sdk.info, platform=platform))


def _forget_linux(target: cmake_exports.Target) -> None:
    """Link what Linux has, and its distribution, nowhere else."""
    other = dict.fromkeys(("rt", "dl", "m", "mlir_sdk_zlib", "mlir_sdk_zstd"))
    cmake_exports.replace_links(target, other)


def as_llvm_23(sdk: Sdk) -> None:
    """Edit a made SDK's CMake files: they build for the stable ABI, as those of LLVM 23 do."""
    folder = sdk.root / "lib/cmake/mlir"
    for name, old, new in (
        (
            "MLIRDetectPythonEnv",
            "component Development.Module)",
            "component Development.Module Development.SABIModule)",
        ),
        ("AddMLIRPython", "      FREE_THREADED\n", "      STABLE_ABI\n      FREE_THREADED\n"),
        ("AddMLIRPython", '"nanobind${_ft}-', '"nanobind-abi3-'),
    ):
        file = folder / f"{name}.cmake"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file} has another form than that of LLVM 22"
        file.write_text(text.replace(old, new), encoding="utf-8")
