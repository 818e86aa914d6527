"""A disk that fills up while LLVM is compiled: a real one, small, with a real compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.mounting import able_to_mount
from tests.prefix_factory import make_source

if TYPE_CHECKING:
    from pathlib import Path

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
    source = make_source(tmp_path / "llvm-project", whole=True)
    folder = source / "llvm"
    names = [f"big{number}.cpp" for number in range(OBJECTS)]
    for name in names:
        (folder / name).write_text(f"char {name.partition('.')[0]}[3000000] = {{1}};\n")
    library = f"add_library(some STATIC {' '.join(names)})\n"
    project = "cmake_minimum_required(VERSION 3.20)\nproject(llvm LANGUAGES CXX)\n"
    (folder / "CMakeLists.txt").write_text(project + library)
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
