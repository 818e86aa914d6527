"""What runs of a command say of a release: pure."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.programs.trial import Trial
    from mlir_release.use.bisect.bisect_record import Answer, ReleaseRun


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
