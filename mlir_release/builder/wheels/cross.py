"""Wheels for another Linux than this machine's, built by cross compilers.

Three things of the other platform are needed: compilers (GCC's, by the names that distributions give them), the headers
and build settings of its CPython, and its SDK. What runs during the build (``mlir-tblgen``, the linker) is of this
machine, from a second SDK of the same LLVM. So is the interpreter: CPython's own means for cross builds
make it answer as the other one (``_PYTHON_SYSCONFIGDATA_NAME``, ``_PYTHON_HOST_PLATFORM``).

A wheel built so has no type stubs: making them takes importing the modules. Nothing of it has run; ``wheels test`` on
such a machine, or under an emulator, shows whether it works.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.parts import BUILD, TOOLS
from mlir_release.ground.errors import MachineError
from mlir_release.ground.storage.files import copy_regular

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.python.platforms import Platform
    from mlir_release.ground.python.pythons import Python


@dataclass(frozen=True, kw_only=True)
class Cross:
    """The tools to build for ``platform`` here.

    :param tools: an SDK of the same LLVM for this machine
    :param python: the prefix of the other platform's CPython: it has ``include/python3.12`` and ``lib/python3.12``
    """

    platform: Platform
    tools: Sdk
    python: Path

    @classmethod
    def to(cls, sdk: Sdk, *, host: Platform, tools: Sdk | None, python: Path | None) -> Cross | None:
        """To build with ``sdk`` here; None if it is for this machine.

        :raises UsageError: ``sdk-mismatch``
        """
        platform = sdk.info.platform
        if platform == host:
            return None
        if platform.os != "linux" or host.os != "linux":
            raise sdk.unfit(
                f"wheels for {platform.title} can't be built on {host.title}",
                why="cross compilers are used from Linux to Linux only",
                remedy=f"build them on {platform.title}",
            )
        if tools is None or python is None:
            raise sdk.unfit(
                f"the SDK is for {platform.title}, and this machine is {host.title}",
                remedy="give the SDK of this machine; or, to cross-compile, --tools (an SDK of the same LLVM for this "
                "machine) and --target-python (the prefix of a CPython of the other platform)",
            )
        tools.require(BUILD, TOOLS, purpose="cross-compiling")
        if (tools.info.platform, tools.info.llvm_version) != (host, sdk.info.llvm_version):
            raise tools.unfit(
                "the programs that the build runs must be of the same LLVM, and for this machine",
                why=f"it is LLVM {tools.info.llvm_version} for {tools.info.platform}; "
                f"wanted: LLVM {sdk.info.llvm_version} for {host}",
            )
        return cls(platform=platform, tools=tools, python=python.absolute())

    @property
    def compilers(self) -> dict[str, str]:
        """The compilers of each language, by the GNU names of platforms: ``aarch64-linux-gnu-g++``."""
        return {"C": f"{self._gnu_name}-gcc", "CXX": f"{self._gnu_name}-g++"}

    @property
    def _gnu_name(self) -> str:
        return self.platform.triple.replace("-unknown", "")

    def check(self) -> None:
        """Make sure that there are compilers. :raises MachineError: ``tool-missing``"""
        if missing := [name for name in self.compilers.values() if shutil.which(name) is None]:
            raise MachineError(
                "tool-missing",
                f"there is no cross compiler for {self.platform.title} on this machine",
                why=f"not on the PATH: {', '.join(missing)}",
                remedy=f"install it (Debian: apt install g++-{self._gnu_name.replace('_', '-')})",
            )

    def variables(self, python: Python, folder: Path) -> dict[str, str]:
        """Environment variables of a build for the other platform's ``python``.

        :param folder: an empty one, for files of the build
        :raises MachineError: ``no-python``
        """
        name = f"python{python.cpython.version}"
        headers = self.python / "include" / name
        if not (headers / "Python.h").is_file():
            raise self._missing(python, str(headers / "Python.h"))
        pattern = f"lib/{name}/_sysconfigdata_*.py"
        settings = next((path for path in sorted(self.python.glob(pattern)) if "_d_" not in path.name), None)
        if settings is None:
            raise self._missing(python, str(self.python / pattern))
        copy_regular(settings, folder / settings.name)  # alone: the rest of that folder is the other's library
        toolchain = folder / "toolchain.cmake"
        toolchain.write_text(self.toolchain(headers), encoding="utf-8")
        return {
            "CMAKE_TOOLCHAIN_FILE": str(toolchain),
            "MLIR_RELEASE_TOOLS": str(self.tools.root),
            "PYTHONPATH": str(folder),
            "_PYTHON_SYSCONFIGDATA_NAME": settings.stem,
            "_PYTHON_HOST_PLATFORM": f"linux-{self.platform.arch}",
        }

    def toolchain(self, headers: Path) -> str:
        """CMake's toolchain file. Source: "Cross Compiling for Linux" in cmake-toolchains(7)."""
        lines = ["set(CMAKE_SYSTEM_NAME Linux)", f"set(CMAKE_SYSTEM_PROCESSOR {self.platform.arch})"]
        for language, compiler in self.compilers.items():
            lines.append(f"set(CMAKE_{language}_COMPILER {compiler})")
            # Debian's pyconfig.h includes <aarch64-linux-gnu/python3.11/pyconfig.h>. Last, so that nothing else of that
            # folder is taken before the compiler's own.
            lines.append(f'set(CMAKE_{language}_FLAGS_INIT "-idirafter {headers.parent.as_posix()}")')
        # scikit-build-core has set them to the interpreter's own.
        for name in ("Python", "Python3"):
            lines.append(f'set({name}_INCLUDE_DIR "{headers.as_posix()}" CACHE PATH "" FORCE)')
        return "\n".join([*lines, ""])

    def _missing(self, python: Python, what: str) -> MachineError:
        return MachineError(
            "no-python",
            f"there is no CPython {python.short_version} for {self.platform.title}",
            where=str(self.python),
            why=f"there is no {what}",
            remedy="give the prefix of one with its headers (Debian: the folder usr of the unpacked packages "
            "libpython3.N-dev and libpython3.N-stdlib of that architecture), or choose another CPython with --python",
        )
