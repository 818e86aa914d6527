"""Made-up Mach-O and PE files: as much of the formats as says what a file needs.

Sources: Apple's ``mach-o/loader.h`` and ``mach-o/fat.h``; Microsoft's "PE Format".
"""

from __future__ import annotations

import struct

#: ``mach/machine.h``.
CPU_TYPES = {"x86_64": 0x01000007, "arm64": 0x0100000C}
#: ``winnt.h``.
MACHINES = {"amd64": 0x8664, "arm64": 0xAA64}

_LC_LOAD_DYLIB, _LC_ID_DYLIB, _LC_RPATH, _LC_BUILD_VERSION = 0xC, 0xD, 0x8000001C, 0x32


def mach_o(
    *needed: str, arch: str = "arm64", name: str = "", runpath: tuple[str, ...] = (), macos: tuple[int, int] = (13, 0)
) -> bytes:
    """A library (with ``name``) or a bundle, which asks for ``needed`` and is for ``macos`` and newer."""
    commands = [_dylib(_LC_ID_DYLIB, name)] if name else []
    commands += [_dylib(_LC_LOAD_DYLIB, library) for library in needed]
    commands += [_command(_LC_RPATH, struct.pack("<I", 12), path) for path in runpath]
    version = macos[0] << 16 | macos[1] << 8
    commands.append(struct.pack("<IIIIII", _LC_BUILD_VERSION, 24, 1, version, version, 0))
    body = b"".join(commands)
    header = struct.pack("<IIIIIIII", 0xFEEDFACF, CPU_TYPES[arch], 0, 6 if name else 8, len(commands), len(body), 0, 0)
    return header + body


def _dylib(command: int, name: str) -> bytes:
    return _command(command, struct.pack("<IIII", 24, 0, 0x10000, 0x10000), name)


def _command(command: int, fields: bytes, text: str) -> bytes:
    content = fields + text.encode() + b"\0"
    size = (8 + len(content) + 7) // 8 * 8
    return struct.pack("<II", command, size) + content.ljust(size - 8, b"\0")


def universal(*halves: bytes) -> bytes:
    """One file of several architectures."""
    page = 0x1000
    header = struct.pack(">II", 0xCAFEBABE, len(halves))
    offset, rows, body = page, b"", b""
    for half in halves:
        (cpu,) = struct.unpack_from("<I", half, 4)
        rows += struct.pack(">IIIII", cpu, 0, offset, len(half), 12)
        body += half.ljust(page, b"\0")
        offset += page
    return (header + rows).ljust(page, b"\0") + body


def pe(*needed: str, arch: str = "amd64") -> bytes:
    """A DLL that takes one function from each of ``needed``."""
    base, start = 0x1000, 0x200  # of the one section: in memory, in the file
    descriptors = 20 * (len(needed) + 1)
    rows, rest = b"", b""
    for library in needed:
        where = base + descriptors + len(rest)
        # Two lists of one function (names, addresses), the function's name, the library's name.
        lists = struct.pack("<QQ", where + 32, 0) * 2
        rest += lists + b"\0\0function\0".ljust(16, b"\0") + library.encode().ljust(64, b"\0")
        rows += struct.pack("<IIIII", where, 0, 0, where + 48, where + 16)
    section = (rows.ljust(descriptors, b"\0") + rest).ljust(0x1000, b"\0")
    dos = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    coff = struct.pack("<HHIIIHH", MACHINES[arch], 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, len(section), 0, 0, base)
    optional += struct.pack("<QIIHHHHHHIIIIHH", 0x180000000, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x3000, start, 0, 2, 0)
    optional += struct.pack("<QQQQII", 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    directories = [(0, 0), (base, descriptors), *[(0, 0)] * 14]
    optional += b"".join(struct.pack("<II", *row) for row in directories)
    table = struct.pack("<8sIIIIIIHHI", b".rdata", len(section), base, len(section), start, 0, 0, 0, 0, 0x40000040)
    return (dos + b"PE\0\0" + coff + optional + table).ljust(start, b"\0") + section
