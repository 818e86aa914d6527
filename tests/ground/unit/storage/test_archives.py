"""Archives are read with bounds; what is hostile in them is in tests/attacks/test_s14_malformed_files.py."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.storage import archives
from mlir_release.ground.storage.archives import ArchiveError, UnsafeNameError, check_name, gunzip, open_tar, open_zip

if TYPE_CHECKING:
    from pathlib import Path


def test_a_zip_archive_is_read_whole_in_pieces_and_into_files(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        archive.writestr("folder/a", content)
    with open_zip(tmp_path / "a.zip") as guarded:
        assert guarded.read("folder/a") == b"".join(guarded.chunks("folder/a")) == content
        guarded.copy("folder/a", tmp_path / "copy")
        with pytest.raises(ArchiveError, match="has more than"):
            list(guarded.chunks("folder/a", limit=len(content) - 1))
    assert (tmp_path / "copy").read_bytes() == content


def test_a_tar_archive_is_read_in_order_with_long_names_links_and_folders(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    names = ["a", "b" * 150 + "/" + "c" * 200, "ü"]
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        archive.addfile(link)
    buffer.seek(0)
    found = {}
    with open_tar(buffer) as guarded:
        for number, member in enumerate(guarded):
            guarded.copy(member, tmp_path / str(number))
            found[member.name] = (tmp_path / str(number)).read_bytes()
    assert found == {**dict.fromkeys(names, b"abc"), "link": b""}


def test_a_member_that_nobody_reads_is_passed_over() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, size in (("large", 3_000_000), ("small", 2)):
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
    buffer.seek(0)
    with open_tar(buffer) as guarded:
        assert [guarded.read(member) for member in guarded if member.name == "small"] == [b"\0\0"]


def header(type: bytes, size: int) -> bytes:
    """A tar header that says what it likes."""
    info = tarfile.TarInfo("x")
    info.type, info.size = type, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (header(tarfile.REGTYPE, 0) * 2, "x is in the archive twice"),
        (header(tarfile.GNUTYPE_SPARSE, 512), "x is sparse"),
        (header(tarfile.GNUTYPE_LONGNAME, 2 << 20) + bytes(2 << 20), "header is too large"),
        (header(tarfile.XHDTYPE, 2 << 20) + bytes(2 << 20), "header is too large"),
        (header(tarfile.REGTYPE, 2 << 30), "x has more than"),
    ],
)
def test_a_tar_archive_is_refused_for_what_is_wrong_with_it(content: bytes, said: str) -> None:
    with pytest.raises(ArchiveError, match=said), open_tar(io.BytesIO(content + bytes(1 << 20))) as guarded:
        list(guarded)


def test_gzip_has_a_bound() -> None:
    packed = gzip.compress(b"abc") + gzip.compress(b"def")
    assert gunzip(packed, limit=6) == b"abcdef"
    for content in (packed, packed[:-3]):
        with pytest.raises(ArchiveError):
            gunzip(content, limit=5)


@pytest.mark.parametrize("name", ["a", "a/b.c", "a/", "./a", "a..b", "a b", "ü", "a/" * 400 + "b"])
def test_names_that_stay_inside(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "/", "/a", "..", "../a", "a/..", "a/../b", "a//b", "a\\b", "C:a", "C:/a", "a\0b", "a" * 256, "a/" * 600],
)
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(UnsafeNameError):
        check_name(name)


def test_too_many_bytes_of_all_members_together(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", b"12345")
        archive.writestr("b", b"12345")
    with (tmp_path / "a.zip").open("rb") as file, pytest.raises(ArchiveError, match="all of it together"):
        archives.GuardedZip(file, limit=9)


def test_what_the_reader_of_an_archive_refuses_is_not_taken_for_damage(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", b"12345")
    with pytest.raises(FileNotFoundError), open_zip(tmp_path / "a.zip"):
        raise FileNotFoundError
    with pytest.raises(FileNotFoundError), open_zip(tmp_path / "missing.zip"):
        pass
