"""Where LLVM is compiled, and with which commands."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.sdk.build_environment import (
    _WITH_STATISTICS,
    Container,
    FixedPlace,
    Native,
    choose_environment,
    fixed_root,
    is_too_new,
    read_ccache_counts,
    read_sccache_counts,
)
from mlir_release.builder.tools.containers import Engine
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.venv import VirtualEnvironment
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import PurePath

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="containers are run on Linux")


class Tools(VirtualEnvironment):
    """An environment that need not exist."""

    def site_packages(self) -> Path:
        return self.root / "lib" / "python3.12" / "site-packages"


@pytest.fixture(autouse=True)
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do nothing, with success."""
    folder = tmp_path / "engines"
    folder.mkdir()
    for name in ("docker", "podman"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def container(tmp_path: Path, engine: str = "podman", *arguments: str) -> Container:
    return Container(
        source=tmp_path / "llvm",
        root=tmp_path / "llvm" / ".build",
        tools=Tools(root=tmp_path / "tools"),
        engine=Engine(name=engine, create_args=arguments),
        image="image",
        compiler_cache=tmp_path / "sccache",
    )


@pytest.mark.parametrize(
    ("host", "floor", "expected"),
    [
        ("manylinux_2_39_x86_64", "manylinux_2_28", True),
        ("manylinux_2_28_x86_64", "manylinux_2_28", False),
        ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64", False),
        ("manylinux_3_0_x86_64", "manylinux_2_28", True),
        ("manylinux_2_39_x86_64", "", False),
        ("macosx_15_0_arm64", "macosx_13_0", False),
        ("linux_x86_64", "manylinux_2_28", False),
    ],
)
def test_a_glibc_above_the_floor_is_too_new(host: str, floor: str, expected: bool) -> None:
    assert is_too_new(floor, PlatformTag.parse(host)) is expected


def test_a_container_only_where_it_must_be(tmp_path: Path) -> None:
    choose = partial(choose_environment, tmp_path, tmp_path, Tools(root=tmp_path / "tools"), cache=tmp_path)
    assert isinstance(choose(floor=""), Native)
    assert isinstance(choose(floor="manylinux_9_0"), Native)
    chosen = choose(floor="manylinux2014")
    assert isinstance(chosen, Container)
    assert "manylinux2014" in chosen.image


def test_everything_has_a_fixed_place_in_the_container(tmp_path: Path) -> None:
    place = container(tmp_path, "podman", "--network=none")
    command = place.command("ninja", "-C", place.path(place.root / "build"))
    assert command[:2] == ["podman", "run"]
    assert command[-3:] == ["/tools/bin/ninja", "-C", "/sdk-build/build"]
    assert "--network=none" in command
    assert "--env=SCCACHE_IDLE_TIMEOUT=0" in command
    assert f"--volume={tmp_path}/llvm:/llvm-project:ro" in command
    assert f"--volume={tmp_path}/sccache:/sccache" in command
    assert not any(word.startswith("--user") for word in command)
    assert "--user" in container(tmp_path, "docker").command("cmake"), "it would leave files of root's"
    assert place.path(place.source / "llvm") == "/llvm-project/llvm"
    with pytest.raises(ValueError, match="not visible"):
        place.path(tmp_path)


def test_cmake_itself_and_not_the_script_that_starts_it(tmp_path: Path) -> None:
    assert "/tools/lib/python3.12/site-packages/cmake/data/bin/cmake" in container(tmp_path).command("cmake")


def test_one_build_is_one_container(tmp_path: Path) -> None:
    """So that one that a killed build left behind is found again, and two builds don't meet."""

    def name(place: Container) -> str:
        command = place.command("ninja")
        return command[command.index("--name") + 1]

    assert name(container(tmp_path)) == name(container(tmp_path)) != name(container(tmp_path / "other"))


def test_an_engine_that_does_not_work(tmp_path: Path) -> None:
    refused(lambda: container(tmp_path, "no-such-engine").check(), "machine-unsuitable")
    assert not (tmp_path / "sccache").exists()


def test_an_image_without_python(tmp_path: Path) -> None:
    refused(lambda: container(tmp_path).settings(), "no-python")


def test_caches_find_the_same_file_in_another_folder(tmp_path: Path) -> None:
    native = Native(source=tmp_path / "a", root=tmp_path / "a" / ".build", tools=Tools(root=tmp_path))
    assert native.variables()["SCCACHE_BASEDIRS"] == native.variables()["CCACHE_BASEDIR"] == str(tmp_path / "a")


def test_a_source_on_another_drive_than_the_build(tmp_path: Path) -> None:
    # Here, too, no folder has both paths: one is absolute, and the other is not.
    source, root = Path("llvm"), Path("/build")
    assert Native(source=source, root=root, tools=Tools(root=tmp_path)).variables()["SCCACHE_BASEDIRS"] == str(root)


def test_launchers_that_people_set_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_CXX_COMPILER_LAUNCHER", "mine")
    settings = Native(source=tmp_path, root=tmp_path, tools=Tools(root=tmp_path)).settings()
    assert settings["CMAKE_CXX_COMPILER_LAUNCHER"] == "mine"
    assert settings["CMAKE_C_COMPILER_LAUNCHER"] != "mine"


def test_llvm_is_configured_with_the_toolkits_python(tmp_path: Path) -> None:
    """CMake would search for one: the PATH of windows-2022 began with 3.9."""
    tools = Tools(root=tmp_path)
    assert Native(source=tmp_path, root=tmp_path, tools=tools).settings()["Python3_EXECUTABLE"] == str(tools.python)


@pytest.mark.parametrize(("system", "asked"), [("Linux", True), ("Darwin", False), ("Windows", False)])
def test_lld_is_asked_of_a_compiler_that_would_call_it(
    system: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretend: Any
) -> None:
    """``ld.lld`` is on the PATH. Windows' link.exe is called by CMake itself, macOS's lld has another name."""
    (tmp_path / "ld.lld").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    pretend(system=system, machine="x86_64")
    settings = Native(source=tmp_path, root=tmp_path, tools=Tools(root=tmp_path)).settings()
    assert settings.get("LLVM_USE_LINKER") == ("lld" if asked else None)


SCCACHE = (
    '{"stats": {"compile_requests": 9, "cache_hits": {"counts": {"C/C++": 5, "Assembler": 1}, "adv_counts": {}}, '
    '"cache_misses": {"counts": {"C/C++": 2}, "adv_counts": {}}}, "cache_location": "Local disk"}'
)


def test_what_compiler_caches_counted() -> None:
    assert read_sccache_counts(SCCACHE) == (6, 2)
    assert read_ccache_counts("cache_miss\t3\ndirect_cache_hit\t4\npreprocessed_cache_hit\t1\n") == (5, 3)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"stats": {"cache_hits": 1}}', "sccache: error"])
