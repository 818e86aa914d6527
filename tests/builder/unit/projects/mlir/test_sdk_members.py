"""What a published SDK leaves out, it leaves out everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.sdk_members import LEFT_OUT, Reduced
from mlir_release.builder.sdk.importer import import_sdk
from tests.prefix_factory import EPOCH, REVISION, make_archive, make_prefix, make_sdk, make_source

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk

LIBRARIES = ("LLVMAArch64CodeGen", "LLVMExegesisAArch64", "LLVMAMDGPUCodeGen", "LLVMX86CodeGen")
TEST_LIBRARIES = ("MLIRTestDialect", "MLIRSCFTestPasses", "MLIRShardTest", "MLIRMlirOptMain", "MLIRUsesTests")

#: Symbol tables of a library that was compiled with all of the code generators.
CALLER = "MLIRTargetLLVMIRTransforms"
CALLED = b"\0".join(
    b"LLVMInitialize" + name for name in (b"AArch64TargetMC", b"AArch64Target", b"X86Target", b"Native")
)

TARGETS_DEF = "LLVM_TARGET(AArch64)\nLLVM_TARGET(AMDGPU)\nLLVM_TARGET(X86)\n#undef LLVM_TARGET\n"
TARGETS_H = "#define LLVM_HAS_AARCH64_TARGET 1\n#define LLVM_HAS_AMDGPU_TARGET 1\n#define LLVM_HAS_ARC_TARGET 0\n"


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    """Of a distribution's LLVM: with a code generator and test libraries that no downstream needs."""
    root = tmp_path_factory.mktemp("made")
    prefix = make_prefix(root / "llvm-22")
    cmake = prefix / "lib" / "cmake"
    for name in (*LIBRARIES, *TEST_LIBRARIES):
        make_archive(prefix / "lib" / f"lib{name}.a", ["one.o"])
    (prefix / "lib" / f"lib{CALLER}.a").write_bytes(b"\0" + CALLED + b"\0")
    for package, exports, names in (("llvm", "LLVMExports", LIBRARIES), ("mlir", "MLIRTargets", TEST_LIBRARIES)):
        declared = "".join(f"add_library({name} STATIC IMPORTED)\n" for name in names)
        if package == "mlir":
            declared += 'set_target_properties(MLIRUsesTests PROPERTIES INTERFACE_LINK_LIBRARIES "MLIRTestDialect")\n'
            declared += f"add_library({CALLER} STATIC IMPORTED)\n"
            declared += f'set_target_properties({CALLER} PROPERTIES INTERFACE_LINK_LIBRARIES "MLIRSupport")\n'
            names = (*names, CALLER)
        location = 'IMPORTED_LOCATION_RELWITHDEBINFO "${{_IMPORT_PREFIX}}/lib/lib{0}.a"'
        placed = "".join(f"set_target_properties({name} PROPERTIES {location.format(name)})\n" for name in names)
        append(cmake / package / f"{exports}.cmake", declared)
        append(cmake / package / f"{exports}-relwithdebinfo.cmake", placed)
    config = cmake / "llvm" / "LLVMConfig.cmake"
    text = config.read_text(encoding="utf-8")
    text = text.replace("AMDGPU;NVPTX;X86", "AArch64;AMDGPU;NVPTX;X86")
    config.write_text(text.replace("LLVMDemangle;", f"{';'.join(LIBRARIES)};LLVMDemangle;"), encoding="utf-8")
    headers = prefix / "include-22" / "llvm" / "Config"
    headers.mkdir()
    (headers / "Targets.def").write_text(TARGETS_DEF, encoding="utf-8")
    (headers / "Targets.h").write_text(TARGETS_H, encoding="utf-8")
    source = make_source(root / "llvm-project")
    return import_sdk(prefix, source=source, output=root / "sdk", revision=REVISION, source_epoch=EPOCH)


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


@pytest.fixture(scope="module")
def reduced(sdk: Sdk) -> Reduced:
    return Reduced.of(sdk)


def test_the_hosts_code_generator_stays_and_those_that_mlir_calls(sdk: Sdk, reduced: Reduced) -> None:
    assert "AArch64" in sdk.info.code_generators
    assert reduced.code_generators == ("AMDGPU", "NVPTX", "X86")
    assert reduced.dropped == {"LLVMAArch64CodeGen", "LLVMExegesisAArch64", *TEST_LIBRARIES}
    assert reduced.files == {f"lib/lib{name}.a" for name in reduced.dropped}


def test_exports_are_without_it(sdk: Sdk, reduced: Reduced, tmp_path: Path) -> None:
    """The rest is the same: every target and every property."""
    for package, exports in (("llvm", "LLVMExports.cmake"), ("mlir", "MLIRTargets.cmake")):
        path = f"lib/cmake/{package}/{exports}"
        before = cmake_exports.read(sdk.root / path)
        text = reduced.rewritten(path)
        assert text is not None
        (tmp_path / exports).write_text(text, encoding="utf-8")
        after = cmake_exports.read(tmp_path / exports)
        added = {LEFT_OUT} if package == "llvm" else set()
        assert set(after) == set(before) - reduced.dropped | added
        linked = {cmake_exports.linked_name(entry) for target in after.values() for entry in target.links}
        assert linked.isdisjoint(reduced.dropped)
        ends = [found.rpartition("unset(_IMPORT_PREFIX)")[2] for found in (text, (sdk.root / path).read_text("utf-8"))]
        assert ends[0] == ends[1]


def test_lists_and_headers_are_without_it(reduced: Reduced) -> None:
    config = reduced.rewritten("lib/cmake/llvm/LLVMConfig.cmake")
    assert config is not None
    assert "set(LLVM_TARGETS_TO_BUILD AMDGPU;NVPTX;X86)" in config
    assert "AArch64" not in config
    assert reduced.rewritten("include/llvm/Config/Targets.def") == TARGETS_DEF.partition("\n")[2]
    assert reduced.rewritten("include/llvm/Config/Targets.h") == TARGETS_H.replace(
        "AARCH64_TARGET 1", "AARCH64_TARGET 0"
    )
    assert reduced.rewritten("include/llvm/IR/Header.h") is None


def test_initializers_that_are_called_and_left_out_do_nothing(reduced: Reduced, tmp_path: Path) -> None:
    assert reduced.calls == {CALLER: {"LLVMInitializeAArch64TargetMC", "LLVMInitializeAArch64Target"}}
    assert reduced.initializers == (
        "define void @LLVMInitializeAArch64Target() { ret void }\n"
        "define void @LLVMInitializeAArch64TargetMC() { ret void }\n"
    )
    text = reduced.rewritten("lib/cmake/mlir/MLIRTargets.cmake")
    assert text is not None
    (tmp_path / "MLIRTargets.cmake").write_text(text, encoding="utf-8")
    targets = cmake_exports.read(tmp_path / "MLIRTargets.cmake")
    assert [name for name, target in targets.items() if LEFT_OUT in target.links] == [CALLER]
    assert targets[CALLER].links == ["MLIRSupport", LEFT_OUT]


def test_nothing_is_defined_where_no_code_generator_is_left_out(tmp_path: Path) -> None:
    reduced = Reduced.of(make_sdk(tmp_path))
    assert reduced.dropped_generators == frozenset()
    assert (reduced.calls, reduced.initializers) == ({}, "")
