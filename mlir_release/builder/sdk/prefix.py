"""Look at an installed LLVM: its version, the places of its parts, and the parts that are missing.

Layouts are told apart by what is in them, never by their path: Debian, Ubuntu and apt.llvm.org (``/usr/lib/llvm-22``),
Homebrew (``/opt/homebrew/opt/llvm``), an unpacked release, and anything else that was installed by CMake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

#: :class:`Prefix` takes these from ``LLVMConfig.cmake``.
_NEEDED_SETTINGS = ("LLVM_NATIVE_ARCH", "LLVM_PACKAGE_VERSION", "LLVM_TARGETS_TO_BUILD")

#: Homebrew's formulas of Debian's packages; everything else is in the formula of LLVM.
_FORMULAS = {"lld-{v}": "lld", "libzstd-dev": "zstd", "zlib1g-dev": "zlib"}

_SETTING = re.compile(r"^\s*set\((?P<name>[A-Z0-9_]+)\s+(?P<value>[^)]*)\)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """An installed LLVM."""

    root: Path
    library_dir: str  #: ``lib`` or ``lib64``, relative to ``root``
    settings: dict[str, str]  #: the variables that ``LLVMConfig.cmake`` sets, as text
    provider: str  #: ``debian``, ``homebrew`` or ``prefix``

    @property
    def version(self) -> str:
        """LLVM's version, ``22.1.8``."""
        return self.settings["LLVM_PACKAGE_VERSION"]

    @property
    def major(self) -> int:
        """LLVM's major version."""
        return int(self.version.split(".")[0])

    @property
    def platform(self) -> Platform:
        """The platform that it was built for; this machine's if ``LLVMConfig.cmake`` names none."""
        triple = self.settings.get("LLVM_HOST_TRIPLE")
        return Platform.from_triple(triple) if triple else Platform.of_host()

    @property
    def libraries(self) -> Path:
        """Folder of the static libraries."""
        return self.root / self.library_dir

    def cmake(self, package: str) -> Path:
        """Folder of a CMake package (``llvm``), whether or not it is there."""
        return self.libraries / "cmake" / package

    @property
    def library_path(self) -> list[Path]:
        """Where the loader is to look for the programs' shared libraries before it looks in the system's folders.

        Besides the prefix's own: the folders that its packages put shared libraries into, which are the system's
        (``/usr/lib/x86_64-linux-gnu``) or, where the packages were only unpacked, beside it.
        """
        beside = self.root.parent.glob("*-linux-gnu*")
        unpacked = self.root.parent.parent.parent.glob("lib/*-linux-gnu*")
        own = self.tools if self.platform.system.shared_folder == "bin" else self.libraries  # "bin": on Windows
        return [own, *sorted({*beside, *unpacked})]

    @property
    def tools(self) -> Path:
        """Folder of the programs."""
        return self.root / "bin"

    def tool(self, name: str) -> Path:
        """A program, whether or not it is there."""
        return self.tools / self.platform.system.program(name)

    @property
    def code_generators(self) -> tuple[str, ...]:
        """Code generators that are built in, by LLVM's names."""
        return tuple(name for name in self.settings["LLVM_TARGETS_TO_BUILD"].split(";") if name)

    @property
    def configuration(self) -> str:
        """``release`` or ``release+asserts`` (for any other build type, its name)."""
        build_type = self.settings.get("LLVM_BUILD_TYPE", "").lower() or "release"
        if build_type in {"relwithdebinfo", "minsizerel"}:
            build_type = "release"
        assertions = self.settings.get("LLVM_ENABLE_ASSERTIONS", "").upper() in {"1", "ON", "TRUE", "YES", "Y"}
        return build_type + ("+asserts" if assertions else "")

    def package(self, debian: str) -> str:
        """Names the package that holds something.

        :param debian: Debian's, with ``{v}`` for the major version: ``llvm-{v}-dev``
        """
        if self.provider == "homebrew":
            return f"the formula {_FORMULAS.get(debian, f'llvm@{self.major}')}"
        name = debian.format(v=self.major)
        return f"the package {name}" if self.provider == "debian" else f"LLVM's install (on Debian: {name})"


def inspect_prefix(root: Path, packages: Iterable[str] = ("llvm-{v}-dev",)) -> Prefix:
    """Find out what is installed at ``root``.

    :param packages: Debian's, which the error names if there is nothing
    :raises UsageError: if there is no LLVM at all (``input-missing``)
    :raises MachineError: if there is one, but without the pieces that CMake needs (``tool-missing``)
    """
    root = Path(root).absolute()
    places = [(name, root / name / "cmake" / "llvm" / "LLVMConfig.cmake") for name in ("lib", "lib64")]
    library_dir, config = next((place for place in places if place[1].is_file()), places[0])
    if not config.is_file():
        exists = "there is no such folder" if not root.is_dir() else "it has no lib/cmake/llvm/LLVMConfig.cmake"
        numbered = re.search(r"llvm[-@](?P<major>\d+)", str(root))
        major = numbered["major"] if numbered else "NN"
        raise UsageError(
            "input-missing",
            "there is no installed LLVM with its development files",
            where=str(root),
            why=exists,
            remedy=f"give the prefix of an installed LLVM, such as /usr/lib/llvm-{major}; Debian and Ubuntu have it in "
            f"{', '.join(dict.fromkeys(package.format(v=major) for package in packages))}",
        )
    text = read_text(config, errors="surrogateescape")
    settings = {match["name"]: match["value"].strip().strip('"') for match in _SETTING.finditer(text)}
    if lacking := [name for name in _NEEDED_SETTINGS if name not in settings]:
        raise missing_pieces(root, [f"{name} in {config}" for name in lacking])
    return Prefix(root=root, library_dir=library_dir, settings=settings, provider=_provider(root))


def missing_pieces(root: Path, pieces: list[str]) -> MachineError:
    """The error that names every missing piece and the package that has it."""
    return MachineError(
        "tool-missing",
        f"the installed LLVM lacks {len(pieces)} thing{'s' if len(pieces) > 1 else ''} that an SDK needs",
        where=str(root),
        why="; ".join(pieces),
    )


def _provider(root: Path) -> str:
    if (root / "INSTALL_RECEIPT.json").is_file():
        return "homebrew"
    # Both are of Debian's packaging alone: a settings file for its rules, and links that imitate a build tree.
    if (root / "share" / "debian_config.mk").is_file() or (root / "build" / "Release").is_symlink():
        return "debian"
    return "prefix"
