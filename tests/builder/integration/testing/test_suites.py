"""Suites on real environments: a wheel with a made-up mlir is installed by pip and asked what the real one is asked."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from mlir_release.builder.model.suites import CORE_MINUTES, SUITES
from mlir_release.builder.projects.mlir import PROJECT, for_testing
from mlir_release.builder.projects.mlir.suites.behaviours import MlirError, ToolsMlir, WheelMlir
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.testing import lit
from mlir_release.builder.testing.port import Suite, SuiteSubject
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.inspect import WheelReport, inspect
from mlir_release.ground.console import format_seconds
from mlir_release.ground.python import venv
from mlir_release.ground.python.locked import read_lock
from tests.build_job import make_job
from tests.refusals import refused
from tests.wheel_factory import REVISION, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.builder.testing.report import TestRun

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes tools of shell scripts")

PYTHON = Path(sys.executable)
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")

#: Enough of mlir.ir for the driver: modules are their text, bytecode is the text in UTF-8.
FAKE_IR = b"""
import os, sys
class MLIRError(Exception): pass
class Context:
    def __enter__(self): return self
    def __exit__(self, *args): pass
class Operation:
    def __init__(self, text): self.text = text
    def get_asm(self, enable_debug_info=False):
        return self.text if enable_debug_info else "module {}"
    def write_bytecode(self, file): file.write(self.text.encode())
class Module:
    def __init__(self, text): self.operation = Operation(text)
    @staticmethod
    def parse(text):
        if isinstance(text, bytes): text = text.decode()
        if "broken" in text: raise MLIRError("1:1: it is broken")
        return Module(text)
