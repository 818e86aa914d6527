"""A wrong value is named by its path, in words that come from its type; digests and trailers are read as written."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from mlir_release.ground.documents.decode import (
    Count,
    MalformedError,
    Sha1,
    convert,
    from_json,
    is_plain_name,
    parse_json,
    parse_toml,
    text,
)
from mlir_release.ground.documents.digests import record_digest, sha256_of
from mlir_release.ground.documents.trailers import format_message, parse_trailers

if TYPE_CHECKING:
    from pathlib import Path

Name = Annotated[str, text("[a-z]+", "a name of small letters")]


class Row(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    file_name: Name
    size: Count = 0
    kind: Literal["one", "two"] = "one"
    commit: Sha1 | None = None
    flag: bool = False
    ratio: float = 1.0

    def __post_init__(self) -> None:
        if self.size == 13:
            raise MalformedError("size", "is 13", "give another")


class Document(Struct, frozen=True, kw_only=True):
    rows: tuple[Row, ...] = ()
    tables: Mapping[Name, Row] = {}
    names: list[Name] = []


ROW = {"file-name": "a"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "the document is not an object"),
        ({"rows": 1}, "rows is not a list"),
        ({"rows": [ROW, 1]}, "rows[1] is not an object"),
        ({"rows": [{}]}, "rows[0].file-name is missing"),
        ({"rows": [{"file-name": None}]}, "rows[0].file-name is missing"),
        ({"rows": [{"file-name": ""}]}, "rows[0].file-name is empty"),
        ({"rows": [{"file-name": "A"}]}, "rows[0].file-name is 'A', not a name of small letters"),
        ({"rows": [{"file-name": "a\n"}]}, "rows[0].file-name is 'a\\n', not a name of small letters"),
        ({"rows": [{**ROW, "file_name": "a"}]}, "rows[0].file_name is an unknown key; did you mean 'file-name'?"),
        ({"rows": [{**ROW, "kind": "tow"}]}, "rows[0].kind is 'tow', which is not known; did you mean 'two'?"),
        ({"rows": [{**ROW, "kind": 1}]}, "rows[0].kind is 1, which is not known; there are: one, two"),
        ({"rows": [{**ROW, "size": -1}]}, "rows[0].size is not a whole number"),
        ({"rows": [{**ROW, "size": True}]}, "rows[0].size is not a whole number"),
        ({"rows": [{**ROW, "size": 13}]}, "rows[0].size is 13; give another"),
        ({"rows": [{**ROW, "commit": "ab"}]}, "rows[0].commit is 'ab', not a commit of 40 hex digits"),
        ({"rows": [{**ROW, "flag": 1}]}, "rows[0].flag is not a boolean (true or false)"),
        ({"rows": [{**ROW, "ratio": "1"}]}, "rows[0].ratio is not a number"),
        ({"tables": {"ok": ROW, "bad": {**ROW, "size": "x"}}}, "tables.bad.size is not a whole number"),
        ({"tables": {"ok": ROW, "Bad": ROW}}, "tables.Bad is not a name of small letters"),
        ({"tables": {"ok": ROW, "bad": 1}}, "tables.bad is not an object"),
        ({"names": ["a", 1]}, "names[1] is 1, not a name of small letters"),
    ],
)
def test_a_wrong_value_is_named(data: object, said: str) -> None:
    with pytest.raises(MalformedError) as caught:
        convert(data, Document)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("content", ["", "{", b"\xff", b'{"rows": "\xff"}', "[" * 100_000, '"\ud800"'])
def test_what_is_not_json(content: str | bytes) -> None:
    with pytest.raises(MalformedError, match="the document is not JSON"):
        from_json(content, Document)


def test_toml_calls_a_mapping_a_table() -> None:
    with pytest.raises(MalformedError, match="tables is not a table"):
        convert({"tables": 1}, Document, table="a table")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 50_000 + b"]" * 50_000, "is not JSON"),
        (b"[" + b"[]," * 70_000 + b"[]]", "has more than 62,500 values"),
        (b"[" * 60 + b"]" * 60, "is nested deeper than 50 levels"),
        (b'{"a":' * 60 + b"1" + b"}" * 60, "is nested deeper than 50 levels"),
        (b"1" * 5000, "is not JSON"),
        (b"NaN", "is not JSON"),
        (b'"\\ud800"', "is not JSON"),
        (b"\xff", "is not JSON"),
        ("\ud800", "is not JSON"),
        (b'"' + b"a" * 100 + b'"', "has 102 bytes, and may have 100"),
    ],
)
def test_json_that_exhausts_a_parser_is_refused(content: str | bytes, said: str) -> None:
    limit = 100 if said.startswith("has 102") else 1_000_000
    with pytest.raises(MalformedError, match=said):
        parse_json(content, limit=limit)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a = " + b"[" * 400 + b"]" * 400, "is nested deeper than 50 levels"),
        (b"a." * 60 + b"b = 1", "is nested deeper than 50 levels"),
        (b"a." * 400_000 + b"b = 1", "has 800,005 bytes"),
        (b"x = 1\n" + b"a." * 600 + b"b = 1", "has 1,205 bytes in line 2"),
        (b'a = "\x00"', "is not TOML"),
        (b"a = '\xff'", "is not UTF-8"),
    ],
)
def test_toml_that_exhausts_a_parser_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        parse_toml(content)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".bashrc", "-x", "a/b", "a\\b", "a\n", "a\0", "a b", "a:b", "a" * 256, "é", "../../x"]
)
def test_a_name_that_is_no_plain_file_name_is_refused(name: str) -> None:
    assert not is_plain_name(name)


def test_the_names_of_a_releases_files_are_plain() -> None:
    for name in (
        "release.json",
        "mlir-22.1.8-cp312-cp312-win_amd64.whl.sigstore.json",
        "waiver-mlir-linux-x86_64.json",
    ):
        assert is_plain_name(name)


def test_the_digest(tmp_path: Path) -> None:
    content = "ä".encode() * 3_000_000
    (tmp_path / "file").write_bytes(content)
    expected = hashlib.sha256(content)
    pieces = [content[:1], b"", content[1:]]
    for form in (content, content.decode(), tmp_path / "file", pieces, iter(pieces)):
        assert sha256_of(form) == expected.hexdigest()
    assert base64.urlsafe_b64decode(record_digest(content) + "=") == expected.digest()


keys = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True)
values = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=40)
lines = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), max_size=60)


@given(st.dictionaries(keys, values, min_size=1, max_size=5), values, st.lists(lines, max_size=5))
def test_trailers_survive_a_message(trailers: dict[str, str], subject: str, body: list[str]) -> None:
    assert parse_trailers(format_message(subject, "\n".join(body), trailers)) == trailers


def test_prose_is_not_a_trailer() -> None:
    assert parse_trailers("Subject: only") == {}
    assert parse_trailers("Subject\n\nKey: value\nbut then prose") == {}
    assert parse_trailers("Subject\n\nKey: value\n\nprose") == {}
