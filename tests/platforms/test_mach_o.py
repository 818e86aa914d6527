"""What macOS's wheels export, from here: upstream's C API compiled for macOS, linked with the project's own options.

PyPI's ``ziglang`` compiles for macOS on any system, and brings the headers; the SDK's ``ld64.lld`` links Mach-O.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import lief
import pytest

from mlir_release.builder.projects.mlir import WHEEL
from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.wheels.binaries import read_binary
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from tests.platforms.mingw import ZIG
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.builder.sdk.info import Sdk

pytestmark = [
    pytest.mark.slow,  # a minute of compiling, and 90 MB of compiler
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="uses the SDK of Debian's or Ubuntu's packages"),
]

#: The C API of the core, and of a dialect: in upstream's ``mlir/lib/CAPI``.
SOURCES = ("IR/BuiltinTypes.cpp", "IR/IR.cpp", "IR/Support.cpp", "Dialect/Func.cpp")

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(hiding LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH "{modules}")
include(MLIRReleaseSettings)
include(MLIRReleaseHide)
add_library(LLVMSupport STATIC library.cpp)
add_library(c_api SHARED library.cpp)
mlir_release_hide_all_but_c_api(c_api)
add_library(runner SHARED library.cpp)
target_link_libraries(runner PRIVATE LLVMSupport)
mlir_release_hide_archives(runner LLVMSupport)
add_library(plain SHARED library.cpp)
target_link_libraries(plain PRIVATE LLVMSupport)
"""


@dataclass(frozen=True)
class MacTools:
    """A compiler for macOS, and LLVM's programs, which are of this machine."""

    sdk: Sdk
    sources: Path
    environment: venv.VirtualEnvironment
    folder: Path

    @classmethod
    def provide(cls, folder: Path) -> MacTools:
        cache = cache_directory()
        release, tree = next(available_releases(cache=cache))
        environment = venv.cached(cache / "environments", Path(sys.executable), (ZIG, *BUILD_TOOLS))
        return cls(provide_sdk(release, release, cache=cache), tree.root, environment, folder)

    def run(self, *command: str | Path) -> str:
        return run(*command, variables=self.environment.variables(), cwd=self.folder)

    def compiler(self, kind: str) -> list[str]:
        """The command of zig's ``cc`` or ``c++``."""
        return [str(self.environment.python), "-m", "ziglang", kind, "-target", "aarch64-macos.13.0"]

    def compiler_program(self, kind: str) -> Path:
        """A program that takes a compiler's arguments and nothing else, as CMake wants it."""
        program = self.folder / f"macos-{kind}"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.compiler(kind))} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        return program

    def compile(self, source: Path) -> Path:
        target = self.folder / f"{source.stem}.o"
        options = ("-std=c++17", "-O1", "-fno-rtti", "-fno-exceptions", f"-I{self.sdk.root / 'include'}")
        self.run(*self.compiler("c++"), *options, "-c", source, "-o", target)
        return target

    def archive(self, *objects: Path) -> Path:
        library = self.folder / "libobjects.a"
        library.unlink(missing_ok=True)
        self.run(self.sdk.tools / "llvm-ar", "rcs", library, *objects)
        return library

    def link(self, name: str, options: Sequence[str], *files: Path) -> Path:
        """A library of ``files``; what it takes from others is looked for when it is loaded."""
        target = self.folder / f"{name}.dylib"
        fixed = [
            "-arch",
            "arm64",
            "-platform_version",
            "macos",
            "13.0",
            "14.0",
            "-dylib",
            "-undefined",
            "dynamic_lookup",
        ]
        named = ["-install_name", f"@rpath/{target.name}"]
        self.run(self.sdk.tools / "ld64.lld", *fixed, *named, *options, *files, "-o", target)
        return target


def exports(library: Path) -> set[str]:
    fat = lief.MachO.parse(str(library))
    binary = fat.at(0) if fat is not None else None
    assert binary is not None
    return {str(symbol.name) for symbol in binary.exported_symbols}


@pytest.fixture(scope="module")
def mac(tmp_path_factory: pytest.TempPathFactory) -> MacTools:
    return MacTools.provide(tmp_path_factory.mktemp("macos"))


