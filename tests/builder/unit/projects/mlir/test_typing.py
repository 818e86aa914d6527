"""What the build makes for type checkers: stubs of extension modules, and copies of modules that bind names twice."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.projects.mlir import WHEEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "_toy_ops_gen.py": """
class FuncOp:
    def results(self) -> int: return 1
class ReturnOp: ...
def constant(value: int) -> int: return value
def add(results: list[int]) -> int: return 1
""",
    "opdsl.py": "def add(left: int, right: int, *, outs: list[int]) -> int: return left + right\n",
    "toy.py": '''# Licence.
"""A dialect."""
from __future__ import annotations
from ._toy_ops_gen import *
try:
    from .opdsl import *
except ImportError as e:
    raise RuntimeError("Error loading imports from extension module") from e


def decorated(cls):
    return cls


@decorated
class FuncOp(FuncOp):
    """Wörter."""

    def add_entry_block(self) -> str: return "block"


def constant(result: str, value: int) -> str: return result


def _helper() -> int: return 1
''',
    "plain.py": "from ._toy_ops_gen import *\n\nclass OtherOp(FuncOp): ...\n",
}

PROGRAM = """
from toys.toy import FuncOp, ReturnOp, _helper, add, constant
block: str = FuncOp().add_entry_block()
count: int = FuncOp().results() + add(1, 2, outs=[]) + _helper()
text: str = constant("i32", 1)
ReturnOp()
"""


@pytest.fixture
def bind_once(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(WHEEL / "cmake"))
    return importlib.import_module("bind_once")


@pytest.fixture
def make_stubs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(WHEEL / "cmake"))
    return importlib.import_module("make_stubs")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "toys"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "toys"]:
        del sys.modules[name]


def mypy(folder: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=cache", "program.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_mypy_accepts_what_the_dialect_defines_again(package: Path, bind_once: ModuleType, tmp_path: Path) -> None:
    before = mypy(tmp_path)
    assert '"FuncOp" has no attribute "add_entry_block"' in before
    assert 'Unexpected keyword argument "outs"' in before
    bind_once.write_copies(package, package)
    assert mypy(tmp_path) == "Success: no issues found in 1 source file\n"


def test_only_modules_that_bind_a_name_twice_get_a_copy(package: Path, bind_once: ModuleType, tmp_path: Path) -> None:
    bind_once.write_copies(package, tmp_path / "output")
    made = sorted(path.name for path in (tmp_path / "output").iterdir())
    assert made == ["_toy_typing.py", "toy.pyi"]


def test_the_copy_is_upstreams_text_but_for_what_binds_names(package: Path, bind_once: ModuleType) -> None:
    bind_once.write_copies(package, package)
    copy = (package / "_toy_typing.py").read_text(encoding="utf-8")
    assert copy.startswith('# Licence.\n"""A dialect."""\nfrom __future__ import annotations\n# Made when')
    changed = set(copy.splitlines()) ^ set(FILES["toy.py"].splitlines())
    assert "class FuncOp(_ReplacedFuncOp):" in changed
    assert not {line for line in changed if "def " in line or "Wörter" in line}


def test_nothing_can_import_the_copy(package: Path, bind_once: ModuleType) -> None:
    bind_once.write_copies(package, package)
    with pytest.raises(ImportError, match="for type checkers; import toys"):
        importlib.import_module("toys._toy_typing")


def test_the_same_package_gives_the_same_bytes(package: Path, bind_once: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        bind_once.write_copies(package, tmp_path / name)
    assert (tmp_path / "one/_toy_typing.py").read_bytes() == (tmp_path / "two/_toy_typing.py").read_bytes()


def test_a_module_that_can_not_be_imported_is_named_and_left(
    package: Path, bind_once: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "broken.py").write_text("from .absent import *\n")
    bind_once.write_copies(package, tmp_path / "output")
    assert "note: toys.broken is left as it is" in capsys.readouterr().out
    assert (tmp_path / "output" / "toy.pyi").is_file()


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
    signature = "def get(context: Context | None, of: Sequence[Nothing]) -> Any: ...\n"
    text, unknown = resolved(make_stubs, tmp_path, signature)
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
