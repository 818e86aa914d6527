"""What Windows' wheels export, from here: upstream's C API compiled for Windows, linked as upstream and CMake do.

A DLL has at most 65,535 exports. Upstream sets ``WINDOWS_EXPORT_ALL_SYMBOLS`` for the C API's library, with which CMake
lists every name of its objects (not of the archives) in a ``.def`` file. PyPI's ``ziglang`` compiles for Windows on any
system and brings MinGW's headers: names of C++ are mangled in another way than Microsoft's, but are as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.platforms import zig

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = zig.MARKS

#: What a DLL can export: ordinals have 16 bits (Microsoft's "PE Format").
LIMIT = 65_535


@dataclass(frozen=True)
class WindowsTools(zig.Tools):
    """A compiler for Windows, and LLVM's programs."""

    target = "x86_64-windows-gnu"
    suffix = ".obj"

    def include(self) -> list[Path]:
        return [self.headers(), *super().include()]

    def headers(self) -> Path:
        """LLVM's configuration, which is the one header that differs, as its own build on Windows makes it."""
        folder = self.folder / "include"
        file = folder / "llvm" / "Config" / "llvm-config.h"
        if not file.is_file():
            text = (self.sdk.root / "include" / "llvm" / "Config" / "llvm-config.h").read_text(encoding="utf-8")
            file.parent.mkdir(parents=True)
            assert "#define LLVM_ON_UNIX 1" in text
            file.write_text(text.replace("#define LLVM_ON_UNIX 1", ""), encoding="utf-8")
        return folder

    def list_exports(self, *objects: Path) -> Path:
        """CMake's own list of what its objects define."""
        listed = self.folder / "objects.txt"
        listed.write_text("".join(f"{path}\n" for path in objects), encoding="utf-8")
        cmake = self.environment.site_packages() / "cmake" / "data" / "bin" / "cmake"
        self.run(cmake, "-E", "__create_def", self.folder / "exports.def", listed)
        return self.folder / "exports.def"

    def link(self, name: str, *words: str | Path) -> Path:
        target = self.folder / name
        # What the objects take from archives is missing here; what is exported does not depend on it.
        fixed = ("/dll", "/noentry", "/lldmingw", "/brepro", "/force:unresolved")
        self.run(self.sdk.tools / "lld-link", *fixed, f"/out:{target}", *words)
        return target

    def exports(self, library: Path) -> set[str]:
        printed = self.run(self.sdk.tools / "llvm-readobj", "--coff-exports", library)
        names = (line.strip() for line in printed.splitlines())
        return {line.removeprefix("Name: ") for line in names if line.startswith("Name: ")}


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> WindowsTools:
    return WindowsTools.provide(tmp_path_factory.mktemp("windows"))


@pytest.fixture(scope="module")
def objects(windows: WindowsTools) -> list[Path]:
    return windows.compile_c_api()


def test_a_dll_exports_the_c_api(
    windows: WindowsTools, objects: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    library = windows.link("MLIRPythonCAPI.dll", f"/def:{windows.list_exports(*objects)}", *objects)
    exported = windows.exports(library)
    capi = {name for name in exported if name.startswith("mlir")}
    with capsys.disabled():
        print(f"\nC API for Windows: {len(exported)} exports, {len(capi)} of them of the C API")
    assert {"mlirContextCreate", "mlirOperationCreate", "mlirGetDialectHandle__func__"} <= capi
    assert len(capi) > 300
    assert len(exported) < 2 * len(capi)


def test_the_same_objects_make_the_same_dll(windows: WindowsTools, objects: list[Path]) -> None:
    """The option ``/Brepro``: a digest in place of the time."""
    words: tuple[str | Path, ...] = (f"/def:{windows.list_exports(*objects)}", *objects)
    first, second = (windows.link(name, *words).read_bytes() for name in ("same.dll", "same.dll"))
    assert first == second


def test_the_whole_c_api_fits_into_a_dll(windows: WindowsTools, capsys: pytest.CaptureFixture[str]) -> None:
    """All of its objects, for this machine: every name that they define, templates and inline functions too."""
    files = [path for path in (windows.sdk.root / "lib" / "objects").rglob("*") if path.is_file()]
    assert len(files) > 50
    printed = windows.run(
        windows.sdk.tools / "llvm-nm", "--extern-only", "--defined-only", "--just-symbol-name", *files
    )
    names = {line for line in printed.splitlines() if line and not line.endswith(":")}
    capi = {name for name in names if name.startswith("mlir")}
    with capsys.disabled():
        print(f"\nall objects of the C API: {len(names)} names, {len(capi)} of them of the C API; a DLL has {LIMIT:,}")
    assert len(capi) > 1_000
    assert len(names) < LIMIT / 4
