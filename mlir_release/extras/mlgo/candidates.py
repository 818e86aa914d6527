"""Compile a module with many eviction policies at once, for training: an llc that holds all of them, and forks.

It follows the first policy, and forks where another would choose differently, so that all that they share is compiled
once. Costs are those of the interactive mode to the last bit. The model is a specialization of LLVM's
``ReleaseModeModelRunner``, which the advisor includes in place of a policy; LLVM's sources stay as they are.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.embed import asked, including
from mlir_release.extras.mlgo.features import EvictionLayout
from mlir_release.extras.mlgo.linking import LlvmSources, link_program
from mlir_release.extras.mlgo.policies import Scorer
from mlir_release.extras.mlgo.problems import EVICTION
from mlir_release.ground.storage.files import read_text, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus, LearnedPolicy, Module
    from mlir_release.extras.mlgo.toolchain import Toolchain

#: The model, in C++.
_HEADER = files("mlir_release.extras.mlgo") / "templates" / "candidates.h"

#: LLVM's option that names the folder of candidates.
_OPTION = "mlgo-candidates"

#: Begins the remarks of a function.
_FUNCTION = re.compile(r"^function (\d+)\n", re.MULTILINE)


class Candidates:
    """Compiles the modules of one corpus."""

    def __init__(self, toolchain: Toolchain, corpus: Corpus, folder: Path, sources: LlvmSources, output: Path) -> None:
        """Link the llc.

        :param folder: of the corpus
        :param sources: of the same version
        :param output: the folder that gets the llc
        :raises VerificationError: ``model-unsuitable``
        :raises MachineError: ``program-failed``
        """
        model = EVICTION.model
        self._layout = EvictionLayout(asked(toolchain))
        write_atomically(output / f"{model.name}.h", _HEADER.read_text(encoding="utf-8"))
        path = link_program("llc", toolchain, sources, output, again=including(model, output))
        self._compiler = Compiler(toolchain, corpus, folder, path=path, options=(model.option,))

    def costs(self, module: Module, policies: Sequence[LearnedPolicy]) -> list[float]:
        """A module's cost by each policy.

        :param policies: of the same form and scales
        :raises VerificationError: ``model-unsuitable``
        """
        first = policies[0]
        for policy in policies:
            self._layout.expect(policy.features)
            Scorer(policy)  # its numbers are as many as they must be
        numbers = [len(policies), len(first.features), first.hidden, *first.mean, *first.deviation]
        with scratch_folder("mlgo") as folder:
            np.array([*numbers, *(weight for policy in policies for weight in policy.weights)]).tofile(
                folder / "candidates"
            )
            followed = _functions(self._compiler.errors(module, [f"-{_OPTION}={folder}"]))
            paths = [folder / str(index) for index in range(1, len(policies))]
            others = [_functions(read_text(path)) if path.exists() else {} for path in paths]
        return [EVICTION.cost("".join((followed | other).values()), 0) for other in ({}, *others)]


def _functions(errors: str) -> dict[int, str]:
    """The remarks of each function, by its number, in their order."""
    pieces = _FUNCTION.split(errors)
    return {int(number): remarks for number, remarks in zip(pieces[1::2], pieces[2::2], strict=True)}
