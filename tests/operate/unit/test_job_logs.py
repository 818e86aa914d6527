"""What a log is quoted with: the lines that say why, and nothing that a terminal needs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.job_names import heading, sdk_jobs
from mlir_release.operate.job_logs import (
    MAX_ERRORS,
    MAX_LINE,
    MAX_PARTS,
    TAIL,
    Evidence,
    Excerpt,
    clean,
    excerpts,
    gather,
    latest_jobs,
    read_log,
)
from mlir_release.release.forge.services import Run
from mlir_release.release.judging.scorecard import merge_jobs
from tests.job_factory import START, make_job
from tests.memory_forge import MemoryForge
from tests.standing_factory import make_standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    import pytest

    from mlir_release.ground.hosting import RunJob


def excerpt(lines: Iterable[str]) -> Excerpt:
    """Of a whole log."""
    return excerpts(lines)[""]


TIME = "2026-11-20T12:00:00.1234567Z "


class Logs:
    """Logs by the names of their jobs."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.of_run: dict[str, list[RunJob]] = {}

    def since(self, start: datetime) -> Sequence[Run]:
        raise NotImplementedError

    def jobs(self, run: Run) -> Sequence[RunJob]:
        if run.id not in self.of_run:
            raise ForgeError("token-lacks-right", "the token may not do this", where="here", why="403")
        return self.of_run[run.id]

    def log(self, job: RunJob, destination: Path) -> None:
        if job.name not in self.texts:
            raise ForgeError("not-on-forge", "GitHub has no such thing", where="here")
        destination.write_text(self.texts[job.name], encoding="utf-8")


def test_times_colours_and_overwritten_lines_go() -> None:
    assert clean("\ufeff" + TIME + "\x1b[36;1mninja\x1b[0m: \x1b]0;title\x07done\x00\r\n") == "ninja: done"
    assert clean(TIME + "10%\r20%\r100%\r\n") == "100%"
    assert clean("a\tb") == "a\tb"
    assert clean("2026-11-20 is a date") == "2026-11-20 is a date"
    assert len(clean("x" * 2000)) <= MAX_LINE + 2


def test_the_end_of_the_step_that_failed_and_not_of_the_cleaning_up() -> None:
    lines = [f"{TIME}line {n}\n" for n in range(100)]
    lines += [f"{TIME}##[error]wheel too large\n", f"{TIME}##[error]Process completed with exit code 6.\n"]
    lines += [f"{TIME}Cleaning up {n}\n" for n in range(50)]
    found = excerpt(lines)
    assert found.errors == ("wheel too large",)
    assert len(found.tail) == TAIL
    assert found.tail[-2:] == ("##[error]wheel too large", "##[error]Process completed with exit code 6.")


def test_a_log_without_an_exit_code_ends_at_its_last_error_else_at_its_end() -> None:
    assert excerpt(["a", "##[error]lost", "b"]).tail == ("a", "##[error]lost")
    assert excerpt(["a", "b"]) == Excerpt(errors=(), tail=("a", "b"))
    assert excerpt([]) == Excerpt(errors=(), tail=())
    assert len(excerpt(f"##[error]{n}" for n in range(99)).errors) == MAX_ERRORS
    assert excerpt(["##[error]x"] * 9).errors == ("x",)


@given(st.lists(st.text(max_size=80)), st.integers(0, 3000))
def test_nothing_in_a_log_ends_the_quotation_or_breaks_the_room(lines: list[str], room: int) -> None:
    found = Evidence(job=make_job("a", "failure"), excerpt=excerpt(lines))
    paragraph = Evidence(job=found.job).markdown(0)
    text = found.markdown(room)
    assert text.startswith(paragraph)
    assert len(text) <= max(room, len(paragraph))
    for line in text.splitlines():
        assert line == "" or line.isprintable() or "\t" in line or not any(ord(c) < 32 for c in line)


def test_the_failed_job_is_quoted_and_linked() -> None:
    first, second = sdk_jobs("x")
    jobs = {first: make_job(first, "success"), second: make_job(second, "failure", number=2)}
    failure = make_standing("sdk-x", jobs=(second, first))
    found = gather(failure, jobs, partial(read_log, Logs(**{second: f"{TIME}##[error]no ```space``` left\n"})))
    assert found is not None
    text = found.markdown(10_000)
    assert "[`sdk: x (resumed)`](https://example.org/jobs/2) ended as *failure*" in text
    assert "````text\nno ```space``` left\n````" in text


def forge_with(*names: str) -> Any:
    """A forge with these runs of release.yml on ``t``, the oldest first."""
    forge = MemoryForge({})
    run = Run(id="", workflow="release.yml", ref="t", status="completed", conclusion="failure", created_at=START)
    forge.run_list = [replace(run, id=name) for name in names]
    return forge


def test_a_full_quota_of_artifacts_is_told_with_what_to_do() -> None:
    line = "##[error]Failed to CreateArtifact: Artifact storage quota has been hit. Unable to upload any new artifacts."
    text = Evidence(job=make_job("a", "failure"), excerpt=excerpt([line])).markdown(1000)
    assert "Delete those of old runs" in text
    assert "Failed to CreateArtifact" in text
    assert "Delete" not in Evidence(job=make_job("a", "failure"), excerpt=excerpt(["##[error]else"])).markdown(1000)


