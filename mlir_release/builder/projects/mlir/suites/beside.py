"""The suite ``beside``: the installed wheel and what people install next to it, in one process, in both orders."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.requirements import Requirement

from mlir_release.builder.projects.mlir import NEIGHBOURS
from mlir_release.builder.testing.port import TIMEOUT
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.documents.decode import from_toml
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.ground.python.venv import VirtualEnvironment

_IMPORTS = "import mlir.ir as ours"
_USES = "with ours.Context(): assert 'func.func @f' in str(ours.Module.parse('func.func @f() { return }'))"


class _Neighbour(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    install: tuple[str, ...]
    imports: str
    uses: str


class _Neighbours(Struct, frozen=True, forbid_unknown_fields=True):
    neighbour: tuple[_Neighbour, ...]


def run_beside(environment: VirtualEnvironment, workdir: Path, neighbours: Path = NEIGHBOURS) -> Iterator[TestResult]:
    """Run each program; a result is called ``iree-base-compiler/after-ours``.

    What does not work alone, or has no wheel for this CPython, says nothing about ours.

    :param workdir: each is installed in a folder of it, which is removed again
    """
    for neighbour in from_toml(read_document(neighbours), _Neighbours).neighbour:
        name, folder = Requirement(neighbour.install[0]).name, workdir / "neighbour"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
        try:
            environment.install("--no-deps", "--only-binary=:all:", "--target", folder, *neighbour.install)
        except MachineError as error:
            unsupported = "No matching distribution found" in error.why
            outcome = TestOutcome.UNSUPPORTED if unsupported else TestOutcome.FAIL
            yield TestResult(name=name, outcome=outcome, message=error.why)
            continue
        theirs, used = neighbour.imports, neighbour.uses
        for order, lines in (
            ("alone", (theirs, used)),
            ("after-ours", (_IMPORTS, theirs, _USES, used)),
            ("before-ours", (theirs, _IMPORTS, used, _USES)),
        ):
            variables = {**environment.variables(), "PYTHONPATH": str(folder)}
            done = capture([environment.python, "-c", "\n".join(lines)], environment=variables, timeout=TIMEOUT)
            failed = TestOutcome.UNSUPPORTED if order == "alone" else TestOutcome.FAIL
            message = "" if done.ok else f"{done.ending}\n{done.stderr}"
            yield TestResult(name=f"{name}/{order}", outcome=TestOutcome.PASS if done.ok else failed, message=message)
            if order == "alone" and not done.ok:
                break
        shutil.rmtree(folder)
