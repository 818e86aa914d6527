"""Debian's packages and sources, as an apt of our own making answers: what its index names is fetched and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.ground.errors import MachineError
from tests.builder.pretence import have_debian, list_packages, record
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

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


def test_an_archive_that_no_catalogue_knows_is_checked_against_the_index(packages: DebianPackages) -> None:
    assert packages.source_archive("97.1.3").read_bytes() == ARCHIVE


def test_an_archive_that_is_not_what_the_index_says_is_refused(packages: DebianPackages, tmp_path: Path) -> None:
    (archive,) = tmp_path.rglob("*.orig.tar.xz")
    archive.write_bytes(b"something else")
    error = refused(lambda: packages.source_archive("97.1.3"), "sources-unavailable", "none of apt's repositories has")
    assert "its sha256 is" in error.why
    assert not list((packages.cache / "archives").glob("*.xz"))


def test_an_archive_that_the_index_names_and_no_pool_has(packages: DebianPackages) -> None:
    refused(lambda: packages.source_archive("97.1.4"), "sources-unavailable", "none of apt's repositories has")


def test_a_version_that_the_index_does_not_name_says_which_it_has(packages: DebianPackages) -> None:
    error = refused(
        lambda: packages.source_archive("97.1.2"),
        "sources-unavailable",
        "the distribution's source index does not name",
    )
    assert error.why == ("it names llvm-toolchain-97_97.1.3.orig.tar.xz, llvm-toolchain-97_97.1.4.orig.tar.xz")
    with pytest.raises(MachineError) as caught:
        packages.source_archive("77.1.0")
    assert "no such source package" in caught.value.why


def test_the_source_index_is_fetched_once_a_day(packages: DebianPackages, tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(MachineError):
            packages.source_archive("97.1.2")
    log = (tmp_path / "log").read_text().splitlines()
    assert len([line for line in log if " update " in line]) == 2  # of packages, and of sources
