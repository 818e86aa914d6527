"""MLGO's documents, written and read."""

from __future__ import annotations

import json

import msgspec
import pytest

from mlir_release.extras.mlgo.documents import Corpus, LearnedPolicy, Module
from tests.refusals import refused

CORPUS = Corpus(
    llvm="22.1.8",
    share=0.25,
    modules=(
        Module(name="a.o", bitcode="bitcode/a.o.bc", sha256="a" * 64, flags=("-O3",), held_out=True),
        Module(name="b.o", bitcode="bitcode/b.o.bc", sha256="b" * 64, flags=(), held_out=False),
    ),
)
POLICY = LearnedPolicy(
    llvm="22.1.8", corpus="c" * 64, kind="mlp", hidden=2, features=("x",), mean=(0.1,), deviation=(1 / 3,),
    weights=(0.1 + 0.2, 1e-300, -0.0, 5.0, 1.0, 2.0),
)  # fmt: skip


def test_a_corpus_is_read_as_it_was_written() -> None:
    assert Corpus.from_text(CORPUS.to_text(), where="here") == CORPUS
    assert ([m.name for m in CORPUS.training], [m.name for m in CORPUS.held_out]) == (["b.o"], ["a.o"])


def test_the_problem_is_kept_and_older_files_are_of_evictions() -> None:
    other = msgspec.structs.replace(CORPUS, problem="inlining")
    assert Corpus.from_text(other.to_text(), where="here") == other
    assert "problem" not in CORPUS.to_text()
    assert CORPUS.problem == "regalloc"


def test_numbers_are_read_back_exactly() -> None:
    read = LearnedPolicy.from_text(POLICY.to_text(), where="here")
    assert read == POLICY
    assert read.digest == POLICY.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema is 2, and this version of mlir-release reads 1"),
        ({"kind": "forest"}, "kind is 'forest'"),
        ({"corpus": "c"}, "corpus is 'c', not a SHA-256 of 64 hex digits"),
        ({"extra": 1}, "extra is an unknown key"),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, object], message: str) -> None:
    text = json.dumps(json.loads(POLICY.to_text()) | change)
    refused(lambda: LearnedPolicy.from_text(text, where="policy.json"), "input-invalid", message)
