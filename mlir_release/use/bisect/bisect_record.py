"""``bisect.json``: the question of a bisect of releases, and every answer so far, so that a killed one goes on."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Struct

from mlir_release.ground.documents.decode import Count, Line, Sha256, doc, from_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.programs.trial import Trial

RECORD_NAME = "bisect.json"

#: ``skip``: it can't be tested: the command says so, or the wheel can't be installed. ``killed``: no answer.
Answer = Literal["good", "bad", "skip", "killed"]


class Question(Struct, frozen=True, kw_only=True):
    """What the answers depend on: another question has a record of its own."""

    repository: Annotated[Line, doc("Address of the release repository, as its index has it")]
    good: Annotated[Line, doc("Tag of the release that works")]
    bad: Annotated[Line, doc("Tag of the release that does not")]
    command: tuple[str, ...]
    folder: Annotated[str, doc("Where the command runs")]
    python: Annotated[str, doc("Version and path of the interpreter")]
    distribution: str
    requirements: Annotated[tuple[str, ...], doc("Further requirements, and the contents of requirements files")] = ()
    timeout: Annotated[float | None, doc("Seconds after which the command counts as failed")] = None

    @property
    def key(self) -> str:
        """Tells it from other questions; part of a path."""
        return sha256_of(msgspec.json.encode(self, order="sorted"))[:16]


class ReleaseRun(Struct, frozen=True, kw_only=True):
    """The command, run once with one release."""

    __test__ = False  # not a test class

    tag: str
    answer: Answer
    seconds: float = 0.0
    downloaded: Annotated[Count, doc("Bytes of the wheel that had to be, for this run")] = 0
    why: Annotated[str, doc("Of an answer that no exit code gave, or of none")] = ""


class BisectRecord(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """``bisect.json``."""

    question: Question
    packages: Annotated[
        tuple[str, ...] | None, doc("What is installed beside MLIR with every release, `numpy==2.4.6`; null: not known")
    ] = None
    files: Annotated[Mapping[str, Sha256], doc("Files that the command names, as they were at the beginning")] = {}
    runs: tuple[ReleaseRun, ...] = ()

    def of(self, tag: str) -> list[ReleaseRun]:
        """The runs with one release."""
        return [run for run in self.runs if run.tag == tag]

    def to_text(self) -> bytes:
        """The content of the file."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    @classmethod
    def from_text(cls, content: bytes) -> BisectRecord:
        """Read :meth:`to_text`'s text. :raises MalformedError:"""
        return from_json(content, cls)


# -- what runs say of a release: pure ----------------------------------------------------------------------------------


def answer_of(trial: Trial, timeout: float | None) -> tuple[Answer, str]:
    """The answer of one run that took ``timeout`` seconds at most, and why, where that is not obvious.

    A program's own faults (SIGSEGV, SIGABRT) are failures like others.
    """
    code = trial.code
    if trial.killed:
        return "killed", trial.killed
    if code is None:
        return "bad", f"no result after {timeout:g} s"
    if code == 0:
        return "good", ""
    if code == ExitCode.UNTESTABLE:
        return "skip", "exit code 125"
    try:
        return "bad", f"ended by {signal.Signals(-code if code < 0 else code - 128).name}"
    except ValueError:
        return "bad", f"exit code {code}"


def judge(runs: Sequence[ReleaseRun], *, wanted: int, retries: int) -> tuple[Answer, str] | None:
    """What all runs with one release say together; None: it takes another run.

    :param wanted: how many runs must agree
    :param retries: how often a run without an answer is repeated
    """
    answers = [run.answer for run in runs if run.answer in ("good", "bad")]
    silent = [run for run in runs if run.answer not in ("good", "bad")]
    failed = answers.count("bad")
    if 0 < failed < len(answers):
        return "skip", f"flaky: it failed in {failed} of {len(answers)} runs"
    if answers and (len(answers) >= wanted or len(silent) > retries):
        why = next(run.why for run in runs if run.answer == answers[0])
        return answers[0], why
    if silent and not answers and (silent[-1].answer == "skip" or len(silent) > retries):
        return "skip", silent[-1].why
    return None
