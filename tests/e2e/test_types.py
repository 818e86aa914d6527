"""The real wheel's types, by mypy as the smoke suite asks it and by pyright; and what they say of a damaged wheel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import TYPES
from mlir_release.builder.projects.mlir.suites.type_checks import check_types
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.python import venv
from tests import npm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.ground.python.venv import VirtualEnvironment
    from tests.e2e.conftest import Rehearsed

PYRIGHT = "1.1.414"


@pytest.fixture(scope="module")
def installed(rehearsed: Rehearsed, tmp_path_factory: pytest.TempPathFactory) -> VirtualEnvironment:
    (python,) = rehearsed.options.pythons
    environment = venv.create(tmp_path_factory.mktemp("types") / "environment", Path(python))
    environment.install(rehearsed.wheel)
    return environment


@pytest.fixture
def package(installed: VirtualEnvironment, tmp_path: Path) -> Iterator[Path]:
    """The installed package; whatever a test removes is put back."""
    folder = installed.site_packages() / "mlir"
    shutil.copytree(folder, tmp_path / "before")
    yield folder
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "before", folder)


def failing(installed: VirtualEnvironment, rehearsed: Rehearsed, workdir: Path) -> dict[str, str]:
    release = inspect(rehearsed.wheel).release
    results = list(check_types(installed, workdir, llvm_version="22.1.8", release=release))
    assert [result.name for result in results] == ["types/stubs", "types/engine", "types/right", "types/wrong"]
    return {result.name: result.message for result in results if not result.outcome.good}


def test_a_wheel_without_its_mark_is_refused(
    installed: VirtualEnvironment, package: Path, rehearsed: Rehearsed, tmp_path: Path
) -> None:
    (package / "py.typed").unlink()
    found = failing(installed, rehearsed, tmp_path)
    assert "import-untyped" in found["types/right"]
    assert "mypy does not report call-overload" in found["types/wrong"]


def test_a_wheel_without_the_stub_of_a_dialects_module_is_refused(
    installed: VirtualEnvironment, package: Path, rehearsed: Rehearsed, tmp_path: Path
) -> None:
    (package / "_mlir_libs" / "_mlirDialectsLLVM.pyi").unlink()
    found = failing(installed, rehearsed, tmp_path)
    assert found["types/stubs"] == "extension modules without a stub: _mlirDialectsLLVM"


def test_a_wheel_that_leads_mypy_to_upstreams_own_modules_is_refused(
    installed: VirtualEnvironment, package: Path, rehearsed: Rehearsed, tmp_path: Path
) -> None:
    """Those bind names twice: this is what the copies for type checkers are for."""
    (package / "dialects" / "func.pyi").unlink()
    found = failing(installed, rehearsed, tmp_path)
    assert '"FuncOp" has no attribute "add_entry_block"' in found["types/right"]


def test_the_names_in_stubs_are_known(installed: VirtualEnvironment, tmp_path: Path) -> None:
    """mypy takes an unknown name of an installed stub for Any and says nothing, so the package is read as a program."""
    shutil.copytree(installed.site_packages() / "mlir", tmp_path / "mlir")
    options = ("--config-file=", "--namespace-packages", "--explicit-package-bases", "--output=json")
    mypy = Path(sys.executable).with_name("mypy")
    command: list[str | Path] = [mypy, *options, "--python-executable", installed.python, "-p", "mlir"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert findings
    of_stubs = [finding for finding in findings if Path(finding["file"]).parts[1] == "_mlir_libs"]
    unknown = [finding["message"] for finding in of_stubs if finding["code"] in {"name-defined", "import-not-found"}]
    assert unknown == ['Name "__repr__" is not defined']  # of an enumeration, by nanobind's stubgen
    again = [finding for finding in findings if finding["code"] == "no-redef" and "dialects/" in finding["file"]]
    assert [finding["file"] for finding in again if "opdsl" not in finding["file"]] == []


def test_pyright_agrees(installed: VirtualEnvironment, tmp_path: Path) -> None:
    shutil.copytree(TYPES, tmp_path / "programs")
    try:
        command: list[str | Path] = [npm.node(), npm.provide("pyright", PYRIGHT) / "index.js"]
    except RuntimeError as error:
        pytest.skip(f"NOT TRIED: {error}")
    command += ["--outputjson", "--pythonpath", installed.python, "programs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in json.loads(done.stdout)["generalDiagnostics"]
    ]
    lines = (TYPES / "wrong.py").read_text(encoding="utf-8").splitlines()
    assert set(found) == {("wrong.py", number) for number, line in enumerate(lines, 1) if "# type-error: " in line}
