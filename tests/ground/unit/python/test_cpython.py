from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.ground.python.cpython import CPython, split_target


@pytest.mark.parametrize(
    ("text", "tag", "version", "marker"),
    [
        ("cp312", "cp312", "3.12", "3.12"),
        ("cp314t", "cp314t", "3.14t", "3.14"),
        ("3.9", "cp39", "3.9", "3.9"),
        ("3.13t", "cp313t", "3.13t", "3.13"),
        ("python3.12", "cp312", "3.12", "3.12"),
        ("312", "cp312", "3.12", "3.12"),
    ],
)
def test_spellings_of_cpythons(text: str, tag: str, version: str, marker: str) -> None:
    found = CPython.parse(text)
    assert (found.tag, found.version, found.marker, str(found)) == (tag, version, marker, tag)


@pytest.mark.parametrize("text", ["", "cp", "cp27", "pp310", "py3", "3", "3.12.1", "cp301", "cp312d", "3.12 ", "3.١"])
def test_what_is_no_cpython(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPython"):
        CPython.parse(text)


@pytest.mark.parametrize("text", ["3.12", "312", "python3.12", "cp3.12"])
def test_a_tag_has_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match="written like cp312"):
        CPython.of_tag(text)


def test_cpythons_are_ordered_by_version_not_by_text() -> None:
    tags = ["cp39", "cp310", "cp313", "cp313t", "cp314"]
    assert [python.tag for python in sorted(map(CPython.of_tag, reversed(tags)))] == tags


@given(st.integers(0, 99), st.booleans())
def test_the_tag_and_the_version_name_the_same_cpython(minor: int, free_threaded: bool) -> None:
    python = CPython(3, minor, free_threaded)
    assert CPython.of_tag(python.tag) == CPython.parse(python.version) == python


@pytest.mark.parametrize(
    ("name", "before", "python"),
    [
        ("mlir-linux-x86_64-cp312", "mlir-linux-x86_64", CPython(3, 12)),
        ("mlir-core-windows-x64-cp314t", "mlir-core-windows-x64", CPython(3, 14, free_threaded=True)),
        ("regression-mlir-macos-arm64", "regression-mlir-macos-arm64", None),
        ("local", "local", None),
    ],
)
def test_names_of_targets_end_with_the_cpython(name: str, before: str, python: CPython | None) -> None:
    assert split_target(name) == (before, python)
