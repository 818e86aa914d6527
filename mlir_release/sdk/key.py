"""What cached SDKs are keyed by, beside their LLVM: the code that decides what an SDK contains."""

from __future__ import annotations

import ast
from pathlib import Path

from mlir_release.model.digests import sha256_of
from mlir_release.projects.mlir import PYTHON_SOURCES, REGALLOC_MODEL

#: Modules of this room that decide when and where an SDK is made, what is said meanwhile and what its wheels leave out,
#: but not what it contains. Any other module counts, so a new one cannot be forgotten.
WITHOUT_INFLUENCE = frozenset({"key.py", "progress.py", "provision.py", "reduced.py", "releases.py", "stages.py"})


def code_digest() -> str:
    """Of the code that makes SDKs, so that a cached one is not taken for what newer code would make.

    Comments, docstrings and the layout of the code do not count.
    """
    modules = [path for path in sorted(Path(__file__).parent.glob("*.py")) if path.name not in WITHOUT_INFLUENCE]
    texts = [normalised(path.read_text(encoding="utf-8")) for path in modules]
    for folder in (PYTHON_SOURCES, REGALLOC_MODEL):
        texts += [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.*")) if path.is_file()]
    return sha256_of("\0".join(texts))


def normalised(code: str) -> str:
    """A text that two pieces of code share if they do the same: the syntax tree without docstrings."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            del node.body[0]
    return ast.dump(tree)
