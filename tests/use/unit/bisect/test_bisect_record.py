"""The record of a bisect: it reads back, another question has another one; and what runs say of a release."""

from __future__ import annotations

import signal

import pytest
from msgspec import structs

from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.programs.trial import Trial
from mlir_release.use.bisect.bisect_record import BisectRecord, Question, ReleaseRun, answer_of, judge

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


@pytest.mark.parametrize(
    ("code", "answer", "why"),
    [
        (0, "good", ""),
        (1, "bad", "exit code 1"),
        (125, "skip", "exit code 125"),
        (255, "bad", "exit code 255"),
        (3221225477, "bad", "exit code 3221225477"),
        (None, "bad", "no result after 2.5 s"),
        (-signal.SIGSEGV, "bad", "ended by SIGSEGV"),
        (128 + signal.SIGABRT, "bad", "ended by SIGABRT"),
    ],
)
def test_an_exit_code_is_an_answer(code: int | None, answer: str, why: str) -> None:
    assert answer_of(Trial(code), 2.5) == (answer, why)


def test_a_failure_because_something_was_killed_is_no_answer() -> None:
    assert answer_of(Trial(137, "the command was ended by SIGKILL"), None)[0] == "killed"


def runs(*answers: str) -> list[ReleaseRun]:
    return [ReleaseRun(tag="snapshot-20261120.01", answer=answer, why=f"{answer}!") for answer in answers]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "wanted", "said"),
    [
        ((), 1, None),
        (("good",), 1, ("good", "good!")),
        (("good",), 2, None),
        (("good", "good"), 2, ("good", "good!")),
        (("bad", "good"), 2, ("skip", "flaky: it failed in 1 of 2 runs")),
        (("bad", "bad", "good"), 1, ("skip", "flaky: it failed in 2 of 3 runs")),
        (("skip",), 1, ("skip", "skip!")),
        (("killed",), 1, None),
        (("killed", "good"), 1, ("good", "good!")),
        (("killed", "killed"), 1, ("skip", "killed!")),
        (("good", "killed", "killed"), 2, ("good", "good!")),
        (("good", "skip", "skip"), 2, ("good", "good!")),
    ],
)
def test_runs_together_are_judged(answers: tuple[str, ...], wanted: int, said: tuple[str, str] | None) -> None:
    assert judge(runs(*answers), wanted=wanted, retries=1) == said


def test_every_sequence_of_answers_comes_to_a_judgement() -> None:
    for answer in ("good", "bad", "skip", "killed"):
        for first in ("good", "bad", "skip", "killed"):
            for retries in (0, 1, 3):
                made = runs(first)
                while judge(made, wanted=1 + retries, retries=retries) is None:
                    made += runs(answer)
                    assert len(made) < 10
