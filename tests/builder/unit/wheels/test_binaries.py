from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.binaries import BinaryFacts, read_binary
from mlir_release.builder.wheels.inspect import WheelReport, inspect
from tests.binary_factory import mach_o, pe, universal
from tests.refusals import refused
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from pathlib import Path

LIBSYSTEM, LIBCXX = "/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"
C_API = "mlir/_mlir_libs/libMLIRPythonCAPI.dylib"
MODULE = "mlir/_mlir_libs/_mlir.cpython-312-darwin.so"

OUTSIDE, UNTRUE = "needs-outside-library", "platform-tag-untrue"


def macos_wheel(folder: Path, files: dict[str, bytes], *, platform: str = "macosx_13_0_arm64") -> WheelReport:
    return inspect(make_wheel(folder, python="cp312", platform=platform, files=files))


def windows_wheel(folder: Path, files: dict[str, bytes]) -> WheelReport:
    return inspect(make_wheel(folder, python="cp312", platform="win_amd64", files=files))


def problems(report: WheelReport) -> set[str]:
    return {problem.id for problem in report.problems}


def test_a_mach_o_library() -> None:
    data = mach_o(LIBSYSTEM, "@loader_path/libx.dylib", name="@rpath/liby.dylib", runpath=("@loader_path",))
    assert read_binary("liby.dylib", data) == BinaryFacts(
        format="Mach-O",
        architectures=("arm64",),
        needed=(LIBSYSTEM, "@loader_path/libx.dylib"),
        install_name="@rpath/liby.dylib",
        runpath=("@loader_path",),
        oldest_macos=(13, 0),
    )


def test_a_universal_file_is_for_the_oldest_macos_of_its_halves() -> None:
    intel = mach_o(LIBSYSTEM, arch="x86_64", macos=(10, 13))
    facts = read_binary("x.so", universal(intel, mach_o(LIBSYSTEM, LIBCXX, macos=(11, 0))))
    assert facts is not None
    assert facts.architectures == ("arm64", "x86_64")
    assert facts.needed == (LIBSYSTEM, LIBCXX)
    assert facts.oldest_macos == (10, 13)


def test_a_dll() -> None:
    facts = read_binary("x.pyd", pe("python312.dll", "KERNEL32.dll"))
    assert facts == BinaryFacts(format="PE", architectures=("amd64",), needed=("python312.dll", "KERNEL32.dll"))


@pytest.mark.parametrize("data", [b"", b"import os", b"\x7fELF", b"MZ but a text"])
def test_other_files(data: bytes) -> None:
    assert read_binary("mlir/x.py", data) is None


@pytest.mark.parametrize("name", ["x.dylib", "x.dll"])
def test_a_damaged_binary(name: str, tmp_path: Path) -> None:
    data = b"MZ" + bytes(70) if name.endswith(".dll") else mach_o(LIBSYSTEM)[:40]
    refused(lambda: macos_wheel(tmp_path, {f"mlir/{name}": data}), "file-damaged")


def test_a_sound_macos_wheel(tmp_path: Path) -> None:
    files = {
        C_API: mach_o(LIBSYSTEM, LIBCXX, name="@rpath/libMLIRPythonCAPI.dylib"),
        MODULE: mach_o("@loader_path/libMLIRPythonCAPI.dylib", LIBCXX, runpath=("@loader_path",)),
    }
    report = macos_wheel(tmp_path, files)
    assert report.problems == ()
    assert report.true_platform_tag == "macosx_13_0_arm64"
    assert report.system == (LIBSYSTEM, LIBCXX)
    assert report.external == ()


@pytest.mark.parametrize(
    "library", ["/opt/homebrew/opt/zstd/lib/libzstd.1.dylib", "@rpath/libzstd.1.dylib", "libzstd.1.dylib"]
)
def test_a_library_that_only_the_building_machine_has(library: str, tmp_path: Path) -> None:
    report = macos_wheel(tmp_path, {MODULE: mach_o(LIBSYSTEM, library)})
    assert problems(report) == {OUTSIDE}
    assert report.external == (library,)


@pytest.mark.parametrize(
    ("platform", "files", "expected"),
    [
        # The absolute path of a library that the wheel also carries.
        ("macosx_13_0_arm64", {C_API: mach_o(name="@rpath/libx.dylib"), MODULE: mach_o("/build/libx.dylib")}, OUTSIDE),
        ("macosx_13_0_arm64", {C_API: mach_o(macos=(15, 0)), MODULE: mach_o()}, UNTRUE),
        ("macosx_13_0_arm64", {MODULE: mach_o(arch="x86_64")}, UNTRUE),
        ("macosx_13_0_universal2", {MODULE: mach_o()}, UNTRUE),
        ("macosx_13_0_universal2", {MODULE: universal(mach_o(arch="x86_64"), mach_o())}, ""),
        ("win_amd64", {"mlir/x.dll": pe(arch="arm64")}, UNTRUE),
        ("macosx_13_0_arm64", {MODULE: mach_o(runpath=("/Users/runner/work/lib",))}, "runpath-absolute"),
        ("any", {MODULE: mach_o()}, UNTRUE),
    ],
)
def test_what_a_tag_or_a_loader_can_not_keep(
    tmp_path: Path, platform: str, files: dict[str, bytes], expected: str
) -> None:
    report = macos_wheel(tmp_path, files, platform=platform)
    assert problems(report) == {expected} - {""}
    if (15, 0) in (facts.oldest_macos for facts in report.binaries.values()):
        assert report.true_platform_tag == "macosx_15_0_arm64"


def test_what_delocate_copied_in(tmp_path: Path) -> None:
    name = "@loader_path/../.dylibs/libzstd.1.dylib"
    files = {MODULE: mach_o(name), "mlir/.dylibs/libzstd.1.dylib": mach_o(name="/DLC/mlir/libzstd.1.dylib")}
    report = macos_wheel(tmp_path, files)
    assert problems(report) == {"library-vendored"}
    assert "mlir/.dylibs/libzstd.1.dylib" in report.problems[0].message


def test_what_delvewheel_copied_in(tmp_path: Path) -> None:
    module = pe("python312.dll", "VCRUNTIME140_1.dll", "msvcp140-a4c2.dll", "api-ms-win-crt-heap-l1-1-0.dll")
    runtime = {"mlir/x.pyd": module, "mlir.libs/msvcp140-a4c2.dll": pe("KERNEL32.dll", "VCRUNTIME140.dll")}
    assert problems(windows_wheel(tmp_path, runtime)) == set()
    more = {**runtime, "mlir.libs/zstd-0123.dll": pe("KERNEL32.dll")}
    assert problems(windows_wheel(tmp_path, more)) == {"library-vendored"}


def test_a_dll_that_windows_does_not_have(tmp_path: Path) -> None:
    report = windows_wheel(tmp_path, {"mlir/x.pyd": pe("python312.dll", "MSVCP140.dll", "libstdc++-6.dll")})
    assert problems(report) == {OUTSIDE}
    assert report.external == ("MSVCP140.dll", "libstdc++-6.dll")
