"""Make a corpus from a build tree whose objects have their bitcode inside (``-Xclang -fembed-bitcode=all``).

Upstream's ``mlgo-utils`` takes bitcode and compile command out of each object. The bitcode comes from clang's front
end. For inlining, it is kept. For eviction, the command is run again on it, up to the code generator: register
allocation meets the result, which does not depend on a policy. From there on llc is enough.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mlir_release.extras.mlgo.compiling import in_parallel
from mlir_release.extras.mlgo.corpora.cc1 import PROFILE, clang_flags, refused_by_clang, with_profiles
from mlir_release.extras.mlgo.corpora.thinlto import index_options, link_line, linked_modules, write_commands
from mlir_release.extras.mlgo.documents import Corpus, Module, ProblemName
from mlir_release.extras.mlgo.problems import PolicyProblem, problem_of
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import BUILD_LIMIT, MalformedError, from_json, parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.files import read_document, read_text, remove_folder, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.extras.mlgo.toolchain import Toolchain

#: Modules are taken that an option of their command matches: where registers are allocated by the greedy allocator.
FILTER = r"^-O[123sz]$"

_COMMANDS = "compile_commands.json"
_BITCODE = "bitcode"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which modules a corpus takes, and for what."""

    problem: ProblemName = "regalloc"  #: the decision that policies are for
    pattern: str | None = None  #: modules are taken that an option of their command matches; default: :data:`FILTER`
    objects: str = ""  #: modules are taken in whose object's path this regular expression is found: one library's
    share: float = 0.25  #: of modules to hold out
    limit: int | None = None  #: of modules; which are taken depends on their names alone
    profiled: bool = False  #: refuse modules that were compiled without a profile
    thinlto: str = ""  #: a target that is linked by ThinLTO; the link's modules are taken, with their imports


def make_corpus(
    build: Path, output: Path, toolchain: Toolchain, asked: Selection, *, jobs: int | None = None
) -> Corpus:
    """Write ``output/corpus.json`` and the bitcode that it names.

    :param build: a build tree with ``compile_commands.json``, or, with ``thinlto``, of Ninja
    :raises UsageError: as :mod:`mlir_release.extras.mlgo.corpora.thinlto`; ``input-invalid``, ``option-invalid``
    :raises VerificationError: ``model-unsuitable``
    """
    try:
        wanted = re.compile(asked.objects)
    except re.error as error:
        raise UsageError(
            "option-invalid",
            f"{asked.objects!r} is no regular expression: {error}",
            remedy="write --objects in Python's syntax, for example lib/Demangle/",
        ) from None
    with scratch_folder("mlgo") as raw:
        if asked.thinlto:
            line = link_line(build, asked.thinlto)
            linked = set(linked_modules(build, asked.thinlto, line))
            # Upstream's extract_ir takes the modules of all links of the tree.
            found = _extract_ir(raw, jobs, f"--obj_base_dir={build.absolute()}", "--thinlto_build=local")
            directories = {name: build for name in found if name in linked}
            write_commands(line, build, list(directories), raw, toolchain)
        else:
            folders = read_commands(build / _COMMANDS)
            listing = raw / _COMMANDS
            plain = [{"directory": str(folder), "arguments": ["-o", name]} for name, folder in folders.items()]
            listing.write_text(json.dumps(plain), encoding="utf-8")
            objcopy = f"--llvm_objcopy_path={toolchain.program('llvm-objcopy')}"
            found = _extract_ir(raw, jobs, f"--input={listing}", objcopy, f"--cmd_filter={asked.pattern or FILTER}")
            directories = {name: folders[name] for name in found}
        names = sorted(sorted(filter(wanted.search, directories), key=sha256_of)[: asked.limit])
        if asked.profiled:
            without = [name for name in names if not any(map(PROFILE.match, _recorded(name, raw)))]
            if without:
                raise VerificationError(
                    "model-unsuitable",
                    f"{len(without)} of {len(names)} modules were compiled without a profile",
                    where=without[0],
                    remedy="build with -fprofile-use=… or -fprofile-sample-use=…, or make the corpus without "
                    "--profiled",
                )
        if (output / _BITCODE).exists():
            remove_folder(output / _BITCODE)
        problem = problem_of(asked.problem)

        def take(name: str) -> Module:
            index = index_options(raw, name) if asked.thinlto else []
            return _take(name, raw, output, directories[name], toolchain, problem, index)

        modules = in_parallel(take, names, jobs)
    chosen = split(modules, asked.share)
    corpus = Corpus(problem=asked.problem, llvm=toolchain.version, share=asked.share, modules=chosen)
    if not corpus.training or not corpus.held_out:
        raise UsageError(
            "input-invalid",
            f"{len(corpus.modules)} modules of different content are too few to train on some and hold out others",
            where=str(build),
            remedy="build more with -Xclang -fembed-bitcode=all, or match more with --filter and --objects",
        )
    write_atomically(output / Corpus.FILE, corpus.to_text())
    return corpus


def load_corpus(folder: Path) -> Corpus:
    """The corpus in a folder.

    :raises UsageError: ``input-missing``, ``input-invalid``
    """
    path = folder / Corpus.FILE
    remedy = "mlir-release mlgo corpus BUILD -o FOLDER"
    corpus = Corpus.load(path, missing="there is no corpus in this folder", remedy=remedy)
    for module in corpus.modules:
        _check_flag(module.name, problem_of(corpus.problem).refused(module.flags), where=path)
    return corpus


