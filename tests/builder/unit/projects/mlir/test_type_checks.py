"""The check of a wheel's types: what becomes of mypy's answers. mypy itself reads the real wheel in tests/e2e."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.projects.mlir import PROJECT, TYPES, for_testing
from mlir_release.builder.projects.mlir.suites import type_checks
from mlir_release.builder.testing.port import SuiteSubject
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.programs.process import Captured
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The errors that ``wrong.py`` must have, as mypy reports them.
WRONG = [
    {"file": "wrong.py", "line": number, "column": 4, "message": "…", "hint": None, "code": code, "severity": "error"}
    for number, code in sorted(type_checks._expected(TYPES / "wrong.py"))
]
NOTE = {"file": "wrong.py", "line": 1, "column": 0, "message": "see", "hint": None, "code": None, "severity": "note"}


@dataclass
class Installed:
    """An environment with a package of empty files, mypy and an interpreter that give made-up answers."""

    root: Path
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"wrong.py": [*WRONG, NOTE]})
    runs: bool = True
    mypy: Captured | None = None
    ran: list[str] = field(default_factory=list)
    python: Path = Path("python")

    def site_packages(self) -> Path:
        return self.root

    def variables(self, extra: object = None) -> dict[str, str]:
        return {}

    def add(self, *names: str) -> None:
        for name in names:
            path = self.root / "mlir" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def answer(self, command: Sequence[str | Path], **options: object) -> Captured:
        program = Path(command[-1]).name
        if "mypy" not in command:
            self.ran.append(program)
            return Captured(returncode=0 if self.runs else 1, stdout="", stderr="it broke", ending="exit code")
        if self.mypy:
            return self.mypy
        found = self.findings.get(program, [])
        text = "".join(json.dumps(finding) + "\n" for finding in found)
        return Captured(returncode=1 if found else 0, stdout=text, stderr="", ending="exit code")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    found = Installed(tmp_path / "site-packages")
    found.add("py.typed", "_mlir_libs/_mlir.abi3.so", "_mlir_libs/_mlir/__init__.pyi", "execution_engine.py")
    found.add("_mlir_libs/_mlirDialectsLLVM.cpython-311-x86_64-linux-gnu.so", "_mlir_libs/_mlirDialectsLLVM.pyi")
    monkeypatch.setattr("mlir_release.ground.python.venv.cached", lambda *about: found)
    monkeypatch.setattr(type_checks, "capture", found.answer)
    return found


def check(
    installed: Installed, folder: Path, version: str = "22.1.8", tag: str = "snapshot-1"
) -> dict[str, TestResult]:
    release = WheelInfo(tag=tag, revision=REVISION, profile="host", target="mlir-linux-x86_64-cp311")
    environment: Any = installed
    results = type_checks.check_types(environment, folder, llvm_version=version, release=release)
    return {result.name: result for result in results}


def bad(results: dict[str, TestResult]) -> dict[str, str]:
    return {name: result.message for name, result in results.items() if not result.outcome.good}


def test_right_programs_are_run_and_the_wrong_one_is_not(installed: Installed, tmp_path: Path) -> None:
    results = check(installed, tmp_path)
    assert bad(results) == {}
    assert results.keys() == {"types/stubs", "types/engine", "types/right", "types/wrong"}
    assert installed.ran == ["engine.py", "right.py"]


def test_builds_without_the_execution_engine_have_no_program_for_it(installed: Installed, tmp_path: Path) -> None:
    (installed.root / "mlir/execution_engine.py").unlink()
    assert "types/engine" not in check(installed, tmp_path)


def test_a_false_error_in_an_ordinary_program(installed: Installed, tmp_path: Path) -> None:
    installed.findings["right.py"] = [WRONG[0] | {"line": 7, "message": "no attribute “x”", "code": "attr-defined"}]
    assert bad(check(installed, tmp_path)) == {"types/right": "right.py:7: no attribute “x” [attr-defined]"}


def test_an_error_that_mypy_overlooks(installed: Installed, tmp_path: Path) -> None:
    installed.findings["wrong.py"] = WRONG[1:]
    line, code = WRONG[0]["line"], WRONG[0]["code"]
    assert bad(check(installed, tmp_path)) == {"types/wrong": f"wrong.py:{line}: mypy does not report {code}"}


def test_a_package_that_mypy_ignores(installed: Installed, tmp_path: Path) -> None:
    """As without ``py.typed``: nothing of the wrong program is reported but its imports."""
    installed.findings["wrong.py"] = [WRONG[0] | {"code": "import-untyped"}]
    assert "mypy does not report" in bad(check(installed, tmp_path))["types/wrong"]


def test_another_error_in_the_same_place_is_none_of_those_expected(installed: Installed, tmp_path: Path) -> None:
    installed.findings["wrong.py"] = [*WRONG, WRONG[0] | {"code": "name-defined"}]
    assert "[name-defined]" in bad(check(installed, tmp_path))["types/wrong"]


def test_a_program_that_does_not_run(installed: Installed, tmp_path: Path) -> None:
    installed.runs = False
    assert "it does not run" in bad(check(installed, tmp_path))["types/right"]


def test_a_module_without_a_stub_is_named(installed: Installed, tmp_path: Path) -> None:
    installed.add("_mlir_libs/_mlirDialectsPDL.pyd", "_mlir_libs/libMLIRPythonSupport-mlir.so")
    assert bad(check(installed, tmp_path)) == {"types/stubs": "extension modules without a stub: _mlirDialectsPDL"}


@pytest.mark.parametrize("code", [0, 1, 2])
def test_mypy_that_does_not_work(installed: Installed, tmp_path: Path, code: int) -> None:
    """It ends with 1 where it found errors, and then says which."""
    said = "INTERNAL ERROR" if code else "{}"
    installed.mypy = Captured(returncode=code, stdout=said, stderr="why", ending="exit code")
    results = check(installed, tmp_path)
    assert results["types/wrong"].outcome is TestOutcome.FAIL
    assert results["types/right"].outcome is (TestOutcome.FAIL if code else TestOutcome.PASS)


@pytest.mark.parametrize(("version", "judged"), [("19.1.7", 1), ("21.1.8", 1), ("22.0.0-rc1", 4), ("24.0.0git", 4)])
def test_wheels_of_older_llvms_are_not_judged_and_say_why(
    installed: Installed, tmp_path: Path, version: str, judged: int
) -> None:
    results = list(check(installed, tmp_path, version=version).values())
    assert len(results) == judged
    unsupported = [result for result in results if result.outcome is TestOutcome.UNSUPPORTED]
    assert [f"LLVM {version}" in result.message for result in unsupported] == [True] * (judged == 1)


def test_a_release_must_have_stubs_and_a_local_cross_build_need_not(installed: Installed, tmp_path: Path) -> None:
    for path in [*installed.root.rglob("*.pyi"), installed.root / "mlir/py.typed"]:
        path.unlink()
    (result,) = check(installed, tmp_path, tag="local").values()
    assert result.outcome is TestOutcome.UNSUPPORTED
    assert bad(check(installed, tmp_path))["types/stubs"].endswith(": _mlir, _mlirDialectsLLVM")


def test_a_local_build_that_lost_its_mark_is_judged(installed: Installed, tmp_path: Path) -> None:
    (installed.root / "mlir/py.typed").unlink()
    assert "types/wrong" in check(installed, tmp_path, tag="local")


def test_the_smoke_suite_has_a_row_for_each_check(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(for_testing, "run_cases", lambda mlir, version: [])
    info = SimpleNamespace(llvm_version="22.1.8")
    sdk: Any = SimpleNamespace(info=info, has=lambda part: False)
    environment: Any = installed
    subject = SuiteSubject(project=PROJECT, sdk=sdk, workdir=tmp_path / "work", environment=environment)
    names = [result.name for result in for_testing.smoke(subject)]
    assert names == ["types/stubs", "types/engine", "types/right", "types/wrong"]
