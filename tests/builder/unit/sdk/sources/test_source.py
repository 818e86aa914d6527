"""Which release an LLVM is, where its sources come from, and what a tree of them says about itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.sdk.sources.releases import (
    LlvmRelease,
    find_release,
    identify_revision,
    read_catalogue,
    release_at,
)
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.pin import SHA_PATTERN
from tests.builder.pretence import have_debian, list_packages, record
from tests.prefix_factory import REVISION, VERSION, WHOLE, make_source
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = read_catalogue()[-1]
UNKNOWN = "a" * 40
RELEASE = LlvmRelease(version=VERSION, commit=REVISION)
#: A release that came after this toolkit: the catalogue does not have it, and nothing tells its commit.
NEW = "97.1.3"
WITHOUT_COMMIT = LlvmRelease(version=NEW)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout of the new release, which is also an upstream that has its tag."""
    root = make_source(tmp_path / "llvm-project", version=NEW)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Bump version", env={"GIT_COMMITTER_DATE": "1790000000 +0000"})
    git(root, "tag", "-a", f"llvmorg-{NEW}", "--message=a release")
    return root


def git(root: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    person = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
    command = ["git", "-C", str(root), *person, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | (env or {}))
    return done.stdout.strip()


def test_the_catalogue_is_in_order_and_names_full_commits() -> None:
    known = read_catalogue()
    assert [release.order for release in known] == sorted(release.order for release in known)
    assert all(SHA_PATTERN.fullmatch(release.commit) for release in known)
    assert all(release.epoch > 1_700_000_000 for release in known)


def test_the_catalogue_identifies_a_release_by_its_version_or_its_commit() -> None:
    assert identify_revision(KNOWN.version) == KNOWN
    assert release_at(KNOWN.commit) == KNOWN
    assert release_at(UNKNOWN) == LlvmRelease(commit=UNKNOWN)


def test_what_is_given_wins_over_the_catalogue() -> None:
    assert identify_revision(KNOWN.version, source_epoch=7).epoch == 7
    found = identify_revision(KNOWN.version, UNKNOWN, 7)
    assert (found.version, found.commit, found.epoch) == (KNOWN.version, UNKNOWN, 7)
    assert found.sha256 == ""


def test_a_checkout_says_its_commit_whatever_the_catalogue_has(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert find_release(NEW, source=checkout) == LlvmRelease(version=NEW, commit=head, epoch=1790000000)
    assert identify_revision(NEW, source=checkout).commit == head
    assert find_release(KNOWN.version, source=checkout).commit == head


def test_a_release_that_is_newer_than_the_catalogue_is_found_by_upstreams_tag(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert find_release(NEW, upstream=str(checkout)) == LlvmRelease(version=NEW, commit=head, epoch=1790000000)
    assert identify_revision("97.1.4", head, upstream=str(checkout)).epoch == 1790000000


def test_no_commit_is_made_up(checkout: Path, tmp_path: Path) -> None:
    nothing = LlvmRelease(version="97.1.4")
    assert find_release("97.1.4") == nothing
    assert find_release("97.1.4", source=make_source(tmp_path / "unpacked", version="97.1.4")) == nothing
    assert find_release("97.1.4", upstream=str(checkout)) == nothing  # no such tag
    assert find_release("97.1.4", upstream=str(tmp_path / "unreachable")) == nothing


def test_an_unknown_version_and_an_unknown_commit_without_a_time_are_refused() -> None:
    refused(lambda: identify_revision(NEW), "option-invalid", "the llvm-project commit of LLVM")
    refused(lambda: identify_revision(KNOWN.version, UNKNOWN), "option-invalid", "the time of commit")


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
    tree = fetch_source(WITHOUT_COMMIT, cache=tmp_path / "cache")
    assert (tree.version, tree.root.name) == ("97.1.3", "llvm-97.1.3-kept")
    archive.unlink()
    assert fetch_source(WITHOUT_COMMIT, cache=tmp_path / "cache") == tree
    # Once the commit is known, too, the same tree serves.
    assert fetch_source(LlvmRelease(version="97.1.3", commit="a" * 40), cache=tmp_path / "cache") == tree


def test_an_archive_of_another_version_is_refused(archive: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "llvm-toolchain-97_97.1.3")
    pack(make_source(tmp_path / "llvm-toolchain-97_97.1.3", version="97.1.2"), archive)
    error = refused(
        lambda: fetch_source(WITHOUT_COMMIT, cache=tmp_path / "cache"), "sources-unavailable", "are not available"
    )
    assert "97.1.2, not 97.1.3" in error.why
    assert "git: its commit is not known" in error.why
    assert [path.name for path in (tmp_path / "cache" / "sources").iterdir()] == [".lock"]


def test_an_archive_that_lacks_pieces_is_refused_with_their_names(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "llvm-toolchain-97_97.1.3" / "LICENSE.TXT").unlink()
    pack(tmp_path / "llvm-toolchain-97_97.1.3", archive)
    error = refused(lambda: fetch_source(WITHOUT_COMMIT, cache=tmp_path / "cache"), "sources-unavailable")
    assert "missing: LICENSE.TXT" in error.why


def test_the_part_for_imports_does_not_serve_a_build_of_llvm(archive: Path, tmp_path: Path) -> None:
    fetch_source(WITHOUT_COMMIT, cache=tmp_path / "cache")
    error = refused(lambda: fetch_source(WITHOUT_COMMIT, cache=tmp_path / "cache", whole=True), "sources-unavailable")
    assert "missing: lld/CMakeLists.txt" in error.why


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
    upstream = str(tmp_path / "no-repository")
    error = refused(lambda: fetch_source(RELEASE, cache=tmp_path / "cache", upstream=upstream), "sources-unavailable")
    assert "git (" in error.why
    assert "Debian's source package: " in error.why


def test_a_cached_tree_of_another_version_is_refused(tmp_path: Path) -> None:
    make_source(tmp_path / "sources" / f"{REVISION}-kept", version="22.1.7")
    refused(lambda: fetch_source(RELEASE, cache=tmp_path), "sources-unavailable", "the sources of LLVM")


def test_a_commit_alone_has_no_archive(tmp_path: Path) -> None:
    error = refused(lambda: fetch_source(LlvmRelease(commit="a" * 40), cache=tmp_path), "sources-unavailable")
    assert "no upstream is given" in error.why


def test_a_given_folder_that_is_no_source_tree_is_refused(tmp_path: Path) -> None:
    refused(lambda: fetch_source(RELEASE, cache=tmp_path, directory=tmp_path), "input-missing")


ARCHIVE = b"upstream's own tree"
#: As `apt-cache show` prints them; a snapshot of the next version has no numbered release.
SHOW = """Package: libmlir-98-dev
Version: 1:98~++20260911042146+7e3c57157096-1

Package: libmlir-97-dev
Version: 1:97.1.4-1

Package: libmlir-97-dev
Version: 1:97.1.3-2

Package: libmlir-22-dev
Version: 1:22.1.8-5
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DebianPackages:
    """Of a distribution with packages of 97.1.4, whose pool has the sources of 97.1.3."""
    pool = have_debian(tmp_path, monkeypatch)
    (pool / "llvm-toolchain-97_97.1.3.orig.tar.xz").write_bytes(ARCHIVE)
    list_packages(tmp_path, SHOW, *(record(version, ARCHIVE) for version in ("97.1.4", "97.1.3")))
    return DebianPackages(tmp_path / "cache")


def test_versions_are_those_of_the_packages_newest_first(packages: DebianPackages) -> None:
    assert packages.versions() == {97: "97.1.4", 22: "22.1.8"}


def test_an_archive_that_is_not_what_the_index_says_is_refused(packages: DebianPackages, tmp_path: Path) -> None:
    (archive,) = tmp_path.rglob("*.orig.tar.xz")
    archive.write_bytes(b"something else")
    error = refused(lambda: packages.source_archive("97.1.3"), "sources-unavailable", "none of apt's repositories has")
    assert "its sha256 is" in error.why
    assert not list((packages.cache / "archives").glob("*.xz"))


def test_an_archive_that_the_index_names_and_no_pool_has(packages: DebianPackages) -> None:
    refused(lambda: packages.source_archive("97.1.4"), "sources-unavailable", "none of apt's repositories has")


def test_a_version_that_the_index_does_not_name_says_which_it_has(packages: DebianPackages) -> None:
    said = "the distribution's source index does not name"
    error = refused(lambda: packages.source_archive("97.1.2"), "sources-unavailable", said)
    assert error.why == "it names llvm-toolchain-97_97.1.3.orig.tar.xz, llvm-toolchain-97_97.1.4.orig.tar.xz"
    error = refused(lambda: packages.source_archive("77.1.0"), "sources-unavailable")
    assert "no such source package" in error.why


def test_the_source_index_is_fetched_once_a_day(packages: DebianPackages, tmp_path: Path) -> None:
    for _ in range(3):
        refused(lambda: packages.source_archive("97.1.2"))
    log = (tmp_path / "log").read_text().splitlines()
    assert len([line for line in log if " update " in line]) == 2  # of packages, and of sources


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
    said = "the requirements of MLIR's Python bindings cannot be read"
    error = refused(lambda: read_source(root), "input-invalid", said)
    assert "'-r more.txt'" in error.why


def test_every_missing_piece_of_a_tree_is_named_at_once(tmp_path: Path) -> None:
    root = make_source(tmp_path / "llvm-project")
    (root / "LICENSE.TXT").unlink()
    shutil.rmtree(root / "mlir" / "test")
    error = refused(lambda: read_source(root), "input-invalid", "an SDK can't be made with these sources")
    assert error.why == "missing: LICENSE.TXT, mlir/test/lit.site.cfg.py.in, mlir/test/python"
