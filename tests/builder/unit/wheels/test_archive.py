"""Wheels as archives: what they are called, in which order, and that half of one is never seen."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.wheels.archive import Identity, Member, write_wheel
from mlir_release.builder.wheels.inspect import inspect

if TYPE_CHECKING:
    from pathlib import Path

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
