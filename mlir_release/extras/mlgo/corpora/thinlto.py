"""Take modules out of a local ThinLTO link, which optimizes each with its imports from the others.

lld writes them (``-Wl,--save-temps=import``) with their part of the index (``-Wl,--thinlto-emit-index-files``) beside
the objects. They have no compile command: the link line says how all of them are optimized. Upstream's
``corpus_description.json`` calls that ``global_command_override``, and its guide derives it by hand.
"""

from __future__ import annotations

import os
import re
import shlex
from glob import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.extras.mlgo.corpora.response_files import expand
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import BUILD_LIMIT, MalformedError, from_json
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.process import capture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.toolchain import Toolchain

#: Options that clang, as the linker's driver, hands to lld's code generator. All other options of code generation are
#: in the bitcode already, as attributes of its functions. Profiles were used before, when the objects were compiled.
#: Source: addLTOOptions in clang/lib/Driver/ToolChains/CommonArgs.cpp.
_CODEGEN = re.compile(
    r"-O[0-3]?|-m(?!llvm).+|--target=.+|-fveclib=.+"
    r"|-f(?:no-)?(?:emulated-tls|enable-matrix|global-isel|split-machine-functions)"
)

#: The driver gives lld a number for each level.
_LEVELS = {"-Os": "-O2", "-Oz": "-O2", "-Og": "-O1", "-O4": "-O3", "-Ofast": "-O3"}

#: lld does as for these, unless the line says otherwise. Source: createConfig in lld/ELF/LTO.cpp.
_DEFAULTS = ["-O2", "-ffunction-sections", "-fdata-sections"]

#: The output decides whether lld's code is position-independent, and not -fPIC. Source: as before.
_OUTPUTS = {"-shared": "-fPIC", "-pie": "-fPIC", "-static-pie": "-fPIC", "-no-pie": "-fno-pic", "-static": "-fno-pic"}

#: lld's own ways to say the optimization level, and an option of LLVM's.
_LTO_LEVEL = re.compile(r"--?(?:lto-O|plugin-opt=O)([0-3])")
_LTO_OPTION = re.compile(r"--?(?:plugin-opt=(?=-)|mllvm=)(.+)")

#: Ends the name of the file in which lld saves a module with its imports. Source: lld's --save-temps=import.
_IMPORTED = ".3.import.bc"

#: Bitcode begins so, plain or wrapped. Source: llvm.org/docs/BitCodeFormat.html.
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


class _Edge(Struct, frozen=True):
    """An entry of ``ninja -t compdb``."""

    command: str = ""
    output: str = ""


# -- the link line ----------------------------------------------------------------------------------------------------


def link_line(build: Path, target: str) -> list[str]:
    """The command that links a Ninja target, with the words of its response files.

    :raises UsageError: ``input-invalid``
    """
    done = capture(["ninja", "-C", build, "-t", "commands", target])
    lines = [line for line in done.stdout.splitlines() if " -o " in line] if done.ok else []
    words = expand(_with_deleted(build, _split(lines[-1])), build) if lines else []
    if not any(word.startswith("-flto=thin") for word in words):
        raise UsageError(
            "input-invalid",
            f"{target} is no target of Ninja's that clang links with -flto=thin",
            where=str(build),
            why=done.complaint if not done.ok else "its link line has no such option",
            remedy="name a program or shared library of a build tree that is configured with -flto=thin for linking",
        )
    if of_linker := next((word for word in words if re.match("-Wl,(?:.*,)?@", word)), None):
        raise UsageError(
            "input-invalid",
            f"the link line of {target} has a response file of the linker's own: {of_linker}",
            where=str(build),
            remedy="give it to clang, without -Wl",
        )
    return words


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a shell would refuse it, too
        return line.split()


