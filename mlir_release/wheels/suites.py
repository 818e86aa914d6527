"""The test suites of a release.

- ``smoke``: the wheel alone in an empty environment: the first things that a user does, and our pinned behaviours
- ``bindings``: upstream's ``mlir/test/python`` on the installed wheel, with the test-only add-on laid over it
- ``regression``: upstream's whole ``mlir/test`` and our pinned behaviours, with the SDK's tools; needs no wheel
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_release.console import console
from mlir_release.wheels import lit, regressions
from mlir_release.wheels.known_failures import Situation, judge
from mlir_release.wheels.reach import TIMEOUT, ToolsMlir, WheelMlir
from mlir_release.wheels.report import Outcome, SuiteReport, TestResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlir_release.sdk.model import Sdk
    from mlir_release.wheels.venv import VirtualEnvironment

_SMOKE = Path(__file__).parent / "data" / "smoke.py"

#: What upstream's own tests import beyond the bindings' requirements: the OpDSL ones read and write YAML.
TEST_REQUIREMENTS = ("PyYAML",)

#: The code generators that the profiles link in, besides the machine's own.
_PROFILE_GENERATORS: Mapping[str, tuple[str, ...]] = {"full": ("NVPTX", "AMDGPU")}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is tested: a wheel installed in an environment, with the SDK that it was built from.

    :param release: the wheel's ``mlir/_release.json``
    :param addon: folder of test-only parts to lay over the installed package; never part of a wheel
    """

    sdk: Sdk
    workdir: Path
    environment: VirtualEnvironment | None = None
    python_version: str = ""
    release: Mapping[str, Any] | None = None
    addon: Path | None = None

    @property
    def profile(self) -> str:
        """``host``, ``core`` or ``full``; empty where no wheel is tested."""
        return str(self.release["profile"]) if self.release else ""

    def situation(self) -> Situation:
        """As the known failures tell situations apart."""
        info = self.sdk.info
        return Situation(
            llvm_version=info.llvm_version,
            python=self.python_version,
            profile=self.profile,
            provider=info.provider,
            platform=info.platform,
        )


def smoke(subject: Subject) -> SuiteReport:
    """Run ``data/smoke.py`` and the pinned behaviours with the installed wheel."""
    assert subject.environment is not None
    start = time.monotonic()
    expected = {"revision": subject.sdk.info.revision, "llvm_version": subject.sdk.info.llvm_version}
    expected |= {key: subject.release[key] for key in ("tag", "target") if subject.release and key in subject.release}
    results = _first_steps(subject, expected)
    if all(result.outcome.good for result in results):
        mlir = WheelMlir(
            python=subject.environment.python,
            environment=subject.environment.variables(),
            tools=subject.sdk.tools,
        )
        results += regressions.run_cases(mlir, subject.sdk.info.llvm_version)
    return SuiteReport(
        suite="smoke",
        results=judge(results, "smoke", subject.situation()),
        seconds=time.monotonic() - start,
    )


def _first_steps(subject: Subject, expected: Mapping[str, str]) -> tuple[TestResult, ...]:
    assert subject.environment is not None
    command = [subject.environment.python, "-I", _SMOKE, subject.profile or "host", json.dumps(dict(expected))]
    said: str | bytes | None
    try:
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            env=subject.environment.variables(),
            cwd=subject.workdir,
            timeout=TIMEOUT * 2,
            check=False,
        )
        output, ending, said = done.stdout, f"exit code {done.returncode}", done.stderr
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else (error.stdout or "")
        ending, said = "it did not end in time", error.stderr
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"name"')]
    results = [
        TestResult(
            name=line["name"],
            outcome=Outcome.PASS if line["ok"] else Outcome.FAIL,
            seconds=line["seconds"],
            message=line["message"],
        )
        for line in lines
        if line["name"] != "end"
    ]
    if not lines or lines[-1]["name"] != "end":  # a crash: the checks after it never ran
        last = results[-1].name if results else "nothing"
        message = f"the interpreter ended after {last}: {ending}\n{said!s}"
        results.append(TestResult(name="runs-to-the-end", outcome=Outcome.FAIL, message=message))
    return tuple(results)


def bindings(subject: Subject) -> SuiteReport:
    """Upstream's Python tests, with FileCheck, at the SDK's revision, on the installed wheel and the add-on."""
    assert subject.environment is not None
    start = time.monotonic()
    subject.environment.install(*TEST_REQUIREMENTS)
    if subject.addon is not None:
        # Laid over the package, not put beside it on PYTHONPATH: mlir's sub-packages are regular ones and would hide
        # each other, and the add-on's libraries look for the wheel's beside themselves. The environment is thrown away.
        shutil.copytree(subject.addon, subject.environment.site_packages(), dirs_exist_ok=True, symlinks=True)
    setup = lit.LitSetup(
        sdk=subject.sdk,
        python=subject.environment.python,
        bindings=True,
        code_generators=_PROFILE_GENERATORS.get(subject.profile, ()),
        execution_engine=subject.profile != "core",
    )
    workdir = subject.workdir / "bindings"
    folder = lit.write_site_configuration(setup, workdir)
    results = lit.run_lit(
        [folder / "python"],
        workdir=workdir,
        environment=subject.environment.variables(),
        title="upstream's tests of the Python bindings",
    )
    return SuiteReport(
        suite="bindings",
        results=judge(results, "bindings", subject.situation()),
        seconds=time.monotonic() - start,
    )


def regression(subject: Subject) -> SuiteReport:
    """Upstream's whole ``mlir/test`` (but the Python tests) and our pinned behaviours, with the SDK's tools."""
    start = time.monotonic()
    info = subject.sdk.info
    setup = lit.LitSetup(
        sdk=subject.sdk, python=Path(sys.executable), bindings=False, code_generators=info.code_generators
    )
    workdir = subject.workdir / "regression"
    folder = lit.write_site_configuration(setup, workdir)
    results = lit.run_lit(
        [folder], workdir=workdir, environment=os.environ, title="upstream's regression tests of MLIR"
    )
    own = regressions.run_cases(ToolsMlir(tools=subject.sdk.tools), info.llvm_version)
    return SuiteReport(
        suite="regression",
        results=(*judge(results, "regression", subject.situation()), *own),
        seconds=time.monotonic() - start,
    )


#: Suite name -> how it is run. Those in ``NEED_WHEEL`` run in an environment with the wheel.
SUITES: Mapping[str, Callable[[Subject], SuiteReport]] = {
    "smoke": smoke,
    "bindings": bindings,
    "regression": regression,
}
NEED_WHEEL = ("smoke", "bindings")


def announce(report: SuiteReport) -> None:
    """One line about a suite that has run."""
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.counts.items() if count)
    console.say(f"    {report.suite}: {counts}")
