from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import MachineError, UsageError
from mlir_release.sdk import build
from tests.prefix_factory import EPOCH, make_source

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.sdk.build import BuildTree


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "llvm-project", whole=True)


def prepare(source: Path, output: Path, configuration: str = "release") -> BuildTree:
    return build.prepare(source, output=output, source_epoch=EPOCH, configuration=configuration, jobs=2)


def test_the_same_build_resumes_and_another_has_its_own_folder(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "sdk"
    first = prepare(source, output)
    assert prepare(source, output).root == first.root
    assert prepare(source, output, configuration="release+asserts").root != first.root
    assert not output.exists()


def test_the_estimate_grows_with_steps_and_shrinks_with_cores() -> None:
    assert build.estimate(4000, 4) == pytest.approx(2 * build.estimate(2000, 4))
    assert build.estimate(4000, 8) == pytest.approx(build.estimate(4000, 4) / 2)


def test_an_unknown_configuration(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(source, tmp_path / "sdk", configuration="debug")
    assert caught.value.id == "sdk-configuration-unknown"


def test_sources_that_are_only_a_part(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(make_source(tmp_path / "part"), tmp_path / "sdk")
    assert caught.value.id == "sdk-source-incomplete"
    assert "missing: lld/CMakeLists.txt, llvm/CMakeLists.txt, " in caught.value.why


def test_no_compiler(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/opt/no-such-compiler -m64")
    with pytest.raises(MachineError) as caught:
        prepare(source, tmp_path / "sdk")
    assert caught.value.id == "no-compiler"
    assert "/opt/no-such-compiler" in caught.value.where


def test_no_disk_space(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=5_000_000_000))
    with pytest.raises(MachineError) as caught:
        prepare(source, tmp_path / "sdk")
    assert caught.value.id == "disk-space"
    assert "5000.0 MB are free" in caught.value.why


def test_a_build_that_fails_says_what_and_where_the_log_is(source: Path, tmp_path: Path) -> None:
    (source / "llvm" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(llvm LANGUAGES NONE)\n"
        'add_custom_target(install-distribution COMMAND ${CMAKE_COMMAND} -E echo "foo.cpp:1: error: this is why"\n'
        "  COMMAND ${CMAKE_COMMAND} -E false)\n"
        "add_custom_target(first COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/made)\n"
    )
    tree = prepare(source, tmp_path / "sdk")
    build.build_until(tree, "first")
    assert (tree.build_dir / "made").is_file()
    with pytest.raises(MachineError) as caught:
        build.build_sdk(tree, revision="c" * 40)
    assert caught.value.id == "sdk-build-failed"
    assert "foo.cpp:1: error: this is why" in caught.value.why
    assert caught.value.where == str(tree.root / "build.log")
    assert not (tmp_path / "sdk").exists()
