from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.errors import UsageError
from tests.prefix_factory import make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_tree_says_about_itself(tmp_path: Path) -> None:
    source = read_source(make_source(tmp_path / "llvm-project"))
    assert source.version == "22.1.8"
    assert source.facts.binding_library == "nanobind"
    assert source.facts.minimum_python == "3.10"
    assert source.facts.runtime_requirements[0] == "numpy>=1.19.5, <=2.1.2"


def test_a_development_version_keeps_its_suffix(tmp_path: Path) -> None:
    root = make_source(tmp_path / "llvm-project", version="23.0.0")
    file = root / "cmake" / "Modules" / "LLVMVersion.cmake"
    file.write_text(file.read_text().replace("SUFFIX)", "SUFFIX git)"))
    assert read_source(root).version == "23.0.0git"


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_bindings_is_refused(tmp_path: Path, exists: bool) -> None:
    root = tmp_path / "empty"
    if exists:
        root.mkdir()
    refused(lambda: read_source(root), "input-missing")


def test_a_tree_without_version_is_refused(tmp_path: Path) -> None:
    root = make_source(tmp_path / "llvm-project")
    (root / "cmake" / "Modules" / "LLVMVersion.cmake").unlink()
    refused(lambda: read_source(root), "input-invalid", "the source tree does not contain LLVM's version")


def test_a_line_that_is_no_requirement_is_named(tmp_path: Path) -> None:
    root = make_source(tmp_path / "llvm-project")
    file = root / "mlir" / "python" / "requirements.txt"
    file.write_text(file.read_text() + "-r more.txt\n")
    error = refused(
        lambda: read_source(root), "input-invalid", "the requirements of MLIR's Python bindings cannot be read"
    )
    assert "'-r more.txt'" in error.why


def test_every_missing_piece_of_a_tree_is_named_at_once(tmp_path: Path) -> None:
    root = make_source(tmp_path / "llvm-project")
    (root / "LICENSE.TXT").unlink()
    shutil.rmtree(root / "mlir" / "test")
    with pytest.raises(UsageError) as caught:
        read_source(root)
    assert caught.value.what == "an SDK can't be made with these sources"
    assert caught.value.why == "missing: LICENSE.TXT, mlir/test/lit.site.cfg.py.in, mlir/test/python"


def test_the_part_that_importing_reads_is_not_enough_to_build_llvm(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_source(make_source(tmp_path / "part"), whole=True)
    assert caught.value.what == "LLVM can't be built from these sources"
    assert "llvm/CMakeLists.txt" in caught.value.why
    read_source(make_source(tmp_path / "whole", whole=True), whole=True)
