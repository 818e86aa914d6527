"""Copies of Python modules for type checkers, in which every name is bound once.

Upstream's modules of dialects import all names of a generated module and then define some of them again, by classes
that derive from those they replace: ``from ._func_ops_gen import *`` and ``class FuncOp(FuncOp)``. mypy keeps the first
binding, so it would refuse what only the second one has. The copy imports each replaced class by another name; a stub
``func.pyi`` leads type checkers, and nothing else, to the copy ``_func_typing.py``. A stub of its own would not do:
pyright infers types from the bodies of functions, and those of stubs have none.
"""

from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

STUB = """\
# Made when the wheel was built: what type checkers read instead of {source}, whose names are bound more than once.
from .{copy} import *
{private}"""

GUARD = """\
# Made when the wheel was built, from {source}: every name is bound once, for type checkers. Nothing imports it.
from typing import TYPE_CHECKING as _TYPE_CHECKING

if not _TYPE_CHECKING:
    raise ImportError("this module is for type checkers; import {module}")

"""


def write_copies(package: Path, output: Path) -> None:
    """Write a copy and a stub into the folder ``output`` for each module of ``package`` that needs them."""
    for path in sorted(package.rglob("*.py")):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if "import *" not in text:
            continue
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        try:
            bound = bind_once(text, importlib.import_module(name), path.name)
        except (ImportError, RuntimeError) as error:  # upstream's modules of dialects turn the one into the other
            print(f"note: {name} is left as it is for type checkers, as it can't be imported: {error}")
            continue
        if bound is None:
            continue
        copy = "_typing" if is_package else f"_{path.stem}_typing"
        folder = output / path.parent.relative_to(package)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{copy}.py").write_text(bound, encoding="utf-8")
        private = "".join(f"from .{copy} import {name} as {name}\n" for name in private_names(text))
        stub = STUB.format(source=path.name, copy=copy, private=private)
        (folder / f"{path.stem}.pyi").write_text(stub, encoding="utf-8")


def bind_once(text: str, module: ModuleType, source: str) -> str | None:
    """The source of a module without the names that it imports by ``*`` and binds again; None if there are none."""
    tree = ast.parse(text)
    edits: list[tuple[ast.AST, str]] = []
    replaced: dict[str, str] = {}  # what is bound again, and the import statement's beginning
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            origin = "." * node.level + (node.module or "")
            imported = exported(importlib.import_module(origin, module.__package__))
            again = {name for name in imported if getattr(module, name, None) is not imported[name]}
            if again:
                replaced |= dict.fromkeys(again, origin)
                edits.append((node, explicit(node, origin, sorted(imported.keys() - again))))
    if not replaced:
        return None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in replaced:
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id == node.name:
                    edits.append((base, f"_Replaced{node.name}"))
                    line = f"from {replaced[node.name]} import {node.name} as _Replaced{node.name}\n"
                    edits.append((before(node), line))
    edits.append((before(first_statement(tree)), GUARD.format(source=source, module=module.__name__)))
    return apply(text, edits)


def private_names(text: str) -> list[str]:
    """The private functions and classes that a module defines, which tests and extensions use all the same."""
    names = {node.name for node in ast.parse(text).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return sorted(name for name in names if name.startswith("_"))


def exported(module: ModuleType) -> dict[str, object]:
    """What ``import *`` takes of a module."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return {name: getattr(module, name) for name in names}


def explicit(node: ast.ImportFrom, origin: str, names: list[str]) -> str:
    """An import of single names, which are the module's own, too ("as": PEP 484)."""
    indent = " " * (node.col_offset + 4)
    listed = "".join(f"{indent}{name} as {name},\n" for name in names)
    return f"from {origin} import (\n{listed}{indent[4:]})" if names else "pass"


def first_statement(tree: ast.Module) -> ast.stmt:
    """The first after the docstring and imports from ``__future__``."""
    after = [
        node
        for node in tree.body
        if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return after[0]


def before(node: ast.stmt) -> ast.AST:
    """The empty place where the line of a statement begins, ahead of its decorators."""
    line = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return ast.Pass(lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)


def apply(text: str, edits: list[tuple[ast.AST, str]]) -> str:
    """Replace the places of nodes, the last first, so that those of the others stay right."""
    lines = text.encode().splitlines(keepends=True)  # columns count bytes of UTF-8
    for node, new in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        head = lines[node.lineno - 1][: node.col_offset]
        tail = lines[node.end_lineno - 1][node.end_col_offset :]
        lines[node.lineno - 1 : node.end_lineno] = [head + new.encode() + tail]
    return b"".join(lines).decode()
