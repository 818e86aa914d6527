"""An SDK: one folder with everything that a project's wheels of one LLVM revision need to be built and tested.

Layout: ``include/``; ``lib/`` (static libraries, ``lib/cmake/``, and the shared libraries that the tools need);
``bin/`` (tools); ``source/`` (upstream's files at the same revision, in llvm-project's layout); ``licenses/``;
``parts/`` (see :mod:`mlir_release.builder.sdk.parts`); what else the project adds; and ``sdk.json``, which describes it
all.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec import Struct

from mlir_release.builder.model.regalloc_model import RegallocModel
from mlir_release.builder.sdk.parts import DESCRIPTION, Part, list_files, list_of
from mlir_release.builder.sdk.port import LinkedLibrary
from mlir_release.ground.documents.decode import PlainName, builtins, convert, parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.storage.files import copy_alike, read_document, read_text


class SdkInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="schema", tag=1):
    """The content of ``sdk.json``."""

    revision: str  #: llvm-project commit, 40 hex digits
    llvm_version: str  #: for example ``22.1.8``, as in LLVM's own CMake package
    source_version: str = ""  #: of ``source/``, where it is another patch release; then no release can be built with it
    provider: str  #: ``debian``, ``homebrew``, ``prefix`` (any other installed LLVM) or ``source`` (built by us)
    platform: Platform  #: in ``sdk.json`` as text, ``linux-x86_64``
    configuration: str  #: build type and assertions of the libraries, for example ``release`` or ``release+asserts``
    code_generators: tuple[str, ...]  #: LLVM's names: ``X86``, ``NVPTX``, …
    native_code_generator: str
    binding_library: str  #: ``nanobind`` or ``pybind11``; empty: no Python module is compiled
    binding_requirements: tuple[str, ...]  #: of building the bindings, from upstream's requirements.txt
    runtime_requirements: tuple[str, ...]  #: of the bindings at run time, from the same file
    minimum_python: str  #: oldest CPython that the bindings support, for example ``3.10``
    source_epoch: int  #: time of the commit, seconds since 1970 (``SOURCE_DATE_EPOCH`` of what is built)
    linked: tuple[LinkedLibrary, ...]  #: third-party code in the static libraries' closure
    file_count: int
    size: int  #: bytes of all files
    digest: str  #: SHA-256 over the digests of the parts, and so over all files' paths, modes and contents
    parts: dict[PlainName, Part] = {}
    regalloc_model: RegallocModel | None = None  #: the learned eviction policy that it was compiled with
    project: PlainName = DEFAULT_PROJECT  #: that it is made for

    @property
    def assertions(self) -> bool:
        """Whether LLVM's assertions are on."""
        return self.configuration.endswith("+asserts")

    def to_json(self) -> str:
        """The text of ``sdk.json``."""
        data = builtins(self, optional=("regalloc_model",))
        if self.project == DEFAULT_PROJECT:  # as those were written that knew no other
            del data["project"]
        return json.dumps(data | {"platform": str(self.platform)}, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, where: str) -> SdkInfo:
        """Read ``sdk.json``. :raises UsageError: if this version of the toolkit can't read it"""
        try:
            data = parse_json(text)
            data["platform"] = asdict(Platform.parse(data["platform"]))
            return convert(data, cls)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                "input-invalid",
                "the SDK's description cannot be read",
                where=where,
                why=f"{type(error).__name__}: {error}",
                remedy="make the SDK again with `mlir-release sdk import` or `sdk build` of this toolkit version",
            ) from error


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """An SDK on disk."""

    root: Path
    info: SdkInfo

    @classmethod
    def load(cls, root: Path) -> Sdk:
        """Open the SDK at ``root``. :raises UsageError: if the folder has no SDK, or an incomplete one"""
        root = Path(root).absolute()
        description = root / DESCRIPTION
        if not description.is_file():
            raise UsageError(
                "input-missing",
                "there is no SDK in this folder",
                where=str(root),
                why=f"it has no {DESCRIPTION}, which is written last, when everything else is there",
                remedy="make one: `mlir-release sdk import PREFIX --source DIR -o SDK`, or `mlir-release sdk build`",
            )
        info = SdkInfo.from_json(read_document(description), where=str(description))
        return cls(root=root, info=info)

    @property
    def cmake_dir(self) -> Path:
        """Folder of CMake packages, for ``CMAKE_PREFIX_PATH`` or ``MLIR_DIR=<this>/mlir``."""
        return self.root / "lib" / "cmake"

    @property
    def tools(self) -> Path:
        """Folder of the programs: ``FileCheck``, ``not``, ``count``, ``ld.lld``, …"""
        return self.root / "bin"

    @property
    def libraries(self) -> Path:
        """Folder of static libraries."""
        return self.root / "lib"

    @property
    def runner_libraries(self) -> Path:
        """Folder of the shared libraries that the programs load."""
        return self.root / self.info.platform.system.shared_folder

    @property
    def source(self) -> Path:
        """Upstream's folder of the project (``mlir/``): binding sources and tests, at the SDK's revision."""
        return self.root / "source" / self.info.project

    def copy_to(self, folder: Path) -> Sdk:
        """A copy of the tree at ``folder``, replacing an SDK there."""
        if (folder / DESCRIPTION).is_file():
            shutil.rmtree(folder)
        shutil.copytree(self.root, folder, symlinks=True, copy_function=copy_alike)
        return Sdk.load(folder)

    @property
    def parts(self) -> list[str]:
        """The parts that are here, of those in its description."""
        return [name for name in self.info.parts if list_of(self.root, name).is_file()]

    def has(self, part: str) -> bool:
        """Whether a part is here; an SDK whose description names no parts is one piece."""
        return part not in self.info.parts or part in self.parts

    def require(self, *parts: str, purpose: str) -> None:
        """Check that parts are here.

        :param purpose: names their user: "the suite bindings"
        :raises UsageError: ``input-missing``
        """
        missing = [part for part in parts if not self.has(part)]
        if missing:
            raise UsageError(
                "input-missing",
                f"the SDK's {missing[0]} part is not here, and {purpose} needs it",
                where=str(self.root),
                why=f"parts that are here: {', '.join(self.parts) or 'none'}",
                remedy=f"unpack {missing[0]}.tar.zst of the same SDK into this folder: `mlir-release sdk unpack`",
            )

    def unfit(self, what: str, *, why: str = "", remedy: str = "") -> UsageError:
        """The error ``sdk-mismatch`` about this SDK."""
        return UsageError("sdk-mismatch", what, where=str(self.root), why=why, remedy=remedy)

    def listed(self, part: str) -> dict[str, str]:
        """The files of a part that is here: path -> line of its list.

        :raises VerificationError: ``file-damaged``, if the list is another one, or names what is elsewhere
        """
        file = list_of(self.root, part)
        if part not in self.info.parts or f"sha256:{sha256_of(file)}" != self.info.parts[part].digest:
            raise self._modified(f"the list of the {part} part is another one: {file}")
        lines = read_text(file, errors="surrogateescape").splitlines(keepends=True)
        found = {words[2].strip("\n"): line for line in lines if len(words := line.split(" ", 2)) == 3}
        if len(found) < len(lines) or any(path.startswith("/") or ".." in path.split("/") for path in found):
            raise self._modified(f"the list of the {part} part is not one that was written with an SDK: {file}")
        return found

    def verify(self) -> None:
        """Hash every file of the parts that are here.

        :raises VerificationError: if anything changed since the SDK was made
        """
        expected = {line for name in self.parts for line in self.listed(name).values()}
        found = {line for line, _ in list_files(self.root).values()}
        if found != expected:
            paths = sorted({line.split(" ", 2)[2].strip() for line in found ^ expected})
            raise self._modified(f"changed, missing or added: {', '.join(paths[:5])}, {len(paths)} in all")

    def _modified(self, why: str) -> VerificationError:
        return VerificationError(
            "file-damaged",
            "the SDK's files are not those that it was made with",
            where=str(self.root),
            why=why,
            remedy="make or unpack the SDK again; nothing should write into it",
        )
