"""Libraries that are linked once for all CPythons: the launcher, with a real compiler and linker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import WHEEL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: run make setup-tests"),
    pytest.mark.skipif(sys.platform != "linux", reason="only what lld links on Linux is shared"),
]

LAUNCHER = WHEEL / "cmake" / "link_once.py"
#: A compiler that notes each link, which then takes a moment.
COMPILER = """#!/bin/sh
case "$*" in *-shared*) echo linked >> "{log}"; sleep 0.2;; esac
exec cc "$@"
"""


class Links:
    """Builds that share a folder of linked libraries."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sdk, self.project, self.cache = root / "sdk", root / "project", root / "links"
        self.log, self.compiler = root / "links.log", root / "compiler"
        for folder in (self.sdk, self.project, root / "elsewhere"):
            folder.mkdir()
        self.log.touch()
        self.compiler.write_text(COMPILER.format(log=self.log))
        self.compiler.chmod(0o755)
        (self.sdk / "sdk.json").write_text('{"digest": "sha256:1"}')
        self.archive(self.sdk / "libmlir.a", "int mlirAnswer(void) { return 1; }")
        self.archive(root / "elsewhere" / "libelse.a", "int other(void) { return 1; }")

    def archive(self, path: Path, source: str) -> None:
        path.unlink(missing_ok=True)
        subprocess.run(
            ["cc", "-fPIC", "-c", "-x", "c", "-", "-o", path.with_suffix(".o")], input=source.encode(), check=True
        )
        subprocess.run(["ar", "rcD", path, path.with_suffix(".o")], check=True)
        path.with_suffix(".o").unlink()

    def build(
        self, name: str, source: str = "int mlirAnswer(void); int mine(void) { return mlirAnswer(); }", *words: str
    ) -> Path:
        """Link in a build folder of its own, as CMake has it done; the library, or an assertion."""
        folder = self.folder(name, source)
        done = self.link(folder, *words)
        assert done.returncode == 0, done.stderr
        return folder / "libcapi.so"

    def folder(self, name: str, source: str) -> Path:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        command = ["cc", "-fPIC", "-c", "-x", "c", "-", "-o", "mine.o"]
        subprocess.run(command, input=source.encode(), cwd=folder, check=True)
        (folder / "capi.rsp").write_text(f"mine.o {self.sdk}/libmlir.a {self.root}/elsewhere/libelse.a\n")
        return folder

    def link(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.compiler), "-shared", *words, "-o", "libcapi.so", "@capi.rsp"]
        return subprocess.run(
            [sys.executable, LAUNCHER, folder, self.project, self.sdk, self.cache, *command],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def made(self) -> int:
        return len(self.log.read_text().splitlines())


@pytest.fixture
def links(tmp_path: Path) -> Links:
    return Links(tmp_path)


def test_another_build_gets_a_copy(links: Links) -> None:
    first, second = links.build("cp311"), links.build("cp313")
    assert links.made == 1
    assert first.read_bytes() == second.read_bytes()
    assert os.access(second, os.X_OK)


@pytest.mark.parametrize("what", ["an option", "an object", "the SDK", "a library outside the SDK", "the environment"])
def test_whatever_a_link_depends_on_makes_another(links: Links, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "int other(void); int mine(void) { return other(); }"
    before = links.build("cp311", other)
    words: list[str] = []
    source = other
    if what == "an option":
        words = ["-Wl,-z,now"]
    elif what == "an object":
        source = "int other(void); int mine(void) { return 2 * other(); }"
    elif what == "the SDK":
        (links.sdk / "sdk.json").write_text('{"digest": "sha256:2"}')
    elif what == "a library outside the SDK":
        links.archive(links.root / "elsewhere" / "libelse.a", "int other(void) { return 2; }")
    else:
        monkeypatch.setenv("LIBRARY_PATH", str(links.root))
    after = links.build("cp313", source, *words)
    assert links.made == 2
    if what not in ("the SDK", "the environment"):
        assert before.read_bytes() != after.read_bytes()


def test_builds_side_by_side_link_once(links: Links) -> None:
    folders = [links.folder(f"cp31{minor}", "int mine(void) { return 1; }") for minor in range(4)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        done = list(pool.map(links.link, folders))
    assert [one.returncode for one in done] == [0] * 4
    assert links.made == 1


def test_a_link_that_fails_leaves_nothing_and_shows_why(links: Links) -> None:
    folder = links.folder("cp311", "int nowhere(void); int mine(void) { return nowhere(); }")
    for _ in range(2):
        done = links.link(folder, "-Wl,--no-undefined")
        assert done.returncode != 0
        assert "nowhere" in done.stderr
    assert links.made == 2


def test_what_a_killed_build_left_is_not_used(links: Links) -> None:
    links.build("cp311")
    (entry,) = links.cache.iterdir()
    (entry / "inputs.json").unlink()  # the last that is written
    (entry / "library").write_bytes(b"half")
    assert links.build("cp313").read_bytes()[:4] == b"\x7fELF"
    assert links.made == 2


def test_only_the_last_used_are_kept(links: Links) -> None:
    for number in range(8):
        links.build("cp311", "int mine(void) { return 1; }", f"-Wl,-soname,libcapi.so.{number}")
    assert len(list(links.cache.iterdir())) == 6
