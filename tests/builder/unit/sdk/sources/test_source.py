"""Where sources come from: the cache, git, Debian's source package."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.releases import LlvmRelease
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.ground.errors import MachineError
from mlir_release.ground.git.repository import Git
from tests.builder.pretence import have_debian, list_packages, record
from tests.prefix_factory import REVISION, VERSION, WHOLE, make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = LlvmRelease(version=VERSION, commit=REVISION)
#: A release that the catalogue does not have, and whose commit nothing tells.
NEW = LlvmRelease(version="97.1.3")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Debian's source archive of the new release, which is the only one to be had."""
    if shutil.which("xz") is None:
        pytest.skip("needs xz")
    path = have_debian(tmp_path, monkeypatch) / "llvm-toolchain-97_97.1.3.orig.tar.xz"
    pack(make_source(tmp_path / "llvm-toolchain-97_97.1.3", version="97.1.3"), path)
    return path


def pack(root: Path, archive: Path) -> None:
    subprocess.run(["tar", "-cJf", str(archive), "-C", str(root.parent), root.name], check=True)
    list_packages(root.parent, "", record("97.1.3", archive.read_bytes()))


def test_a_release_that_only_debian_has_is_unpacked_once_under_its_version(archive: Path, tmp_path: Path) -> None:
    tree = fetch_source(NEW, cache=tmp_path / "cache")
    assert (tree.version, tree.root.name) == ("97.1.3", "llvm-97.1.3-kept")
    archive.unlink()
    assert fetch_source(NEW, cache=tmp_path / "cache") == tree
    # Once the commit is known, too, the same tree serves.
    assert fetch_source(LlvmRelease(version="97.1.3", commit="a" * 40), cache=tmp_path / "cache") == tree


def test_an_archive_of_another_version_is_refused(archive: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "llvm-toolchain-97_97.1.3")
    pack(make_source(tmp_path / "llvm-toolchain-97_97.1.3", version="97.1.2"), archive)
    error = refused(lambda: fetch_source(NEW, cache=tmp_path / "cache"), "sources-unavailable", "are not available")
    assert "97.1.2, not 97.1.3" in error.why
    assert "git: its commit is not known" in error.why
    assert [path.name for path in (tmp_path / "cache" / "sources").iterdir()] == [".lock"]


def test_an_archive_that_lacks_pieces_is_refused_with_their_names(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "llvm-toolchain-97_97.1.3" / "LICENSE.TXT").unlink()
    pack(tmp_path / "llvm-toolchain-97_97.1.3", archive)
    with pytest.raises(MachineError) as caught:
        fetch_source(NEW, cache=tmp_path / "cache")
    assert "missing: LICENSE.TXT" in caught.value.why


def test_the_part_for_imports_does_not_serve_a_build_of_llvm(archive: Path, tmp_path: Path) -> None:
    fetch_source(NEW, cache=tmp_path / "cache")
    with pytest.raises(MachineError) as caught:
        fetch_source(NEW, cache=tmp_path / "cache", whole=True)
    assert "missing: lld/CMakeLists.txt" in caught.value.why


@pytest.mark.parametrize("whole", [False, True])
def test_one_commit_of_a_repository_has_its_own_line_ends(
    whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git for Windows changes them, as it is installed: so does this git."""
    (tmp_path / "gitconfig").write_text("[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    git, files = Git(make_source(tmp_path / "upstream", whole=whole)), "mlir/python"
    unix, windows = git.directory / files / "unix.py", git.directory / files / "windows.py"
    unix.write_bytes(b"a = 1\nb = 2\n")
    windows.write_bytes(b"a = 1\r\nb = 2\r\n")
    (git.directory / ".gitattributes").write_text("windows.py -text\n")
    for folder in WHOLE:
        if (git.directory / folder).is_dir():
            (git.directory / folder / "file").touch()  # git keeps no empty folder
    git.run("init", "--quiet")
    git.run("config", "uploadpack.allowFilter", "true")
    git.run("add", ".")
    git.run("-c", "user.name=x", "-c", "user.email=x@example.invalid", "commit", "--quiet", "-m", "All")
    release = LlvmRelease(version=VERSION, commit=git.text("rev-parse", "HEAD"))
    tree = fetch_source(release, cache=tmp_path / "cache", upstream=git.directory.as_uri(), whole=whole)
    assert (tree.root / files / "unix.py").read_bytes() == unix.read_bytes()
    assert (tree.root / files / "windows.py").read_bytes() == windows.read_bytes()
    assert not (tree.root / ".git").exists()


def test_every_place_says_why_it_has_nothing(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        fetch_source(RELEASE, cache=tmp_path / "cache", upstream=str(tmp_path / "no-repository"))
    assert (caught.value.id, "are not available" in caught.value.what) == ("sources-unavailable", True)
    assert "git (" in caught.value.why
    assert "Debian's source package: " in caught.value.why


def test_a_cached_tree_of_another_version_is_refused(tmp_path: Path) -> None:
    make_source(tmp_path / "sources" / f"{REVISION}-kept", version="22.1.7")
    refused(lambda: fetch_source(RELEASE, cache=tmp_path), "sources-unavailable", "the sources of LLVM")


def test_a_commit_alone_has_no_archive(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        fetch_source(LlvmRelease(commit="a" * 40), cache=tmp_path)
    assert (caught.value.id, "are not available" in caught.value.what) == ("sources-unavailable", True)
    assert "no upstream is given" in caught.value.why


def test_a_given_folder_that_is_no_source_tree_is_refused(tmp_path: Path) -> None:
    refused(lambda: fetch_source(RELEASE, cache=tmp_path, directory=tmp_path), "input-missing")
