"""The real wheels of clang's bindings, of each LLVM that the distribution has: built, inspected, tested and used."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.components import SdkSpec
from mlir_release.builder.sdk.elf import dynamic_symbols
from mlir_release.builder.sdk.provision import available_releases, provide_sdk
from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.testing.report import TestOutcome
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import describe, find_pythons
from mlir_release.ground.storage.cache import cache_directory
from tests.e2e.real_llvms import built_once, real_wheel
from tests.processes import run

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not DebianPackages.available(), reason="makes the SDK of Debian's or Ubuntu's packages"),
]

#: How many of upstream's tests pass, by LLVM's major version: fewer would mean that some were not found.
TESTS = {19: 134, 22: 174}

CLANG = """
from clang.cindex import Index
unit = Index.create().parse("a.cpp", unsaved_files=[("a.cpp", "#include <stddef.h>\\n#include <vector>\\n")])
assert not list(unit.diagnostics), [str(one) for one in unit.diagnostics]
"""

MLIR = """
from mlir.ir import Context, Module
with Context():
    assert Module.parse("func.func private @f()").operation.verify()
"""


@dataclass(frozen=True)
class Made:
    """A wheel, with what it was made of."""

    major: int
    sdk: Sdk
    wheel: Path


@pytest.fixture(
    scope="module",
    params=[pytest.param(0, id="newest"), pytest.param(1, id="the one before", marks=pytest.mark.slow)],
)
def made(request: pytest.FixtureRequest) -> Made:
    """The wheel of the newest LLVM, or of the one before; kept in the cache."""
    cache = cache_directory()
    releases = list(islice(available_releases(cache=cache, project="clang"), request.param, request.param + 1))
    if not releases:
        pytest.skip("the distribution has one LLVM only")
    ((release, _),) = releases
    sdk = provide_sdk(release, release, SdkSpec(project="clang"), cache=cache)
    wanted = WheelRequest.of_profile("libclang", sdk=sdk)
    return Made(int(release.version.partition(".")[0]), sdk, built_once(wanted, [], cache))


def test_it_is_small_and_needs_nothing_but_the_runtimes_of_every_machine(made: Made) -> None:
    report = inspect(made.wheel)
    assert not report.problems
    assert report.tags[0].startswith("py3-none-manylinux_")
    assert report.size < 20_000_000  # 24.5 MB are libclang's of LLVM 18 on PyPI, without the compiler's own headers
    ((name, library),) = report.elf.items()
    assert name == "clang/lib/libclang.so"
    assert {needed.partition(".so")[0] for needed in library.needed} <= {
        "libc", "libdl", "libgcc_s", "libm", "libpthread", "libstdc++", "ld-linux-x86-64", "ld-linux-aarch64",
    }  # fmt: skip
    assert not report.requires_dist


def test_it_exports_the_c_api_and_nothing_else(made: Made, tmp_path: Path) -> None:
    with zipfile.ZipFile(made.wheel) as archive:
        library = archive.extract("clang/lib/libclang.so", tmp_path)
        typed = "clang/py.typed" in archive.namelist()
    with Path(library).open("rb") as file:
        _, given = dynamic_symbols(file)
    functions = {name for name in given if not name.startswith("LLVM_")}  # those are names of versions
    assert len(functions) > 400
    assert not [name for name in functions if not name.startswith("clang_")]
    assert typed == (made.major >= 20)


@pytest.mark.parametrize("newest", [False, True], ids=["oldest CPython", "newest CPython"])
def test_all_of_upstreams_tests_and_the_smoke_test_are_as_known(made: Made, tmp_path: Path, newest: bool) -> None:
    pythons = sorted(find_pythons(), key=lambda python: tuple(map(int, python.short_version.split("."))))
    python = pythons[-1 if newest else 0].short_version
    for report in run_suites(made.wheel, sdk=made.sdk, workdir=tmp_path, python=python):
        bad = [f"{result.name}: {result.message}" for result in report.results if not result.outcome.good]
        assert not bad
        if report.suite == "bindings":
            assert report.counts[TestOutcome.PASS] >= TESTS.get(made.major, 100)


@pytest.mark.slow  # it builds wheels of MLIR, too
def test_both_projects_work_in_one_process(made: Made, tmp_path: Path) -> None:
    python = describe(Path(sys.executable))
    environment = venv.create(tmp_path / "environment", python.executable)
    cache = cache_directory()
    newest, _ = next(available_releases(cache=cache))
    environment.install(made.wheel, real_wheel(newest, python, cache))
    program = tmp_path / "program.py"
    for parts in ([CLANG, MLIR], [MLIR, CLANG]):
        program.write_text("".join(parts))
        run(environment.python, "-I", program, cwd=tmp_path)