def _check_flag(name: str, refused: str | None, *, where: Path) -> None:
    if refused is not None:
        raise UsageError(
            "input-invalid",
            f"{name} asks to be compiled with {refused!r}, which the options of a corpus may not have",
            where=str(where),
            why="they choose how code is generated: they load no plugin, write no file and read no options from a file",
            remedy="create the corpus from a build without that option, on this machine; do not use a corpus that you "
            "were given with it",
        )


def split(modules: Sequence[Module], share: float) -> tuple[Module, ...]:
    """Modules by name; a share of them, of two or more at least one, is held out, chosen by their names' digests.

    Of modules with the same bitcode only the first stays, so that none is on both sides.
    """
    different = {module.sha256: module for module in sorted(modules, key=lambda module: module.name, reverse=True)}
    ranked = sorted(different.values(), key=lambda module: sha256_of(module.name))
    count = min(max(round(share * len(ranked)), 1), len(ranked) - 1)
    chosen = [replace(module, held_out=index < count) for index, module in enumerate(ranked)]
    return tuple(sorted(chosen, key=lambda module: module.name))


# -- commands ---------------------------------------------------------------------------------------------------------


class _Command(Struct, frozen=True, kw_only=True):
    """An entry of a build tree's list. Source: clang.llvm.org, "JSON Compilation Database Format"."""

    directory: str
    arguments: list[str] = []
    command: str = ""

    def __post_init__(self) -> None:
        if not self.arguments and not self.command:
            raise MalformedError("command", "is missing")


def read_commands(path: Path) -> dict[str, Path]:
    """The objects of a build tree's compile commands, each relative to the folder that its command runs in.

    An object that is not below that folder is left out: upstream's extract_ir would write what it takes from
    ``../x.o`` outside its own folder.

    :raises UsageError: ``input-invalid``
    """
    found = {}
    try:
        for entry in from_json(read_document(path, limit=BUILD_LIMIT), tuple[_Command, ...], limit=BUILD_LIMIT):
            words = entry.arguments or shlex.split(entry.command)
            if "-o" in words[:-1]:
                target = os.path.join(entry.directory, words[words.index("-o") + 1])  # noqa: PTH118
                found[os.path.relpath(target, entry.directory)] = Path(entry.directory)
    except (OSError, ValueError) as error:
        raise UsageError(
            "input-invalid",
            f"{path.name} can't be read: {error}",
            where=str(path),
            remedy="name a build folder of CMake, configured with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        ) from None
    return {name: folder for name, folder in found.items() if not name.startswith("..")}


# -- the edge ---------------------------------------------------------------------------------------------------------


def _extract_ir(raw: Path, jobs: int | None, *options: str) -> list[str]:
    """Run upstream's extract_ir; the names of the modules that it has put into ``raw``.

    :raises MachineError: ``program-failed``
    """
    workers = f"--num_workers={jobs or os.cpu_count() or 1}"
    command = [sys.executable, "-m", "mlgo.corpus.extract_ir", f"--output_dir={raw}", workers, *options]
    done = capture(command, timeout=None)  # of a corpus of any size
    if not done.ok:
        raise MachineError(
            "program-failed",
            "upstream's mlgo-utils could not extract bitcode",
            why=done.complaint,
            remedy="check --filter, which is a regular expression of Python's, and the free disk space",
        )
    described = parse_json(read_document(raw / "corpus_description.json"))
    return [str(PurePosixPath(name)) for name in described["modules"]]


def _recorded(name: str, raw: Path) -> list[str]:
    """The command of ``clang -cc1`` that an object holds."""
    return read_text(raw / f"{name}.cmd").rstrip("\0").split("\0")


def _take(
    name: str,
    raw: Path,
    output: Path,
    directory: Path,
    toolchain: Toolchain,
    problem: PolicyProblem,
    more: Sequence[str] = (),
) -> Module:
    """Run a module's command again, up to where the problem's decisions begin.

    :param more: options of ours
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``model-unsuitable``
    """
    command = clang_flags(with_profiles(_recorded(name, raw), directory.absolute()))
    _check_flag(name, refused_by_clang(command), where=directory)
    bitcode = f"{_BITCODE}/{name}.bc"
    target = output.absolute() / bitcode
    target.parent.mkdir(parents=True, exist_ok=True)
    # Exactly the words that were checked: clang could read others otherwise than the check did.
    clang, source = toolchain.program("clang"), raw / f"{name}.bc"
    done = capture([clang, *command, *more, *problem.until, "-x", "ir", source, "-o", target], cwd=raw)
    if not done.ok or not target.is_file():
        raise VerificationError(
            "model-unsuitable",
            f"the compile command of {name} no longer works",
            where=str(directory),
            why=done.complaint,
            remedy="build the tree again with the clang that --llvm has, and keep the files that it reads (profiles)",
        )
    console.say(f"    {name}")
    return Module(
        name=name,
        bitcode=bitcode,
        sha256=sha256_of(target),
        flags=problem.flags(command),
        held_out=False,
    )