def _with_deleted(build: Path, words: list[str]) -> list[str]:
    """A link line, with the words of the response file that Ninja has deleted after the link.

    Ninja fills it in itself, if its name follows directly on ``@`` (CMake's ``@x.rsp``, but not GN's ``@"./x.rsp"``).
    Otherwise the link's inputs in Ninja's graph take its place: GN puts those into it, and libraries of the system.
    """
    missing = {word for word in words if word.startswith("@") and not os.path.lexists(build / word[1:])}
    output = _output(words)
    if len(missing) != 1 or not output:
        return words
    # The rule that makes the output, and its inputs, but for those that only come first in order.
    lines = capture(["ninja", "-C", build, "-t", "query", output]).stdout.splitlines()
    rule = next((line.removeprefix("  input: ") for line in lines if line.startswith("  input: ")), "")
    before = lines[: lines.index("  outputs:")] if "  outputs:" in lines else []
    inputs = [match[1] for line in before if (match := re.fullmatch(r"    (?:\| )?([^| ].*)", line))]
    done = capture(["ninja", "-C", build, "-t", "compdb", "-x", rule], encoding="utf-8")
    try:
        edges = from_json(done.stdout, tuple[_Edge, ...], limit=BUILD_LIMIT) if rule and done.ok else ()
    except MalformedError:  # older Ninjas escape too little
        edges = ()
    filled = next((_split(edge.command) for edge in edges if edge.output == os.path.normpath(output)), [])
    if filled and not missing & set(filled):
        return filled
    named = {os.path.normpath(word) for word in words}
    if set(inputs) <= named:  # they are in the line, so the missing file has other words
        return words
    return [part for word in words for part in (inputs if word in missing else [word])]


def _output(line: Sequence[str]) -> str:
    return next((value for word, value in pairwise(line) if word == "-o"), "")


def inputs_of(line: Sequence[str], suffix: str) -> list[str]:
    """The files in a link line, each once, that end so: objects (``.o``), or archives (``.a``)."""
    output = _output(line)
    named = (word for word in line if word.endswith(suffix) and not word.startswith("-") and word != output)
    return list(dict.fromkeys(map(os.path.normpath, named)))


def codegen_options(line: Sequence[str]) -> list[str]:
    """clang's options that optimize a module and generate its code as lld does for a link line.

    Sysroots, runtimes and libraries of C++ and sanitizers (``--sysroot``, ``-nostdlib++``, ``-fsanitize=``,
    ``-fwhole-program-vtables``) count for front end and link, and a module's part of the index has what the link found.
    """
    found, words = [*_DEFAULTS], iter(line)
    linker: list[str] = []
    for word in words:
        if word in ("-mllvm", "-target"):
            found += [word, next(words, "")]
        elif word.startswith("-mllvm="):
            found += ["-mllvm", word.partition("=")[2]]
        elif word == "-Xlinker":
            linker.append(next(words, ""))
        elif word.startswith("-Wl,"):
            linker += word.split(",")[1:]
        elif word in _LEVELS or _CODEGEN.fullmatch(word):
            found.append(_LEVELS.get(word, word))
    # Of several options about the output the last counts, but a shared library stays one.
    outputs = [word for word in (*line, *linker) if word in _OUTPUTS]
    found += [_OUTPUTS["-shared" if "-shared" in outputs else outputs[-1]]] if outputs else []
    rest = iter(linker)  # lld's own options; clang gives lld its options before them
    for word in rest:
        if level := _LTO_LEVEL.fullmatch(word):
            found.append(f"-O{level[1]}")
        elif option := _LTO_OPTION.fullmatch(word):
            found += ["-mllvm", option[1]]
        elif word in ("-mllvm", "--mllvm"):
            found += ["-mllvm", next(rest, "")]
    return found


# -- the modules ------------------------------------------------------------------------------------------------------


