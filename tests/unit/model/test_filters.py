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
        ("os=linux,required, python=cp312", True),
        ("required and os=macos", False),
        ("slow", False),
        ("tag!=slow", True),
        ("re*", True),
        ("python=cp31*", True),
        ("python=cp31[02]", True),
        ("python!=cp312", False),
        ("llvm=mlir", False),
        ("llvm!=mlir and os=linux", True),
    ],
)
def test_filters(text: str, expected: bool) -> None:
    assert compile_filter(text, KNOWN)(FACTS) is expected


@pytest.mark.parametrize(
    ("text", "identifier", "hint"),
    [
        ("", "filter-invalid", "column 1"),
        ("os=", "filter-invalid", "found 'os='"),
        ("os=linux and", "filter-invalid", "found 'os=linux and'"),
        ("os=linux,", "filter-invalid", "column 10"),
        ("(os=linux)", "filter-invalid", "found '(os=linux)'"),
        ("os=linux or required", "filter-invalid", "all terms have to hold"),
        ("required and not slow", "filter-invalid", "tag!=slow stands for"),
        ("os=linux python=cp312", "filter-invalid", "expected key=value"),
        ("os=linux & required", "filter-invalid", "expected key=value"),
        ("=linux", "filter-invalid", "expected key=value"),
        ("and", "filter-unknown-value", "there are: required, slow"),
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
