"""The LLVM to train for: its programs, as a distribution's packages install them; and the machine's other needs."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.programs.process import capture

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus

_VERSION = re.compile(r"LLVM version (\d+\.\d+\.\d+)")


def check_machine(system: str = sys.platform) -> None:
    """Make sure that MLGO works here at all.

    :raises MachineError: ``machine-unsuitable``, ``tool-missing``
    """
    if not system.startswith("linux"):
        raise MachineError(
            "machine-unsuitable",
            f"mlgo needs Linux, and this is {system}",
            why="conversations with the compiler use named pipes, and objects are read as ELF",
            remedy="run it on Linux, or in a container",
        )
    need("mlgo", "numpy", "elftools")


@dataclass(frozen=True)
class Toolchain:
    """An installed LLVM. ``prefix`` is for example ``/usr/lib/llvm-22``."""

    prefix: Path

    def program(self, name: str) -> Path:
        """A program's path. :raises MachineError: ``tool-missing``"""
        path = self.prefix.absolute() / "bin" / name
        if not path.is_file():
            raise MachineError(
                "tool-missing",
                f"this LLVM has no {name}",
                where=str(path),
                remedy="install it (Debian: apt install llvm-22 clang-22), or name another LLVM with --llvm",
            )
        return path

    @cached_property
    def version(self) -> str:
        """``22.1.8``. :raises MachineError: ``tool-missing``"""
        said = capture([self.program("llc"), "--version"], timeout=60)
        match = _VERSION.search(said.stdout)
        if match is None:
            raise MachineError(
                "tool-missing",
                "llc does not say its version",
                where=str(self.program("llc")),
                why=said.complaint,
                remedy="install this LLVM's packages completely, with the libraries they need",
            )
        return match[1]

    def check(self, corpus: Corpus) -> None:
        """Refuse a corpus of another LLVM: it may hold bitcode that this one can't read, and registers differ.

        :raises VerificationError: ``model-unsuitable``
        """
        if corpus.llvm != self.version:
            raise VerificationError(
                "model-unsuitable",
                f"the corpus is bitcode of LLVM {corpus.llvm}, and llc is of {self.version}",
                where=str(self.prefix),
                remedy="name the LLVM that the corpus was made with (--llvm), or create the corpus again",
            )
