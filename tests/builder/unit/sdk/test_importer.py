"""The importer on a made-up prefix that has every quirk of the real ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.sdk.importer import describe, import_sdk
from mlir_release.builder.sdk.info import Sdk
from tests.builder.pretence import fill_disk, leave_free
from tests.prefix_factory import EPOCH, REVISION, make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError


def run(prefix: Path, source: Path, output: Path, *, revision: str = REVISION, other_patch: bool = False) -> Sdk:
    return import_sdk(
        prefix, source=source, output=output, revision=revision, source_epoch=EPOCH, other_patch=other_patch
    )


def test_the_sdk_describes_itself(prefix: Path, source: Path, tmp_path: Path) -> None:
    sdk = run(prefix, source, tmp_path / "sdk")
    info = Sdk.load(tmp_path / "sdk").info
    assert info == sdk.info
    assert (info.revision, info.llvm_version, info.provider) == (REVISION, "22.1.8", "debian")
    assert info.configuration == "release"
    assert info.code_generators == ("AMDGPU", "NVPTX", "X86")
    assert info.native_code_generator == "X86"
    assert [library.name for library in info.linked] == ["zlib", "zstd"]
    assert info.source_epoch == EPOCH
    sdk.verify()
    assert dict(describe(sdk))["digest"] == info.digest


def test_the_same_prefix_gives_the_same_digest(prefix: Path, source: Path, tmp_path: Path) -> None:
    assert run(prefix, source, tmp_path / "one").info == run(prefix, source, tmp_path / "two").info


def test_nothing_is_written_through_a_hard_link(prefix: Path, source: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in prefix.rglob("*") if path.is_file()}
    run(prefix, source, tmp_path / "sdk")
    assert {path: path.read_bytes() for path in prefix.rglob("*") if path.is_file()} == before


def test_headers_behind_links_and_the_sources_come_along(prefix: Path, source: Path, tmp_path: Path) -> None:
    sdk = run(prefix, source, tmp_path / "sdk")
    assert (sdk.root / "include" / "llvm" / "IR" / "Header.h").read_text() == "// llvm\n"
    assert (sdk.source / "python" / "requirements.txt").is_file()
    assert (sdk.source / "test" / "python" / "python_test_ops.td").is_file()
    assert not (sdk.source / "lib" / "Dialect").exists()
    assert {path.name for path in (sdk.root / "licenses").iterdir()} == {"LLVM.txt", "zlib.txt", "zstd.txt"}
    assert (sdk.tools / "ld.lld").readlink().name == "lld"


@pytest.mark.parametrize(
    ("change", "provider"),
    [
        (lambda root: (root / "share" / "debian_config.mk").rename(root / "INSTALL_RECEIPT.json"), "homebrew"),
        (lambda root: (root / "share" / "debian_config.mk").unlink(), "prefix"),
    ],
)
def test_the_provider_is_told_by_content(
    prefix: Path, source: Path, tmp_path: Path, change: Callable[[Path], object], provider: str
) -> None:
    change(prefix)
    assert run(prefix, source, tmp_path / "sdk").info.provider == provider


def makes_nothing(id: str, prefix: Path, source: Path, output: Path, **more: Any) -> ReleaseError:
    error = refused(lambda: run(prefix, source, output, **more), id)
    assert not list(output.parent.glob(f".{output.name}.*[!k]"))  # nothing half-done, but for the lock
    assert not output.exists() or not (output / "sdk.json").exists()
    return error


def test_no_such_prefix(source: Path, tmp_path: Path) -> None:
    error = makes_nothing("input-missing", tmp_path / "usr" / "lib" / "llvm-21", source, tmp_path / "sdk")
    assert "libmlir-21-dev" in error.remedy


def test_no_mlir(prefix: Path, source: Path, tmp_path: Path) -> None:
    shutil.rmtree(prefix / "lib" / "cmake" / "mlir")
    error = makes_nothing("tool-missing", prefix, source, tmp_path / "sdk")
    assert "libmlir-22-dev" in error.why


def test_every_missing_piece_is_named_with_its_package(prefix: Path, source: Path, tmp_path: Path) -> None:
    packages = {
        "bin/mlir-opt": "mlir-22-tools",
        "bin/FileCheck": "llvm-22-tools",
        "bin/ld.lld": "lld-22",
        "lib/libMLIRIR.a": "libmlir-22-dev",
        "include/llvm-c": "llvm-22-dev",
    }
    for path in packages:
        (prefix / path).unlink()
    error = makes_nothing("tool-missing", prefix, source, tmp_path / "sdk")
    assert "the installed LLVM lacks" in error.what
    for path, package in packages.items():
        assert f"{path.rpartition('/')[2]}, in the package {package}" in error.why


def test_another_patch_release_only_where_it_is_accepted(
    prefix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_source(tmp_path / "other", version="22.1.7")
    error = makes_nothing("sdk-mismatch", prefix, other, tmp_path / "sdk")
    assert "22.1.8" in error.what
    assert "22.1.7" in error.what
    assert "--other-patch" in error.remedy
    made = run(prefix, other, tmp_path / "sdk", other_patch=True)
    assert (made.info.llvm_version, made.info.source_version) == ("22.1.8", "22.1.7")
    assert "no release can be built with it" in capsys.readouterr().err
    assert dict(describe(made))["LLVM"] == "22.1.8, with sources of 22.1.7"


@pytest.mark.parametrize("version", ["22.2.0", "21.1.8"])
def test_another_branch_is_never_accepted(prefix: Path, tmp_path: Path, version: str) -> None:
    other = make_source(tmp_path / "other", version=version)
    error = makes_nothing("sdk-mismatch", prefix, other, tmp_path / "sdk", other_patch=True)
    assert "--other-patch" not in error.remedy


@pytest.mark.parametrize("revision", ["ca7933e", "llvmorg-22.1.8", REVISION.upper(), ""])
def test_a_revision_that_is_no_full_commit(prefix: Path, source: Path, tmp_path: Path, revision: str) -> None:
    makes_nothing("option-invalid", prefix, source, tmp_path / "sdk", revision=revision)


def test_an_output_that_holds_something_else(prefix: Path, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "home"
    output.mkdir()
    (output / "thesis.tex").write_text("precious")
    makes_nothing("output-in-the-way", prefix, source, output)
    assert (output / "thesis.tex").read_text() == "precious"


def test_no_disk_space(prefix: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_free(1_000_000, monkeypatch)
    assert "1.0 MB are free" in makes_nothing("disk-full", prefix, source, tmp_path / "sdk").why


def test_disk_space_that_ends_meanwhile(
    prefix: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk("mlir_release.builder.sdk.importer.copy_sources", monkeypatch)
    makes_nothing("disk-full", prefix, source, tmp_path / "sdk")


def test_an_sdk_is_replaced_when_it_is_made_again(prefix: Path, source: Path, tmp_path: Path) -> None:
    first = run(prefix, source, tmp_path / "sdk")
    (first.root / "stray").write_text("a file that does not belong")
    refused(first.verify, "file-damaged")
    run(prefix, source, tmp_path / "sdk").verify()
    assert sorted(path.name for path in tmp_path.iterdir() if "sdk" in path.name) == [".sdk.import.lock", "sdk"]


def test_an_equal_sdk_stays_where_builds_may_be_using_it(prefix: Path, source: Path, tmp_path: Path) -> None:
    first = run(prefix, source, tmp_path / "sdk")
    before = first.root.stat().st_ino
    run(prefix, source, tmp_path / "sdk")
    assert first.root.stat().st_ino == before


def test_what_a_killed_run_left_is_cleared_away(prefix: Path, source: Path, tmp_path: Path) -> None:
    for name in (".sdk.tmp", ".sdk.old"):
        (tmp_path / name / "half").mkdir(parents=True)
    run(prefix, source, tmp_path / "sdk").verify()
    assert not list(tmp_path.glob(".sdk.*[!k]"))


def test_two_at_once_make_one_whole_sdk(prefix: Path, source: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mlir_release.builder.sdk.importer import import_sdk; "
        "import_sdk(Path(sys.argv[1]), source=Path(sys.argv[2]), output=Path(sys.argv[3]), "
        "revision=sys.argv[4], source_epoch=1)"
    )
    command = [sys.executable, "-c", code, str(prefix), str(source), str(tmp_path / "sdk"), REVISION]
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    Sdk.load(tmp_path / "sdk").verify()
