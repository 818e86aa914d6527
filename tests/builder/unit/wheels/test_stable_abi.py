"""What abi3audit says of small extension modules, compiled here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.inspect import inspect
from mlir_release.builder.wheels.platform_tags import check_stable_abi
from tests.binary_factory import pe
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="compiles ELF files with cc"
)
TAGS = ("cp312-abi3-manylinux_2_28_x86_64",)


def wheel_of(folder: Path, code: str, *, name: str = "_mlir.abi3.so") -> Path:
    """A wheel for CPython 3.12 and later, with a module that uses what ``code`` does."""
    source = folder / "module.c"
    source.write_text(f"{code}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "module.so", source], check=True)
    files = {f"mlir/_mlir_libs/{name}": (folder / "module.so").read_bytes()}
    return make_wheel(folder, python="cp312", serves=("cp312", "cp313"), files=files)


def uses(symbol: str) -> str:
    return f"extern void *{symbol}(void); void *PyInit__mlir(void) {{ return {symbol}(); }}"


def test_a_module_that_keeps_to_the_stable_abi(tmp_path: Path) -> None:
    assert check_stable_abi(wheel_of(tmp_path, uses("PyModule_Create2")), TAGS, {}) == []


@pytest.mark.parametrize(
    ("symbol", "words"),
    [("_PyThreadState_UncheckedGet", "not in the stable ABI"), ("PyType_Freeze", "3.12 does not have yet")],
)
def test_a_module_that_does_not(symbol: str, words: str, tmp_path: Path) -> None:
    (problem,) = check_stable_abi(wheel_of(tmp_path, uses(symbol)), TAGS, {})
    assert problem.id == "stable-abi-untrue"
    assert words in problem.message
    assert symbol in problem.message


def test_a_module_for_one_cpython_under_a_tag_for_many(tmp_path: Path) -> None:
    path = wheel_of(tmp_path, uses("PyModule_Create2"), name="_mlir.cpython-312-x86_64-linux-gnu.so")
    assert "interpreter-tag-untrue" in {problem.id for problem in inspect(path).problems}


def test_a_wheel_without_modules(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, python="cp312", serves=("cp312", "cp313"))
    assert [problem.id for problem in check_stable_abi(path, TAGS, {})] == ["stable-abi-untrue"]


def test_of_other_wheels_nothing_is_asked(tmp_path: Path) -> None:
    assert check_stable_abi(make_wheel(tmp_path, python="cp312"), ("cp312-cp312-manylinux_2_28_x86_64",), {}) == []


@pytest.mark.parametrize(("library", "is_true"), [("python3.dll", True), ("python313.dll", False)])
def test_a_module_for_windows_takes_functions_from_the_library_of_every_cpython(
    library: str, is_true: bool, tmp_path: Path
) -> None:
    name = "mlir/_mlir_libs/_mlir.pyd"
    files = {name: pe(library, "KERNEL32.dll")}
    path = make_wheel(tmp_path, python="cp312", serves=("cp312", "cp313"), platform="win_amd64", files=files)
    found = [problem.message for problem in inspect(path).problems if problem.id == "stable-abi-untrue"]
    assert (f"{name} needs {library}, which only one CPython has" in found) != is_true
