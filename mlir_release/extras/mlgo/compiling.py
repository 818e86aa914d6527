"""Compile the modules of a corpus, by the default heuristic or by a policy, and measure the result."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from mlir_release.extras.mlgo.conversation import SILENCE, Ending, converse
from mlir_release.extras.mlgo.problems import options_of, problem_of
from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus, Module
    from mlir_release.extras.mlgo.features import Maker
    from mlir_release.extras.mlgo.toolchain import Toolchain

T = TypeVar("T")
R = TypeVar("R")

#: The reader of LLVM's bitcode ends its refusals so. Source: llvm/lib/Bitcode/Reader/BitcodeReader.cpp, error().
_FOREIGN = "(Producer: "


class Compiled(Struct, frozen=True, kw_only=True):
    """A module's compilation."""

    cost: float  #: as the problem counts it
    decisions: int  #: that were asked of the policy; 0 under the default
    text: int = 0  #: bytes of machine code; 0 if no object was wanted
    sha256: str = ""  #: of the object; empty if none was wanted


class Compiler:
    """Compiles the modules of one corpus."""

    def __init__(
        self,
        toolchain: Toolchain,
        corpus: Corpus,
        folder: Path,
        *,
        program: str = "",
        path: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """Check that the corpus is as it was made, and of this LLVM.

        :param folder: of the corpus
        :param program: one of the problem's; default: the one that measures
        :param path: of another than the toolchain's
        :param options: LLVM's, for it
        :raises VerificationError: ``model-unsuitable``, ``file-damaged``
        """
        toolchain.check(corpus)
        self._problem = problem_of(corpus.problem)
        self._program = program or self._problem.program
        self._path = path or toolchain.program(self._program)
        self._options = options_of(self._program, options)
        self.corpus, self.folder = corpus, folder
        for module in corpus.modules:
            path = folder / module.bitcode
            if not path.is_file() or sha256_of(path) != module.sha256:
                raise VerificationError(
                    "file-damaged",
                    f"the bitcode of {module.name} is not what corpus.json says",
                    where=str(path),
                    remedy="create the corpus again",
                )

    def compile(
        self,
        module: Module,
        maker: Maker | None = None,
        *,
        emit: bool = False,
        keep: Path | None = None,
        options: Sequence[str] = (),
    ) -> Compiled:
        """Compile a module.

        :param maker: makes the chooser that answers the compiler; None: the default heuristic decides
        :param emit: whether to write an object and measure it; it is written anyway if the problem's cost needs one
        :param keep: the object's path, if it is needed afterwards; with ``emit``
        :param options: for this compilation alone
        :raises VerificationError: ``model-unsuitable``
        """
        problem = self._problem
        writing = problem.measuring
        if emit or writing is None:
            emit, writing = True, problem.emitting
        with scratch_folder("mlgo") as folder:
            target = keep or folder / "module.o"
            ending = self._run(module, [*module.flags, *writing, *options], target, maker, writes=emit)
            text = text_of(target) if emit else 0
            return Compiled(
                cost=problem.cost(ending.errors, text),
                decisions=ending.decisions,
                text=text,
                sha256=sha256_of(target) if emit else "",
            )

    def errors(self, module: Module, options: Sequence[str]) -> str:
        """The error output of a compilation that writes no object: remarks. Errors as for :meth:`compile`.

        :param options: further ones of the program
        """
        with scratch_folder("mlgo") as folder:
            words = [*module.flags, *(self._problem.measuring or ()), *options]
            return self._run(module, words, folder / "module.o", None, writes=False).errors

    def digest(self, module: Module, maker: Maker | None = None) -> str:
        """SHA-256 of what the program makes of a module: of its object; of bitcode, if it is opt.

        Parameters and errors as for :meth:`compile`.
        """
        with scratch_folder("mlgo") as folder:
            target = folder / "module.o"
            self._run(module, self._problem.programs[self._program](module.flags), target, maker)
            return sha256_of(target)

    def _run(
        self, module: Module, options: Sequence[str], target: Path, maker: Maker | None, *, writes: bool = True
    ) -> Ending:
        path = self.folder / module.bitcode
        command: list[str | Path] = [self._path, *options, *self._options, path, "-o", target]
        if maker is None:
            done = capture(command, timeout=SILENCE, encoding="utf-8")
            ending = Ending(-1 if done.returncode is None else done.returncode, done.stderr or done.ending)
        else:
            ending = converse(command, self._problem, maker, program=self._program)
        if ending.code != 0 or (writes and not target.is_file()):  # an option like -help ends it well, too early
            lines = [line for line in ending.errors.splitlines() if not line.startswith("remark: ")]
            why, said = "\n".join(lines[-5:]), f"{self._program} failed on {module.name}, with exit code {ending.code}"
            remedy = "compile the module without a policy; if that works, report it to LLVM with the bitcode"
            if _FOREIGN in why:
                said = f"{self._program} can't read the bitcode of {module.name}: another LLVM wrote it"
                remedy = "make the corpus from a build with the clang of the same LLVM"
            raise VerificationError("model-unsuitable", said, where=module.bitcode, why=why, remedy=remedy)
        return ending


def text_of(path: Path) -> int:
    """Bytes of machine code in an ELF object: of all sections that are executable."""
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    with open_regular(path) as file:
        sections = list(ELFFile(file).iter_sections())
    return sum(int(section["sh_size"]) for section in sections if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)


def in_parallel(work: Callable[[T], R], items: Iterable[T], jobs: int | None) -> list[R]:
    """The results in order. The first failure ends it, after running compilers have finished."""
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(work, items))
