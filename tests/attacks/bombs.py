"""Files of a few megabytes that unpack to gigabytes, made in no time, and the memory that a command takes for them."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: One that every bomb here exceeds: what the issue allows.
ALLOWED = 300 << 20

_PIECE = 16 << 20

#: Runs the command line and writes the largest amount of memory that it had (``VmHWM``, bytes) into a file.
_MEASURED = """
import atexit, pathlib, re, sys
place = pathlib.Path(sys.argv.pop(1))
def note():
    kilobytes = re.search(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]
    place.write_text(str(1024 * int(kilobytes)))
atexit.register(note)
from mlir_release.cli.app import main
main()
"""


def run_measured(*arguments: str | Path, folder: Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run ``mlir-release`` in a process of its own; what came of it, and the bytes of memory that it took. Linux."""
    place = folder / "peak"
    command = [sys.executable, "-c", _MEASURED, place, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done, int(place.read_text())


def deflated(size: int) -> bytes:
    """A deflate stream of ``size`` zeros (a multiple of 16 MiB): one compressed piece, many times."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = compressor.compress(bytes(_PIECE)) + compressor.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    return piece * (size // _PIECE) + end


def gzip_bomb(begin: bytes, size: int) -> bytes:
    """What gzip unpacks to ``begin`` and ``size`` zeros."""
    return gzip.compress(begin) + gzip.compress(bytes(_PIECE)) * (size // _PIECE)


def add_bomb(archive: Path, name: str, size: int, *, declared: int | None = None) -> None:
    """Put a member of ``size`` zeros at the begin of a zip archive.

    :param declared: the size that the archive says; None: the true one
    """
    content, stream, encoded = archive.read_bytes(), deflated(size), name.encode()
    # version, flags, method, time, date, CRC, sizes, length of the name and of nothing more (APPNOTE.TXT, 4.3.7)
    entry = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, 0, len(stream), declared or size, len(encoded), 0)
    first = b"PK\x03\x04" + entry + encoded + stream
    end = content.rindex(b"PK\x05\x06")
    count, length, offset = struct.unpack("<HII", content[end + 10 : end + 20])
    directory, at = content[offset : offset + length], 0
    moved = b""
    while at < len(directory):  # each entry of the directory says where its member is (4.3.12)
        lengths = struct.unpack("<HHH", directory[at + 28 : at + 34])
        size_of_entry = 46 + sum(lengths)
        place = struct.unpack("<I", directory[at + 42 : at + 46])[0] + len(first)
        moved += directory[at : at + 42] + struct.pack("<I", place) + directory[at + 46 : at + size_of_entry]
        at += size_of_entry
    bomb = b"PK\x01\x02" + struct.pack("<H", 20) + entry + struct.pack("<HHHII", 0, 0, 0, 0, 0) + encoded
    tail = struct.pack("<HHHHIIH", 0, 0, count + 1, count + 1, len(moved) + len(bomb), offset + len(first), 0)
    archive.write_bytes(first + content[:offset] + bomb + moved + b"PK\x05\x06" + tail)
