"""The settings of a build from source, whatever the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.components import SdkSpec, cmake_settings
from mlir_release.builder.sdk.sources.upstream import read_source
from tests.prefix_factory import make_source

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.sources.upstream import UpstreamSource


@pytest.fixture
def source(tmp_path: Path) -> UpstreamSource:
    return read_source(make_source(tmp_path / "llvm-project"))


def test_nothing_of_one_machine_only(source: UpstreamSource) -> None:
    settings = cmake_settings(source, SdkSpec(floor="manylinux_2_28"))
    for name in ("ZLIB", "ZSTD", "LIBXML2", "ICU", "ICONV", "DIA_SDK"):
        assert settings[f"LLVM_ENABLE_{name}"] == "OFF"
    assert settings["CMAKE_DISABLE_PRECOMPILE_HEADERS"] == "ON"


def test_code_generators_are_those_asked_for(source: UpstreamSource) -> None:
    assert cmake_settings(source, SdkSpec())["LLVM_TARGETS_TO_BUILD"] == "host;NVPTX;AMDGPU"
    assert cmake_settings(source, SdkSpec(code_generators=("host",)))["LLVM_TARGETS_TO_BUILD"] == "host"


@pytest.mark.parametrize(("floor", "static"), [("win_amd64", True), ("macosx_13_0", False), ("manylinux_2_28", False)])
def test_only_windows_has_a_c_runtime_to_link_statically(floor: str, static: bool, source: UpstreamSource) -> None:
    settings = cmake_settings(source, SdkSpec(floor=floor))
    assert settings.get("CMAKE_MSVC_RUNTIME_LIBRARY") == ("MultiThreaded" if static else None)


@pytest.mark.parametrize("kind", ["EXE", "SHARED", "MODULE"])
def test_links_on_windows_write_no_time(kind: str, source: UpstreamSource) -> None:
    name = f"CMAKE_{kind}_LINKER_FLAGS_RELEASE"
    assert cmake_settings(source, SdkSpec(floor="win_amd64"))[name].split() == ["/INCREMENTAL:NO", "/Brepro"]
    assert name not in cmake_settings(source, SdkSpec(floor="macosx_13_0"))


@pytest.mark.parametrize("name", ["LLVM_BUILD_LLVM_C_DYLIB", "LLVM_TOOL_LTO_BUILD", "LLVM_TOOL_REMARKS_SHLIB_BUILD"])
def test_no_library_of_all_of_llvm_is_built(name: str, source: UpstreamSource) -> None:
    assert cmake_settings(source, SdkSpec(floor="win_amd64"))[name] == "OFF"
