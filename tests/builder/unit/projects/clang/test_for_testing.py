"""Upstream's tests of clang's bindings, as the suite runs them: made-up modules that end in all ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.projects.clang import PROJECT
from mlir_release.builder.projects.clang.for_testing import SUITES
from mlir_release.builder.testing.report import TestOutcome

if TYPE_CHECKING:
    from mlir_release.builder.testing.report import TestResult

MODULES = {
    "test_all": """
import os, sys, unittest, warnings
from pathlib import Path

class TestAll(unittest.TestCase):
    def test_good(self):
        print("noise", '{"name": "not a line"')
    def test_bad(self):
        self.assertEqual(1, 2, "numbers differ")
    def test_broken(self):
        raise OSError("no such library")
    @unittest.skip("needs Windows")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_parts(self):
        for number in range(3):
            with self.subTest(number): self.assertNotEqual(number, 1)
    def test_warnings(self):
        with warnings.catch_warnings(record=True) as log:
            warnings.warn("soon gone", DeprecationWarning)
        self.assertEqual(len(log), 1)
    def test_surroundings(self):
        self.assertEqual(os.environ["CLANG_NO_DEFAULT_CONFIG"], "1")
        header = Path(__file__).parents[4] / "include/clang-c/Index.h"
        self.assertTrue(header.is_file())
        self.assertFalse((Path(__file__).parents[2] / "clang").exists())
""",
    "test_crash": """
import os, unittest
class TestCrash(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): os._exit(3)
    def test_c(self): pass
""",
    "test_import": "import no_such_module",
    "test_class": """
import unittest
class TestClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no class")
    def test_never(self): pass
""",
    "util": "raise SystemExit('not a module of tests')",
}


@pytest.fixture
def results(tmp_path: Path) -> dict[str, TestResult]:
    bindings = tmp_path / "sdk/source/clang/bindings/python"
    for name, text in {
        **{f"tests/cindex/{name}.py": text for name, text in MODULES.items()},
        "tests/__init__.py": "",
        "tests/cindex/__init__.py": "",
        "clang/cindex.py": "raise ImportError('upstream, not the wheel')",
        "../../include/clang-c/Index.h": "",
    }.items():
        (bindings / name).parent.mkdir(parents=True, exist_ok=True)
        (bindings / name).write_text(text)
    environment = SimpleNamespace(python=Path(sys.executable), variables=lambda more: dict(more))
    workdir = tmp_path / "work"
    workdir.mkdir()
    subject: Any = SimpleNamespace(sdk=SimpleNamespace(root=tmp_path / "sdk"), workdir=workdir, environment=environment)
    return {result.name: result for result in SUITES["bindings"].run(subject)}


def test_each_test_is_a_result_whatever_its_end(results: dict[str, TestResult]) -> None:
    outcomes = {name: result.outcome for name, result in results.items() if name.startswith("test_all.")}
    good, bad = TestOutcome.PASS, TestOutcome.FAIL
    assert outcomes == {
        "test_all.TestAll.test_good": good,
        "test_all.TestAll.test_bad": bad,
        "test_all.TestAll.test_broken": bad,
        "test_all.TestAll.test_skipped": TestOutcome.UNSUPPORTED,
        "test_all.TestAll.test_expected": good,
        "test_all.TestAll.test_unexpected": bad,
        "test_all.TestAll.test_parts": bad,
        "test_all.TestAll.test_surroundings": good,
        "test_all.TestAll.test_warnings": good,
    }
    assert "numbers differ" in results["test_all.TestAll.test_bad"].message
    assert "no such library" in results["test_all.TestAll.test_broken"].message
    assert results["test_all.TestAll.test_skipped"].message == "needs Windows"


def test_a_crash_loses_the_rest_of_its_module_only_and_is_a_failure(results: dict[str, TestResult]) -> None:
    found = {name: result for name, result in results.items() if name.startswith("test_crash.")}
    assert set(found) == {"test_crash.TestCrash.test_a", "test_crash.runs-to-the-end"}
    assert found["test_crash.runs-to-the-end"].outcome == TestOutcome.FAIL
    assert "after test_crash.TestCrash.test_a" in found["test_crash.runs-to-the-end"].message


def test_a_module_or_class_that_can_not_begin_is_a_failure(results: dict[str, TestResult]) -> None:
    rest = {name: result for name, result in results.items() if not name.startswith(("test_all", "test_crash"))}
    assert {result.outcome for result in rest.values()} == {TestOutcome.FAIL}
    assert any("no_such_module" in result.message for result in rest.values())
    assert any("no class" in result.message for result in rest.values())


def test_it_is_run_on_the_wheel_with_the_part_that_has_the_tests() -> None:
    assert SUITES["bindings"].parts == ("tools",)
    assert set(PROJECT.suites) == {"smoke", "bindings"}


#: Enough of clang.cindex for one check: what a program includes is in this package, but for what a variable names.
CINDEX = """
import os
from types import SimpleNamespace as Some
class Index:
    create = staticmethod(lambda: Index())
    def parse(self, name, args, unsaved_files):
        nowhere = "-resource-dir" in args
        names = [] if nowhere else [os.path.join(os.path.dirname(__file__), "lib", "immintrin.h"), os.environ["SECOND"]]
        return Some(diagnostics=[], get_includes=lambda: (Some(include=Some(name=name)) for name in names))
"""


@pytest.mark.parametrize("machines", [False, True])
def test_a_header_of_the_machine_in_place_of_the_wheels_is_named(tmp_path: Path, machines: bool) -> None:
    package = tmp_path / "clang"
    package.mkdir()
    (package / "cindex.py").write_text(CINDEX, encoding="utf-8")
    second = Path("/usr/include/clang/22.1.8/include/mmintrin.h" if machines else package / "lib" / "mmintrin.h")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SECOND": str(second)}
    command: list[str | Path] = [sys.executable, PROJECT.smoke, "libclang"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (line,) = [found for found in map(json.loads, done.stdout.splitlines()) if found["name"] == "own_headers"]
    assert (line["ok"], str(second) in line["message"]) == (not machines, machines)
