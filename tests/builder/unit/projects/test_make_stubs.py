"""What the build makes of the stubs that nanobind writes. The stubs themselves take the real extension modules."""

from __future__ import annotations

import ast
import importlib
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.projects.mlir import WHEEL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def make_stubs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(WHEEL / "cmake"))
    return importlib.import_module("make_stubs")


def ir() -> Any:
    """``mlir.ir`` as upstream's ``_site_initialize`` leaves it."""
    module: Any = ModuleType("mlir._mlir_libs._mlir.ir")
    compiled = type("Context", (), {"__module__": module.__name__})
    module.Context = compiled
    module.Location = type("Location", (), {})

    def site_initialize() -> None:
        class Context(module.Context):  # type: ignore[misc]
            def __init__(self, thread_pool=None, *args, **kwargs) -> None: ...  # type: ignore[no-untyped-def]

        class MLIRError(Exception):
            def __init__(self, message, error_diagnostics) -> None:  # type: ignore[no-untyped-def]
                self.message = message
                self.error_diagnostics = error_diagnostics

        module._Context, module.Context, module.MLIRError = module.Context, Context, MLIRError

    site_initialize()
    assert module.Context is not compiled
    return module


def resolved(make_stubs: ModuleType, folder: Path, text: str) -> tuple[str, list[str]]:
    path = folder / "_mlirDialectsToy.pyi"
    path.write_text(text)
    unknown = make_stubs.resolve(path, ir())
    ast.parse(path.read_text())
    return path.read_text(), unknown


def test_the_classes_that_python_code_puts_into_the_module(make_stubs: ModuleType) -> None:
    module = ir()
    lines = list(make_stubs.describe_own_classes(module))
    assert module.Context is module._Context  # the compiled one, that the others' signatures name
    text = "\n".join(lines)
    assert re.search(
        r"Context\\\.__init__\$:\n  def __init__\(self, thread_pool=None, \*args, \*\*kwargs\) -> None", text
    )
    assert "class MLIRError(Exception):\n      message: typing.Any\n      error_diagnostics: typing.Any\n" in text


def test_names_that_signatures_take_for_granted_are_imported(make_stubs: ModuleType, tmp_path: Path) -> None:
    text, unknown = resolved(
        make_stubs, tmp_path, "def get(context: Context | None, of: Sequence[Nothing]) -> Any: ...\n"
    )
    assert "from mlir._mlir_libs._mlir.ir import Context\n" in text
    assert re.search(r"^from (typing|collections\.abc) import .*\bSequence\b", text, re.MULTILINE)
    assert unknown == ["Nothing"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import _mlir.ir\nx: _mlir.ir.Type\n", "from mlir._mlir_libs import _mlir\nx: _mlir.ir.Type\n"),
        ("import mlir.ir\nx: mlir.ir._Base\n", "import mlir._mlir_libs._mlir.ir\nx: mlir._mlir_libs._mlir.ir._Base\n"),
        ("def f(x: int) -> object:\n    pass\n", "from typing import Any\ndef f(x: int) -> Any:\n    pass\n"),
        ("class A:\n    @classmethod\n    def f(*args) -> int: ...\n", "def f(cls, *args) -> int: ..."),
        ("def walk(walk_order: WalkOrder) -> None: ...\n", "walk_order: WalkOrder = ...)"),
        ("import typing_extensions\nx: typing_extensions.Buffer\n", "import numpy.typing\n"),
        ("import types\nx: types.CapsuleType\n", "import typing_extensions\nimport types\nx: typing_extensions.Caps"),
    ],
)
def test_corrections(make_stubs: ModuleType, tmp_path: Path, before: str, after: str) -> None:
    assert after in resolved(make_stubs, tmp_path, before)[0]


def test_a_stub_that_needs_nothing_stays_as_it_is(make_stubs: ModuleType, tmp_path: Path) -> None:
    text = "import mlir._mlir_libs._mlir.ir\n\nclass A(mlir._mlir_libs._mlir.ir.Type):\n    def f(self) -> int: ...\n"
    assert resolved(make_stubs, tmp_path, text) == (text, [])
