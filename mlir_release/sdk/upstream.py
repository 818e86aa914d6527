"""Facts about a checkout of llvm-project, and the part of it that an SDK carries."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.model.llvm_facts import VERSION_FILES, FactsError, LlvmFacts
from mlir_release.sdk.regalloc_model import ADVISOR_SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The sources that an SDK carries, in llvm-project's layout: to build the bindings, the test dialect and the runner
#: libraries, to run ``mlir/test``, and to compile a model into the register allocator.
KEPT_SOURCES = (
    "LICENSE.TXT",
    "cmake",
    "llvm/LICENSE.TXT",
    "llvm/cmake",
    *ADVISOR_SOURCES,
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

#: Those that every SDK, wheel and test run reads; the others are small things that a release may lack.
NEEDED_SOURCES = (
    "LICENSE.TXT",
    "cmake/Modules",
    "mlir/CMakeLists.txt",
    "mlir/cmake/modules",
    "mlir/include",
    "mlir/lib/Bindings",
    "mlir/lib/ExecutionEngine",
    "mlir/python/requirements.txt",
    "mlir/test/lit.site.cfg.py.in",
    "mlir/test/python",
)

#: Building LLVM itself reads these, too.
NEEDED_TO_BUILD = (
    "lld/CMakeLists.txt",
    "llvm/CMakeLists.txt",
    "llvm/include",
    "llvm/lib",
    "llvm/tools",
    "llvm/utils",
    "mlir/lib/IR",
    "mlir/tools",
    "third-party",
)

#: Building LLVM does not read these, which take most of the room: other projects, and the longest paths.
UNUSED_TO_BUILD = (
    "bolt", "clang", "clang-tools-extra", "compiler-rt", "cross-project-tests", "flang", "flang-rt", "libcxx",
    "libcxxabi", "lldb", "llvm/docs", "offload", "openmp", "polly",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UpstreamSource:
    """A source tree of llvm-project (or the part of one with ``mlir/`` and ``cmake/``)."""

    root: Path
    facts: LlvmFacts

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


def read_source(root: Path, *, whole: bool = False) -> UpstreamSource:
    """Read the facts of the tree at ``root``.

    :param whole: LLVM itself is to be built from it
    :raises UsageError: ``input-missing`` if it is no llvm-project tree at all, ``input-invalid`` if pieces are missing
        or can't be read
    """
    root = Path(root).absolute()
    missing = [name for name in NEEDED_SOURCES if not (root / name).exists()]
    if len(missing) < len(NEEDED_SOURCES):  # else it is not an incomplete tree, but none at all
        missing += [name for name in NEEDED_TO_BUILD if whole and not (root / name).exists()]
        if missing:
            raise UsageError(
                "input-invalid",
                "LLVM can't be built from these sources" if whole else "an SDK can't be made with these sources",
                where=str(root),
                why=f"missing: {', '.join(missing)}",
                remedy="give the root of a full llvm-project checkout, or of its unpacked source archive",
            )

    def text(path: str) -> str | None:
        file = root / path
        return file.read_text("utf-8", "surrogateescape") if file.is_file() else None

    try:
        return UpstreamSource(root=root, facts=LlvmFacts.read(text))
    except FactsError as error:
        raise _unreadable(root, error) from None


def _unreadable(root: Path, error: FactsError) -> UsageError:
    why = str(error) if root.is_dir() else "there is no such folder"
    if error.what == "bindings":
        return UsageError(
            "input-missing",
            "there are no sources of MLIR's Python bindings in this folder",
            where=str(root),
            why=why,
            remedy="give the root of an llvm-project checkout or of its unpacked source archive",
        )
    if error.what == "version":
        return UsageError(
            "input-invalid",
            "the source tree does not contain LLVM's version",
            where=str(root),
            why=why,
            remedy="give the root of llvm-project (with cmake/ beside mlir/), not mlir/ alone",
        )
    return UsageError(
        "input-invalid",
        "the requirements of MLIR's Python bindings cannot be read",
        where=str(root),
        why=why,
        remedy="restore upstream's file; the wheels get their dependencies from it",
    )


def copy_sources(tree: Path, output: Path, names: Iterable[str] = KEPT_SOURCES) -> None:
    """Copy what ``tree`` has of ``names`` into ``output`` (which becomes a small llvm-project tree)."""
    for name in names:
        origin, target = tree / name, output / name
        if origin.is_dir():
            shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".git"))
        elif origin.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin, target)
