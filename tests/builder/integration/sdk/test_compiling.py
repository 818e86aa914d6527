"""LLVM compiled by a real compiler: with the real sccache, and while a disk fills up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk import build
from mlir_release.builder.sdk.build_environment import BUILD_ROOT, FixedPlace, build_tools
from mlir_release.builder.sdk.progress import StageLog
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.cache import cache_directory
from tests.mounting import able_to_mount
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


def make_llvm(root: Path, sources: dict[str, str], more: str = "") -> Path:
    """A tree of LLVM, the whole of which is one library, ``some``."""
    source = make_source(root, whole=True)
    project = "cmake_minimum_required(VERSION 3.20)\nproject(llvm LANGUAGES CXX)\n"
    library = f"add_library(some STATIC {' '.join(sources)})\n"
    for name, text in {"CMakeLists.txt": project + more + library, **sources}.items():
        (source / "llvm" / name).write_text(text)
    return source


def make_revision(root: Path) -> Path:
    folders = (
        'file(WRITE "${CMAKE_BINARY_DIR}/include/made.h" "int made();\\n")\n'
        'include_directories("${CMAKE_BINARY_DIR}/include" "${CMAKE_SOURCE_DIR}/include")\n'
    )
    text = '#include "made.h"\nconst char *NAME() { return __FILE__; }\n'
    return make_llvm(root, {f"{name}.cpp": text.replace("NAME", name) for name in FILES}, folders)


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


#: Twelve objects of 3 MB and a library of them: 72 MB.
OBJECTS = 12

PROGRAM = """
import json, sys
from pathlib import Path
from mlir_release.ground.errors import MachineError
from mlir_release.builder.sdk import build
from mlir_release.builder.sdk.progress import StageLog

build._DISK_NEEDED = build._DISK_LEFT = 1  # the disk is small on purpose
tree = build.prepare(Path(sys.argv[1]), output=Path(sys.argv[2], "sdk"), source_epoch=1, jobs=1, disk=0)
try:
    build.build_until(tree, "some")
    error = {}
except MachineError as caught:
    error = caught.to_json()
stage = StageLog(tree.output).stages[-1]
objects = len(list(tree.build_dir.rglob("*.o")))
print(json.dumps([error.get("error"), error.get("why"), error.get("remedy"), stage.outcome, stage.steps, objects]))
"""

ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=24m tmpfs "$1"
"$PYTHON" -c "$PROGRAM" "$2" "$1"
mount -o remount,size=200m "$1"
"$PYTHON" -c "$PROGRAM" "$2" "$1"
"""


def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    isolated = able_to_mount(disk)
    names = [f"big{number}" for number in range(OBJECTS)]
    sources = {f"{name}.cpp": f"char {name}[3000000] = {{1}};\n" for name in names}
    source = make_llvm(tmp_path / "llvm-project", sources)
    environment = {
        **os.environ, "PYTHON": sys.executable, "PROGRAM": PROGRAM,
        "CMAKE_CXX_COMPILER_LAUNCHER": "", "CMAKE_C_COMPILER_LAUNCHER": "",
    }  # fmt: skip
    command = [*isolated, "sh", "-c", ON_A_SMALL_DISK, "sh", str(disk), str(source)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (error, why, remedy, outcome, steps, objects), second = map(json.loads, done.stdout.splitlines())
    assert (error, outcome) == ("disk-full", "failed"), done.stderr
    assert "No space left on device" in why
    assert "used again" in remedy
    assert 3 <= steps < OBJECTS
    assert objects == steps
    # Only what was not compiled before, and the library.
    assert second == [None, None, None, "done", OBJECTS - steps + 1, OBJECTS]