def test_the_latest_job_of_a_name_counts_and_an_sdks_two_are_of_one_run() -> None:
    logs = Logs()
    first, second = sdk_jobs("x")
    logs.of_run = {
        "new": [
            make_job(f"x / {first}", "success", number=9, minutes=5),
            make_job(f"x / {first}", "failure", number=10),
        ],
        "old": [make_job(f"x / {second}", "failure"), make_job("tests: a", "failure"), make_job(first, "cancelled")],
    }
    found = latest_jobs(forge_with("old", "new"), logs, "t", "release.yml")
    assert {name: job.conclusion for name, job in found.items()} == {first: "success", "tests: a": "failure"}
    assert found[first].id == "9"


def test_a_newer_run_takes_the_place_of_the_work_that_it_repeats_and_of_no_other() -> None:
    first, second = sdk_jobs("x")
    older = [make_job(name, "success") for name in (first, second, "wheels: x", "wheels: x (experimental, 2)")]
    older += [make_job(f"{name} / publish: upload ({name})", "failure") for name in ("x", "y")]
    newer = [make_job(name, None) for name in (first, "wheels: x (experimental)", "x / publish: upload (x)")]
    found = merge_jobs([newer, older])
    assert set(found) == {first, "wheels: x", "wheels: x (experimental)", "publish: upload (x)", "publish: upload (y)"}
    assert found["publish: upload (x)"].conclusion is None


def test_jobs_that_can_not_be_read_are_said_and_end_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert latest_jobs(forge_with("hidden"), Logs(), "t", "release.yml") == {}
    assert "can't be read: the token may not do this (403)" in capsys.readouterr().err


def test_what_can_not_be_quoted_is_said() -> None:
    failure = make_standing("a", jobs=("a",))

    def said(end: str | None, logs: Logs) -> str:
        found = gather(failure, {"a": make_job("a", end)}, partial(read_log, logs))
        assert found is not None
        return found.markdown(10_000)

    assert "can't be read (any more): GitHub has no such thing" in said("failure", Logs())
    assert "came after it" in said("success", Logs())
    assert "not ended" in said(None, Logs())
    assert gather(failure, {}, partial(read_log, Logs())) is None


WHEELS, LATER = "wheels: x", "wheels: x (2)"
OF_SEVERAL = [
    "##[group]Run mlir-release wheels build",
    heading("mlir-x-cp311"), "ninja", "done",
    heading("mlir-x-cp312"), "ninja", "##[error]the linker ran out of memory", "cp312 after it",
    heading("mlir-x-cp313"), "##[error]a compiler crashed",
    "2 of 3 failed: mlir-x-cp312, mlir-x-cp313", "##[error]Process completed with exit code 6.",
]  # fmt: skip


def evidence(target: str, **logs: str) -> Evidence:
    """What the jobs of two groups tell of a wheel; those with a log failed."""
    jobs = {name: make_job(name, "failure" if name in logs else "success") for name in (WHEELS, LATER)}
    failure = make_standing(target, jobs=(WHEELS, LATER))
    found = gather(failure, jobs, partial(read_log, Logs(**logs)))
    assert found is not None
    return found


def test_each_target_of_a_job_is_told_by_its_own_part_of_the_log() -> None:
    log = "".join(f"{TIME}{line}\n" for line in OF_SEVERAL)
    first, second = (evidence(f"mlir-x-cp31{minor}", **{LATER: log}) for minor in (2, 3))
    assert first.job.name == second.job.name == LATER
    assert first.excerpt == Excerpt(
        errors=("the linker ran out of memory",),
        tail=(heading("mlir-x-cp312"), "ninja", "##[error]the linker ran out of memory"),
    )
    assert second.excerpt is not None
    assert second.excerpt.errors[0] == "a compiler crashed"
    assert "the linker ran out of memory" not in second.markdown(10_000)


def test_a_target_that_no_log_tells_of_failed_after_its_job_or_with_all_of_it() -> None:
    log = "\n".join(OF_SEVERAL)
    late = evidence("mlir-x-cp314", **{LATER: log})
    assert (late.job.name, "came after it" in late.markdown(9999)) == (WHEELS, True)
    early = evidence("mlir-x-cp314", **{LATER: "##[error]no runner"})
    assert (early.job.name, early.excerpt) == (LATER, Excerpt(errors=("no runner",), tail=("##[error]no runner",)))
    cut = evidence("mlir-x-cp314", **{WHEELS: log, LATER: log})
    assert cut.excerpt == excerpts(OF_SEVERAL)[""]


def test_a_log_of_more_targets_than_there_are_takes_little_memory() -> None:
    found = excerpts(line for number in range(10 * MAX_PARTS) for line in (heading(f"t{number}"), "x" * MAX_LINE))
    assert len(found) == MAX_PARTS
    assert len(found[""].tail) == TAIL
