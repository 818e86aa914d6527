"""Operating systems, platforms and the platform tags of wheels, all from one table.

A platform has many spellings: ``windows-x86_64`` (an SDK), ``windows-x64`` (a runtime), ``win_amd64`` (a wheel),
``Windows`` with ``AMD64`` (Python's :mod:`platform`), ``win32`` (an environment marker). Each is read once, into a
:class:`Platform`; only these are compared, never the text.
"""

from __future__ import annotations

import platform as python_platform
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class System:
    """An operating system: one row of the table."""

    name: str  #: as in ``targets.toml``: ``linux``, ``macos``, ``windows``; ``musl`` occurs in wheel tags only
    title: str  #: for people
    host: str = ""  #: what :func:`platform.system` returns there
    sys_platform: str = ""  #: environment marker of that name; empty where markers can't tell it from another system
    families: tuple[str, ...]  #: what the platform tags of its wheels begin with, the usual one first
    floor: str  #: how the oldest platform of a wheel is spelled in ``targets.toml``, a regular expression
    example: str  #: of such a floor
    runner: str = ""  #: what the labels of GitHub's runners begin with
    machines: Mapping[str, str] = field(hash=False)
    """Our name of each architecture -> the environment marker ``platform_machine``; in lower case, the wheel tag's."""
    executable_suffix: str = ""
    shared_suffix: str = ".so"  #: of shared libraries
    static_suffix: str = ".a"  #: of static libraries
    library_prefix: str = "lib"
    shared_folder: str = "lib"  #: where CMake installs shared libraries
    system_libraries: frozenset[str] = frozenset()  #: those that every machine has, by the names that CMake links
    triple: str  #: what follows the architecture in LLVM's triples

    @property
    def architectures(self) -> tuple[str, ...]:
        """Every spelling of its architectures that is understood: ours, then others'."""
        others = (spelling for spelling, common in _SPELLINGS.items() if self.architecture(common))
        return tuple(dict.fromkeys((*self.machines, *others)))

    def program(self, name: str) -> str:
        """A program's file name: ``mlir-opt``, ``mlir-opt.exe``."""
        return name + self.executable_suffix

    def static_library(self, name: str) -> str:
        """A static library's file name: ``libMLIRIR.a``, ``MLIRIR.lib``."""
        return f"{self.library_prefix}{name}{self.static_suffix}"

    def architecture(self, spelling: str) -> str | None:
        """Our name of an architecture: ``x86_64`` for ``AMD64``, on Linux ``aarch64`` for ``arm64``; else None."""
        wanted = common_arch(spelling)
        return next((name for name in self.machines if common_arch(name) == wanted), None)


#: Spellings of one architecture -> the one that we compare by.
_SPELLINGS = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


#: Architectures that LLVM's triples spell in another way.
_LLVM_ARCHITECTURES = {"ppc64le": "powerpc64le"}


def common_arch(spelling: str) -> str:
    """One name for all spellings of an architecture, on every system: ``x86_64``, ``aarch64``.

    :param spelling: of a known architecture; any other text is returned in lower case
    """
    lowered = spelling.lower()
    return _SPELLINGS.get(lowered, lowered)


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


#: Part of the C library, or beside it, wherever there is one of Unix.
_POSIX = frozenset({"rt", "dl", "m", "pthread", "util", "atomic", "Threads::Threads"})
#: Part of the Windows SDK: what upstream's CMake files name, and CMake's own ``CMAKE_CXX_STANDARD_LIBRARIES``.
_WINDOWS_SDK = frozenset({
    "advapi32", "bcrypt", "comdlg32", "dbghelp", "delayimp", "gdi32", "imagehlp", "kernel32", "mincore", "ntdll",
    "ole32", "oleaut32", "psapi", "shell32", "synchronization", "user32", "uuid", "version", "winspool", "ws2_32",
})  # fmt: skip

#: Sources: ``platform`` and ``sys`` in CPython's library reference; PEP 425, 508, 600 and 656.
SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System(
            name="linux",
            title="Linux",
            host="Linux",
            sys_platform="linux",
            families=("manylinux", "linux"),
            triple="unknown-linux-gnu",
            system_libraries=_POSIX | {"execinfo"},
            floor=r"(?:many|musl)linux_\d+_\d+",
            example="manylinux_2_28",
            runner="ubuntu",
            machines=_same("x86_64", "aarch64", "ppc64le", "riscv64", "s390x"),
        ),
        System(
            name="musl",
            title="Linux (musl)",
            families=("musllinux",),
            triple="unknown-linux-musl",
            floor=r"musllinux_\d+_\d+",
            example="musllinux_1_2",
            machines=_same("x86_64", "aarch64", "ppc64le", "riscv64", "s390x"),
        ),
        System(
            name="macos",
            title="macOS",
            host="Darwin",
            sys_platform="darwin",
            families=("macosx",),
            triple="apple-darwin",
            system_libraries=_POSIX,
            floor=r"macosx_\d+_\d+",
            example="macosx_13_0",
            runner="macos",
            machines=_same("x86_64", "arm64"),
            shared_suffix=".dylib",
        ),
        System(
            name="windows",
            title="Windows",
            host="Windows",
            sys_platform="win32",
            families=("win",),
            triple="pc-windows-msvc",
            floor="win_amd64|win_arm64",
            example="win_amd64",
            runner="windows",
            machines={"x86_64": "AMD64", "arm64": "ARM64"},
            executable_suffix=".exe",
            shared_suffix=".dll",
            static_suffix=".lib",
            library_prefix="",
            shared_folder="bin",
            system_libraries=_WINDOWS_SDK,
        ),
    )
}