"""
(LOCKED_YAML,) = (pin.version for pin in read_lock() if pin.name == "pyyaml")
FAKE_FILES = {
    "mlir/ir.py": FAKE_IR, "mlir/dialects/__init__.py": b"", "mlir/dialects/llvm.py": b"",
    "mlir/_mlir_libs/__init__.py": b"",
}  # fmt: skip


@pytest.fixture
def sdk(tmp_path: Path) -> Sdk:
    """An SDK whose mlir-translate says what it was given."""
    job = make_job(tmp_path)
    sdk = Sdk(root=job.sdk.root, info=replace(job.sdk.info, revision=REVISION, runtime_requirements=()))
    tool(sdk, "mlir-translate", 'echo "translated by the tool: $@"; cat')
    return sdk


def tool(sdk: Sdk, name: str, script: str) -> None:
    sdk.tools.mkdir(parents=True, exist_ok=True)
    path = sdk.tools / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fake_wheel(folder: Path, files: dict[str, bytes] | None = None, *, revision: str = REVISION) -> Path:
    return make_wheel(folder, python=TAG, platform=PLATFORM, files=files or FAKE_FILES, revision=revision)


def run(wheel: Path, sdk: Sdk, workdir: Path, *names: str) -> TestRun:
    (report,) = run_suites(wheel, sdk=sdk, python=str(PYTHON), suites=names, workdir=workdir)
    return report


def test_a_clean_environment_has_the_wheel_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "intruder"))
    environment = venv.create(tmp_path / "environment", PYTHON)
    environment.install(fake_wheel(tmp_path))
    assert (environment.site_packages() / "mlir" / "ir.py").is_file()
    assert not (environment.site_packages() / "pip").exists()
    assert "PYTHONPATH" not in environment.variables()
    assert environment.variables()["PATH"].startswith(str(environment.scripts))


def test_a_wheel_that_pip_does_not_install_by_its_name(sdk: Sdk, tmp_path: Path) -> None:
    """Its file says another version than its metadata: who installs it by its path does not notice."""
    wheel = fake_wheel(tmp_path)
    version = wheel.name.split("-")[1]
    renamed = wheel.rename(wheel.with_name(wheel.name.replace(version, "20990101.1")))
    error = refused(lambda: run(renamed, sdk, tmp_path / "work", "smoke"), "network-failed", "mlir==20990101.1")
    assert "No matching distribution found" in error.why


def test_pip_says_why_it_failed(tmp_path: Path) -> None:
    environment = venv.create(tmp_path / "environment", PYTHON)
    error = refused(lambda: environment.install("--no-index", "there-is-no-such-distribution"), "network-failed")
    assert "there-is-no-such-distribution" in error.why


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    refused(lambda: venv.create(tmp_path / "environment", Path("/bin/false")), "no-python")


def test_a_cached_environment_is_made_once_and_again_when_it_is_half_made(tmp_path: Path) -> None:
    first = venv.cached(tmp_path, PYTHON, [])
    (first.root / "mine").touch()
    assert (venv.cached(tmp_path, PYTHON, []).root / "mine").exists()
    (first.root / ".requirements").unlink()  # as if it had been killed
    assert not (venv.cached(tmp_path, PYTHON, []).root / "mine").exists()


def test_a_wheel_that_does_not_work_fails_with_each_checks_traceback(sdk: Sdk, tmp_path: Path) -> None:
    report = run(fake_wheel(tmp_path), sdk, tmp_path / "work", "smoke")
    assert not report.passed
    failures = {result.name: result.message for result in report.failures}
    assert "dialects" in failures
    assert "ModuleNotFoundError" in failures["passes"]
    outcomes = {result.name: result.outcome for result in report.results}
    assert outcomes["import"] is TestOutcome.PASS
    assert outcomes["release"] is TestOutcome.PASS
    assert report.target == f"smoke-mlir-linux-x86_64-{TAG}"
    assert json.loads(report.write(tmp_path).read_text())["passed"] is False


def test_a_crash_is_told(sdk: Sdk, tmp_path: Path) -> None:
    crash = {**FAKE_FILES, "mlir/passmanager.py": b"import os; os.abort()"}
    report = run(fake_wheel(tmp_path, crash), sdk, tmp_path / "work", "smoke")
    (result,) = [result for result in report.results if result.name == "runs-to-the-end"]
    assert result.outcome is TestOutcome.FAIL
    assert "exit code -6" in result.message


@pytest.mark.parametrize(("requires", "version"), [(("PyYAML<6.0.3",), "6.0.2"), ((), LOCKED_YAML)])
def test_upstreams_tests_run_with_what_users_get_and_else_with_what_is_locked(
    sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requires: tuple[str, ...], version: str
) -> None:
    (sdk.source / "test").mkdir(parents=True)
    (sdk.source / "test" / "lit.site.cfg.py.in").touch()
    environment = venv.create(tmp_path / "environment", PYTHON)
    environment.install(make_wheel(tmp_path, python=TAG, platform=PLATFORM, files=FAKE_FILES, requires=requires))
    seen: list[tuple[object, ...]] = []

    def run_lit(*about: object, limit: float | None, **options: object) -> list[TestResult]:
        installed = environment.installed()
        seen.append((installed["pyyaml"], "lit" in installed, limit))
        return []

    monkeypatch.setattr("mlir_release.builder.testing.lit.run_lit", run_lit)
    subject = SuiteSubject(project=PROJECT, sdk=sdk, workdir=tmp_path / "work", environment=environment)
    for_testing.bindings(subject)
    assert seen == [(version, True, lit.LIMIT)]


def test_a_wheel_of_another_revision_is_refused(sdk: Sdk, tmp_path: Path) -> None:
    refused(lambda: run(fake_wheel(tmp_path, revision="f" * 40), sdk, tmp_path / "work", "smoke"), "wheel-unsuitable")
    assert not (tmp_path / "work").exists()


def only(monkeypatch: pytest.MonkeyPatch, smoke: Callable[[SuiteSubject], list[TestResult]], **suites: Suite) -> None:
    """Let these be the only suites, in place of the project's; ``smoke`` has what is known to fail, too."""
    known = TestResult(name="context_left_entered", outcome=TestOutcome.FAIL)
    monkeypatch.setattr(for_testing, "SUITES", suites)
    monkeypatch.setattr("mlir_release.builder.testing.run._first_steps", lambda subject: [*smoke(subject), known])


