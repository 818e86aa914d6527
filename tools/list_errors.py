#!/usr/bin/env python3
"""List every error id in ``docs/errors.md``, from the source itself.

An id is the first argument, a string literal, where one of the error classes is raised or made. ``--write`` rewrites
the page; without it, the exit code says whether the page is true.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"

sys.path.insert(0, str(ROOT))

from mlir_release import errors  # noqa: E402

HEADER = """# Errors

Every expected failure ends with one message that says what, where, why and what to do, with one of these ids
(in `--json` too). The exit code depends on the kind of error only.
This page is generated: `python tools/list_errors.py --write`.

"""


def error_classes(trees: dict[Path, ast.Module]) -> dict[str, int]:
    """Exit code by class name: the classes of errors.py, and those that derive from them elsewhere."""
    codes = {
        name: int(value.exit_code)
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ReleaseError)
    }
    definitions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for _ in range(3):  # subclasses of subclasses
        for node in definitions:
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id in codes:
                    codes.setdefault(node.name, codes[base.id])
    return codes


def collect() -> dict[str, tuple[int, set[str]]]:
    """``id -> (exit code, modules that raise it)``."""
    files = sorted(path for path in (ROOT / "mlir_release").rglob("*.py") if "wheel" not in path.parts)
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    codes = error_classes(trees)
    found: dict[str, tuple[int, set[str]]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name, arguments = getattr(node.func, "id", None), node.args
            if name == "super" or (isinstance(node.func, ast.Attribute) and node.func.attr == "__init__"):
                continue
            if name not in codes or not arguments:
                continue
            for literal in literals(arguments[0]):
                code, modules = found.setdefault(literal, (codes[name], set()))
                if code != codes[name]:
                    sys.exit(f"{literal} has two exit codes: {code} and {codes[name]} ({path})")
                modules.add(str(path.relative_to(ROOT)))
    # A class with an id of its own passes it to super().__init__.
    for path, tree in trees.items():
        for definition in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name in codes):
            for node in ast.walk(definition):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
                    for literal in literals(node.args[0]) if node.args else ():
                        found.setdefault(literal, (codes[definition.name], set()))[1].add(str(path.relative_to(ROOT)))
    return found


def literals(node: ast.expr) -> list[str]:
    """The string literals that an expression can be: one, or the two of a conditional."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*literals(node.body), *literals(node.orelse)]
    return []


def render() -> str:
    """The page."""
    lines = [HEADER, "| id | exit code | raised in |\n|---|---|---|\n"]
    for identifier, (code, modules) in sorted(collect().items()):
        kind = errors.ExitCode(code).name.lower().replace("_", " ")
        lines.append(
            f"| `{identifier}` | {code} ({kind}) | {', '.join(f'`{module}`' for module in sorted(modules))} |\n"
        )
    return "".join(lines)


def main() -> None:
    """Check the page, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the page")
    page = render()
    if parser.parse_args().write:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
        sys.exit("docs/errors.md is out of date: run python tools/list_errors.py --write")


if __name__ == "__main__":
    main()
