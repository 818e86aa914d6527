"""The suites of a project: its own, and ``smoke``: its smoke test, with the wheel alone in an empty environment.

``tests/smoke.py PROFILE [EXPECTED]`` runs in the interpreter under test, even the oldest CPython that there are wheels
for. For each of its checks it prints a line of JSON: ``{"name": …, "ok": …, "message": …, "seconds": …}``; the last has
the name ``end``. Its exit code is 1 if a check failed. ``EXPECTED`` is JSON, too: what ``_release.json`` of the package
must say.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.testing.known_failures import judge, load
from mlir_release.builder.testing.port import TIMEOUT, Suite
from mlir_release.builder.testing.report import TestOutcome, TestResult, cut_short, read_lines
from mlir_release.ground.programs.process import capture

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.testing.port import SuiteSubject
    from mlir_release.ground.llvm.projects import Project


class _SmokeLine(Struct, frozen=True):
    """A line of the smoke test's."""

    name: str
    ok: bool
    message: str
    seconds: float


def suites_of(project: Project) -> dict[str, Suite]:
    """The suites by name. :raises MachineError: ``plugin-unusable``: the project's module can't be used"""
    own = project.room("testing", "SUITES", dict)
    more: Suite = own.get("smoke", Suite(run=lambda _: []))

    def smoke(subject: SuiteSubject) -> list[TestResult]:
        results = _first_steps(subject)
        known = load(subject.project.known_failures)
        judged = judge(results, "smoke", subject.situation(), known)[: len(results)]
        return [*results, *(more.run(subject) if all(result.outcome.good for result in judged) else ())]

    return {**own, "smoke": replace(more, run=smoke)}


def _first_steps(subject: SuiteSubject) -> list[TestResult]:
    assert subject.environment is not None
    info = subject.sdk.info
    expected = {"revision": info.revision, "llvm_version": info.llvm_version}
    if subject.release is not None:
        expected |= {"tag": subject.release.tag, "target": subject.release.target}
    profile = subject.profile or next(iter(subject.project.profiles))
    command: list[str | Path] = [subject.environment.python, "-I", subject.project.smoke, profile, json.dumps(expected)]
    environment = subject.environment.variables()
    done = capture(command, environment=environment, cwd=subject.workdir, timeout=TIMEOUT * 2)
    lines = read_lines(done.stdout, _SmokeLine)
    results = [
        TestResult(
            name=line.name,
            outcome=TestOutcome.PASS if line.ok else TestOutcome.FAIL,
            seconds=line.seconds,
            message=line.message,
        )
        for line in lines
        if line.name != "end"
    ]
    if not lines or lines[-1].name != "end":
        results.append(cut_short(lines, done))
    return results
