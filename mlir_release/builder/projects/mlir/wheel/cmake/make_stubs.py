"""Make the type information of the built package: stubs of its extension modules, and ``py.typed`` (PEP 561).

Usage: make_stubs.py STUBGEN PACKAGE OUTPUT

STUBGEN is nanobind's ``stubgen.py``; PACKAGE the complete folder ``mlir`` of the build, whose modules are imported;
OUTPUT gets the files to lay over it. The same package gives the same files.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import importlib
import importlib.util
import inspect
import re
import sys
import tempfile
import textwrap
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING

from bind_once import write_copies

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = "mlir._mlir_libs"
CORE = f"{LIBRARIES}._mlir"
IR = f"{CORE}.ir"

# For every stub, in the format of nanobind's pattern files. First, members of Python's own enumerations, such as
# _member_map_, go: stubgen writes them with names that nothing defines. Then, context managers of the bindings: each
# returns itself, but declares "object".
PATTERNS = r"""
\._[a-z][a-z0-9_]*_$:

\.__enter__$:
  \from typing_extensions import Self
  def __enter__(self) -> Self: ...
"""

# Modules that corrections and patterns name, and what to import for them.
TOP_LEVEL = {"numpy": "numpy.typing", "typing": "typing", "typing_extensions": "typing_extensions"}

# Replaced in the text of every stub.
CORRECTIONS = (
    # Signatures speak of "_mlir.ir.TypeID", as if the module were on top, and of "mlir.ir._OperationBase", which that
    # module does not have.
    (r"^import _mlir(\.\w+)?$", f"from {LIBRARIES} import _mlir"),
    (r"(?<![\w.])mlir\.ir(?!\w)", IR),
    # A C++ function that returns any Python object does not say what it is.
    (r"\) -> object:", ") -> Any:"),
    # Of a class method with a signature that stubgen can't read, it leaves out the class.
    (r"(@classmethod\n +def \w+\()(\*args)", r"\1cls, \2"),
    # NumPy's arrays have the buffer protocol everywhere, and say so to type checkers from CPython 3.12 on.
    (r"\btyping_extensions\.Buffer\b", "typing_extensions.Buffer | numpy.typing.NDArray[Any]"),
    # From CPython 3.13 on, stubgen names it by its place there, which mypy does not know.
    (r"\btypes\.CapsuleType\b", "typing_extensions.CapsuleType"),
    # Upstream wrote this signature by hand and forgot the default.
    (r"\bwalk_order: WalkOrder(?=[,)])", "walk_order: WalkOrder = ..."),
)


def main() -> None:
    """See the module."""
    stubgen_path, package, output = map(Path, sys.argv[1:])
    sys.path.insert(0, str(package.parent))
    if importlib.util.find_spec("numpy") is None:
        sys.modules["numpy"] = StandIn("numpy")
    stubgen = load(stubgen_path)
    ir = importlib.import_module(IR)
    folder = output / "_mlir_libs"
    names = sorted({path.name.partition(".")[0] for path in (package / "_mlir_libs").glob("_mlir*.*") if native(path)})
    if "_mlir" not in names:
        sys.exit(f"error: there are no extension modules in {package / '_mlir_libs'}")
    with tempfile.TemporaryDirectory() as scratch:
        patterns = Path(scratch, "patterns.txt")
        patterns.write_text("\n".join([PATTERNS, *describe_own_classes(ir)]) + "\n", encoding="utf-8")
        options = ["--quiet", "--recursive", "--include-private", "--pattern-file", str(patterns)]
        for name in names:
            stubgen.main([*options, "--module", f"{LIBRARIES}.{name}", "--output-dir", str(folder)])
    unresolved = [f"{path.name}: {name}" for path in sorted(folder.rglob("*.pyi")) for name in resolve(path, ir)]
    if unresolved:
        print("note: type checkers take these names of stubs for Any:", ", ".join(unresolved))
    write_copies(package, output)
    (output / "py.typed").touch()


class StandIn(types.ModuleType):
    """NumPy, which upstream's linalg imports and uses in functions only, and which builds do not have."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def load(path: Path) -> types.ModuleType:
    """nanobind's ``stubgen``, wherever it is installed."""
    spec = importlib.util.spec_from_file_location("stubgen", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["stubgen"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def native(path: Path) -> bool:
    """Whether it is an extension module."""
    return path.suffix in {".so", ".pyd"}


def describe_own_classes(ir: types.ModuleType) -> Iterator[str]:
    """Describe the classes that ``mlir/_mlir_libs/__init__.py`` makes in a function and puts into the module ``ir``.

    Where such a class replaces a compiled one (``Context``), the module gets that one back, with the other constructor:
    all else refers to the compiled one. Yields lines of a pattern file of nanobind's stubgen.
    """
    for name, value in list(vars(ir).items()):
        if not isinstance(value, type) or "<locals>" not in value.__qualname__ or "__init__" not in vars(value):
            continue
        compiled = value.__base__
        assert compiled is not None
        if compiled.__name__ == name:
            setattr(ir, name, compiled)
            yield f"^{re.escape(f'{IR}.{name}.__init__')}$:"
            yield textwrap.indent(constructor(value), "  ")
        else:
            value.__qualname__ = name
            yield f"^{re.escape(f'{IR}.{name}')}$:"
            yield f"  class {name}({compiled.__qualname__}):"
            for attribute in attributes(value):
                yield f"      {attribute}: typing.Any"
            yield textwrap.indent(constructor(value), "      ")
        yield ""


def constructor(value: type) -> str:
    """``__init__`` of a class that is written in Python."""
    signature = inspect.signature(value.__init__).replace(return_annotation=inspect.Signature.empty)
    return f"def __init__{signature} -> None: ..."


def attributes(value: type) -> list[str]:
    """The attributes that its constructor sets."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(value.__init__)))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return [node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"]


def resolve(path: Path, ir: types.ModuleType) -> list[str]:
    """Add the imports that upstream's hand-written signatures take for granted; return the names that stay unknown."""
    text = path.read_text(encoding="utf-8")
    for pattern, new in CORRECTIONS:
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    missing = undefined(ast.parse(text))
    here = path.with_suffix("").parts[-2:]
    lines = [f"import {line}\n" for name, line in TOP_LEVEL.items() if name in missing]
    for module in (typing, collections.abc, ir):
        if module is ir and here == ("_mlir", "ir"):
            continue
        found = sorted(name for name in missing if hasattr(module, name))
        if found:
            lines.append(f"from {module.__name__} import {', '.join(found)}\n")
        missing -= set(found)
    path.write_text("".join(lines) + text, encoding="utf-8")
    return sorted(missing - TOP_LEVEL.keys())


def undefined(tree: ast.Module) -> set[str]:
    """The names that a module uses and nothing in it defines."""
    used, bound = set(), set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return used - bound


if __name__ == "__main__":
    main()
