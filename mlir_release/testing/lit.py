"""Run upstream's own lit tests: their configuration, filled in for an SDK, and their results.

Upstream's build system fills ``mlir/test/lit.site.cfg.py.in`` in; so do we, from an SDK instead of a build tree. Names
that we have no value for become false or empty, so that a variable that a later LLVM adds does not stop the tests.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import MachineError, VerificationError
from mlir_release.host.needs import install_extra
from mlir_release.host.process import StepFailed, run_logged, tail, whole_log
from mlir_release.model.decode import BUILD_LIMIT, parse_json
from mlir_release.testing.known_failures import version_in
from mlir_release.testing.report import TestOutcome, TestResult

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from mlir_release.sdk.info import Sdk

_VARIABLE = re.compile(r"(?P<quote>\"|')?@(?P<name>\w+)@")

#: lit's result codes. Source: lit/Test.py.
_OUTCOMES = {
    "PASS": TestOutcome.PASS,
    "FLAKYPASS": TestOutcome.PASS,
    "XFAIL": TestOutcome.EXPECTED_FAIL,
    "FAIL": TestOutcome.FAIL,
    "XPASS": TestOutcome.UNEXPECTED_PASS,
    "UNRESOLVED": TestOutcome.FAIL,
    "TIMEOUT": TestOutcome.FAIL,
    "UNSUPPORTED": TestOutcome.UNSUPPORTED,
    "SKIPPED": TestOutcome.UNSUPPORTED,
}

#: The reason of a failure that the test itself expects.
_EXPECTED = "upstream's test says that it fails here (XFAIL)"


@dataclass(frozen=True, kw_only=True)
class LitSetup:
    """The settings of a run of upstream's tests.

    :param python: the interpreter that ``%PYTHON`` is replaced by
    :param bindings: run ``mlir/test/python`` (else those tests are unsupported), its integration tests too
    :param stable_abi: the bindings are built for CPython's stable ABI, which some of these tests are for or against
    :param code_generators: LLVM's names of those that the thing under test has
    :param execution_engine: whether the thing under test can run code
    :param libraries: folder of the runner libraries that tests load; the SDK's if ``None``
    """

    sdk: Sdk
    python: Path
    bindings: bool
    code_generators: tuple[str, ...]
    execution_engine: bool = True
    stable_abi: bool = False
    libraries: Path | None = None


def site_variables(setup: LitSetup, workdir: Path) -> dict[str, str]:
    """Values for upstream's template; whatever is not named here is off."""
    sdk = setup.sdk
    return {
        "LIT_SITE_CFG_IN_HEADER": "def path(p): return p",
        "LLVM_TARGET_TRIPLE": sdk.info.platform.triple,
        "LLVM_SOURCE_DIR": (sdk.source.parent / "llvm").as_posix(),
        "LLVM_TOOLS_DIR": sdk.tools.as_posix(),
        "LLVM_LIT_TOOLS_DIR": "",
        "SHLIBEXT": sdk.info.platform.system.shared_suffix,
        "SHLIBDIR": (setup.libraries or sdk.runner_libraries).as_posix(),
        "Python3_EXECUTABLE": setup.python.as_posix(),
        "ENABLE_ASSERTIONS": str(int("asserts" in sdk.info.configuration)),
        "LLVM_NATIVE_ARCH": sdk.info.native_code_generator,
        "HOST_OS": platform.system(),
        "HOST_ARCH": platform.machine(),
        "HOST_CC": _compiler("cc", "clang", "gcc"),
        "HOST_CXX": _compiler("c++", "clang++", "g++"),
        "MLIR_SOURCE_DIR": sdk.source.as_posix(),
        "MLIR_BINARY_DIR": workdir.as_posix(),
        "MLIR_TOOLS_DIR": sdk.tools.as_posix(),
        "MLIR_CMAKE_DIR": (sdk.cmake_dir / "mlir").as_posix(),
        "MLIR_LIB_DIR": sdk.libraries.as_posix(),
        "MLIR_ENABLE_BINDINGS_PYTHON": str(int(setup.bindings)),
        "MLIR_ENABLE_PYTHON_STABLE_ABI": str(int(setup.stable_abi)),
        "MLIR_INCLUDE_INTEGRATION_TESTS": str(int(setup.bindings)),
        "LLVM_HAS_NVPTX_TARGET": str(int("NVPTX" in setup.code_generators)),
        "MLIR_ENABLE_ROCM_CONVERSIONS": str(int("AMDGPU" in setup.code_generators)),
    }


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """Replace ``@NAME@``. A name without a value becomes empty inside quotes and ``0`` outside."""

    def value(match: re.Match[str]) -> str:
        quote = match["quote"] or ""
        return quote + values.get(match["name"], "" if quote else "0")

    return _VARIABLE.sub(value, template)


