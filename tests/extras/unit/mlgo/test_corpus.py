"""Compile commands of a build tree, and which modules are held out."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mlir_release.extras.mlgo.corpora.corpus import load_corpus, read_commands, split
from mlir_release.extras.mlgo.documents import Module
from tests.refusals import refused


def modules(count: int) -> list[Module]:
    return [
        Module(name=f"m{index}.o", bitcode=f"bitcode/m{index}.o.bc", sha256=f"{index:064x}", flags=(), held_out=False)
        for index in range(count)
    ]


def test_the_split_has_the_share_and_depends_on_names_alone() -> None:
    found = split(modules(20), 0.25)
    assert [module.name for module in found] == sorted(module.name for module in modules(20))
    assert sum(module.held_out for module in found) == 5
    assert split(modules(20)[::-1], 0.25) == found


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_both_sides_have_a_module(share: float) -> None:
    found = split(modules(3), share)
    assert {module.held_out for module in found} == {True, False}


def test_modules_of_the_same_content_are_one() -> None:
    first, second, third = modules(3)
    assert [m.name for m in split([first, msgspec.structs.replace(second, sha256=first.sha256), third], 0.5)] == [
        "m0.o",
        "m2.o",
    ]


def test_commands_are_read_in_both_forms_and_those_without_an_object_left_out(tmp_path: Path) -> None:
    entries = [
        {"directory": "/b", "command": "clang -c 'a b.c' -o x/a.o", "file": "a b.c"},
        {"directory": "/b", "arguments": ["clang", "-c", "b.c", "-o", "/b/x/b.o"], "file": "b.c"},
        {"directory": "/b", "command": "tblgen c.td", "file": "c.td"},
    ]
    (tmp_path / "c.json").write_text(json.dumps(entries))
    assert read_commands(tmp_path / "c.json") == {"x/a.o": Path("/b"), "x/b.o": Path("/b")}


@pytest.mark.parametrize("content", [None, "{", "3", '[{"directory": "/b"}]', '["x"]'])
def test_a_folder_that_is_no_build_tree_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "c.json").write_text(content)
    refused(lambda: read_commands(tmp_path / "c.json"), "input-invalid")


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    refused(lambda: load_corpus(tmp_path), "input-missing")