def linked_modules(build: Path, target: str, line: Sequence[str]) -> list[str]:
    """The modules of a link, by lld's names of their files in the build folder: objects, and members of archives.

    Objects without bitcode are none, for example those of assembly.

    :raises UsageError: ``input-invalid``
    """
    folder = build.absolute()
    objects, missing = [], []
    for name in inputs_of(line, ".o"):
        path = folder / name
        # The module may be from an earlier link than the part of the index: lld took the object from its cache since.
        if path.is_file() and all(file.is_file() and _written(path) <= _written(file) for file in _saved(path)):
            objects.append(name)
            continue
        try:
            with open_regular(path) as file:
                has_bitcode = file.read(4) in _BITCODE
        except OSError:  # it is missing, or can't be read
            has_bitcode = True
        if has_bitcode:
            missing.append(name)
    members, doubtful = _members(folder, inputs_of(line, ".a"))
    if doubtful:
        why = "the last link did not take them, or took them from lld's cache"
        console.warn(f"{len(doubtful)} members of archives are left out, because {why}: {doubtful[0]} …")
    named = {name: os.path.relpath(folder / name, folder) for name in [*objects, *members]}
    outside = [name for name, path in named.items() if path.startswith("..")]
    if outside:
        console.warn(f"{len(outside)} modules of {target} are outside the build folder, and left out: {outside[0]} …")
    if missing and not any("--start-lib" in word for word in line):  # whose objects are linked only if they are needed
        raise UsageError(
            "input-invalid",
            f"{len(missing)} of {len(missing) + len(objects)} objects of {target} have no module with what it imported",
            where=str(folder / missing[0]),
            why="lld writes none without --save-temps=import and --thinlto-emit-index-files, nor for an object that it "
            "takes from its cache; and an older one than the object is of another",
            remedy="link it with -Wl,--save-temps=import -Wl,--thinlto-emit-index-files, and without "
            "--thinlto-cache-dir or with an empty one; build it again",
        )
    if len(named) == len(outside):
        raise UsageError(
            "input-invalid",
            f"{target} is linked from no module in the build folder",
            where=str(build),
            why="no object in its link line has bitcode, and no archive there has a member with an imported module",
            remedy="compile with -flto=thin, give archives by their paths, and link with -Wl,--save-temps=import "
            "-Wl,--thinlto-emit-index-files",
        )
    linked = folder / _output(line)
    if linked.is_file() and any(_written(_saved(folder / name)[1]) > _written(linked) for name in named):
        console.warn(f"another link has changed modules of {target} since: delete {linked}, and link it again")
    return [path for name, path in named.items() if name not in outside]


def _members(build: Path, archives: Sequence[str]) -> tuple[list[str], list[str]]:
    """The members of archives that the last link took: ``libX.a(member.o at OFFSET)``; and those of earlier links.

    A link writes each member's part of the index, empty for a member that it doesn't take, and then the modules that it
    takes. So an older module is from an earlier link, and an older part of the index from a member that the archive no
    longer has there.
    Source: BitcodeFile in lld/ELF/InputFiles.cpp, thinLTOCreateEmptyIndexFiles in lld/ELF/LTO.cpp.
    """
    taken: list[str] = []
    earlier: list[str] = []
    for archive in archives:
        path = build / archive
        for module in sorted(path.parent.glob(f"{escape(path.name)}(*){_IMPORTED}")):
            member = module.with_name(module.name.removesuffix(_IMPORTED))
            _, index = _saved(member)
            if index.is_file() and _written(path) <= _written(index):
                (taken if _written(index) <= _written(module) else earlier).append(
                    archive + member.name.removeprefix(path.name)
                )
    return taken, earlier


def _saved(path: Path) -> tuple[Path, Path]:
    """What lld writes beside a file that it names so: the module with its imports, and its part of the index."""
    return path.with_name(f"{path.name}{_IMPORTED}"), path.with_name(f"{path.name}.thinlto.bc")


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


def write_commands(line: Sequence[str], build: Path, names: Sequence[str], raw: Path, toolchain: Toolchain) -> None:
    """Write each module's command of ``clang -cc1`` beside it, as a compiled object would hold it.

    :param line: of the link, which runs in the build folder
    :param raw: where upstream's extract_ir put the modules and their parts of the index
    :raises UsageError: ``input-invalid``
    """
    options = codegen_options(line)
    if any(option.startswith("@") for option in options):  # clang would take options from there, unseen here
        raise _strange(options, build, "one of them is a response file in the place of a value")
    done = capture([toolchain.program("clang"), "-###", "-c", *options, "-x", "ir", "/dev/null"], cwd=build)
    lines = [shlex.split(line) for line in done.stderr.splitlines() if ' "-cc1" ' in line]
    if not done.ok or not lines:
        raise _strange(options, build, done.complaint)
    command = lines[-1][1:-1]  # without the program, and its input
    for name in names:
        (raw / f"{name}.cmd").write_text("\0".join(command) + "\0", encoding="utf-8")


def index_options(raw: Path, name: str) -> list[str]:
    """The options of ``clang -cc1`` for a module's part of the index. What it imports is already in the module."""
    return ["-mllvm", "-thinlto-assume-merged", f"-fthinlto-index={raw / name}.thinlto.bc"]


def _strange(options: Sequence[str], build: Path, why: str) -> UsageError:
    return UsageError(
        "input-invalid",
        f"clang does not understand what the modules are linked with: {shlex.join(options)}",
        where=str(build),
        why=why,
        remedy="link with options of the clang that --llvm has",
    )
