"""What the clean-environment check has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import format_seconds

if TYPE_CHECKING:
    from mlir_release.release.install_snippets import Command, Project


@dataclass(frozen=True, kw_only=True)
class ProbeStep:
    """One command with one CPython: what it should do and what it did."""

    command: Command | Project
    python: str  #: ``3.12.1``
    wanted: str  #: the wheel's file name; empty: the command must fail
    got: str  #: what arrived, or the end of the tool's complaint
    passed: bool
    seconds: float

    def text(self) -> str:
        """Two lines: what was typed, and what came of it."""
        verdict = "ok" if self.passed else "WRONG"
        outcome = f"{self.got} ({format_seconds(self.seconds)})"
        return f"{verdict}: CPython {self.python}: {self.command.text}\n      {outcome}"


@dataclass(frozen=True, kw_only=True)
class ProbeOutcome:
    """All that was tried."""

    tag: str
    steps: tuple[ProbeStep, ...]

    @property
    def installed(self) -> tuple[ProbeStep, ...]:
        """The steps in which a wheel arrived, as it should."""
        return tuple(step for step in self.steps if step.passed and step.wanted)

    @property
    def refused(self) -> tuple[ProbeStep, ...]:
        """The steps in which pip failed, as it should."""
        return tuple(step for step in self.steps if step.passed and not step.wanted)

    def text(self) -> str:
        """A line a step."""
        return "\n".join([f"{self.tag}, in a clean environment:", *(f"  {step.text()}" for step in self.steps)])
