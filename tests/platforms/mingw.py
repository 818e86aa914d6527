"""The wheel project compiled for Windows from here, to be loaded by the CPython of :mod:`tests.platforms.wine`.

PyPI's ``ziglang`` compiles and links (clang, lld, MinGW's headers, libc++ in each library); programs that a build runs
are this machine's. Files are named as Microsoft's tools name them. Nothing is optimized much, to spare hours.

A whole LLVM takes these two cores hours, so there are scopes: the smallest has the core and two dialects, the others
are the wheels of a release. All compile in one folder of the cache, with ccache, and what was stopped goes on:
``python -m tests.platforms.mingw core`` builds without running tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.sdk.components import SdkSpec, cmake_settings
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.wheels.backends import BuildBackend
from mlir_release.builder.wheels.build import build_wheels
from mlir_release.builder.wheels.cross import Cross
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import find_pythons
from mlir_release.ground.storage.cache import cache_directory, locked
from tests.platforms import wine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python

ZIG = "ziglang==0.17.1"
#: For MinGW, as clang and LLVM spell it.
TRIPLE = "x86_64-w64-windows-gnu"


@dataclass(frozen=True)
class Scope:
    """What is built.

    :param libraries: Ninja's targets in LLVM
    :param dialects: those of the wheel; empty: all, by the wheel project as it is
    :param fails: tests that fail there, and why
    """

    profile: str
    libraries: tuple[str, ...]
    dialects: tuple[str, ...] = ()
    fails: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether it is a wheel of a release."""
        return not self.dialects

    def tests(self, folder: Path) -> list[str]:
        """Those of upstream's, below ``folder``, that are about something in it; empty: all."""
        dialects = [f"python/dialects/{name}{end}.py" for name in self.dialects for end in ("", "_dialect")]
        patterns = () if self.whole else ("python/*.py", "python/ir/*.py", *dialects)
        return sorted(path.relative_to(folder).as_posix() for pattern in patterns for path in folder.glob(pattern))


_C_API = tuple(f"MLIRCAPI{name}" for name in ("Debug", "Func", "IR", "Interfaces", "Transforms"))
SCOPES = {
    "some": Scope(
        "core",
        (*_C_API, "MLIRArithDialect", "MLIRControlFlowDialect"),
        ("arith", "builtin", "cf", "func"),
        {"dialects": "it counts them"},
    ),
    "core": Scope(
        "core",
        ("mlir-libraries", "llvm-libraries"),
        fails={"python/integration/dialects/linalg/opsrun.py": "it needs the execution engine"},
    ),
    "host": Scope(
        "host",
        ("mlir-libraries", "llvm-libraries"),
        fails=dict.fromkeys(
            ("python/execution_engine.py", "python/integration/dialects/linalg/opsrun.py"),
            "a function called main calls __main, where it is compiled for MinGW",
        ),
    ),
}

#: In place of upstream's library that registers everything, and so links everything.
_REGISTER_SOME = """\
#include "mlir-c/RegisterEverything.h"
#include "mlir/CAPI/IR.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"

void mlirRegisterAllDialects(MlirDialectRegistry registry) {
  unwrap(registry)->insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect>();
}
void mlirRegisterAllLLVMTranslations(MlirContext) {}
void mlirRegisterAllPasses() { mlir::registerTransformsPasses(); }
"""

#: As Microsoft's tools name them.
_NAMES = """\
set(CMAKE_STATIC_LIBRARY_PREFIX "")
set(CMAKE_STATIC_LIBRARY_SUFFIX ".lib")
set(CMAKE_SHARED_LIBRARY_PREFIX "")
set(CMAKE_SHARED_MODULE_PREFIX "")
set(CMAKE_IMPORT_LIBRARY_PREFIX "")
set(CMAKE_IMPORT_LIBRARY_SUFFIX ".lib")
"""

#: A third of the compile time of ``-O3``.
_FLAGS = "-O1 -g0 -DNDEBUG"