#: Those that the toolkit runs on, and that ``targets.toml`` may name.
HOST_SYSTEMS: Mapping[str, System] = {name: system for name, system in SYSTEMS.items() if system.host}


def _find_system(spelling: str) -> System | None:
    wanted = spelling.lower()
    systems = HOST_SYSTEMS.values()
    return next((s for s in systems if wanted in {s.name, s.host.lower(), s.sys_platform}), None)


@dataclass(frozen=True, order=True)
class Platform:
    """An operating system and an architecture, by our names of both.

    Wheels of others may name platforms that the table does not have; such a one is equal to none of ours.
    """

    os: str  #: ``linux``, ``musl``, ``macos``, ``windows``
    arch: str  #: ``x86_64``, ``aarch64``, ``arm64``, …

    @classmethod
    def of(cls, os: str, arch: str) -> Platform:
        """From an operating system and an architecture in any spelling. :raises ValueError: if one is unknown"""
        system = _find_system(os)
        if system is None:
            raise ValueError(f"unknown operating system {os!r}; known: {', '.join(HOST_SYSTEMS)}")
        known = system.architecture(arch)
        if known is None:
            raise ValueError(f"unknown architecture {arch!r} of {system.title}; known: {', '.join(system.machines)}")
        return cls(system.name, known)

    @classmethod
    def parse(cls, text: str) -> Platform:
        """From ``linux-x86_64``, ``windows-x64``, ``Darwin-arm64``, … :raises ValueError:"""
        os, dash, arch = text.partition("-")
        if not dash:
            raise ValueError(f"not a platform: {text!r}; it is written like linux-x86_64")
        return cls.of(os, arch)

    @classmethod
    def from_triple(cls, triple: str) -> Platform:
        """From LLVM's name (``x86_64-pc-linux-gnu``, ``arm64-apple-darwin24.1.0``). :raises ValueError:"""
        arch, *rest = triple.split("-")
        known = {ours: name for name, ours in _LLVM_ARCHITECTURES.items()}
        for system in HOST_SYSTEMS.values():
            if any(part.startswith(system.triple.split("-")[1]) for part in rest):
                return cls.of(system.name, known.get(arch, arch))
        raise ValueError(f"not the triple of a known platform: {triple!r}")

    @classmethod
    def of_host(cls) -> Platform:
        """The platform that this process runs on. :raises MachineError: ``machine-unsuitable``

        An x86_64 Python that Rosetta runs on an Apple processor is x86_64, and so is what it builds.
        """
        system, machine = python_platform.system(), python_platform.machine()
        try:
            return cls.of(system, machine)
        except ValueError as error:
            raise MachineError(
                "machine-unsuitable",
                f"mlir-release does not support this machine: {system or 'unknown'} on {machine or 'unknown'}",
                why=str(error),
                remedy="use a machine of a supported platform: " + ", ".join(map(str, PLATFORMS)),
            ) from None

    @property
    def system(self) -> System:
        """The row of its operating system. :raises KeyError: for one that the table does not have"""
        return SYSTEMS[self.os]

    @property
    def tag_arch(self) -> str:
        """The architecture as wheel tags spell it: ``x86_64``, ``arm64``; ``amd64`` on Windows."""
        return self.system.machines[self.arch].lower()

    @property
    def triple(self) -> str:
        """LLVM's name: ``x86_64-unknown-linux-gnu``, ``arm64-apple-darwin``."""
        return f"{_LLVM_ARCHITECTURES.get(self.arch, self.arch)}-{self.system.triple}"

    @property
    def markers(self) -> tuple[str, str] | None:
        """``sys_platform`` and ``platform_machine`` (PEP 508); None where markers can't select the platform."""
        system = SYSTEMS.get(self.os)
        if system is None or not system.sys_platform or self.arch not in system.machines:
            return None
        return system.sys_platform, system.machines[self.arch]

    @property
    def title(self) -> str:
        """For people: ``Linux x86_64``."""
        return f"{SYSTEMS[self.os].title if self.os in SYSTEMS else self.os} {self.arch}"

    def __str__(self) -> str:
        return f"{self.os}-{self.arch}"


