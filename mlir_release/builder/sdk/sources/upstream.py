"""Facts about a checkout of llvm-project, and the part of it that an SDK carries."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.port import Recipe, recipe_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.llvm_facts import VERSION_FILES, FactsError, LlvmFacts
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.storage.files import copy_alike, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What building LLVM reads only for one of these projects, and documentation: most of the room, and the longest paths.
_OTHERS = (
    "bolt", "clang", "clang-tools-extra", "compiler-rt", "cross-project-tests", "flang", "flang-rt", "libcxx",
    "libcxxabi", "lld", "lldb", "llvm/docs", "mlir", "offload", "openmp", "polly",
)  # fmt: skip


def unused_to_build(recipe: Recipe) -> list[str]:
    """Folders of upstream that building LLVM for a project does not read."""
    return [name for name in _OTHERS if name not in recipe.project.subprojects]


@dataclass(frozen=True, kw_only=True)
class UpstreamSource:
    """A source tree of llvm-project, or the part of one that an SDK of a project carries."""

    root: Path
    facts: LlvmFacts
    recipe: Recipe  #: of the project that it is to be used for

    @property
    def version(self) -> str:
        """``22.1.8``, ``23.0.0git``."""
        return self.facts.version

    @property
    def epoch(self) -> int:
        """When the file with the version was changed, seconds since 1970; archives keep that time.

        It is near the release, and serves where the commit, which has the real time, is not known.
        """
        files = (self.root / name for name in VERSION_FILES)
        return int(next(file for file in files if file.is_file()).stat().st_mtime)


def read_source(root: Path, *, project: str = DEFAULT_PROJECT, whole: bool = False) -> UpstreamSource:
    """Read the facts of the tree at ``root``.

    :param project: whose SDK is to be made of it
    :param whole: LLVM itself is to be built from it
    :raises UsageError: ``input-missing`` if the project is not in it, ``input-invalid`` if pieces are missing or can't
        be read
    """
    root, recipe = Path(root).absolute(), recipe_of(project)
    if not (root / recipe.project.needs).is_file():
        raise UsageError(
            "input-missing",
            f"there are no sources of {recipe.project.title} in this folder",
            where=str(root),
            why=f"{recipe.project.needs} is missing" if root.is_dir() else "there is no such folder",
            remedy="give the root of an llvm-project checkout or of its unpacked source archive, of a version that has "
            "them",
        )
    needed = (*recipe.needed_sources, *(recipe.needed_to_build if whole else ()))
    if missing := [name for name in needed if not (root / name).exists()]:
        raise UsageError(
            "input-invalid",
            "LLVM can't be built from these sources" if whole else "an SDK can't be made with these sources",
            where=str(root),
            why=f"missing: {', '.join(missing)}",
            remedy="give the root of a full llvm-project checkout, or of its unpacked source archive",
        )

    def text(path: str) -> str | None:
        file = root / path
        return read_text(file, errors="surrogateescape") if file.is_file() else None

    try:
        return UpstreamSource(root=root, facts=LlvmFacts.read(text), recipe=recipe)
    except FactsError as error:
        what = "the requirements of MLIR's Python bindings cannot be read"
        remedy = "restore upstream's file; the wheels get their dependencies from it"
        if error.what == "version":
            what = "the source tree does not contain LLVM's version"
            remedy = "give the root of llvm-project, with cmake/, not the folder of one project"
        raise UsageError("input-invalid", what, where=str(root), why=str(error), remedy=remedy) from None


def copy_sources(tree: Path, output: Path, names: Iterable[str]) -> None:
    """Copy what ``tree`` has of ``names`` into ``output`` (which becomes a small llvm-project tree)."""
    for name in names:
        origin, target = tree / name, output / name
        if origin.is_dir():
            left = shutil.ignore_patterns("__pycache__", "*.pyc", ".git")
            shutil.copytree(origin, target, ignore=left, copy_function=copy_alike)
        elif origin.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_alike(origin, target)