@dataclass(frozen=True)
class Mingw:
    """The compilers, and the folder that LLVM is compiled in.

    :param tools: an SDK of the same LLVM, whose programs run here
    """

    folder: Path
    environment: venv.VirtualEnvironment
    release: LlvmRelease
    source: Path
    tools: Sdk

    @classmethod
    def provide(cls) -> Mingw:
        """Of the newest LLVM that this machine has packages of."""
        cache = cache_directory()
        release, _ = next(available_releases(cache=cache))
        tools = provide_sdk(release, release, cache=cache)
        environment = venv.cached(cache / "environments", Path(sys.executable), (ZIG, *BUILD_TOOLS))
        folder = cache / "mingw"
        folder.mkdir(parents=True, exist_ok=True)
        source = fetch_source(release, cache=cache, whole=True)
        return cls(folder, environment, release, source.root, tools)

    @property
    def llvm(self) -> Path:
        """CMake's build folder."""
        return self.folder / "llvm"

    def run(self, *command: str | Path, into: Path | None = None) -> None:
        """Run a program, niced. :raises subprocess.CalledProcessError: with its output, if that goes nowhere else"""
        variables = self.environment.variables(self.ccache)
        words = ["nice", "-n", "5", *map(str, command)]
        if into is None:
            subprocess.run(words, env=variables, check=True, capture_output=True, text=True)
        else:
            with into.open("w", encoding="utf-8") as log:
                subprocess.run(words, env=variables, check=True, stdout=log, stderr=subprocess.STDOUT)

    @property
    def ccache(self) -> dict[str, str]:
        """Its settings: by a script's name and time it can't tell what compiler that runs."""
        check = f"string:{ZIG} {TRIPLE}"
        return {
            "CCACHE_DIR": str(cache_directory() / "ccache"),
            "CCACHE_COMPILERTYPE": "clang",
            "CCACHE_COMPILERCHECK": check,
        }

    @cached_property
    def toolchain(self) -> Path:
        """CMake's toolchain file, and the scripts that it names."""
        folder = self.folder / "toolchain"
        zig = self.environment.site_packages() / "ziglang" / "zig"
        cache = self.folder / "zig-cache"
        target = "-target x86_64-windows-gnu -mcpu=x86_64"
        for name, words in {
            "clang-cc": f"cc {target}", "clang-c++": f"c++ {target}", "ar": "ar", "ranlib": "ranlib", "rc": "rc",
        }.items():  # fmt: skip
            variables = f"ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache}"
            _write(folder / name, f'#!/bin/sh\nexport {variables}\nexec {zig} {words} "$@"\n')
        _write(folder / "names.cmake", _NAMES)
        settings = {
            "CMAKE_SYSTEM_NAME": "Windows",
            "CMAKE_SYSTEM_PROCESSOR": "AMD64",
            "CMAKE_C_COMPILER": folder / "clang-cc",
            "CMAKE_CXX_COMPILER": folder / "clang-c++",
            "CMAKE_RC_COMPILER": folder / "rc",
            "CMAKE_AR": f'{folder / "ar"} CACHE FILEPATH ""',
            "CMAKE_RANLIB": f'{folder / "ranlib"} CACHE FILEPATH ""',
            "CMAKE_STRIP": '/bin/true CACHE FILEPATH ""',  # zig writes symbols to a file of their own
            "CMAKE_USER_MAKE_RULES_OVERRIDE": folder / "names.cmake",
            "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
            "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY": "ONLY",
            "CMAKE_FIND_ROOT_PATH_MODE_INCLUDE": "ONLY",
        }
        return _write(folder / "windows.cmake", "".join(f"set({name} {value})\n" for name, value in settings.items()))

    def native_programs(self) -> Path:
        """Those that LLVM's build runs; what Debian lacks of them, only tests need."""
        folder = self.folder / "native"
        for name in ("llvm-tblgen", "mlir-linalg-ods-yaml-gen", "mlir-pdll", "mlir-tblgen", "tblgen-to-irdl"):
            _link(folder / name, self.tools.tools / name)
        _link(folder / "llvm-min-tblgen", self.tools.tools / "llvm-tblgen")  # which has all that the other one has
        for name in ("mlir-irdl-to-cpp", "mlir-src-sharder"):
            _write(folder / name, "#!/bin/sh\nexit 1\n")
        return folder

    def configure(self) -> None:
        """Configure LLVM with the toolkit's settings, or do so again."""
        source = read_source(self.source, whole=True)
        native = self.native_programs()
        settings: dict[str, object] = cmake_settings(source, SdkSpec(floor="win_amd64", code_generators=("X86",))) | {
            "CMAKE_TOOLCHAIN_FILE": self.toolchain,
            "CMAKE_C_FLAGS_RELEASE": _FLAGS,
            "CMAKE_CXX_FLAGS_RELEASE": _FLAGS,
            "CMAKE_C_COMPILER_LAUNCHER": "ccache",
            "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
            "LLVM_DEFAULT_TARGET_TRIPLE": TRIPLE,
            "LLVM_HOST_TRIPLE": TRIPLE,
            "LLVM_BUILD_LLVM_C_DYLIB": "OFF",
            "LLVM_ENABLE_PLUGINS": "OFF",
            "LLVM_INCLUDE_TESTS": "OFF",
            "LLVM_NATIVE_TOOL_DIR": native,
            "LLVM_TABLEGEN": native / "llvm-tblgen",
            "MLIR_LINALG_ODS_YAML_GEN": native / "mlir-linalg-ods-yaml-gen",
            "MLIR_TABLEGEN": native / "mlir-tblgen",
            "Python3_EXECUTABLE": sys.executable,
        }
        words = [f"-D{name}={value}" for name, value in settings.items()]
        command: tuple[str | Path, ...] = ("cmake", "-G", "Ninja", "-S", source.root / "llvm", "-B", self.llvm)
        self.run(*command, *words, into=self.folder / "configure.log")

    def build(self, scope: Scope) -> None:
        """Compile LLVM's libraries for ``scope``, or go on doing so; others may be compiled meanwhile."""
        if self.count_steps(scope) == 0:
            return
        with locked(self.folder / ".lock", waiting="another build of LLVM for Windows is running: waiting"):
            self.configure()
            self.run("ninja", "-C", self.llvm, *scope.libraries, into=self.folder / "build.log")

    def count_steps(self, scope: Scope) -> int | None:
        """How many of Ninja's steps are left; None: nothing has been configured."""
        command = [str(self.environment.scripts / "ninja"), "-n", "-C", str(self.llvm), *scope.libraries]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return sum(line.startswith("[") for line in done.stdout.splitlines()) if done.returncode == 0 else None

    def install(self, scope: Scope) -> Path:
        """The prefix of what is built, as LLVM's own ``install`` would make it, with programs that run here."""
        prefix = self.folder / "prefix"
        shutil.rmtree(prefix, ignore_errors=True)
        for component in ("llvm-headers", "mlir-headers", "cmake-exports", "mlir-cmake-exports"):
            self.run("cmake", "--install", self.llvm, "--prefix", prefix, "--component", component)
        for library in (self.llvm / "lib").glob("*.lib"):
            os.link(library, prefix / "lib" / library.name)
        for program in self.tools.tools.iterdir():
            _write(prefix / "bin" / f"{program.name}.exe", f'#!/bin/sh\nexec {program} "$@"\n')
        if not scope.whole:
            self._register_some(prefix)
        return prefix

    def _register_some(self, prefix: Path) -> None:
        """Put in place of the libraries that link everything, and forget the C API's others that are not built."""
        source, made = prefix / "RegisterSome.cpp", prefix / "RegisterSome.obj"
        source.write_text(_REGISTER_SOME, encoding="utf-8")
        options = ["-std=c++17", *_FLAGS.split(), "-DMLIR_CAPI_BUILDING_LIBRARY=1", f"-I{prefix / 'include'}"]
        self.run(self.toolchain.parent / "clang-c++", *options, "-c", source, "-o", made)
        for exports in ("llvm/LLVMExports", "mlir/MLIRTargets"):
            file = prefix / f"lib/cmake/{exports}.cmake"
            targets = cmake_exports.read(file).values()
            for target in targets:
                # Upstream's CMake files name all of the C API, and an SDK must have the other one.
                if "MLIR_AGGREGATE_OBJECT_LIB_IMPORTED" in target.properties or target.name == "LLVMCore":
                    self._stand_in(target, prefix, made)
            for other in file.parent.glob(f"{file.stem}*"):
                other.unlink()
            kept = [target for target in targets if all((prefix / path).is_file() for path in target.files)]
            file.write_text(cmake_exports.write(kept, origin="Of what is built."), encoding="utf-8")

    def _stand_in(self, target: cmake_exports.Target, prefix: Path, registers: Path) -> None:
        """Make an empty library of one that is not built, but for the one that ``registers`` something."""
        library = prefix / "lib" / f"{target.name}.lib"
        everything = target.name == "MLIRCAPIRegisterEverything"
        if library.is_file() and not everything:
            return
        library.unlink(missing_ok=True)
        self.run(self.toolchain.parent / "ar", "qc", library, *([registers] if everything else []))
        links = "MLIRCAPITransforms;MLIRArithDialect;MLIRControlFlowDialect;MLIRFuncDialect" if everything else ""
        for key in ("INTERFACE_LINK_LIBRARIES", "MLIR_AGGREGATE_DEP_LIBS_IMPORTED"):
            target.properties[key] = links

    def sdk(self, scope: Scope) -> Sdk:
        """An SDK of what is built."""
        return import_sdk(
            self.install(scope),
            source=self.source,
            output=self.folder / "sdk",
            revision=self.release.commit,
            source_epoch=self.release.epoch,
            provider="source",
        )

    def wheel(self, name: str, windows: wine.Windows, output: Path) -> Path:
        """Build the wheel of a scope, by the toolkit's own code; only the compilers are others."""
        scope = SCOPES[name]
        self.build(scope)
        sdk = self.sdk(scope)
        (python,) = find_pythons([wine.PYTHON])
        request = WheelRequest.of_profile(scope.profile, sdk=sdk)
        cross = _MingwCross(
            platform=sdk.info.platform, tools=self.tools, python=windows.python.parent, mingw=self, scope=scope
        )
        (built,) = build_wheels(request, [python], output=output, backend=BuildBackend(cross=cross))
        return built.path


