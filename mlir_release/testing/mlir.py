"""Two ways to reach an MLIR: through an SDK's tools, and through an installed wheel's Python API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.host.process import capture
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.projects.mlir import DRIVER
from mlir_release.testing.behaviours import MlirError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SEPARATOR = "-" * 60
#: No test here takes a minute; a hang must not stop a release for hours.
TIMEOUT = 120.0


def _run(command: Sequence[str | Path], text: str, environment: Mapping[str, str] | None) -> tuple[int, str]:
    """``(exit code, standard output)``. :raises MlirError: on any exit code but 0 and 3"""
    done = capture(command, text=text, environment=environment, timeout=TIMEOUT)
    if done.returncode not in (0, 3):
        raise MlirError(f"{done.ending}\n{done.stderr.strip()}")
    return done.returncode, done.stdout


@dataclass(frozen=True, kw_only=True)
class ToolsMlir:
    """``mlir-opt`` and ``mlir-translate`` in the folder ``tools``."""

    tools: Path

    def round_trip(self, text: str) -> tuple[str, str]:
        """See :class:`~mlir_release.testing.behaviours.Mlir`."""
        opt = self.tools / "mlir-opt"
        with scratch_folder("reach") as folder:
            bytecode = folder / "module.mlirbc"
            _, before = _run([opt, "--mlir-print-debuginfo", "-"], text, None)
            _run([opt, "--emit-bytecode", "-o", bytecode, "-"], text, None)
            _, after = _run([opt, "--mlir-print-debuginfo", bytecode], "", None)
        return before, after

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        """See :class:`~mlir_release.testing.behaviours.Mlir`."""
        flags = ["--mlir-print-debuginfo"] if print_locations else []
        return _run([self.tools / "mlir-opt", f"--pass-pipeline={pipeline}", *flags, "-"], text, None)[1]

    def to_llvm_ir(self, text: str) -> str:
        """See :class:`~mlir_release.testing.behaviours.Mlir`."""
        return _run([self.tools / "mlir-translate", "--mlir-to-llvmir", "-"], text, None)[1]


@dataclass(frozen=True, kw_only=True)
class WheelMlir:
    """The ``mlir`` that ``python`` imports; bindings that cannot translate to LLVM IR get help from ``tools``.

    :param tools: None if the SDK's tools are not here
    """

    python: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    tools: Path | None

    def _drive(self, text: str, *arguments: str) -> tuple[int, str]:
        return _run([self.python, DRIVER, *arguments], text, self.environment)

    def round_trip(self, text: str) -> tuple[str, str]:
        """See :class:`~mlir_release.testing.behaviours.Mlir`."""
        before, after = re.split(rf"^{_SEPARATOR}\n", self._drive(text, "round-trip")[1], maxsplit=1, flags=re.M)
        return before, after

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        """See :class:`~mlir_release.testing.behaviours.Mlir`."""
        return self._drive(text, "run", pipeline, "yes" if print_locations else "no")[1]

    def to_llvm_ir(self, text: str) -> str:
        """See :class:`~mlir_release.testing.behaviours.Mlir`."""
        code, ir = self._drive(text, "translate")
        if code != 3:
            return ir
        if self.tools is None:
            raise UnreachableError("these bindings cannot translate to LLVM IR, and the SDK's tools part is not here")
        return ToolsMlir(tools=self.tools).to_llvm_ir(text)
