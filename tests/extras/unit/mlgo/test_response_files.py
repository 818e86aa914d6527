"""Response files: their words, and the files that are refused."""

from __future__ import annotations

import codecs
import os
import re
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.mlgo.corpora.response_files import expand, split
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.o b.o\n\tc.o\r\n", ["a.o", "b.o", "c.o"]),
        ("'a b.o' \"c d.o\" e\\ f.o", ["a b.o", "c d.o", "e f.o"]),
        (r"""'it\'s' "a\"b" c:\\d \n "\n" """, ["it's", 'a"b', "c:\\d", "n", "n"]),
        ("a'b'\"c\"d", ["abcd"]),
        ("'' a \"\" ''b", ["a", "b"]),
        ("a\\\nb", ["a\nb"]),
        ("a#b # 'c", ["a#b", "#", "c"]),
        ("a 'b c", ["a", "b c"]),
        ("a\\", ["a\\"]),
        ("'a\\", ["a\\"]),
        ("a\x0bb\xa0c", ["a\x0bb\xa0c"]),
        ("", []),
    ],
)
def test_words_are_those_that_clang_reads(text: str, words: list[str]) -> None:
    assert split(text) == words


def test_files_are_named_from_the_folder_of_the_command_also_in_each_other(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "outer.rsp").write_text("a.o @sub/inner.rsp @sub/inner.rsp d.o")
    (tmp_path / "sub" / "inner.rsp").write_text("b.o 'c c.o'")
    absolute = f"@{tmp_path / 'sub' / 'inner.rsp'}"
    words = ["clang", "@./sub/outer.rsp", "-Wl,@x", "e@f", absolute]
    inner = ["b.o", "c c.o"]
    assert expand(words, tmp_path) == ["clang", "a.o", *inner, *inner, "d.o", "-Wl,@x", "e@f", *inner]


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + "ä.o b.o".encode(),
        codecs.BOM_UTF16_LE + "ä.o b.o".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "ä.o b.o".encode("utf-16-be"),
    ],
)
def test_a_byte_order_mark_names_the_encoding(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.rsp").write_bytes(content)
    assert expand(["@x.rsp"], tmp_path) == ["ä.o", "b.o"]


def test_files_in_files_may_be_many(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / str(number)).write_text(f"{number}.o @{number + 1}")
    (tmp_path / "3000").write_text("last.o")
    assert expand(["@0"], tmp_path)[-2:] == ["2999.o", "last.o"]


def unread(folder: Path, word: str = "@x.rsp") -> ReleaseError:
    return refused(lambda: expand(["clang", word], folder), "input-invalid", "can't be read")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a.o @x.rsp", "names itself"),
        (b"@./x.rsp", "names itself"),
        (b"@other.rsp", "names itself"),
        (b"@link.rsp", "names itself"),
        (b"a.o @missing.rsp", "doesn't exist"),
        (b"@", "not a regular file|[Dd]irectory"),
        (b"\xff\xff.o", r"not text in utf-8: .* at byte 0"),
        (b"a.o \xe4.o", r"not text in utf-8: .* at byte 4"),
        (codecs.BOM_UTF16_LE + b"a", "not text in utf-16"),
        (b"a.o\0b.o", "zero byte"),
        (codecs.BOM_UTF32_LE + "a.o".encode("utf-32-le"), "zero byte"),
    ],
)
def test_a_bad_file_is_refused_by_its_name(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.rsp").write_bytes(content)
    (tmp_path / "other.rsp").write_text("b.o @x.rsp")
    (tmp_path / "link.rsp").symlink_to("x.rsp")
    assert re.search(why, str(unread(tmp_path).why))


def test_a_missing_file_may_be_one_that_ninja_deleted(tmp_path: Path) -> None:
    error = unread(tmp_path, "@CMakeFiles/tool.rsp")
    assert (error.where, "ninja -d keeprsp" in str(error.remedy)) == (str(tmp_path / "CMakeFiles/tool.rsp"), True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    unread(tmp_path, "@pipe")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.rsp").touch(0o000)
    assert "ermission" in str(unread(tmp_path).why)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.rsp").open("wb") as file:
        file.truncate(10**12)
    assert "more than 64,000,000 bytes" in str(unread(tmp_path).why)


def test_small_files_do_not_multiply_without_end(tmp_path: Path) -> None:
    """Each of 40 names the next one twice: without a limit, there would be a million million words."""
    space = " " * 1_000_000
    for number in range(40):
        (tmp_path / f"{number}.rsp").write_text(f"@{number + 1}.rsp{space}@{number + 1}.rsp")
    (tmp_path / "40.rsp").write_text("a.o")
    assert "more than 64,000,000 bytes" in str(unread(tmp_path, "@0.rsp").why)