def write_site_configuration(setup: LitSetup, workdir: Path) -> Path:
    """Write ``<workdir>/test/lit.site.cfg.py`` and return its folder, which is what lit is run on.

    :raises VerificationError: ``llvm-unsuitable``
    """
    template = setup.sdk.source / "test" / "lit.site.cfg.py.in"
    if not template.is_file():
        raise VerificationError(
            "llvm-unsuitable",
            "the SDK does not carry upstream's tests",
            where=str(template),
            remedy="make the SDK again from sources that include mlir/test",
        )
    text = fill_in(template.read_text(encoding="utf-8"), site_variables(setup, workdir))
    # Upstream's unit tests are programs of a build tree, which an SDK is not.
    text += '\nconfig.excludes = set(config.excludes) | {"Unit"}\n'
    # Nothing may write into an SDK, and lit hands on few variables.
    text += 'config.environment["PYTHONDONTWRITEBYTECODE"] = "1"\n'
    if version_in(setup.sdk.info.llvm_version, "<20"):
        # Today's lit no longer knows %T, the folder of temporary files, which one test of LLVM 19's writes into.
        text += f'config.substitutions.append(("%T", {str(workdir)!r}))\n'
    if not setup.execution_engine:
        text += 'config.available_features.discard("host-supports-jit")\n'
    folder = workdir / "test"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lit.site.cfg.py").write_text(text, encoding="utf-8")
    return folder


#: Arguments by which an interpreter runs lit: pip's script has another name on Windows, and lit has no ``__main__``.
RUN_LIT = ("-c", "import sys; from lit.main import main; sys.exit(main())")


def find_lit() -> list[str]:
    """The command that runs lit in the toolkit's own interpreter. :raises MachineError: ``tool-missing``"""
    if importlib.util.find_spec("lit") is None:
        raise MachineError("tool-missing", "LLVM's test runner is not installed", remedy=install_extra("wheels"))
    return [sys.executable, *RUN_LIT]


def run_lit(
    folder: Path,
    *,
    lit: Sequence[str | Path],
    environment: Mapping[str, str],
    title: str,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> list[TestResult]:
    """Run lit on a configured folder, or a folder in one, and return one result a test, sorted by name.

    A failing test is a result, not an error.

    :param lit: the command that runs lit; upstream's tests take the interpreter that runs it for the one under test
    :param only: run these tests only (names below ``mlir/test``)
    :param without: leave these tests out
    :raises VerificationError: ``tests-failed``: lit itself did not get to the end
    """
    workdir = folder
    while workdir.name != "test":
        workdir = workdir.parent
    output = workdir / "lit.json"
    output.unlink(missing_ok=True)
    command = [*lit, "--quiet", "--output", output]
    command += ["--filter", _any_of(only)] if only else []
    command += ["--filter-out", _any_of(without)] if without else []
    command.append(folder)
    log = workdir / "lit.log"
    log.unlink(missing_ok=True)
    returncode = 0
    with console.waiting(title):
        try:
            run_logged(command, log=log, environment=environment, cwd=workdir)
        except StepFailed as failed:  # with a test's failure, too
            returncode = failed.returncode
    if not output.is_file():
        raise VerificationError(
            "tests-failed",
            "the test runner stopped before it had run the tests",
            where=str(log),
            why=tail(log, 15),
            remedy=f"lit ended with exit code {returncode}; {whole_log(log)}",
        )
    return read_results(parse_json(output.read_bytes(), limit=BUILD_LIMIT))


def _any_of(names: Collection[str]) -> str:
    return f"({'|'.join(map(re.escape, sorted(names)))})$"


def read_results(data: Mapping[str, object]) -> list[TestResult]:
    """The results in lit's ``--output`` file. Names lose the suite's prefix (``MLIR :: ``)."""
    tests = data["tests"]
    assert isinstance(tests, list)
    return [
        TestResult(
            name=test["name"].partition(" :: ")[2].strip() or test["name"],
            outcome=_OUTCOMES.get(test["code"], TestOutcome.FAIL),
            seconds=float(test.get("elapsed") or 0.0),
            message={"PASS": "", "XFAIL": _EXPECTED}.get(test["code"], test.get("output", "")),
        )
        for test in sorted(tests, key=lambda test: str(test["name"]))
        if test["code"] != "EXCLUDED"
    ]


def _compiler(*names: str) -> str:
    return next((found for name in names if (found := shutil.which(name))), names[0])
