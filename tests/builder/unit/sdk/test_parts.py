"""What an SDK says of itself, what belongs to which part, and what a part alone is good for."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.sdk.parts import BUILD, DESCRIPTION, TOOLS, list_files, list_of, total, write_parts
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.ground.python.platforms import Platform
from tests.refusals import refused


def test_the_platform_is_text_in_the_document(imported: Sdk) -> None:
    text = imported.info.to_json()
    assert json.loads(text)["platform"] == "linux-x86_64"
    other = SdkInfo.from_json(text.replace("linux-x86_64", "windows-amd64"), where="here")
    assert other.platform == Platform("windows", "x86_64")


@pytest.mark.parametrize("changed", [None, {"schema": 99}, {"unknown": 1}, {"platform": "solaris-sparc"}])
def test_other_descriptions_are_refused(imported: Sdk, tmp_path: Path, changed: dict[str, object] | None) -> None:
    known = json.loads(imported.info.to_json())
    (tmp_path / DESCRIPTION).write_text("no JSON" if changed is None else json.dumps(known | changed))
    error = refused(lambda: Sdk.load(tmp_path), "input-invalid")
    assert error.where == str(tmp_path / DESCRIPTION)


def test_a_folder_without_description_is_no_sdk(tmp_path: Path) -> None:
    refused(lambda: Sdk.load(tmp_path), "input-missing")


def test_what_is_listed_is_the_same_wherever_it_is(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "file").write_text("text")
    (tree / "link").symlink_to("a/file")
    (tree / DESCRIPTION).write_text("left out")
    before = list_files(tree)
    assert {path: size for path, (_, size) in before.items()} == {"a/file": 4, "link": 0}
    whole = total(write_parts(tree, recipe_of("mlir")))
    assert (whole.file_count, whole.size) == (2, 4)
    moved = tree.rename(tmp_path / "moved")
    os.utime(moved / "a" / "file", (0, 0))
    (moved / DESCRIPTION).write_text("something else")
    assert list_files(moved) == before


@pytest.fixture
def sdk(imported: Sdk, tmp_path: Path) -> Sdk:
    return imported.copy_to(tmp_path / "sdk")


def files_of(sdk: Sdk, part: str) -> set[str]:
    return {line.split(" ", 2)[2] for line in list_of(sdk.root, part).read_text().splitlines()}


def test_every_file_is_in_one_part(sdk: Sdk) -> None:
    build, tools = files_of(sdk, BUILD), files_of(sdk, TOOLS)
    assert not build & tools
    assert build | tools == set(list_files(sdk.root))
    assert sdk.info.parts[BUILD].file_count == len(build)
    assert sdk.info.digest == total(sdk.info.parts).digest


def test_builds_have_generators_linker_libraries_and_sources(sdk: Sdk) -> None:
    build = files_of(sdk, BUILD)
    assert {"bin/mlir-tblgen", "bin/ld.lld", "bin/lld", "lib/libMLIRIR.a", "include/mlir/IR/Header.h"} <= build
    assert {"lib/cmake/mlir/MLIRConfig.cmake", "source/mlir/python/mlir/ir.py", "licenses/LLVM.txt"} <= build
    assert "src/python/MLIRPythonSources.Core/ir.py" in build


def test_what_only_tests_run_or_read_is_in_the_tools_part(sdk: Sdk) -> None:
    tools = files_of(sdk, TOOLS)
    assert {"bin/mlir-opt", "bin/FileCheck", "bin/not", "bin/count", "bin/mlir-runner"} <= tools
    assert "source/mlir/test/python/python_test_ops.td" in tools


def test_programs_of_builds_are_programs_that_an_sdk_carries() -> None:
    ours = {"lld", "llvm-config", "llvm-config.cmd"}
    assert set(recipe_of("mlir").for_builds) - ours <= set(recipe_of("mlir").programs)


def test_libraries_go_where_the_programs_that_need_them_are(tmp_path: Path) -> None:
    """A real program and one that needs more: the loader's own answer decides, through all levels."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    shutil.copy("/bin/true", tmp_path / "bin" / "mlir-tblgen")
    shutil.copy("/bin/true", tmp_path / "bin" / "mlir-opt")
    libc = next(path for path in Path("/lib").glob("*/libc.so.6"))
    shutil.copy(libc, tmp_path / "lib" / "libc.so.6")  # /bin/true needs it
    shutil.copy(libc, tmp_path / "lib" / "libMLIR.so.22")
    write_parts(tmp_path, recipe_of("mlir"))
    lists = {part: list_of(tmp_path, part).read_text() for part in (BUILD, TOOLS)}
    assert "lib/libc.so.6" in lists[BUILD]
    assert "lib/libMLIR.so.22" in lists[TOOLS]


class TestOnePartAlone:
    @pytest.fixture
    def alone(self, sdk: Sdk) -> Sdk:
        """As a wheel job has it."""
        for name in files_of(sdk, TOOLS):
            (sdk.root / name).unlink()
        list_of(sdk.root, TOOLS).unlink()
        return Sdk.load(sdk.root)

    def test_what_needs_the_other_says_so(self, alone: Sdk) -> None:
        alone.require(BUILD, purpose="building a wheel")
        error = refused(lambda: alone.require(BUILD, TOOLS, purpose="the suite bindings"), "input-missing")
        assert error.what == "the SDK's tools part is not here, and the suite bindings needs it"
        assert "tools.tar.zst" in error.remedy

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ("edit", "include/mlir/IR/Header.h"),
            ("remove", "include/mlir/IR/Header.h"),
            ("add", "include/mlir/IR/Stray.h"),
            ("mode", "include/mlir/IR/Header.h"),
            ("link", "bin/ld.lld"),
            ("list", "build.txt"),
        ],
    )
    def test_any_change_is_found_and_named(self, alone: Sdk, change: str, named: str) -> None:
        file, link = alone.root / "include" / "mlir" / "IR" / "Header.h", alone.tools / "ld.lld"
        match change:
            case "edit":
                file.unlink()  # not through a hard link
                file.write_text("other")
            case "remove":
                file.unlink()
            case "add":
                (file.parent / "Stray.h").touch()
            case "mode":
                file.chmod(0o755)
            case "link":
                link.unlink()
                link.symlink_to("mlir-tblgen")
            case "list":
                list_of(alone.root, BUILD).write_text("")
        assert named in refused(alone.verify, "file-damaged").why
