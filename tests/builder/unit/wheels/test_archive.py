"""Wheels as archives: what they are called, in which order, that half of one is never seen, and how two differ."""

from __future__ import annotations

import io
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from mlir_release.builder.wheels.archive import Identity, Member, write_wheel
from mlir_release.builder.wheels.compare import compare
from mlir_release.builder.wheels.inspect import inspect
from tests.wheel_factory import make_wheel

ONE = Identity(distribution="one-thing", version="1.0", platform="any")
MEMBERS = [
    Member(name=f"{ONE.dist_info}/METADATA", content="Metadata-Version: 2.4\nName: one-thing\nVersion: 1.0\n"),
    Member(name="one_thing/a, b.txt", content=b"\0"),
    Member(name="one_thing/__init__.py", content=""),
]


@pytest.mark.parametrize("compressed", [True, False])
def test_it_is_a_wheel_with_its_metadata_last(tmp_path: Path, compressed: bool) -> None:
    path = write_wheel(ONE, MEMBERS, output=tmp_path, epoch=0, compressed=compressed)
    assert path.name == "one_thing-1.0-py3-none-any.whl"
    assert inspect(path).problems == ()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert [name.rpartition("/")[2] for name in names] == ["__init__.py", "a, b.txt", "METADATA", "WHEEL", "RECORD"]


def test_nothing_is_left_of_one_that_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_wheel(ONE, [*MEMBERS, Member(name="x", content=tmp_path / "missing")], output=tmp_path, epoch=0)
    assert list(tmp_path.iterdir()) == []


def differences(one: Path, other: Path) -> list[tuple[str, str]]:
    return [(found.member, found.what) for found in compare(one, other)]


def test_equal_wheels_have_none(tmp_path: Path) -> None:
    assert differences(make_wheel(tmp_path / "one"), make_wheel(tmp_path / "other")) == []


def test_members_are_named_and_hashes_of_the_rest_come_last(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "one", content="a = 1\n", files={"mlir/only.py": b""})
    other = make_wheel(tmp_path / "other", content="a = 2\n", files={"mlir/more.py": b""})
    assert differences(one, other) == [
        ("mlir/__init__.py", "byte 4 of 6"),
        ("mlir/more.py", "only in what was made again"),
        ("mlir/only.py", "only in the release"),
        ("mlir-20261120.2.dist-info/RECORD", differences(one, other)[-1][1]),
    ]


def test_a_longer_member_differs_where_the_other_ends(tmp_path: Path) -> None:
    one, other = make_wheel(tmp_path / "one", content="a"), make_wheel(tmp_path / "other", content="ab")
    assert differences(one, other)[0] == ("mlir/__init__.py", "byte 1; 1 and 2 bytes")


@pytest.mark.skipif(sys.platform != "linux", reason="reads a program of Linux")
def test_of_a_binary_the_first_section_is_named(tmp_path: Path) -> None:
    program = Path(shutil.which("true") or "/bin/true").read_bytes()
    section = ELFFile(io.BytesIO(program)).get_section_by_name(".rodata")
    assert section is not None
    offset = section["sh_offset"]
    changed = program[:offset] + bytes([program[offset] ^ 1]) + program[offset + 1 :]
    one = make_wheel(tmp_path / "one", files={"mlir/libx.so": program})
    other = make_wheel(tmp_path / "other", files={"mlir/libx.so": changed})
    assert differences(one, other)[0] == ("mlir/libx.so", "section .rodata")


def test_the_archive_itself_may_differ(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "one")
    with zipfile.ZipFile(one) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    executable, reordered = tmp_path / "executable.whl", tmp_path / "reordered.whl"
    with zipfile.ZipFile(reordered, "w") as archive:
        for info, content in reversed(members):
            archive.writestr(info, content)
    with zipfile.ZipFile(executable, "w") as archive:
        for info, content in members:
            info.external_attr = 0o755 << 16
            archive.writestr(info, content)
    assert differences(one, reordered) == [("", "the same members, in another order or compressed otherwise")]
    assert differences(one, executable)[0][1] == "mode 0o600, not 0o755"
