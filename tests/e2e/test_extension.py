"""``examples/extension`` against the rehearsal's wheel: headers, CMake package, and another ``mlir``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.inspect import inspect
from mlir_release.extras.downstream.projects import (
    EXTENSION,
    EXTENSION_PROGRAM,
    build_project,
    copy_extension,
    run_program,
)
from mlir_release.ground.python import venv
from tests.processes import run

if TYPE_CHECKING:
    from mlir_release.ground.python.venv import VirtualEnvironment
    from tests.e2e.conftest import Rehearsed

#: What C lacked before C23: ``enum Kind : uint64_t``.
FIXED_TYPE_OF_ENUM = re.compile(r"^\s*enum\s+\w+\s*:", re.MULTILINE)


@pytest.fixture(scope="module")
def environment(rehearsed: Rehearsed, tmp_path_factory: pytest.TempPathFactory) -> VirtualEnvironment:
    python = Path(rehearsed.options.pythons[0])
    made = venv.create(tmp_path_factory.mktemp("environment") / "venv", python)
    made.install(rehearsed.wheel)
    return made


@pytest.fixture(scope="module")
def built(rehearsed: Rehearsed, environment: VirtualEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's wheel, built in isolation with the one version of ``mlir`` that it names."""
    folder = tmp_path_factory.mktemp("extension")
    project = copy_extension(inspect(rehearsed.wheel).version, folder / "project")
    return build_project(environment, project, folder, {"PIP_FIND_LINKS": str(rehearsed.wheel.parent)})


@pytest.mark.parametrize("language", ["c", "c++"])
def test_each_header_compiles_alone(environment: VirtualEnvironment, tmp_path: Path, language: str) -> None:
    include = environment.site_packages() / "mlir" / "_mlir_libs" / "include"
    headers = sorted(include.rglob("*.h"))
    assert len(headers) > 70
    assert (include / "mlir" / "Config" / "mlir-config.h").is_file()
    for number, header in enumerate(headers):
        if language == "c++" or not FIXED_TYPE_OF_ENUM.search(header.read_text(encoding="utf-8")):
            text = f'#include "{header.relative_to(include).as_posix()}"\n'
            (tmp_path / f"{number}.{language}").write_text(text, encoding="utf-8")
    sources = sorted(tmp_path.iterdir())
    assert len(sources) >= len(headers) - 3
    flags = ("-fsyntax-only", "-Wall", "-Werror", "-I", include, "-I", sysconfig.get_path("include"))
    run("cc", "-x", language, *flags, *sources)


def test_the_first_commands_of_its_readme_work_as_they_are_written(rehearsed: Rehearsed, tmp_path: Path) -> None:
    """In a checkout in which ``make rehearsal`` has run, with the pip of a virtual environment."""
    project = shutil.copytree(EXTENSION, tmp_path / "examples" / "extension")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "rehearsal").symlink_to(rehearsed.options.workspace)
    commands = (project / "README.md").read_text(encoding="utf-8").split("```\n")[1].partition("pytest")[0]
    made = venv.create(tmp_path / "venv", Path(rehearsed.options.pythons[0]), pip=True)
    subprocess.run(["bash", "-ec", commands], cwd=project, env=made.variables(), check=True)
    assert made.installed()["mlir"] == inspect(rehearsed.wheel).version
    assert "operations: " in run_program(made, "the extension", EXTENSION_PROGRAM)


def test_its_wheel_names_the_one_mlir_that_it_works_with(rehearsed: Rehearsed, built: Path) -> None:
    report = inspect(built)
    assert report.requires_dist == (f"mlir=={inspect(rehearsed.wheel).version}",)
    assert [problem.id for problem in report.problems] == ["needs-outside-library"]  # which is in mlir
    assert report.external == ("libMLIRPythonCAPI-mlir_release.so",)
    assert report.stable_abi


def test_its_tests_pass_on_contexts_of_the_installed_mlir(environment: VirtualEnvironment, built: Path) -> None:
    environment.install("--no-deps", built)
    environment.install("pytest")
    # In the project's own folder, whose sources ``python -m`` would import if they were not under src/.
    command = (environment.python, "-m", "pytest", "-q", "tests", "-p", "no:cacheprovider", "--rootdir", EXTENSION)
    said = run(*command, variables=environment.variables(), cwd=EXTENSION)
    assert " passed" in said


def test_with_another_mlir_importing_it_is_one_error(
    environment: VirtualEnvironment, built: Path, tmp_path: Path
) -> None:
    """Of the same place, by another revision."""
    environment.install("--no-deps", built)
    site = environment.site_packages()
    (tmp_path / "site").mkdir()
    for name in ("mlir", "mlir_extension_example"):
        shutil.copytree(site / name, tmp_path / "site" / name)
    file = tmp_path / "site" / "mlir" / "_release.json"
    other = json.loads(file.read_text(encoding="utf-8")) | {"revision": "0" * 40, "tag": "snapshot-20200101.01"}
    file.write_text(json.dumps(other), encoding="utf-8")
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import mlir_extension_example"
    done = subprocess.run([environment.python, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: [mlir-extension-other-mlir] mlir_extension_example was built with mlir ")
    assert "installed is mlir of snapshot-20200101.01" in last
