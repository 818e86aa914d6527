"""Facts about a checkout of llvm-project, and the part of it that an SDK carries."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What an SDK carries of the sources, in llvm-project's layout: to build the bindings, the test dialect and the runner
#: libraries, and to run ``mlir/test``.
KEPT_SOURCES = (
    "LICENSE.TXT",
    "cmake",
    "llvm/LICENSE.TXT",
    "llvm/cmake",
    "mlir/CMakeLists.txt",
    "mlir/LICENSE.TXT",
    "mlir/cmake",
    "mlir/include",
    "mlir/lib/Bindings",
    "mlir/lib/CAPI",
    "mlir/lib/ExecutionEngine",
    "mlir/python",
    "mlir/test",
    "mlir/utils",
)

_NUMBER = re.compile(r"set\(LLVM_VERSION_(?P<part>MAJOR|MINOR|PATCH)\s+(?P<value>\d+)\)")
_SUFFIX = re.compile(r"set\(LLVM_VERSION_SUFFIX\s+(?P<value>[A-Za-z0-9]+)\s*\)")
_MINIMUM_PYTHON = re.compile(r"(?:MLIR_MINIMUM_PYTHON_VERSION|LLVM_MINIMUM_PYTHON_VERSION)\s+(?P<value>3\.\d+)\b")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")

#: Requirements of the build only, in a requirements.txt that does not tell them apart (LLVM 21 and before).
_FOR_BUILDING = frozenset({"nanobind", "pybind11", "typing_extensions"})


@dataclass(frozen=True, kw_only=True)
class UpstreamSource:
    """A source tree of llvm-project (or the part of one with ``mlir/`` and ``cmake/``)."""

    root: Path
    version: str  #: ``22.1.8``, ``23.0.0git``
    binding_library: str  #: ``nanobind`` or ``pybind11``
    binding_requirements: tuple[str, ...]
    runtime_requirements: tuple[str, ...]
    minimum_python: str

    @property
    def is_complete(self) -> bool:
        """Whether LLVM itself can be built from it."""
        return (self.root / "llvm" / "CMakeLists.txt").is_file()


def read_source(root: Path) -> UpstreamSource:
    """Read what the tree at ``root`` is.

    :raises UsageError: ``sdk-source-missing`` if it is no llvm-project tree with MLIR's Python bindings
    """
    root = Path(root).absolute()
    requirements = root / "mlir" / "python" / "requirements.txt"
    if not requirements.is_file():
        raise UsageError(
            "sdk-source-missing",
            "there are no sources of MLIR's Python bindings in this folder",
            where=str(root),
            why="mlir/python/requirements.txt is missing" if root.is_dir() else "there is no such folder",
            remedy="give the root of an llvm-project checkout or of its unpacked source archive",
        )
    lines = requirements.read_text(encoding="utf-8").splitlines()
    building, running = split_requirements(lines)
    return UpstreamSource(
        root=root,
        version=_read_version(root),
        binding_library="nanobind" if any(line.startswith("nanobind") for line in building) else "pybind11",
        binding_requirements=tuple(building),
        runtime_requirements=tuple(running),
        minimum_python=_read_minimum_python(root),
    )


def split_requirements(lines: list[str]) -> tuple[list[str], list[str]]:
    """Upstream's requirement lines, without comments, as ``(for building, for running)``.

    The file has a heading for each since LLVM 22. Before, it is one list, of which the bindings import all but what
    binds them (PyYAML, too, which later ones import only to print operation definitions).
    """
    building: list[str] = []
    running: list[str] = []
    heading = ""
    for line in lines:
        requirement, _, comment = line.partition("#")
        requirement = requirement.strip()
        match = _NAME.match(requirement)
        if match is None:
            words = comment.split()
            heading = words[0] if words[1:] == ["dependencies"] else heading
        elif heading == "BUILD" or (not heading and match.group() in _FOR_BUILDING):
            building.append(requirement)
        else:
            running.append(requirement)
    return building, running


def copy_sources(tree: Path, output: Path, names: Iterable[str] = KEPT_SOURCES) -> None:
    """Copy what ``tree`` has of ``names`` into ``output`` (which becomes a small llvm-project tree)."""
    for name in names:
        origin, target = tree / name, output / name
        if origin.is_dir():
            shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".git"))
        elif origin.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin, target)


def _read_version(root: Path) -> str:
    # LLVM 19 moved the numbers out of llvm/CMakeLists.txt.
    for file in (root / "cmake" / "Modules" / "LLVMVersion.cmake", root / "llvm" / "CMakeLists.txt"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            parts = {match["part"]: match["value"] for match in _NUMBER.finditer(text)}
            if len(parts) == 3:
                suffix = _SUFFIX.search(text)
                return "{MAJOR}.{MINOR}.{PATCH}".format(**parts) + (suffix["value"] if suffix else "")
    raise UsageError(
        "sdk-source-without-version",
        "the source tree does not contain LLVM's version",
        where=str(root),
        why="neither cmake/Modules/LLVMVersion.cmake nor llvm/CMakeLists.txt sets LLVM_VERSION_MAJOR, MINOR and PATCH",
        remedy="give the root of llvm-project (with cmake/ beside mlir/), not mlir/ alone",
    )


def _read_minimum_python(root: Path) -> str:
    for name in ("mlir/cmake/modules/MLIRDetectPythonEnv.cmake", "mlir/CMakeLists.txt", "llvm/CMakeLists.txt"):
        file = root / name
        if file.is_file() and (match := _MINIMUM_PYTHON.search(file.read_text(encoding="utf-8"))):
            return match["value"]
    return "3.8"  # LLVM's own minimum, before the bindings had one
