"""The record of a bisect: it reads back, and another question has another one."""

from __future__ import annotations

import pytest
from msgspec import structs

from mlir_release.ground.documents.decode import MalformedError
from mlir_release.use.bisect.bisect_record import BisectRecord, Question, ReleaseRun

QUESTION = Question(
    repository="https://github.com/octo/releases",
    good="snapshot-20261101.01",
    bad="snapshot-20261120.01",
    command=("python", "test.py"),
    folder="/home/ada",
    python="3.12.1 /usr/bin/python3.12",
    distribution="mlir",
)


def test_a_record_reads_back() -> None:
    runs = (
        ReleaseRun(tag="snapshot-20261101.01", answer="good", seconds=1.5, downloaded=3),
        ReleaseRun(tag="x", answer="skip"),
    )
    record = BisectRecord(question=QUESTION, packages=("numpy==2.4.6",), files={"test.py": "a" * 64}, runs=runs)
    assert BisectRecord.from_text(record.to_text()) == record
    assert record.of("x") == [runs[1]]


@pytest.mark.parametrize(
    "field", ["good", "bad", "command", "folder", "python", "distribution", "requirements", "timeout"]
)
def test_another_question_has_another_key(field: str) -> None:
    changed = {"command": ("true",), "requirements": ("numpy",), "timeout": 1.0}.get(field, "other")
    assert structs.replace(QUESTION, **{field: changed}).key != QUESTION.key


def test_a_newer_record_is_refused() -> None:
    text = BisectRecord(question=QUESTION).to_text().replace(b'"schema": 1', b'"schema": 2')
    with pytest.raises(MalformedError, match="schema"):
        BisectRecord.from_text(text)
