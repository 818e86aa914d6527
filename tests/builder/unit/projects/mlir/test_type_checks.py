"""The check of a wheel's types: what becomes of mypy's answers. mypy itself reads the real wheel in tests/e2e."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.projects.mlir import PROJECT, TYPES, for_testing
from mlir_release.builder.projects.mlir.suites import type_checks
from mlir_release.builder.projects.mlir.suites.behaviours import CASES
from mlir_release.builder.testing.port import SuiteSubject
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.python.venv import VirtualEnvironment
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from pathlib import Path

#: The errors that ``wrong.py`` must have, as mypy reports them.
WRONG = [
    {"file": "wrong.py", "line": number, "column": 4, "message": "…", "hint": None, "code": code, "severity": "error"}
    for number, code in sorted(type_checks._expected(TYPES / "wrong.py"))
]
NOTE = {"file": "wrong.py", "line": 1, "column": 0, "message": "see", "hint": None, "code": None, "severity": "note"}


#: Programs append their names to ``ran``; mypy says what a program's file has, or always the same.
PYTHON = """#!/bin/sh
cd '{folder}'
for last; do program=${{last##*/}}; done
case "$*" in *"-m mypy"*) ;; *) echo $program >> ran; echo it broke >&2; [ ! -f broken ]; exit;; esac
if [ -f mypy ]; then cat mypy; echo why >&2; exit $(cat code); fi
if [ -f $program ]; then cat $program; exit 1; fi
"""


@dataclass(frozen=True, kw_only=True)
class Installed(VirtualEnvironment):
    """An environment with a package of empty files, and an interpreter that gives made-up answers, also as mypy."""

    def site_packages(self) -> Path:
        return self.root / "site-packages"

    @property
    def ran(self) -> list[str]:
        return (self.root / "ran").read_text().split()

    def find(self, program: str, *findings: dict[str, Any]) -> None:
        (self.root / program).write_text("".join(json.dumps(finding) + "\n" for finding in findings))

    def add(self, *names: str) -> None:
        for name in names:
            path = self.site_packages() / "mlir" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    found = Installed(root=tmp_path / "environment")
    found.scripts.mkdir(parents=True)
    found.python.write_text(PYTHON.format(folder=found.root))
    found.python.chmod(0o755)
    found.find("wrong.py", *WRONG, NOTE)
    found.add("py.typed", "_mlir_libs/_mlir.abi3.so", "_mlir_libs/_mlir/__init__.pyi", "execution_engine.py")
    found.add("_mlir_libs/_mlirDialectsLLVM.cpython-311-x86_64-linux-gnu.so", "_mlir_libs/_mlirDialectsLLVM.pyi")
    return found


def remove_stubs(installed: Installed) -> None:
    for path in [*installed.root.rglob("*.pyi"), installed.site_packages() / "mlir/py.typed"]:
        path.unlink()


def release_of(tag: str) -> WheelInfo:
    return WheelInfo(tag=tag, revision=REVISION, profile="host", target="mlir-linux-x86_64-cp311")


def check(
    installed: Installed, folder: Path, version: str = "22.1.8", tag: str = "snapshot-1"
) -> dict[str, TestResult]:
    known: dict[str, Any] = {"llvm_version": version, "release": release_of(tag)}
    return {result.name: result for result in type_checks.check_types(installed, folder, checker=installed, **known)}


def bad(results: dict[str, TestResult]) -> dict[str, str]:
    return {name: result.message for name, result in results.items() if not result.outcome.good}


def test_right_programs_are_run_and_the_wrong_one_is_not(installed: Installed, tmp_path: Path) -> None:
    results = check(installed, tmp_path)
    assert bad(results) == {}
    assert results.keys() == {"types/stubs", "types/engine", "types/right", "types/wrong"}
    assert installed.ran == ["engine.py", "right.py"]


def test_builds_without_the_execution_engine_have_no_program_for_it(installed: Installed, tmp_path: Path) -> None:
    (installed.site_packages() / "mlir" / "execution_engine.py").unlink()
    assert "types/engine" not in check(installed, tmp_path)


def test_a_false_error_in_an_ordinary_program(installed: Installed, tmp_path: Path) -> None:
    installed.find("right.py", WRONG[0] | {"line": 7, "message": "no attribute “x”", "code": "attr-defined"})
    assert bad(check(installed, tmp_path)) == {"types/right": "right.py:7: no attribute “x” [attr-defined]"}


def test_an_error_that_mypy_overlooks(installed: Installed, tmp_path: Path) -> None:
    installed.find("wrong.py", *WRONG[1:])
    line, code = WRONG[0]["line"], WRONG[0]["code"]
    assert bad(check(installed, tmp_path)) == {"types/wrong": f"wrong.py:{line}: mypy does not report {code}"}


def test_a_package_that_mypy_ignores(installed: Installed, tmp_path: Path) -> None:
    """As without ``py.typed``: nothing of the wrong program is reported but its imports."""
    installed.find("wrong.py", WRONG[0] | {"code": "import-untyped"})
    assert "mypy does not report" in bad(check(installed, tmp_path))["types/wrong"]


def test_another_error_in_the_same_place_is_none_of_those_expected(installed: Installed, tmp_path: Path) -> None:
    installed.find("wrong.py", *WRONG, WRONG[0] | {"code": "name-defined"})
    assert "[name-defined]" in bad(check(installed, tmp_path))["types/wrong"]


def test_a_program_that_does_not_run(installed: Installed, tmp_path: Path) -> None:
    (installed.root / "broken").touch()
    assert "it does not run" in bad(check(installed, tmp_path))["types/right"]


def test_a_module_without_a_stub_is_named(installed: Installed, tmp_path: Path) -> None:
    installed.add("_mlir_libs/_mlirDialectsPDL.pyd", "_mlir_libs/libMLIRPythonSupport-mlir.so")
    assert bad(check(installed, tmp_path)) == {"types/stubs": "extension modules without a stub: _mlirDialectsPDL"}


@pytest.mark.parametrize("code", [0, 1, 2])
def test_mypy_that_does_not_work(installed: Installed, tmp_path: Path, code: int) -> None:
    """It ends with 1 where it found errors, and then says which."""
    (installed.root / "mypy").write_text("INTERNAL ERROR" if code else "{}")
    (installed.root / "code").write_text(str(code))
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
    remove_stubs(installed)
    (result,) = check(installed, tmp_path, tag="local").values()
    assert result.outcome is TestOutcome.UNSUPPORTED
    assert bad(check(installed, tmp_path))["types/stubs"].endswith(": _mlir, _mlirDialectsLLVM")


def test_a_local_build_that_lost_its_mark_is_judged(installed: Installed, tmp_path: Path) -> None:
    (installed.site_packages() / "mlir" / "py.typed").unlink()
    assert "types/wrong" in check(installed, tmp_path, tag="local")


def test_the_smoke_suite_has_the_checks_of_types_and_of_behaviours(installed: Installed, tmp_path: Path) -> None:
    remove_stubs(installed)
    (installed.root / "broken").touch()
    sdk: Any = SimpleNamespace(info=SimpleNamespace(llvm_version="22.1.8"), has=lambda part: False)
    subject = SuiteSubject(
        project=PROJECT, sdk=sdk, workdir=tmp_path / "work", environment=installed, release=release_of("local")
    )
    names = [result.name for result in for_testing.smoke(subject)]
    assert names == ["types", *(f"regressions/{case.name}" for case in CASES)]
