from __future__ import annotations

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.release.model.filters import compile_filter
from tests.refusals import refused

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
    ("text", "said", "hint"),
    [
        ("", "can't be read", "column 1"),
        ("os=", "can't be read", "found 'os='"),
        ("os=linux and", "can't be read", "found 'os=linux and'"),
        ("(os=linux)", "can't be read", "found '(os=linux)'"),
        ("os=linux or required", "can't be read", "all terms have to hold"),
        ("required and not slow", "can't be read", "tag!=slow stands for"),
        ("os=linux python=cp312", "can't be read", "expected key=value"),
        ("=linux", "can't be read", "expected key=value"),
        ("and", "no target has", "there are: required, slow"),
        ("platform=linux", "asks for", "llvm, os, python"),
        ("os=linx", "no target has", "linux, macos"),
        ("requird", "no target has", "did you mean 'required'? there are: required, slow"),
    ],
)
def test_mistakes_are_named(text: str, said: str, hint: str) -> None:
    error = refused(lambda: compile_filter(text, KNOWN), kind=UsageError)
    assert said in error.what
    assert hint in str(error)
