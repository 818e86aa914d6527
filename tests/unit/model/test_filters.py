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
    ("text", "identifier", "hint"),
    [
        ("", "filter-invalid", "ends here"),
        ("os=", "filter-invalid", "value is missing"),
        ("os=linux and", "filter-invalid", "ends here"),
        ("(os=linux", "filter-invalid", "not closed"),
        ("os=linux)", "filter-invalid", "expected 'and'"),
        ("os=linux python=cp312", "filter-invalid", "expected 'and'"),
        ("os=linux & required", "filter-invalid", "unexpected character"),
        ("=linux", "filter-invalid", "expected key=value"),
        ("and", "filter-invalid", "expected key=value"),
        ("platform=linux", "filter-unknown-key", "llvm, os, python"),
        ("os=linx", "filter-unknown-value", "linux, macos"),
        ("requird", "filter-unknown-value", "did you mean 'required'? there are: required, slow"),
    ],
)
def test_mistakes_are_named(text: str, identifier: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        compile_filter(text, KNOWN)
    assert caught.value.id == identifier
    assert hint in str(caught.value)
