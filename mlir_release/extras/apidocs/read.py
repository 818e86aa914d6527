"""Read the Python sources and stubs of a wheel with griffe, which parses them and imports nothing."""

from __future__ import annotations

import ast
import logging
import re
import textwrap
from typing import TYPE_CHECKING

from mlir_release.builder.model.wheel_info import wheel_info_in
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.files import read_text
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from pathlib import Path

    from griffe import Module

#: Bytes of all its sources at most: the parser's trees take many times as much. Those of LLVM 22 have ten million.
SOURCES_LIMIT = 64 << 20


def read_wheel(wheel: Path) -> Module:
    """The package of a wheel as griffe sees it, with its aliases resolved.

    :raises VerificationError: ``wheel-unsuitable``: not a wheel of the bindings
    """
    import griffe

    class Overloads(griffe.Extension):
        """Makes a function a member of its module where a stub has overloads of it only: griffe imports it nowhere."""

        def on_module_members(self, *, mod: Module, **_: object) -> None:
            for name, overloads in mod.overloads.items():
                if overloads and name not in mod.members:
                    *others, last = overloads
                    last.overloads = others
                    mod.set_member(name, last)

    # It logs every name that it can't follow. Those that matter are counted (:mod:`.links`).
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    with scratch_folder("apidocs") as folder:
        name = _unpack(wheel, folder)
        extensions = griffe.load_extensions(Overloads())
        loader = griffe.GriffeLoader(search_paths=[folder], extensions=extensions, allow_inspection=False)
        try:
            _lift(folder / name)
            package = loader.load(name, try_relative_path=False)
            loader.resolve_aliases(implicit=True, external=False)
        except Exception as error:  # whatever another's code makes a parser raise
            raise _no_bindings(wheel, f"{type(error).__name__}: {error}") from error
    assert isinstance(package, griffe.Module)
    return package


def _unpack(wheel: Path, folder: Path) -> str:
    """Write the Python sources and stubs of the package that a wheel installs below ``folder``; returns its name."""
    try:
        with open_zip(wheel) as archive:
            info = wheel_info_in(archive.namelist())
            package = info.partition("/")[0] if info is not None else DEFAULT_PROJECT
            names = {name for name in archive.namelist() if name.endswith((".py", ".pyi"))}
            # A stub beside a source leads type checkers to a copy of it (_func_typing.py): the source says all.
            sources = sorted(
                name
                for name in names
                if name.startswith(f"{package}/")
                and not name.endswith("_typing.py")
                and not (name.endswith(".pyi") and name[:-1] in names)
            )
            if sum(archive.getinfo(name).file_size for name in sources) > SOURCES_LIMIT:
                raise ArchiveError(f"its sources have more than {SOURCES_LIMIT >> 20} MiB")
            for name in sources:
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                # Generated operations say it this way because an operand may be named "property", and griffe knows
                # the plain spelling only.
                text = archive.read(name).decode().replace("@builtins.property", "@property")
                place.write_text(text, encoding="utf-8")
    except ArchiveError as error:
        raise _no_bindings(wheel, str(error)) from error
    # Without an __init__.py, griffe, unlike Python, overlooks a folder of an ordinary package.
    for inside in {path.parent for path in (folder / package).rglob("*.py*")}:
        if not any((inside / name).exists() for name in ("__init__.py", "__init__.pyi")):
            (inside / "__init__.py").touch()
    if not sources:
        raise _no_bindings(wheel, f"it has no Python files below {package}/")
    return package


def _lift(package: Path) -> None:
    """Write into ``ir.py`` the classes that the bindings add to it when they are imported, such as ``MLIRError``.

    A function of ``_mlir_libs/__init__.py`` defines them, and there no reader of sources looks for a module's classes.
    Those that the stub of ``ir`` has, too, are left as they are.
    """
    initializer, module = package / "_mlir_libs" / "__init__.py", package / "ir.py"
    if not initializer.is_file() or not module.is_file():
        return
    text = read_text(initializer)
    stubs = "".join(read_text(path) for path in package.glob("_mlir_libs/_mlir/ir.pyi"))
    with module.open("a", encoding="utf-8") as file:
        for function in ast.parse(text).body:
            # It ends with ``ir.NAME = NAME`` for each.
            body = function.body if isinstance(function, ast.FunctionDef) else []
            added = {ast.unparse(node) for node in body if isinstance(node, ast.Assign)}
            for node in body:
                if not isinstance(node, ast.ClassDef) or f"ir.{node.name} = {node.name}" not in added:
                    continue
                if not re.search(rf"^class {node.name}\b", stubs, re.MULTILINE):
                    source = textwrap.dedent(ast.get_source_segment(text, node, padded=True) or "")
                    file.write(f"\n\n{source}\n")


def _no_bindings(wheel: Path, why: str) -> VerificationError:
    return VerificationError(
        "wheel-unsuitable",
        "this is not a wheel of the MLIR Python bindings",
        where=str(wheel),
        why=why,
        remedy="name a wheel of mlir, mlir-core or mlir-full",
    )