def test_a_wheel_is_inspected_once_and_auditwheel_is_not_asked_again(
    sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, inspected = inspect, []

    def counted(path: Path, *, ask_auditwheel: bool = True) -> WheelReport:
        inspected.append((path, ask_auditwheel))
        return original(path, ask_auditwheel=ask_auditwheel)

    def passes(subject: SuiteSubject) -> list[TestResult]:
        assert subject.environment is not None
        return [TestResult(name="it", outcome=TestOutcome.PASS)]

    for module in [module for module in sys.modules.values() if getattr(module, "inspect", None) is inspect]:
        monkeypatch.setattr(module, "inspect", counted)
    only(monkeypatch, passes, bindings=Suite(run=passes, addon=True))
    wheel = fake_wheel(tmp_path)
    reports = run_suites(wheel, sdk=sdk, python=str(PYTHON), workdir=tmp_path / "work", addon=wheel)
    assert [report.target.split("-")[0] for report in reports] == ["smoke", "bindings"]
    assert inspected == [(wheel, False)]


@pytest.mark.parametrize("outcome", [TestOutcome.PASS, TestOutcome.FAIL])
def test_smoke_goes_on_after_a_known_failure_and_after_no_other(
    sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: TestOutcome
) -> None:
    only(monkeypatch, lambda subject: [TestResult(name="import", outcome=outcome)])
    more = Suite(run=lambda subject: [TestResult(name="types", outcome=TestOutcome.PASS)])
    monkeypatch.setitem(for_testing.SUITES, "smoke", more)
    report = run(fake_wheel(tmp_path), sdk, tmp_path / "work", "smoke")
    names = [result.name for result in report.results]
    assert names == ["import", "context_left_entered", *(["types"] if outcome.good else [])]


def test_what_the_suites_take_is_said_before_they_run(
    sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Disk and memory, and time: shared by the machine's cores."""

    def passes(subject: SuiteSubject) -> list[TestResult]:
        assert "0.7 GB of disk are needed" in (said := capsys.readouterr().err)
        assert f"about {format_seconds(60 * CORE_MINUTES['smoke'] / (os.cpu_count() or 1))}" in said
        return [TestResult(name="it", outcome=TestOutcome.PASS)]

    only(monkeypatch, passes)
    assert run(fake_wheel(tmp_path), sdk, tmp_path / "work", "smoke").report.passed


@pytest.mark.parametrize(
    ("wheel", "names", "said"),
    [(None, ["smoke"], "smoke tests a wheel, and none is given"), (None, ["smok"], "mlir has no test suite smok")],
)
def test_wrong_requests(sdk: Sdk, tmp_path: Path, wheel: Path | None, names: list[str], said: str) -> None:
    assert refused(lambda: run_suites(wheel, sdk=sdk, suites=names, workdir=tmp_path)).what == said


def test_every_suite_of_the_matrix_can_be_run() -> None:
    assert list(SUITES) == list(PROJECT.suites) == list(for_testing.SUITES) == list(CORE_MINUTES)


def test_mlir_reached_through_a_wheel(sdk: Sdk, tmp_path: Path) -> None:
    environment = venv.create(tmp_path / "environment", PYTHON)
    environment.install(fake_wheel(tmp_path))
    mlir = WheelMlir(python=environment.python, environment=environment.variables(), tools=sdk.tools)
    before, after = mlir.round_trip("module {} loc(unknown)\n")
    assert before.strip() == after.strip() == "module {} loc(unknown)"
    assert mlir.to_llvm_ir("text") == "translated by the tool: --mlir-to-llvmir -\ntext"
    with pytest.raises(MlirError, match="it is broken"):
        mlir.round_trip("broken")


def test_mlir_reached_through_tools(sdk: Sdk) -> None:
    script = 'case "$*" in *emit-bytecode*) cat > "$3";; *.mlirbc) cat "$2";; *) cat;; esac'
    tool(sdk, "mlir-opt", script)
    mlir = ToolsMlir(tools=sdk.tools)
    assert mlir.round_trip("text") == ("text", "text")
    assert mlir.run("text", "builtin.module(cse)", print_locations=True) == "text"
    tool(sdk, "mlir-translate", "echo 'must have a !dbg location' >&2; exit 1")
    with pytest.raises(MlirError, match="must have a !dbg location"):
        mlir.to_llvm_ir("text")