#: All that the toolkit runs on.
PLATFORMS = tuple(Platform(system.name, arch) for system in HOST_SYSTEMS.values() for arch in system.machines)


def executable_name(name: str) -> str:
    """The file name of a program on this machine: ``ninja``, on Windows ``ninja.exe``."""
    system = _find_system(python_platform.system())
    return name + (system.executable_suffix if system else "")


_TAG = re.compile(
    r"(?P<family>[a-z]+)(?:(?P<legacy>1|2010|2014)|_(?P<major>\d+)_(?P<minor>\d+))?(?:_(?P<arch>[a-z]\w*))?"
)
#: What PEP 600 says that the older tags mean, by the number in their names.
_LEGACY = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
_FAMILIES = {family: system.name for system in SYSTEMS.values() for family in system.families}


@dataclass(frozen=True, order=True)
class PlatformTag:
    """The platform tag of a wheel (PEP 425, 600, 656), or the beginning of one: the floor of a runtime."""

    family: str  #: ``manylinux``, ``musllinux``, ``macosx``, ``win``, ``linux``, ``any``
    version: tuple[int, int] | None  #: oldest glibc, musl or macOS; None if the tag promises none
    arch: str  #: as in the tag: ``x86_64``, ``amd64``, …; empty in ``manylinux_2_28``

    @classmethod
    def parse(cls, text: str) -> PlatformTag:
        """Read any tag: ``manylinux_2_28_x86_64``, ``manylinux2014_aarch64``, ``macosx_13_0``, ``win_amd64``, ``any``.

        What is not understood is the tag's family, and its architecture (``any``, ``win32``): a tag can be anything.
        """
        match = _TAG.fullmatch(text)
        if match is None or (match["legacy"] and match["family"] != "manylinux"):
            return cls(text.rstrip("0123456789"), None, text)
        version = _LEGACY.get(match["legacy"])
        if match["major"]:
            version = int(match["major"]), int(match["minor"])
        return cls(match["family"], version, match["arch"] or ("" if version else text))

    @classmethod
    def of_host(cls) -> PlatformTag:
        """What is built on this machine runs from here on: ``manylinux_2_36_x86_64``, ``macosx_15_0_arm64``, ….

        ``linux_x86_64`` where the C library is not glibc. :raises MachineError: ``machine-unsuitable``
        """
        here = Platform.of_host()
        if here.os == "macos":
            major, minor = (int(part) for part in python_platform.mac_ver()[0].split(".")[:2])
            return cls("macosx", (major, minor if major < 11 else 0), here.tag_arch)  # as pip does
        name, version = python_platform.libc_ver() if here.os == "linux" else ("", "")
        if name == "glibc":
            major, minor = (int(part) for part in version.split(".")[:2])
            return cls("manylinux", (major, minor), here.tag_arch)
        return cls(here.system.families[-1], None, here.tag_arch)

    @property
    def glibc(self) -> tuple[int, int] | None:
        """The oldest glibc that the tag admits."""
        return self.version if self.family == "manylinux" else None

    @property
    def macos(self) -> tuple[int, int] | None:
        """The oldest macOS that the tag admits."""
        return self.version if self.family == "macosx" else None

    @property
    def platform(self) -> Platform:
        """What a wheel with this tag runs on."""
        os = _FAMILIES.get(self.family, self.family)
        known = SYSTEMS[os].architecture(self.arch) if os in SYSTEMS else None
        return Platform(os, known or self.arch)

    @property
    def accepted(self) -> tuple[str, ...]:
        """The platform tags of wheels that install on the oldest machine that this tag admits, the newest first.

        A newer glibc accepts what was made for an older one (PEP 600), also under the older names. So does a newer
        macOS, but pip lists those tags itself.
        """
        if self.glibc is None or not self.arch:
            return (str(self),)
        tags = []
        for minor in range(self.glibc[1], 4, -1):
            tags.append(str(replace(self, version=(2, minor))))
            tags += [f"manylinux{name}_{self.arch}" for name, meaning in _LEGACY.items() if meaning == (2, minor)]
        return (*tags, f"linux_{self.arch}")

    @property
    def floor(self) -> str:
        """The tag as ``targets.toml`` has it: ``manylinux_2_28``, ``macosx_13_0``, but ``win_amd64``."""
        return str(replace(self, arch="") if self.version else self)

    def __str__(self) -> str:
        if self.version is None and self.arch.startswith(self.family):
            return self.arch
        return "_".join([self.family, *map(str, self.version or ()), *([self.arch] if self.arch else [])])
