from __future__ import annotations

import pytest

from mlir_release.errors import UsageError
from mlir_release.model.filters import compile_filter

KNOWN = {
    "os": {"linux", "macos"},
    "python": {"cp311", "cp312"},
    "llvm": {"mlir", "mlir-core"},
    "tag": {"required", "slow"},
}
FACTS = {"os": {"linux"}, "python": {"cp312"}, "llvm": {"mlir-core"}, "tag": {"required"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("os=linux and python=cp312", True),
        ("os = linux and python = cp311", False),
        ("os=macos or required", True),
        ("not os=macos", True),
        ("not not required", True),
        ("slow", False),
        ("os=macos and slow or required", True),
        ("os=macos and (slow or required)", False),
        ("python=cp31*", True),
        ("python!=cp312", False),
        ("llvm=mlir", False),
        ("llvm!=mlir and (os=linux)", True),
    ],
)
def test_filters(text: str, expected: bool) -> None:
    assert compile_filter(text, KNOWN)(FACTS) is expected


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "can't be read at column", "ends here"),
        ("os=", "can't be read at column", "value is missing"),
        ("os=linux and", "can't be read at column", "ends here"),
        ("(os=linux", "can't be read at column", "not closed"),
        ("os=linux)", "can't be read at column", "expected 'and'"),
        ("os=linux python=cp312", "can't be read at column", "expected 'and'"),
        ("os=linux & required", "can't be read at column", "unexpected character"),
        ("=linux", "can't be read at column", "expected key=value"),
        ("and", "can't be read at column", "expected key=value"),
        ("platform=linux", "asks for", "llvm, os, python"),
        ("os=linx", "no target has", "linux, macos"),
        ("requird", "no target has", "did you mean 'required'? there are: required, slow"),
    ],
)
def test_mistakes_are_named(text: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        compile_filter(text, KNOWN)
    assert said in caught.value.what
    assert hint in str(caught.value)
