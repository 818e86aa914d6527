"""A sound file becomes a malformed one. All choices come from one generator of random numbers."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tarfile
import tomllib
import warnings
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import tomli_w

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

_HOLE = "@hole@"
DEEP = 100_000
DIGITS = 10_000

#: Names and texts that a path, a URL, a log line, a table or a shell would stumble over.
TEXTS = (
    "",
    " ",
    ".",
    "..",
    "../../../../escaped.txt",
    "/escaped.txt",
    "a/b/c",
    "a\\..\\b",
    "C:\\x",
    "CON",
    "aux.whl",
    "-x",
    "--help",
    "~",
    "$HOME",
    "%s%n{0}",
    "{__class__}",
    "x" * 5_000,
    "é\u202e\u2066",
    "\x1b[2J\x07",
    "a\r\n::error::b",
    "##[set-output name=a]b",
    "<script>alert(1)</script>",
    "[a](javascript:alert(1))",
    "https://user:secret@example.org:99999999/",
    "https://[::1",
    "ext::sh -c true",
    "file:///etc/passwd",
    "0" * 64,
    "9" * 40,
    "latest",
    "main",
    "2026-13-40T99:99:99Z",
    "9999-12-31T23:59:59.999999+23:59",
    "snapshot-99999999.99",
    "llvm-99999999999999999999.1.1.01",
    "1" * 400,
    "1!2.post3.dev4+local",
    "*",
    "(",
    "(a+)+$",
    "\ud800",
    "\x00",
    "\ufeff",
)

#: What JSON may hold at any place, as text: some of it is no JSON.
JSON_VALUES = (
    *("null", "true", "false", "0", "-1", "1.5", "1e999", "-1e999", "NaN", "Infinity", "-Infinity", "[]", "{}", "[[]]"),
    *('{"a": 1}', "[null]", "", ",", "}", "'x'", '"\\ud800"', '"\\u0000"', '"\\x"', "99999999999999999999999", "1e5"),
    *("9" * DIGITS, "-" + "9" * DIGITS, "0." + "9" * DIGITS),
    *("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP, '"' + "x" * 1_000_000 + '"'),
)

#: The same for TOML.
TOML_VALUES = (
    *("true", "0", "-1", "1.5", "inf", "nan", "-inf", "[]", "{}", "[[]]", "{a = 1}", "", "=", "'''", '"\\ud800"'),
    *('"\\u0000"', "1979-05-27T07:32:00Z", "1979-05-27", "07:32:00", "0x" + "f" * DIGITS, "9" * DIGITS, "1e999"),
    *("[" * DEEP + "]" * DEEP, "{a = " * 1_000 + "1" + "}" * 1_000, "a." * DEEP + "b", '"' + "x" * 1_000_000 + '"'),
)


def mutate(content: bytes, name: str, rng: random.Random) -> bytes:
    """A malformed variant of a file; ``name`` says of what kind it is."""
    for suffix, mutator in _BY_SUFFIX.items():
        if name.endswith(suffix) and rng.random() < 0.85:
            with suppress(Exception):  # it is malformed already
                return mutator(content, rng)
    return mutate_bytes(content, rng)


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    """What a disk, a network or a careless editor does to any file."""
    at = rng.randrange(len(content) + 1)
    match rng.randrange(12):
        case 0:
            return b""
        case 1:
            return content[:at]
        case 2:
            return content[at:]
        case 3:  # some bits are flipped
            flipped = bytearray(content)
            for _ in range(rng.choice((1, 1, 4, 64)) if content else 0):
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case 4:
            return content[:at] + b"\x00" * rng.choice((1, 4096)) + content[at:]
        case 5:
            return content[:at] + rng.choice((b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xf5")) + content[at:]
        case 6:
            return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04", b"\n" * 1000)) + content
        case 7:
            return content.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-7")), "replace")
        case 8:
            return content + content
        case 9:
            return rng.randbytes(rng.choice((1, 16, 4096)))
        case 10:
            return content[:at] + rng.choice(TEXTS).encode("utf-8", "surrogatepass") + content[at:]
        case _:
            return content.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\x0b", b"\xe2\x80\xa8", b"")))


# -- documents --------------------------------------------------------------------------------------------------------


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every place of a document, as a container and the key or index in it."""
    found: list[tuple[Any, Any]] = []
    pending = [data]
    while pending:
        container = pending.pop()
        entries = list(container.items() if isinstance(container, dict) else enumerate(container))
        found += [(container, key) for key, _ in entries]
        pending += [value for _, value in entries if isinstance(value, dict | list)]
    return found