@pytest.fixture(scope="module")
def link_options(mac: MacTools) -> dict[str, list[str]]:
    """The linker's words for each library of the project, as CMake makes them for macOS."""
    project = mac.folder / "project"
    project.mkdir()
    project.joinpath("CMakeLists.txt").write_text(PROJECT.format(modules=(WHEEL / "cmake").as_posix()))
    project.joinpath("library.cpp").write_text("int library() { return 0; }\n")
    build = mac.folder / "build"
    settings = {
        "CMAKE_SYSTEM_NAME": "Darwin",
        "CMAKE_SYSTEM_PROCESSOR": "arm64",
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        "CMAKE_C_COMPILER": mac.compiler_program("cc"),
        "CMAKE_CXX_COMPILER": mac.compiler_program("c++"),
        "CMAKE_AR": mac.sdk.tools / "llvm-ar",
        "CMAKE_RANLIB": mac.sdk.tools / "llvm-ranlib",
        "CMAKE_INSTALL_NAME_TOOL": shutil.which("true"),
        "MLIR_RELEASE_SDK": mac.sdk.root,
    }
    mac.run(
        "cmake", "-G", "Ninja", "-S", project, "-B", build, *(f"-D{key}={value}" for key, value in settings.items())
    )
    return {
        name: _linker_words(mac.run("ninja", "-C", build, "-t", "commands", name))
        for name in ("c_api", "runner", "plain")
    }


def _linker_words(commands: str) -> list[str]:
    words = shlex.split(commands.strip().splitlines()[-1])
    following = [after for word, after in pairwise(words) if word == "-Xlinker"]  # Clang's way; GCC's is -Wl,
    return following + [part for word in words if word.startswith("-Wl,") for part in word.split(",")[1:]]


def test_the_c_api_library_exports_the_c_api_and_nothing_else(
    mac: MacTools, link_options: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [mac.compile(mac.sources / "mlir/lib/CAPI" / source) for source in SOURCES]
    hidden = mac.link("hidden", link_options["c_api"], *objects)
    everything = mac.link("everything", link_options["plain"], *objects)
    exported, all_names = exports(hidden), exports(everything)
    with capsys.disabled():
        sizes = [path.stat().st_size for path in (hidden, everything)]
        print(
            f"\nC API for macOS: {len(exported)} exports, {sizes[0]:,} B; not hidden {len(all_names)}, {sizes[1]:,} B"
        )
    assert len(exported) > 300
    assert {name for name in exported if not name.startswith("_mlir")} == set()
    assert exported == {name for name in all_names if name.startswith("_mlir")}
    # Without our options, there are C++ names, too.
    assert any(name.startswith("__ZZN4mlir") for name in all_names)
    facts = read_binary(hidden.name, hidden.read_bytes())
    assert facts is not None
    assert (facts.architectures, facts.oldest_macos) == (("arm64",), (13, 0))


def test_what_a_runner_library_takes_from_an_archive_is_not_exported(
    mac: MacTools, link_options: dict[str, list[str]]
) -> None:
    archived, own = mac.folder / "archived.cpp", mac.folder / "own.cpp"
    archived.write_text(
        'namespace llvm { int helper(int x) { return x + 1; } }\nextern "C" int other() { return 2; }\n'
    )
    own.write_text(
        "namespace llvm { int helper(int x); }\n"
        "namespace impl { int inside(int x) { return llvm::helper(x); } }\n"
        'extern "C" int memrefCopy(int x) { return impl::inside(x); }\n'
    )
    library = mac.archive(mac.compile(archived))
    # The project's own archive is in its build folder; here is another with something in it.
    options = [str(library) if word.endswith("libLLVMSupport.a") else word for word in link_options["runner"]]
    assert "-load_hidden" in options
    assert "-dead_strip" in options
    mine = mac.compile(own)
    assert exports(mac.link("runner", options, mine, library)) == {"__ZN4impl6insideEi", "_memrefCopy"}
    assert "__ZN4llvm6helperEi" in exports(mac.link("plain_runner", link_options["plain"], mine, library))
