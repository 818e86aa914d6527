from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.cmake_exports import Target

if TYPE_CHECKING:
    from pathlib import Path

MAIN = r"""
# add_library(NotThis STATIC IMPORTED)
add_library(One STATIC IMPORTED)

set_target_properties(One PROPERTIES
  INTERFACE_LINK_LIBRARIES "Two;\$<LINK_ONLY:LLVM>;-lpthread"
  INTERFACE_COMPILE_DEFINITIONS "TEXT=\"a;b)\""
)
add_library(Two INTERFACE IMPORTED)
add_executable(tool IMPORTED)
set_property(TARGET tool PROPERTY ENABLE_EXPORTS 1)
"""

PER_TYPE = """
set_property(TARGET One APPEND PROPERTY IMPORTED_CONFIGURATIONS {type})
set_target_properties(One PROPERTIES
  IMPORTED_LINK_INTERFACE_LANGUAGES_{type} "CXX"
  IMPORTED_LOCATION_{type} "${{_IMPORT_PREFIX}}/lib/{folder}/libOne.a"
  )
"""


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    main = tmp_path / "Exports.cmake"
    main.write_text(MAIN)
    for build_type in ("debug", "release"):
        text = PER_TYPE.format(type=build_type.upper(), folder=build_type)
        (tmp_path / f"Exports-{build_type}.cmake").write_text(text)
    return main


def test_targets_are_read_with_kind_and_properties(exports: Path) -> None:
    targets = cmake_exports.read(exports)
    assert {name: target.kind for name, target in targets.items()} == {
        "One": "STATIC",
        "Two": "INTERFACE",
        "tool": "EXECUTABLE",
    }
    assert targets["One"].links == ["Two", r"\$<LINK_ONLY:LLVM>", "-lpthread"]
    assert targets["One"].properties["INTERFACE_COMPILE_DEFINITIONS"] == r"TEXT=\"a;b)\""
    assert targets["tool"].properties == {"ENABLE_EXPORTS": "1"}


def test_release_is_taken_before_debug(exports: Path) -> None:
    assert cmake_exports.read(exports)["One"].files == ["lib/release/libOne.a"]


def test_what_is_written_reads_back_the_same(exports: Path, tmp_path: Path) -> None:
    targets = cmake_exports.read(exports)
    again = tmp_path / "again" / "Exports.cmake"
    again.parent.mkdir()
    again.write_text(cmake_exports.write(targets.values(), origin="A test."))
    assert cmake_exports.read(again) == targets


def test_links_are_renamed_inside_link_only_and_dropped() -> None:
    target = Target(
        name="X",
        kind="STATIC",
        properties={
            "INTERFACE_LINK_LIBRARIES": r"A;\$<LINK_ONLY:A>;B;C",
            "MLIR_AGGREGATE_DEP_LIBS_IMPORTED": "A;B",
        },
    )
    cmake_exports.replace_links(target, {"A": "Z", "B": None})
    assert target.links == ["Z", r"\$<LINK_ONLY:Z>", "C"]
    assert target.properties["MLIR_AGGREGATE_DEP_LIBS_IMPORTED"] == "Z"
