from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.sdk.parts import DESCRIPTION, list_files, total, write_parts
from mlir_release.builder.sdk.port import LinkedLibrary, recipe_of
from mlir_release.ground.python.platforms import Platform
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

INFO = SdkInfo(
    revision="c" * 40,
    llvm_version="22.1.8",
    provider="debian",
    platform=Platform("linux", "x86_64"),
    configuration="release",
    code_generators=("X86", "NVPTX"),
    native_code_generator="X86",
    binding_library="nanobind",
    binding_requirements=("nanobind>=2.9",),
    runtime_requirements=("numpy>=1",),
    minimum_python="3.10",
    source_epoch=1,
    linked=(LinkedLibrary(name="zlib", version="1.2.13", license="Zlib"),),
    file_count=0,
    size=0,
    digest="sha256:0",
)


def test_the_description_reads_back_the_same() -> None:
    assert SdkInfo.from_json(INFO.to_json(), where="here") == INFO


def test_the_platform_is_text_in_the_document() -> None:
    text = INFO.to_json()
    assert json.loads(text)["platform"] == "linux-x86_64"
    other = SdkInfo.from_json(text.replace("linux-x86_64", "windows-amd64"), where="here")
    assert other.platform == Platform("windows", "x86_64")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 99}',
        json.dumps({**json.loads(INFO.to_json()), "unknown": 1}),
        "\x00",
        INFO.to_json().replace("linux-x86_64", "solaris-sparc"),
    ],
)
def test_other_descriptions_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / DESCRIPTION).write_text(text)
    error = refused(lambda: Sdk.load(tmp_path), "input-invalid")
    assert error.where == str(tmp_path / DESCRIPTION)


def test_a_folder_without_description_is_no_sdk(tmp_path: Path) -> None:
    refused(lambda: Sdk.load(tmp_path), "input-missing")


class TestDigest:
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        root = tmp_path / "tree"
        (root / "a").mkdir(parents=True)
        (root / "a" / "file").write_text("text")
        (root / "link").symlink_to("a/file")
        (root / DESCRIPTION).write_text("left out")
        return root

    def test_counts_and_moves(self, tree: Path, tmp_path: Path) -> None:
        before = list_files(tree)
        assert {path: size for path, (_, size) in before.items()} == {"a/file": 4, "link": 0}
        whole = total(write_parts(tree, recipe_of("mlir")))
        assert (whole.file_count, whole.size) == (2, 4)
        moved = tree.rename(tmp_path / "moved")
        os.utime(moved / "a" / "file", (0, 0))
        (moved / DESCRIPTION).write_text("something else")
        assert list_files(moved) == before

    def test_sees_content_mode_name_and_links(self, tree: Path) -> None:
        seen = {str(list_files(tree))}
        (tree / "a" / "file").write_text("TEXT")
        seen.add(str(list_files(tree)))
        (tree / "a" / "file").chmod(0o755)
        seen.add(str(list_files(tree)))
        (tree / "a" / "file").rename(tree / "a" / "other")
        seen.add(str(list_files(tree)))
        (tree / "link").unlink()
        (tree / "link").symlink_to("a/other")
        seen.add(str(list_files(tree)))
        assert len(seen) == 5
