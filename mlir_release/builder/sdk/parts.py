"""The two parts of an SDK: one for builds, and one that tests need beyond it.

``build`` has headers, archives, CMake packages, the programs that builds run with their libraries, and sources: wheels
and downstream projects are built with it alone. ``tools`` has what tests run and read beyond that; a project's recipe
says what belongs where. Each part has a list of its files in ``parts/``; a part is there where its list is. Both parts
unpacked into one folder are the whole SDK.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.sdk.programs import is_elf, needed_libraries
from mlir_release.ground.documents.digests import sha256_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.builder.sdk.port import Recipe

#: The file that describes an SDK.
DESCRIPTION = "sdk.json"

#: Folder of the lists, in an SDK.
LISTS = "parts"

BUILD, TOOLS = "build", "tools"

#: LLD, by all its names.
LINKERS = frozenset({"ld.lld", "ld64.lld", "lld", "lld-link", "wasm-ld"})


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a part in ``sdk.json``."""

    file_count: int
    size: int  #: bytes of all files
    digest: str  #: SHA-256 of the part's list


def list_files(root: Path) -> dict[str, tuple[str, int]]:
    """Every file of an SDK but the description and the lists: path -> line of a part's list, and bytes.

    A line is the file's kind and mode, SHA-256 of its content (or the target of a symbolic link), and its path.
    """
    paths = sorted(
        (Path(folder, name) for folder, _, names in os.walk(root) for name in names),
        key=lambda path: path.relative_to(root).as_posix(),
    )
    paths = [path for path in paths if path != root / DESCRIPTION and path.parent != root / LISTS]

    def line(path: Path) -> tuple[str, int]:
        relative = path.relative_to(root).as_posix()
        if path.is_symlink():
            return f"link {path.readlink().as_posix()} {relative}\n", 0
        status = path.stat()
        mode = "exec" if status.st_mode & 0o100 else "file"
        return f"{mode} {sha256_of(path)} {relative}\n", status.st_size

    # hashlib lets go of the interpreter lock, so threads really help.
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        lines = pool.map(line, paths, chunksize=64)
        return {path.relative_to(root).as_posix(): found for path, found in zip(paths, lines, strict=True)}


def write_parts(root: Path, recipe: Recipe) -> dict[str, Part]:
    """Divide a complete tree: write the list of each part, and return what the description says of them."""
    files = list_files(root)
    shared = _libraries_of_builds(root, recipe)
    found: dict[str, list[str]] = {BUILD: [], TOOLS: []}
    for name in files:
        path = PurePosixPath(name)
        library = path.parent == PurePosixPath("lib") and (".so" in path.name or path.suffix == ".dylib")
        if path.parts[0] == "bin" or library:
            for_builds = path.name in shared or _is_for_builds(path.name, recipe)
        else:
            for_builds = not any(path.is_relative_to(f"source/{folder}") for folder in recipe.for_tests)
        found[BUILD if for_builds else TOOLS].append(name)
    (root / LISTS).mkdir()
    parts = {}
    for name, paths in found.items():
        text = "".join(files[path][0] for path in paths)
        list_of(root, name).write_text(text, encoding="utf-8", newline="\n")
        size = sum(files[path][1] for path in paths)
        parts[name] = Part(file_count=len(paths), size=size, digest=f"sha256:{sha256_of(text)}")
    return parts


def list_of(root: Path, part: str) -> Path:
    """The file that lists a part."""
    return root / LISTS / f"{part}.txt"


def total(parts: Mapping[str, Part]) -> Part:
    """All parts as one."""
    text = "".join(f"{name} {parts[name].digest}\n" for name in sorted(parts))
    return Part(
        file_count=sum(part.file_count for part in parts.values()),
        size=sum(part.size for part in parts.values()),
        digest=f"sha256:{sha256_of(text)}",
    )


def _is_for_builds(name: str, recipe: Recipe) -> bool:
    return any(fnmatchcase(name.removesuffix(".exe"), pattern) for pattern in recipe.for_builds)


def _libraries_of_builds(root: Path, recipe: Recipe) -> frozenset[str]:
    """The shared libraries that the programs and libraries of builds need, directly or not. If these are not
    ELF: all but those that the recipe calls ``loaded``."""
    files = [path for path in (*root.glob("bin/*"), *root.glob("lib/*.so*")) if _is_for_builds(path.name, recipe)]
    binaries = [path for path in files if is_elf(path)]
    if not binaries:
        names = {path.name for path in (*root.glob("lib/*.dylib"), *root.glob("bin/*.dll"))}
        return frozenset(name for name in names if not (recipe.loaded and recipe.loaded.fullmatch(name)))
    found = needed_libraries(binaries, root / "lib")
    return frozenset({*found, *(path.resolve().name for path in found.values())})
