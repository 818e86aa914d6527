"""Who reviews what: the file that is generated, and the gaps of one that people wrote."""

from __future__ import annotations

import pytest

from mlir_release.release.forge.codeowners import format_codeowners, unowned
from tests.refusals import refused


def test_what_is_generated_has_an_owner_for_every_file() -> None:
    text = format_codeowners(["@llvm/mlir-release", "@someone"])
    assert text.splitlines()[-1] == "* @llvm/mlir-release @someone"
    assert unowned(text) == ()


@pytest.mark.parametrize("owner", ["llvm/mlir", "@", "@llvm/", "@a b", "someone@", "* @x", "@-x"])
def test_what_can_not_be_an_owner(owner: str) -> None:
    error = refused(lambda: format_codeowners(["@llvm/mlir-release", owner]), "option-invalid")
    assert repr(owner) in error.what


@pytest.mark.parametrize(
    ("text", "gaps"),
    [
        ("", ("*",)),
        ("# * @llvm/mlir\n", ("*",)),
        ("/docs/ @llvm/mlir\n", ("*",)),
        ("* @llvm/mlir # all\n/docs/ @writer\n", ()),
        ("** someone@example.org\n", ()),
        ("* @llvm/mlir\n/.github/\n*.toml\n", ("/.github/", "*.toml")),
        ("* @llvm/mlir\n*\n", ("*",)),
        ("/x\n* @llvm/mlir\n", ()),  # the last rule counts
    ],
)
def test_files_without_an_owner(text: str, gaps: tuple[str, ...]) -> None:
    assert unowned(text) == gaps
