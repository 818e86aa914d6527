"""Take modules out of a local ThinLTO link, which optimizes each with its imports from the others.

lld writes them (``-Wl,--save-temps=import``) with their part of the index (``-Wl,--thinlto-emit-index-files``) beside
the objects. They have no compile command: the link line says how all of them are optimized. Upstream's
``corpus_description.json`` calls that ``global_command_override``.
"""

from __future__ import annotations

import re
import shlex
from glob import escape
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.host.process import capture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.toolchain import Toolchain

#: Options that clang, as the linker's driver, hands to the code generator. Profiles were used before, when the
#: objects were compiled.
_CODEGEN = re.compile(r"-O[0-3sz]|-m(?!llvm).+|-f(?!lto|use-ld|profile|sanitize|thinlto).+|--target=.+")

#: lld's own ways to say the optimization level, and an option of LLVM's.
_LTO_LEVEL = re.compile(r"--(?:lto-O|plugin-opt=O)([0-3])")
_LTO_OPTION = re.compile(r"--?plugin-opt=(-.+)")

#: Ends the name of the file in which lld saves a module with its imports. Source: lld's --save-temps=import.
_IMPORTED = ".3.import.bc"


def link_line(build: Path, target: str) -> list[str]:
    """The command that links a Ninja target. :raises UsageError: ``input-invalid``"""
    done = capture(["ninja", "-C", build, "-t", "commands", target])
    lines = [line for line in done.stdout.splitlines() if " -o " in line] if done.ok else []
    words = shlex.split(lines[-1]) if lines else []
    if not any(word.startswith("-flto=thin") for word in words):
        raise UsageError(
            "input-invalid",
            f"{target} is no target of Ninja's that clang links with -flto=thin",
            where=str(build),
            why=done.complaint if not done.ok else "its link line has no such option",
            remedy="name a program or shared library of a build tree that is configured with -flto=thin for linking",
        )
    return words


def inputs_of(line: Sequence[str], suffix: str) -> list[str]:
    """The files in a link line, each once, that end so: objects (``.o``), or archives (``.a``)."""
    outputs = {value for word, value in zip(line, [*line[1:], ""], strict=True) if word == "-o"}
    named = (word for word in line if word.endswith(suffix) and not word.startswith("-") and word not in outputs)
    return list(dict.fromkeys(named))


def codegen_options(line: Sequence[str]) -> list[str]:
    """clang's options that do the same as a link line's options of optimization and code generation."""
    found, words = [], iter(line)
    for word in words:
        if word in ("-mllvm", "-target"):
            found += [word, next(words, "")]
        elif word.startswith("-Wl,"):
            found += _of_linker(word.split(",")[1:])
        elif _CODEGEN.fullmatch(word):
            found.append(word)
    return found


def _of_linker(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if level := _LTO_LEVEL.fullmatch(word):
            found.append(f"-O{level[1]}")
        elif option := _LTO_OPTION.fullmatch(word):
            found += ["-mllvm", option[1]]
        elif word == "-mllvm":
            found += ["-mllvm", value]
    return found


def linked_modules(build: Path, target: str) -> list[str]:
    """The modules of a link, by lld's names of their files: objects, and members of archives.

    :raises UsageError: ``input-invalid``
    """
    line = link_line(build, target)
    objects = inputs_of(line, ".o")
    members = [member for archive in inputs_of(line, ".a") for member in _members(build, archive)]
    missing = [name for name in objects if not (build / f"{name}{_IMPORTED}").is_file()]
    if missing or not (objects or members):
        raise UsageError(
            "input-invalid",
            f"{len(missing)} of {len(objects)} objects of {target} have no module with what it imported",
            where=str(build / missing[0]) if missing else str(build),
            remedy="link it with -Wl,--save-temps=import -Wl,--thinlto-emit-index-files, by lld, and build it again",
        )
    return [*objects, *members]


def _members(build: Path, archive: str) -> list[str]:
    """The members of an archive that the last link took: ``libX.a(member.o at OFFSET)``.

    A link writes each member's part of the index, empty for a member that it doesn't take, and then the modules that it
    takes. So an older module is from an earlier link, and an older part of the index from a member that the archive no
    longer has there.
    Source: BitcodeFile in lld/ELF/InputFiles.cpp, thinLTOCreateEmptyIndexFiles in lld/ELF/LTO.cpp.
    """
    path = build / archive
    found = []
    for module in sorted(path.parent.glob(f"{escape(path.name)}(*){_IMPORTED}")):
        name = module.name.removesuffix(_IMPORTED)
        index = module.with_name(f"{name}.thinlto.bc")
        if index.is_file() and _written(path) <= _written(index) <= _written(module):
            found.append(archive + name.removeprefix(path.name))
    return found


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


def write_commands(build: Path, target: str, names: Sequence[str], raw: Path, toolchain: Toolchain) -> None:
    """Write each module's command of ``clang -cc1`` beside it, as a compiled object would hold it.

    :param raw: where upstream's extract_ir put the modules and their parts of the index
    :raises UsageError: ``input-invalid``
    """
    options = codegen_options(link_line(build, target))
    done = capture([toolchain.program("clang"), "-###", "-c", *options, "-x", "ir", "/dev/null"], cwd=build)
    lines = [shlex.split(line) for line in done.stderr.splitlines() if ' "-cc1" ' in line]
    if not done.ok or not lines:
        raise UsageError(
            "input-invalid",
            f"clang does not understand what {target} is linked with: {shlex.join(options)}",
            where=str(build),
            why=done.complaint,
            remedy="link it with options of the clang that --llvm has",
        )
    command = lines[-1][1:-1]  # without the program, and its input
    for name in names:
        index = ["-mllvm", "-thinlto-assume-merged", f"-fthinlto-index={raw / name}.thinlto.bc"]
        (raw / f"{name}.cmd").write_text("\0".join([*command, *index]) + "\0", encoding="utf-8")
