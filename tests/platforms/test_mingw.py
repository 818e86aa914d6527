"""A wheel for Windows that is imported, passes the smoke suite and upstream's tests of the bindings: under wine.

Compiled from here by PyPI's ``ziglang``, for MinGW: with another C++ ABI and another C++ library than those of a
release, which Microsoft's tools make. So this shows that a package laid out like ours is found and loaded, and that
what its CMake files do for Windows works. It doesn't show what a compiler makes of the sources there; nor is wine
Windows.

The scopes: see :mod:`tests.platforms.mingw`. The smallest is compiled here, an hour from nothing; the others are tested
where their libraries are built.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.wheel_info import WheelInfo
from mlir_release.builder.projects.mlir import PROJECT
from mlir_release.builder.projects.mlir.for_testing import NEED_TEST_DIALECT
from mlir_release.builder.projects.mlir.suites.lit_site import LitSetup, write_site_configuration
from mlir_release.builder.testing import lit
from mlir_release.builder.testing.port import SuiteSubject
from mlir_release.builder.testing.report import TestOutcome
from mlir_release.builder.testing.run import suites_of
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.ground.python.locked import choose
from tests.platforms import mingw, wine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.builder.testing.report import TestResult

pytestmark = pytest.mark.slow

#: What a test says that needs a dialect, a pass or an extension module that the smallest scope leaves out.
BEYOND = re.compile(
    r"cannot import name '\w+' from 'mlir\.(?:dialects|_mlir_libs)|No module named 'mlir\.(?:dialects|_mlir_libs)|"
    r"does not refer to a registered pass|[Dd]ialect `?'?\w+'?`? not found|in unregistered dialect"
)


@pytest.fixture(scope="module")
def windows() -> wine.Windows:
    wine.skip_without("ccache")
    return wine.provide()


@dataclass(frozen=True, kw_only=True)
class Package:
    """An installed wheel."""

    build: mingw.Mingw
    scope: mingw.Scope
    wheel: Path
    environment: wine.Installed

    def run(self, code: str) -> str:
        done = self.environment.run("-c", code)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def subject(self, workdir: Path) -> SuiteSubject:
        """As the toolkit's suites want it; the SDK is that of this machine's programs."""
        info = WheelInfo.from_text((self.environment.site_packages() / "mlir/_release.json").read_text("utf-8"))
        return SuiteSubject(
            project=PROJECT,
            sdk=self.build.tools,
            workdir=workdir,
            environment=self.environment,
            wheel=self.wheel,
            release=info,
        )


@pytest.fixture(scope="module", params=mingw.SCOPES)
def package(request: pytest.FixtureRequest, windows: wine.Windows, tmp_path_factory: pytest.TempPathFactory) -> Package:
    build = mingw.Mingw.provide()
    scope = mingw.SCOPES[request.param]
    if scope.whole and (left := build.count_steps(scope)) != 0:
        how = f"python -m tests.platforms.mingw {request.param}"
        sys.stderr.write(f"\n*** NO WHOLE WHEEL FOR WINDOWS WAS TRIED: {left or 'all'} steps are left of `{how}` ***\n")
        pytest.skip(f"NOT TRIED: {left or 'all'} steps are left of `{how}`")
    folder = tmp_path_factory.mktemp(request.param)
    wheel = build.wheel(request.param, windows, folder)
    return Package(build=build, scope=scope, wheel=wheel, environment=windows.install(wheel, folder / "python"))


def test_the_wheel_is_what_it_says(package: Package) -> None:
    report = inspect(package.wheel)
    assert report.problems == ()
    assert report.external == ()
    assert package.wheel.name.endswith("-cp313-cp313-win_amd64.whl")


def test_a_pass_runs(package: Package) -> None:
    code = """
from mlir.ir import Context, Module
from mlir.passmanager import PassManager
with Context():
    module = Module.parse("func.func @f(%a: i32) -> i32 { %b = arith.constant 1 : i32\\n return %a : i32 }")
    PassManager.parse("builtin.module(canonicalize)").run(module.operation)
    print(str(module).count("constant"))
"""
    assert package.run(code).split() == ["0"]


def fails(package: Package, title: str, results: Sequence[TestResult]) -> set[str]:
    """Print a table, which docs/platforms.md has; return what fails, but for what the scope leaves out."""
    beyond = {result.name for result in results if not package.scope.whole and BEYOND.search(result.message)}
    print(f"\n{title} of {package.wheel.name}:")
    for outcome in TestOutcome:
        names = [result.name for result in results if result.outcome is outcome]
        left_out = len(beyond.intersection(names))
        print(f"  {outcome.value}: {len(names)}" + (f", {left_out} for what is not built" if left_out else ""))
    failed = {result.name for result in results if not result.outcome.good} - beyond
    print("".join(f"    {name}\n" for name in sorted(failed)))
    return failed


def test_smoke(package: Package, tmp_path: Path) -> None:
    assert (
        fails(package, "smoke", suites_of(PROJECT)["smoke"].run(package.subject(tmp_path)))
        <= package.scope.fails.keys()
    )


def test_upstreams_tests_of_the_bindings(package: Package, tmp_path: Path) -> None:
    setup = LitSetup(
        sdk=package.build.tools,
        python=package.environment.python,
        bindings=True,
        code_generators=(),
        execution_engine=package.scope.profile != "core",
    )
    package.environment.install_locked(choose(PROJECT.test_requirements))
    folder = write_site_configuration(setup, tmp_path / "tools/mlir")
    results = lit.run_lit(
        folder / "python",
        lit=lit.find_lit(),
        environment=package.environment.variables(),
        title="upstream's tests of the Python bindings",
        only=package.scope.tests(package.build.tools.source / "test"),
        without=NEED_TEST_DIALECT,
    )
    assert fails(package, "bindings", results) <= package.scope.fails.keys()
