"""The settings of upstream's tests of MLIR (``mlir/test``), from an SDK instead of a build tree.

Names of the template that we have no value for become false or empty, so that a variable that a later LLVM adds does
not stop the tests.
"""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.testing.known_failures import version_in
from mlir_release.builder.testing.lit import fill_in
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk


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
    text = fill_in(read_text(template), site_variables(setup, workdir))
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


def _compiler(*names: str) -> str:
    return next((found for name in names if (found := shutil.which(name))), names[0])
