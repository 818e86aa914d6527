"""Facts about Mach-O and PE files: their needs of the machine that loads them. LIEF reads both.

ELF files, which auditwheel and glibc's versions ask much more of, are read by :mod:`mlir_release.builder.sdk.elf`.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from mlir_release.ground.python.platforms import PlatformTag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: How Mach-O files begin, thin and universal (``mach-o/loader.h``, ``mach-o/fat.h``), and what a PE file begins with.
_MACH_O_MAGICS = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_PE_MAGIC = b"MZ"
_PE_SUFFIXES = (".dll", ".pyd", ".exe")

#: Libraries of every macOS. Apple's own names: a library of Homebrew's or MacPorts' has another folder.
_MACOS_SYSTEM = re.compile(r"/usr/lib/.+|/System/Library/.+")
#: Libraries of every supported Windows, and of CPython: its own and the C runtime's, but no ``msvcp140.dll``.
#: Source: Microsoft's "Windows API sets", and the DLLs that LLVM's and CPython's CMake and project files name.
_WINDOWS_SYSTEM = re.compile(
    r"(?:api-ms-win-.+|ext-ms-.+|python3\d*t?|vcruntime140(?:_1)?|ucrtbase|msvcrt|ntdll|kernel32|kernelbase|user32|"
    r"gdi32|advapi32|shell32|shlwapi|ole32|oleaut32|rpcrt4|ws2_32|wsock32|psapi|dbghelp|version|bcrypt|"
    r"bcryptprimitives|crypt32|secur32|userenv|setupapi|cfgmgr32|iphlpapi|winmm|synchronization|imagehlp)\.dll",
    re.IGNORECASE,
)

#: Folders that delocate and delvewheel copy libraries into, and what may be there: Microsoft's C++ runtime.
_VENDORED = re.compile(r"(?:^|/)(?:[^/]+\.dylibs|\.dylibs|[^/]+\.libs|\.libs)/(?P<name>[^/]+)$")
_VENDORED_RUNTIME = re.compile(r"msvcp140.*\.dll|\.load-order-.*", re.IGNORECASE)

#: LIEF's names of processors -> those of wheel tags.
_ARCHITECTURES = {"ARM64": "arm64", "X86_64": "x86_64", "AMD64": "amd64", "I386": "win32"}
_UNIVERSAL = {"universal2": {"arm64", "x86_64"}}


@dataclass(frozen=True, kw_only=True)
class BinaryFacts:
    """One Mach-O or PE file; of a universal one, all of its halves together."""

    format: str  #: ``Mach-O`` or ``PE``
    architectures: tuple[str, ...]  #: as wheel tags spell them
    needed: tuple[str, ...]  #: as in the file: ``@loader_path/libMLIRPythonCAPI.dylib``, ``KERNEL32.dll``
    install_name: str = ""  #: of a Mach-O library
    runpath: tuple[str, ...] = ()  #: ``LC_RPATH``
    oldest_macos: tuple[int, int] | None = None  #: that the file says it is for


def is_binary(name: str, begin: bytes) -> bool:
    """Whether a file is Mach-O or PE, by its first bytes.

    :param name: by which a PE file must end in ``.dll``, ``.pyd`` or ``.exe``: two letters tell little
    """
    return begin.startswith(_MACH_O_MAGICS) or (begin.startswith(_PE_MAGIC) and name.lower().endswith(_PE_SUFFIXES))


def read_binary(name: str, data: bytes) -> BinaryFacts | None:
    """The facts of a file; None if it is neither Mach-O nor PE (:func:`is_binary`).

    :raises ValueError: it begins as such a file, but is damaged
    """
    if not is_binary(name, data):
        return None
    import lief

    lief.logging.disable()  # it writes to standard error by itself; what it returns says enough
    if data.startswith(_PE_MAGIC):
        binary = lief.PE.parse(io.BytesIO(data))
        if binary is None:
            raise ValueError("not a sound PE file")
        # A library that is loaded only when it is called is needed, too.
        imports = [*binary.imports, *binary.delay_imports]
        return BinaryFacts(
            format="PE",
            architectures=(_architecture(binary.header.machine),),
            needed=_unique(str(entry.name) for entry in imports),
        )
    fat = lief.MachO.parse(io.BytesIO(data), config=lief.MachO.ParserConfig.quick)
    halves = list(fat) if fat is not None else []
    if not halves or any(len(half.commands) != half.header.nb_cmds for half in halves):
        raise ValueError("not a sound Mach-O file")
    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    commands = [command for half in halves for command in half.libraries]
    return BinaryFacts(
        format="Mach-O",
        architectures=tuple(sorted(_architecture(half.header.cpu_type) for half in halves)),
        needed=_unique(str(command.name) for command in commands if command.command != own),
        install_name=next((str(command.name) for command in commands if command.command == own), ""),
        runpath=_unique(str(path.path) for half in halves for path in half.rpaths),
        oldest_macos=min(filter(None, map(_oldest_macos, halves)), default=None),
    )


def _oldest_macos(half: Any) -> tuple[int, int] | None:
    """The oldest macOS of one half. macOS before 11 had no Apple processors: only the half for Intel can name it."""
    if half.has_build_version:
        version = half.build_version.minos
    elif half.has_version_min:
        version = half.version_min.version
    else:
        return None
    return (int(version[0]), int(version[1]))


def _architecture(name: object) -> str:
    text = str(name).rpartition(".")[2]
    return _ARCHITECTURES.get(text, text.lower())


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def needed_libraries(binaries: Mapping[str, BinaryFacts]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The libraries that a wheel's binaries need: the system's, and those that neither the system nor the wheel has.

    :param binaries: member name -> facts
    """
    inside = {PurePosixPath(name).name.lower() for name in binaries}
    inside |= {PurePosixPath(facts.install_name).name.lower() for facts in binaries.values() if facts.install_name}
    system, external = set(), set()
    for facts in binaries.values():
        pattern = _MACOS_SYSTEM if facts.format == "Mach-O" else _WINDOWS_SYSTEM
        for library in facts.needed:
            if pattern.fullmatch(library):
                system.add(library)
            # With a folder, it is looked for at one place of the building machine, not beside the file that needs it.
            elif library.startswith("/") or PurePosixPath(library).name.lower() not in inside:
                external.add(library)
    return tuple(sorted(system)), tuple(sorted(external))


def qualified_tag(claimed: PlatformTag, binaries: Mapping[str, BinaryFacts]) -> PlatformTag:
    """The platform tag that the binaries qualify for, as far as they can be told apart from the claimed one."""
    oldest = max((facts.oldest_macos for facts in binaries.values() if facts.oldest_macos), default=None)
    if claimed.macos is None or oldest is None or oldest <= claimed.macos:
        return claimed
    return replace(claimed, version=oldest)


def wrong_architectures(platforms: Sequence[str], binaries: Mapping[str, BinaryFacts]) -> dict[str, str]:
    """Members that a processor which the tags promise can't load, with the tag."""
    wrong = {}
    for platform in platforms:
        arch = PlatformTag.parse(platform).arch
        promised = _UNIVERSAL.get(arch, {arch.removeprefix("win_")})
        for name, facts in binaries.items():
            if not promised <= set(facts.architectures):
                wrong[name] = platform
    return wrong


def vendored(members: Iterable[str]) -> list[str]:
    """Libraries that a repair step copied into the wheel from the machine, but for Microsoft's C++ runtime."""
    matches = ((name, _VENDORED.search(name)) for name in members)
    return [name for name, match in matches if match and not _VENDORED_RUNTIME.fullmatch(match["name"])]
