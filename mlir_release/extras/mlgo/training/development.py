"""LLVM's development mode: compilers that write a training log, or ask a model that is being trained.

Stock packages lack it, because it needs TFLite. A few sources make the difference: they are compiled again with
``LLVM_HAVE_TFLITE`` and linked ahead of the archives. No class has another layout by it. So a build of LLVM and of
TFLite, which google/ml-compiler-opt's guide begins with, is not needed.

Without a model, the compiler decides by its default, and its log tells each decision's features and choice. Source:
DevelopmentModeEvictAdvisor in llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mlir_release.builder.model.regalloc_model import ADVISOR
from mlir_release.extras.mlgo.features import Stream
from mlir_release.extras.mlgo.linking import LlvmSources, link_program
from mlir_release.extras.mlgo.problems import EVICTION, PolicyProblem
from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.files import write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from mlir_release.extras.mlgo.compiling import Compiled, Compiler
    from mlir_release.extras.mlgo.documents import Module
    from mlir_release.extras.mlgo.features import Maker
    from mlir_release.extras.mlgo.toolchain import Toolchain

#: LLVM's sources that depend on it. Source: grep -rl LLVM_HAVE_TFLITE llvm/lib.
SOURCES = (
    ADVISOR,
    "llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp",
    "llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp",
    "llvm/lib/CodeGen/RegAllocPriorityAdvisor.cpp",
    "llvm/lib/Analysis/ModelUnderTrainingRunner.cpp",
    "llvm/lib/Analysis/TFLiteUtils.cpp",
    "llvm/lib/Analysis/InlineAdvisor.cpp",
    "llvm/lib/Analysis/DevelopmentModeInlineAdvisor.cpp",
)

#: The compilers that are linked: ml-compiler-opt trains with one, the other traces. The words make each take LLVM's own
#: options. The one that needs more packages comes first.
_LINKED = {"clang": ("-cc1", "-mllvm"), "llc": ()}

#: LLVM's private header, which packages lack. Of it, these sources use what its public one has.
_PRIVATE, _PUBLIC = "llvm/Config/config.h", '#include "llvm/Config/llvm-config.h"\n'

#: A header of each that TFLiteUtils.cpp includes, below a folder for headers.
_HEADERS = ("tensorflow/lite/interpreter.h", "flatbuffers/flatbuffers.h")

#: The library, as Debian and TFLite's own builds name it, or TensorFlow's of a wheel, which starts half a second later.
_LIBRARIES = ("libtensorflow-lite.so", "libtensorflowlite.so", "libtensorflow_cc.so.2")

_ON, _LOG = "-regalloc-enable-advisor=development", "-regalloc-training-log"

_PIECE = 1 << 20


class Linked(Struct, frozen=True, kw_only=True):
    """The compilers that were linked; ``development --json`` prints it."""

    llvm: str
    tflite: str  #: the library's path
    files: dict[str, str]  #: SHA-256 of each, by name


class TFLite(Struct, frozen=True):
    """An installed TFLite."""

    headers: Path
    library: Path

    @classmethod
    def find(cls, prefix: Path) -> TFLite:
        """TFLite below a prefix, or a folder that has all of it.

        :raises MachineError: ``tool-missing``
        """
        prefix = prefix.absolute()
        folders = [prefix / "lib", prefix / "lib64", *sorted(prefix.glob("lib/*-linux-gnu")), prefix]
        headers = [path for path in (prefix / "include", prefix) if all((path / name).is_file() for name in _HEADERS)]
        libraries = [path for folder in folders for name in _LIBRARIES if (path := folder / name).is_file()]
        if headers and libraries:
            return cls(headers[0], libraries[0])
        missing = " or ".join(_LIBRARIES) if headers else f"headers of TFLite ({', '.join(_HEADERS)})"
        raise MachineError(
            "tool-missing",
            f"this folder has no {missing}",
            where=str(prefix),
            remedy="install TFLite with its headers (Debian: apt install libtensorflow-lite-dev), or name a folder "
            "that has include and lib by --tflite",
        )


def link(toolchain: Toolchain, sources: LlvmSources, tflite: TFLite, output: Path) -> Linked:
    """Link ``output/llc`` and ``output/clang``, which have the development mode. Without its options, they are stock.

    :param toolchain: with the archives and headers of LLVM and clang
    :param sources: of the same version
    :raises VerificationError: ``model-unsuitable``
    :raises MachineError: ``program-failed``, ``tool-missing``
    """
    with scratch_folder("mlgo") as folder:
        write_atomically(folder / _PRIVATE, _PUBLIC)
        # Last of all: the prefix may be the system's, whose order counts.
        options = ("-DLLVM_HAVE_TFLITE", "-idirafter", folder, "-idirafter", tflite.headers)
        place = tflite.library.resolve().parent  # where its other parts are, too
        given: list[str | Path] = [tflite.library]
        if not place.is_relative_to("/usr"):
            given.append(f"-Wl,-rpath,{place}")
        for name, words in _LINKED.items():
            again = dict.fromkeys(SOURCES, options)
            path = link_program(name, toolchain, sources, output, again=again, given=given)
            # The linker doesn't ask what the program's libraries need of the system.
            done = capture([path.absolute(), *words, "--version"], timeout=60)
            if not done.ok:
                raise MachineError(
                    "program-failed",
                    f"the {name} that was linked doesn't start",
                    where=str(path.absolute()),
                    why=done.complaint,
                    remedy="name a TFLite by --tflite that was built for this system",
                )
    files = {name: sha256_of(output / name) for name in _LINKED}
    return Linked(llvm=toolchain.version, tflite=str(tflite.library), files=files)


def developing(folder: Path, name: str, toolchain: Toolchain) -> Path:
    """A compiler of ``folder`` that has the development mode, or a script that starts it.

    :param name: a program of :func:`link`
    :param toolchain: whose version it must have
    :raises UsageError: ``input-missing``, ``input-invalid``
    """
    path = folder.absolute() / name
    remedy = "mlir-release mlgo development -o FOLDER links it"
    if not path.is_file():
        raise UsageError("input-missing", f"this folder has no {name}", where=str(path), remedy=remedy)
    asked = {word: capture([path, *_LINKED[name], word], timeout=60) for word in ("--version", "--help-hidden")}
    version, options = (done.stdout for done in asked.values())
    if not re.search(rf"LLVM version {re.escape(toolchain.version)}(?!\d)", version):
        raise UsageError(
            "input-invalid",
            f"this {name} is not of LLVM {toolchain.version}, which --llvm is",
            where=str(path),
            why=asked["--version"].complaint if not asked["--version"].ok else version.strip(),
            remedy=remedy,
        )
    if _LOG not in options:
        raise UsageError(
            "input-invalid", f"this {name} has no development mode", where=str(path), why=f"no {_LOG}", remedy=remedy
        )
    return path


def compile_observed(compiler: Compiler, module: Module, maker: Maker) -> Compiled:
    """Compile a module into an object, by the default of a compiler in development mode, and tell its decisions.

    :param compiler: whose program is an llc of :func:`developing`
    :param maker: makes the chooser that is shown each decision, with the default's choice; its own is not used
    :raises VerificationError: ``model-unsuitable``, ``file-damaged``
    """
    with scratch_folder("mlgo") as folder:
        log = folder / "log"
        compiled = compiler.compile(module, emit=True, options=(_ON, f"{_LOG}={log}"))
        return replace(compiled, decisions=replay(log, EVICTION, maker))


def replay(path: Path, problem: PolicyProblem, maker: Maker) -> int:
    """Show the decisions of a training log, each with the choice that was made.

    :param maker: makes the chooser that is shown them
    :returns: the number of decisions
    :raises VerificationError: ``file-damaged``, ``model-unsuitable``
    """
    stream, count = Stream(), 0
    with open_regular(path) as file:
        while piece := file.read(_PIECE):
            for memory in stream.feed(piece):
                header = stream.header
                assert header is not None
                if header.reward is None:
                    raise _damaged(path, "its decisions have no choice, as in a question of the interactive mode")
                if count == 0:
                    layout = problem.layout(header)
                    chooser, size = maker(layout), header.memory.itemsize
                decision, choice = layout.read(memory[:size]), int(np.frombuffer(memory[size:], np.int64)[0])
                (found,) = np.nonzero(decision.positions == choice)
                if not len(found):
                    raise _damaged(path, f"it has the choice {choice}, which its mask does not allow")
                chooser(decision._replace(default=int(found[0])))
                count += 1
    if not stream.at_rest:
        raise _damaged(path, "it ends too early")
    return count


def _damaged(path: Path, why: str) -> VerificationError:
    return VerificationError(
        "file-damaged",
        "the training log can't be read",
        where=str(path),
        why=why,
        remedy="trace again; if it repeats, leave the module out, and report it to LLVM with the bitcode",
    )