def test_a_compiler_cache_that_says_nothing(text: str) -> None:
    assert read_sccache_counts(text) == read_ccache_counts(text) == (0, 0)


def test_counts_of_a_container_are_those_of_one_run(tmp_path: Path) -> None:
    place = container(tmp_path)
    place.root.mkdir(parents=True)
    (place.root / "compiler-cache.json").write_text(SCCACHE)
    assert place.cache_counts() == (6, 2)
    assert place.cache_counts() == (0, 0)


def test_the_first_process_of_a_container_passes_interrupts_on(tmp_path: Path) -> None:
    """The container's script, run here: the build is interrupted, ends its own way, and counts are kept."""
    program = tmp_path / "build.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "def end(*_): os.write(1, b'interrupted\\n'); time.sleep(0.3); sys.exit(7)\n"  # print may be at work
        "signal.signal(signal.SIGINT, end)\n"
        "print('begun', flush=True)\n"
        "time.sleep(60)\n"
    )
    script = _WITH_STATISTICS.format(statistics="echo counted", file=tmp_path / "counts")
    command = ["sh", "-c", script, "sh", sys.executable, str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(timeout=30) == 7
    assert (tmp_path / "counts").read_text() == "counted\n"


RUNNER = PureWindowsPath("C:\\Users\\runneradmin\\AppData\\Local\\mlir-release\\Cache")


@pytest.mark.parametrize(
    ("system", "cache", "named", "expected"),
    [
        ("windows", RUNNER, "", "C:\\mlir\\b"),
        ("windows", RUNNER, "D:\\s", "D:\\s"),
        ("macos", PurePosixPath("/Users/runner/Library/Caches/mlir-release"), "",
         "/Users/runner/Library/Caches/mlir-release/b"),
        ("linux", PurePosixPath("/home/me/.cache/mlir-release"), "", "None"),
        ("linux", PurePosixPath("/home/me/.cache/mlir-release"), "/b", "/b"),
    ],
)  # fmt: skip
def test_one_place_for_every_build_of_a_system(system: str, cache: PurePath, named: str, expected: str) -> None:
    assert str(fixed_root(system, cache, {"MLIR_RELEASE_BUILD_ROOT": named})) == expected


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def place(tmp_path: Path, revision: str) -> FixedPlace:
    source = tmp_path / "sources" / revision
    return FixedPlace(source=source, root=tmp_path / "b", tools=Tools(root=tmp_path), holds=revision, unused=["clang"])


def test_the_fixed_place_has_one_builds_sources_at_the_same_paths(tmp_path: Path) -> None:
    for revision in ("one", "two"):
        write(tmp_path / "sources" / revision / "llvm" / "a.cpp", revision)
        write(tmp_path / "sources" / revision / "clang" / "b.cpp", "not read by the build")
        (tmp_path / "sources" / revision / "llvm" / "nowhere").symlink_to("nothing")
        here = place(tmp_path, revision)
        here.begin()
        assert Path(here.path(here.source / "llvm" / "a.cpp")) == tmp_path / "b" / "source" / "llvm" / "a.cpp"
        assert here.path(here.root / "build") == str(tmp_path / "b" / "build")
        assert (tmp_path / "b" / "source" / "llvm" / "a.cpp").read_text() == revision
        assert not (tmp_path / "b" / "source" / "clang").exists()
        assert not (tmp_path / "b" / "build").exists(), "the other build's"
        write(tmp_path / "b" / "build" / "a.o", revision)


def test_a_build_in_the_fixed_place_resumes_with_the_sources_as_they_are_now(tmp_path: Path) -> None:
    here = place(tmp_path, "one")
    edited, kept = (write(here.source / name, "old") for name in ("edited.cpp", "kept.cpp"))
    here.begin()
    write(here.root / "build" / "a.o", "compiled")
    edited.unlink()
    write(edited, "new text")
    before = (here.root / "source" / "kept.cpp").stat()
    here.begin()
    assert (here.root / "source" / "edited.cpp").read_text() == "new text"
    after = (here.root / "source" / "kept.cpp").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, kept.stat().st_mtime_ns), "Ninja would compile it again"
    assert (here.root / "build" / "a.o").exists()


def test_compiler_caches_see_one_folder_in_the_fixed_place(tmp_path: Path) -> None:
    variables = place(tmp_path, "one").variables()
    assert variables["SCCACHE_BASEDIRS"] == variables["CCACHE_BASEDIR"] == str(tmp_path / "b")