@dataclass(frozen=True, kw_only=True)
class _MingwCross(Cross):
    """Compilers that the toolkit's own, for Linux alone, don't know; ``python`` is the folder of Windows' one."""

    mingw: Mingw
    scope: Scope

    def check(self) -> None:
        """See :class:`~mlir_release.builder.wheels.cross.Cross`."""

    def variables(self, python: Python, folder: Path) -> dict[str, str]:
        """See :class:`~mlir_release.builder.wheels.cross.Cross`. Windows' suffix is what scikit-build-core takes from
        there.
        """
        lines = [f"include({self.mingw.toolchain})"]
        for name in ("Python", "Python3"):
            lines.append(f'set({name}_INCLUDE_DIR {self.python / "include"} CACHE PATH "" FORCE)')
            for kind in ("LIBRARY", "LIBRARY_RELEASE"):
                library = self.python / "libs" / f"{python.tag.replace('cp', 'python')}.lib"
                lines.append(f'set({name}_{kind} {library} CACHE FILEPATH "" FORCE)')
        # As for Microsoft's linker; MinGW's would export what is in archives, too. Of the bindings' library, upstream
        # asks for it only if MSVC compiles that.
        lines += [f"set(CMAKE_{about}WINDOWS_EXPORT_ALL_SYMBOLS ON)" for about in ("SUPPORT_", "")]
        # nanobind asks the interpreter that runs here for the suffix.
        lines.append(f'set(NB_SUFFIX .{python.tag}-win_amd64.pyd CACHE INTERNAL "")')
        if not self.scope.whole:
            groups = ["MLIRPythonSources.Core", *(f"MLIRPythonSources.Dialects.{name}" for name in self.scope.dialects)]
            lines.append(f"set(MLIR_RELEASE_GROUPS {' '.join(groups)} MLIRPythonExtension.RegisterEverything)")
        file = folder / "toolchain.cmake"
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return {
            **self.mingw.ccache,
            "CMAKE_TOOLCHAIN_FILE": str(file),
            "MLIR_RELEASE_TOOLS": str(self.tools.root),
            "SETUPTOOLS_EXT_SUFFIX": f".{python.tag}-win_amd64.pyd",
            "_PYTHON_HOST_PLATFORM": "win-amd64",
        }


def _write(path: Path, text: str) -> Path:
    """Write a script or a setting, unless it is there: builds go by the time of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return path


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


if __name__ == "__main__":
    Mingw.provide().build(SCOPES[sys.argv[1]])