def _with_hole(data: Any, rng: random.Random, values: tuple[str, ...]) -> tuple[Any, str]:
    """Change one place of ``data``; the second result is what has to be written for the hole in it."""
    places = _places(data)
    if not places:
        return _HOLE, rng.choice(values)
    container, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[rng.choice(TEXTS)] = container.pop(key)
        case 2 if isinstance(container, dict):
            container[rng.choice((*TEXTS, "schema", "__proto__"))] = _HOLE
        case 3 if isinstance(container, list):
            container.extend([container[key]] * rng.choice((1, 1, 3, 2_000)))
        case 4 | 5:
            container[key] = rng.choice(TEXTS)
        case _:
            container[key] = _HOLE
    return data, rng.choice(values)


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Another type, a huge number, a deep nest, a twice given or a missing key, somewhere in the document."""
    data, value = _with_hole(json.loads(content), rng, JSON_VALUES)
    text = json.dumps(data)
    if rng.random() < 0.1 and isinstance(data, dict) and data:  # one key twice
        key = rng.choice(list(data))
        text = text[:-1] + f", {json.dumps(key)}: {rng.choice(JSON_VALUES)}}}"
    return text.replace(json.dumps(_HOLE), value).encode("utf-8", "surrogatepass")


def mutate_toml(content: bytes, rng: random.Random) -> bytes:
    """The same for TOML."""
    data, value = _with_hole(tomllib.loads(content.decode()), rng, TOML_VALUES)
    text = tomli_w.dumps(data)
    if rng.random() < 0.1:
        lines = text.splitlines()
        text = "\n".join([*lines, rng.choice(lines)])  # a key or a table twice
    return text.replace(f'"{_HOLE}"', value).encode("utf-8", "surrogatepass")


def mutate_lines(content: bytes, rng: random.Random) -> bytes:
    """One document a line."""
    lines = content.splitlines() or [b"{}"]
    at = rng.randrange(len(lines))
    lines[at] = mutate_json(lines[at], rng)
    return b"\n".join(lines)


def mutate_gzip(content: bytes, rng: random.Random) -> bytes:
    """A document in gzip; or a small file that unpacks to a very large one."""
    if rng.random() < 0.1:
        return bomb()
    return gzip.compress(mutate_json(gzip.decompress(content), rng), mtime=0)


_bombs: list[bytes] = []


def bomb() -> bytes:
    """1.5 GB of zeros in gzip: more than a child process may take."""
    if not _bombs:
        block = gzip.compress(bytes(30_000_000), mtime=0)
        _bombs.append(block * 50)
    return _bombs[0]


# -- archives ---------------------------------------------------------------------------------------------------------


def mutate_zip(content: bytes, rng: random.Random) -> bytes:
    """A member is malformed, renamed, given twice, a link, encrypted, or another size than the directory says."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    name, data = members[at]
    kind = rng.randrange(10)
    if kind <= 3:
        members[at] = (name, mutate(data, name, rng))
    elif kind == 4:
        members[at] = (rng.choice(TEXTS).replace("\ud800", "?") or "x", data)
    elif kind == 5:
        members.append((name, mutate_bytes(data, rng)))
    elif kind == 6:
        del members[at]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for index, (each, text) in enumerate(members):
            info = zipfile.ZipInfo(each, (2026, 11, 20, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o120777 if kind == 7 and index == at else 0o100644) << 16
            with warnings.catch_warnings(action="ignore"):  # of a name that is there twice
                archive.writestr(info, b"/etc/passwd" if kind == 7 and index == at else text)
    return _lie(buffer.getvalue(), rng) if kind >= 8 else buffer.getvalue()


def _lie(content: bytes, rng: random.Random) -> bytes:
    """Change a field of an entry of the central directory, or of its end."""
    changed = bytearray(content)
    entries = [at for at in range(len(content) - 46) if content[at : at + 4] == b"PK\x01\x02"]
    end = content.rfind(b"PK\x05\x06")
    # Offsets: APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.16.
    fields = [(at + offset, form) for at in entries for offset, form in (
        (8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (30, "<H"), (38, "<I"), (42, "<I"),
    )]  # fmt: skip
    fields += [(end + offset, form) for offset, form in ((8, "<H"), (10, "<H"), (12, "<I"), (16, "<I"), (20, "<H"))]
    place, form = rng.choice(fields)
    most = 0xFFFF if form == "<H" else 0xFFFFFFFF
    struct.pack_into(form, changed, place, rng.choice((0, 1, 2, 8, 99, most, most - 1, rng.randrange(most))))
    return bytes(changed)


def mutate_tar(content: bytes, rng: random.Random) -> bytes:
    """A member is malformed, renamed, given twice, missing, or a link, a device, a pipe, a folder."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [(info, file.read() if (file := archive.extractfile(info)) else b"") for info in archive]
    at = rng.randrange(min(len(members), 3)) if rng.random() < 0.3 else rng.randrange(len(members))
    info, data = members[at]
    match rng.randrange(7):
        case 0 | 1:
            data = mutate(data, info.name, rng)
            members[at] = (info, data)
        case 2:
            info.name = rng.choice(TEXTS)
        case 3:
            members.append((info, data))
        case 4:
            del members[at]
        case 5:
            info.type = rng.choice((
                tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
                tarfile.GNUTYPE_SPARSE, b"Z",
            ))  # fmt: skip
            info.linkname, data = rng.choice(TEXTS), b""
            members[at] = (info, data)
        case _:
            info.pax_headers = {rng.choice(("path", "size", "linkpath", "mtime", "GNU.sparse.map")): rng.choice(TEXTS)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, errors="surrogatepass") as archive:
        for each, text in members:
            each.size = len(text)
            archive.addfile(each, io.BytesIO(text))
    return buffer.getvalue()


def _tar_gz(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(mutate_tar(gzip.decompress(content), rng), mtime=0)


def _tar_zst(content: bytes, rng: random.Random) -> bytes:
    import zstandard

    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content)).read()
    return zstandard.ZstdCompressor(level=1).compress(mutate_tar(plain, rng))


_BY_SUFFIX: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json.gz": mutate_gzip,
    ".json": mutate_json,
    ".jsonl": mutate_lines,
    ".toml": mutate_toml,
    ".whl": mutate_zip,
    ".zip": mutate_zip,
    ".npz": mutate_zip,
    ".tar.gz": _tar_gz,
    ".tar.zst": _tar_zst,
}


# -- what is no file ---------------------------------------------------------------------------------------------------


def displace(path: Path, rng: random.Random) -> str:
    """Put something else in the place of a file, which exists; returns what."""
    kinds = ["nothing", "folder", "loop", "dangling", "device", "long name"]
    # Git itself waits for a pipe in the place of one of its files.
    kind = rng.choice(kinds if any(".git" in part for part in path.parts) else [*kinds, "pipe"])
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere/at/all")
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "long name":
        path.symlink_to("x" * 300)
    return kind
