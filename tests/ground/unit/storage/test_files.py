"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.storage import files
from mlir_release.ground.storage.files import (
    check_inside,
    read_document,
    read_if_there,
    remove_folder,
    replacing,
    write_all,
    write_atomically,
)
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_file_is_written_with_its_folder(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    assert read_if_there(target) is None
    write_atomically(target, "grün\n", durable=True)
    assert read_if_there(target) == "grün\n".encode()
    assert [path.name for path in target.parent.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices are elsewhere")
@pytest.mark.parametrize("read", [read_document, read_if_there, open_regular])
def test_nobody_waits_for_a_pipe_or_reads_a_device_without_end(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path / name)


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_a_file_is_readable_by_all(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def interrupted() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_writers_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with replacing(target) as first, replacing(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    contents = {letter.encode() * 100_000 for letter in "abcd"}
    write_atomically(target, next(iter(contents)))

    def write(content: bytes) -> None:
        for _ in range(50):
            write_atomically(target, content)

    threads = [threading.Thread(target=write, args=[content]) for content in contents]
    for thread in threads:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in threads):
        with suppress(PermissionError) if sys.platform == "win32" else nullcontext():  # for a moment
            seen.add(target.read_bytes())
    assert seen <= contents


@pytest.mark.parametrize(("system", "patience", "tries"), [("win32", 10, 3), ("win32", -1, 1), ("linux", 10, 1)])
def test_windows_waits_for_readers_but_not_for_ever(system: str, patience: float, tries: int, tmp_path: Path) -> None:
    refusals, asked = iter([PermissionError("a reader has it open")] * 2), []

    def replace(target: Path) -> None:
        asked.append(target)
        for refusal in refusals:
            raise refusal

    source: Any = SimpleNamespace(replace=replace)
    with nullcontext() if tries == 3 else pytest.raises(PermissionError):
        files._replace(source, tmp_path / "file", system=system, patience=patience)
    assert asked == [tmp_path / "file"] * tries


def test_scratch_holds_the_temporary_file(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with replacing(tmp_path / "site" / "page", scratch=scratch) as temporary:
        assert temporary.parent == scratch
    assert (tmp_path / "site" / "page").is_file()


def test_read_only_files_are_removed_where_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".git" / "objects"
    folder.mkdir(parents=True)
    for name in ("pack", "index"):
        (folder / name).write_bytes(b"")
        (folder / name).chmod(0o444)
    unlink, refused = os.unlink, []

    def refusing(path: str, **options: Any) -> None:
        """As on Windows."""
        if not stat.S_IMODE(os.stat(path, **options).st_mode) & stat.S_IWRITE:  # noqa: PTH116 - within a folder
            refused.append(path)
            raise PermissionError(13, "Access is denied", path)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", refusing)
    remove_folder(tmp_path / ".git")
    assert len(refused) == 2
    assert not (tmp_path / ".git").exists()


def test_several_files_appear_together(tmp_path: Path) -> None:
    write_all(tmp_path / "new", {"a": "ü", "b": b"2"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {"a": "ü".encode(), "b": b"2"}
    (tmp_path / "new" / "c").mkdir()
    with pytest.raises(OSError, match="c"):
        write_all(tmp_path / "new", {"a": "3", "c": "a folder"})
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a", "b", "c"]


def test_of_a_large_document_so_much_is_read_that_its_parser_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_document(tmp_path / "a") == read_document(tmp_path / "a", limit=5) == b"12345"
    assert len(read_document(tmp_path / "a", limit=3)) == 4


@pytest.mark.parametrize("path", ["a", "a/b", "./a", "a/../b"])
def test_a_path_inside_of_a_folder(tmp_path: Path, path: str) -> None:
    check_inside(tmp_path, tmp_path / path)


@pytest.mark.parametrize("path", ["../a", "/a", "..", "a/../../b", "link/a", "link/../a", ""])
def test_a_path_outside_of_a_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "other" / "folder").mkdir(parents=True)
    (tmp_path / "site" / "link").symlink_to(tmp_path / "other" / "folder")
    refused(lambda: check_inside(tmp_path / "site", tmp_path / "site" / path), "output-in-the-way")


@pytest.mark.parametrize(("copy", "mode"), [(files.copy_regular, 0o644), (files.copy_alike, 0o444)])
def test_only_a_copy_that_is_alike_takes_over_that_nobody_may_write(
    copy: Callable[[Path, Path], None], mode: int, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"content")
    source.chmod(0o444)
    target.touch(mode=0o644)
    copy(source, target)
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"content", mode)
