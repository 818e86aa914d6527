"""What one release compiled is found by the next one, whose sources are elsewhere: with the real sccache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk import build
from mlir_release.builder.sdk.build_environment import BUILD_ROOT, FixedPlace, build_tools
from mlir_release.builder.sdk.progress import StageLog
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.cache import cache_directory
from tests.prefix_factory import EPOCH, make_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The files of the made-up LLVM; each includes a header of the build folder, as LLVM's do.
FILES = ("a", "b", "c")


@pytest.fixture
def sccache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A compiler cache, and a server of it, of this test alone."""
    program = build_tools(cache_directory()).scripts / "sccache"
    monkeypatch.setenv("SCCACHE_DIR", str(tmp_path / "sccache"))
    monkeypatch.setenv("SCCACHE_SERVER_UDS", str(tmp_path / "sccache.sock"))
    for language in ("C", "CXX"):
        monkeypatch.setenv(f"CMAKE_{language}_COMPILER_LAUNCHER", str(program))
    yield program
    capture([program, "--stop-server"])


def make_revision(root: Path) -> Path:
    source = make_source(root, whole=True)
    (source / "llvm" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(llvm LANGUAGES CXX)\n"
        'file(WRITE "${CMAKE_BINARY_DIR}/include/made.h" "int made();\\n")\n'
        'include_directories("${CMAKE_BINARY_DIR}/include" "${CMAKE_SOURCE_DIR}/include")\n'
        f"add_library(some STATIC {' '.join(f'{name}.cpp' for name in FILES)})\n"
    )
    for name in FILES:
        text = f'#include "made.h"\nconst char *{name}() {{ return __FILE__; }}\n'
        (source / "llvm" / f"{name}.cpp").write_text(text)
    return source


def hits_and_misses(source: Path, output: Path) -> tuple[int, int]:
    tree = build.prepare(source, output=output, source_epoch=EPOCH, jobs=2, disk=0)
    build.build_until(tree, "some")
    stage = StageLog(output).stages[-1]
    return stage.hits, stage.misses


def test_the_next_release_compiles_nothing_again(
    sccache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BUILD_ROOT, str(tmp_path / "b"))
    first, second = (make_revision(tmp_path / "sources" / revision) for revision in ("1" * 40, "2" * 40))
    assert hits_and_misses(first, tmp_path / "sdks" / "first") == (0, len(FILES))
    assert hits_and_misses(second, tmp_path / "sdks" / "second") == (len(FILES), 0)
    tree = build.prepare(second, output=tmp_path / "sdks" / "second", source_epoch=EPOCH, disk=0)
    assert isinstance(tree.environment, FixedPlace)
    commands = (tree.build_dir / "build.ninja").read_text()
    assert str(first) not in commands
    assert str(second) not in commands
