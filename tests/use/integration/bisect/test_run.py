"""Bisects of published snapshots: real wheels of miniature size, real environments, real commands."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.errors import ForgeError
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.transaction.decisions import yank
from mlir_release.use.bisect.bisect_record import RECORD_NAME, BisectRecord
from mlir_release.use.bisect.run import Wish, bisect
from tests.bisect_stage import Bench, make_forge, revision_of, tag_of
from tests.processes import wait_for_end
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.release.forge.base import Asset, Release
    from mlir_release.use.bisect.result import Bisected

COUNT = 9
ENDS = {"good": tag_of(1), "bad": tag_of(COUNT)}

#: Counts its runs in a file, and fails from the sixth snapshot on.
SCRIPT = """\
import pathlib, mlir
with pathlib.Path("runs").open("a") as file:
    print(mlir.number, file=file)
raise SystemExit(mlir.number >= 6)
"""


def python(code: str) -> Sequence[str]:
    """A command: the environment's own Python."""
    return ("python", "-c", f"from mlir import number; {code}")


def failing_from(number: int) -> Sequence[str]:
    return python(f"raise SystemExit(number >= {number})")


def run(here: Bench, command: Sequence[str], **options: Any) -> Bisected:
    return bisect(LocalForge(here.forge), Wish(command=command, **{**ENDS, "python": sys.executable, **options}))


def span(bad: int) -> tuple[str, ...]:
    """Of the command line, for a bisect from the first snapshot on."""
    return ("--good", tag_of(1), "--bad", tag_of(bad), f"--python={sys.executable}")


def found(answer: Bisected) -> tuple[str, str]:
    return answer.before.tag, answer.after.tag


# -- the answer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [6, COUNT])
def test_the_first_snapshot_that_fails_is_found_with_its_llvm_commits(here: Bench, first: int) -> None:
    answer = run(here, failing_from(first))
    assert found(answer) == (tag_of(first - 1), tag_of(first))
    assert (answer.before.revision, answer.after.revision) == (revision_of(first - 1), revision_of(first))
    assert f"bisect start {revision_of(first)} {revision_of(first - 1)}" in answer.text()
    counts = [len(answer.record.of(tag)) for tag in found(answer)]
    assert counts == [2, 2], "both neighbours are tried again"


def test_the_first_snapshot_that_works_again_is_found(here: Bench) -> None:
    command = python("raise SystemExit(number < 4)")
    answer = run(here, command, fixed=True, good=tag_of(COUNT), bad=tag_of(1))
    assert found(answer) == (tag_of(3), tag_of(4))
    assert f"{tag_of(4)} is the first that works again" in answer.text()
    assert "--term-old broken --term-new fixed" in answer.next_command


def test_the_command_sees_the_environment_of_its_wheel(here: Bench) -> None:
    script = (
        "import os, sys, shutil, mlir; "
        "assert os.environ['VIRTUAL_ENV'] == sys.prefix; "
        "assert shutil.which('python') == sys.executable; "
        "assert os.environ['MLIR_RELEASE_UPSTREAM_COMMIT'].endswith(f'{mlir.number:x}'); "
        f"assert os.getcwd() == {str(here.folder)!r}; "
        "raise SystemExit(mlir.number >= 2)"
    )
    answer = run(here, ("python", "-c", script), bad=tag_of(2))
    assert found(answer) == (tag_of(1), tag_of(2))
    assert len(answer.record.runs) == 4, "neighbours are the answer themselves"
    assert answer.record.of(tag_of(2))[0].why == "exit code 1"
    assert (answer.logs / f"{tag_of(1)}-1.log").read_text() == ""


def test_a_variable_is_withheld_unless_it_is_named(here: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SETTING", "yes")
    command = python("import os; raise SystemExit(number >= 2 if os.environ.get('OUR_SETTING') else 3)")
    error = refused(lambda: run(here, command, bad=tag_of(2)), "release-unsuitable")
    assert "OUR_SETTING" in error.remedy
    assert "--env" in error.remedy
    assert found(run(here, command, bad=tag_of(2), variables=("OUR_SETTING",))) == (tag_of(1), tag_of(2))


def test_in_a_downstream_the_next_command_is_a_bisect_of_upstream(here: Bench) -> None:
    (here.folder / "integrate.toml").write_text("")
    answer = run(here, failing_from(2), bad=tag_of(2))
    good, bad = revision_of(1), revision_of(2)
    assert f"mlir-release integrate bisect upstream --good {good} --bad {bad} -- python" in answer.next_command


def test_nothing_is_downloaded_twice_whatever_the_command(
    here: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    first = run(here, failing_from(6))
    sizes = [entry.downloaded for entry in first.record.runs]
    tried = {entry.tag for entry in first.record.runs}
    assert len([size for size in sizes if size]) == len(tried)
    second = run(here, python("raise SystemExit(2 * (number >= 6))"))
    assert found(second) == found(first)
    assert [entry.downloaded for entry in second.record.runs] == [0] * len(second.record.runs)


def test_what_somebody_changed_in_an_environment_of_an_earlier_bisect_is_put_right(
    here: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    run(here, failing_from(2), bad=tag_of(2), state=tmp_path / "first")
    environments = tmp_path / "cache" / "bisect" / "environments"
    for module in environments.glob("*/lib/python*/site-packages/mlir/__init__.py"):
        module.write_text(f"number = 7\nopen({str(tmp_path / 'ran')!r}, 'a').close()\n")
        (module.parents[1] / "mlir.py").write_text("")
    answer = run(here, failing_from(2), bad=tag_of(2), state=tmp_path / "second")
    assert found(answer) == (tag_of(1), tag_of(2))
    assert not (tmp_path / "ran").exists()


def test_the_command_line_shows_the_way_a_table_and_a_summary(bench: Bench) -> None:
    bench.variables["GITHUB_STEP_SUMMARY"] = str(bench.folder / "summary")
    output, errors = bench.start(*span(3), "--", *failing_from(3)).communicate(timeout=120)
    assert f"o.x {tag_of(1)} works; about 1 more" in errors
    assert f"oox {tag_of(2)} works" in errors
    assert [line.split()[0] for line in output.splitlines() if line.startswith(" snap")] == list(map(tag_of, (1, 2, 3)))
    assert f"{tag_of(3)} is the first that fails" in output
    assert f"**{tag_of(3)}** is the first release that fails" in (bench.folder / "summary").read_text()


# -- what can't be tested ----------------------------------------------------------------------------------------------


def test_exit_code_125_skips_a_snapshot(here: Bench) -> None:
    answer = run(here, python("raise SystemExit(125 if number in (4, 5) else number >= 6)"))
    assert found(answer) == (tag_of(3), tag_of(6))
    assert answer.skipped == {tag_of(4): "exit code 125", tag_of(5): "exit code 125"}
    assert f"or it is {tag_of(4)}, which can't be tested" in answer.text()


def test_a_command_that_is_killed_is_tried_again_and_then_skipped(here: Bench) -> None:
    answer = run(here, ("sh", "-c", "n=$(python -c 'import mlir; print(mlir.number)'); "
                        "[ $n = 5 ] && kill -KILL $$; test $n -lt 6"))  # fmt: skip
    assert found(answer) == (tag_of(4), tag_of(6))
    assert [entry.answer for entry in answer.record.of(tag_of(5))] == ["killed", "killed"]


def test_a_command_that_hangs_fails_after_its_timeout(here: Bench) -> None:
    command = python("import time; time.sleep(1000 * (number >= 2))")
    answer = run(here, command, bad=tag_of(2), timeout=10.0, retries=0)
    assert found(answer) == (tag_of(1), tag_of(2))
    assert answer.record.of(tag_of(2))[0].why == "no result after 10 s"


#: The fifth snapshot fails when it is tried first, as if it were the culprit.
FLAKY = "import pathlib; flag = pathlib.Path('once'); first = not flag.exists(); number == 5 and flag.touch(); "


def test_a_flaky_failure_is_not_believed(here: Bench) -> None:
    answer = run(here, python(f"{FLAKY} raise SystemExit(number >= 7 or (number == 5 and first))"))
    assert found(answer) == (tag_of(6), tag_of(7))
    assert [entry.answer for entry in answer.record.of(tag_of(5))] == ["bad", "good"]


def test_a_flaky_snapshot_beside_the_edge_is_told_with_numbers(here: Bench) -> None:
    answer = run(here, python(f"{FLAKY} raise SystemExit(number >= 6 or (number == 5 and first))"))
    assert found(answer) == (tag_of(4), tag_of(6))
    assert answer.skipped == {tag_of(5): "flaky: it failed in 1 of 2 runs"}


def test_without_retries_the_first_answer_counts(here: Bench) -> None:
    answer = run(here, python(f"{FLAKY} raise SystemExit(number >= 7 or (number == 5 and first))"), retries=0)
    assert found(answer) == (tag_of(4), tag_of(5))


def test_yanked_snapshots_are_tried_only_if_asked_for(here: Bench, tmp_path: Path) -> None:
    forge = make_forge(tmp_path / "other" / "forge", 3)
    yank(forge, tag_of(2), "miscompiles", branch="main")
    here.forge = tmp_path / "other" / "forge"
    assert found(run(here, failing_from(2), bad=tag_of(3))) == (tag_of(1), tag_of(3))
    assert found(run(here, failing_from(2), bad=tag_of(3), yanked=True)) == (tag_of(1), tag_of(2))


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "fixed", "said", "remedy"),
    [
        ("0", False, f"--bad {tag_of(3)} works", "check the command"),
        ("1", False, f"--good {tag_of(1)} fails (exit code 1)", "check the command"),
        ("number == 1", False, f"--good {tag_of(1)} fails", "add --fixed"),
        ("number == 3", True, f"--good {tag_of(3)} fails", "leave out --fixed"),
        (
            "125 if number == 1 else 1",
            False,
            f"--good {tag_of(1)} can't be tested (exit code 125)",
            "check the command",
        ),
    ],
)
def test_ends_that_do_not_answer_as_they_should_are_refused(
    here: Bench, code: str, fixed: bool, said: str, remedy: str
) -> None:
    ends = {"good": tag_of(3), "bad": tag_of(1)} if fixed else {"good": tag_of(1), "bad": tag_of(3)}
    command = python(f"raise SystemExit({code})")
    error = refused(lambda: run(here, command, fixed=fixed, **ends), "release-unsuitable")
    assert said in error.why
    assert remedy in error.remedy
    assert Path(error.where).suffix == ".log"


def test_an_end_that_was_refused_is_tried_again_once_the_command_is_corrected(here: Bench) -> None:
    (here.folder / "test.py").write_text("raise SystemExit(1)")
    command = ("python", "test.py")
    refused(lambda: run(here, command, bad=tag_of(3)), "release-unsuitable")
    (here.folder / "test.py").write_text("import mlir; raise SystemExit(mlir.number >= 3)")
    assert found(run(here, command, bad=tag_of(3))) == (tag_of(2), tag_of(3))


def test_a_flaky_end_is_refused(here: Bench) -> None:
    script = "n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count; exit $((n % 2))"
    error = refused(lambda: run(here, ("sh", "-c", script), good=tag_of(1), bad=tag_of(2), retries=3))
    assert error.id == "release-unsuitable"


def test_a_command_that_is_not_there_is_refused_and_nothing_is_recorded(here: Bench) -> None:
    for command in (("nothing-of-that-name",), ("sh", "-c", "nothing-of-that-name")):
        state = here.folder / command[0]
        ask = partial(run, here, command, state=state)
        refused(ask, "tool-missing", "the command can't be run")
        assert BisectRecord.from_text((state / RECORD_NAME).read_bytes()).runs == ()


def test_a_state_folder_of_another_question_is_refused(here: Bench, tmp_path: Path) -> None:
    run(here, failing_from(2), bad=tag_of(2), state=tmp_path / "state")
    error = refused(lambda: run(here, failing_from(3), bad=tag_of(3), state=tmp_path / "state"), "output-in-the-way")
    assert "bad, command" in error.why
    answer = run(here, failing_from(3), bad=tag_of(3), state=tmp_path / "state", again=True)
    assert found(answer) == (tag_of(2), tag_of(3))


def test_a_damaged_record_is_begun_anew(here: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(here, failing_from(2), bad=tag_of(2), state=tmp_path / "state")
    (tmp_path / "state" / RECORD_NAME).write_text('{"schema": 1, "ques')
    assert found(run(here, failing_from(2), bad=tag_of(2), state=tmp_path / "state")) == found(answer)
    assert "can't be read" in capsys.readouterr().err


# -- again, at once, killed --------------------------------------------------------------------------------------------


def test_a_second_run_has_the_answer_without_any_test_until_again(here: Bench) -> None:
    (here.folder / "test.py").write_text(SCRIPT)
    first = run(here, ("python", "test.py"))
    runs = (here.folder / "runs").read_text()
    assert found(run(here, ("python", "test.py"))) == found(first)
    assert (here.folder / "runs").read_text() == runs
    run(here, ("python", "test.py"), again=True)
    assert len((here.folder / "runs").read_text()) == 2 * len(runs)


def test_a_changed_script_is_noticed(here: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    (here.folder / "test.py").write_text(SCRIPT)
    run(here, ("python", "test.py"), bad=tag_of(6))
    (here.folder / "test.py").write_text(SCRIPT.replace("6", "3"))
    run(here, ("python", "test.py"), bad=tag_of(6))
    assert "test.py changed since the first of the" in capsys.readouterr().err


def test_two_at_once_are_told_apart(here: Bench) -> None:
    command = ("sh", "-c", "touch begun; sleep 1000")
    process = here.start(*span(2), "--", *command)
    try:
        wait_until(here.folder / "begun", process)
        error = refused(lambda: run(here, command, bad=tag_of(2)), "lost-race", "another process runs the same bisect")
        assert "wait" in error.remedy
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130


def wait_until(path: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_bisect_waits_for_the_command_of_one_that_was_killed(here: Bench) -> None:
    script = f"[ -e begun ] || {{ echo $$ > begun; sleep 1000; }}; {shlex.join(failing_from(2))}"
    arguments = (*span(2), "--json", "--", "sh", "-c", script)
    first = here.start(*arguments)
    wait_until(here.folder / "begun", first)
    first.kill()
    first.communicate()
    second = here.start(*arguments)
    assert second.stderr is not None
    said = next(line for line in second.stderr if "still runs" in line)
    assert "waiting for its end" in said
    orphan = int((here.folder / "begun").read_text())
    subprocess.run(["pkill", "-KILL", "-P", str(orphan)], check=True)
    output, _ = second.communicate(timeout=120)
    wait_for_end(orphan)
    assert json.loads(output)["bad"]["tag"] == tag_of(2)


def killed_over_and_over(bench: Bench, kills: int) -> None:
    """Kill a bisect ever later, and let the last one end. After one that ends before, another is begun."""
    (bench.folder / "test.py").write_text(SCRIPT)
    command = (*span(COUNT), "--retries", "2", "--json", "--", "python", "test.py")
    reference = bench.folder.parent / "reference"
    whole = bench.start("--state", reference, *command)
    start = time.monotonic()
    expected, _ = whole.communicate(timeout=600)
    assert whole.returncode == 0
    takes = time.monotonic() - start
    bench.variables["MLIR_RELEASE_CACHE"] = str(bench.folder.parent / "cache")
    done, ended = 0, list[str]()
    while done < kills or not ended:
        process = bench.start("--state", bench.folder.parent / f"state{len(ended)}", *command)
        share = (0.2 + takes / min(kills, 20)) * (done % 7 + 1) / 4
        try:
            output, errors = process.communicate(timeout=0.3 + share if done < kills else 600)
            assert process.returncode == 0, errors
            ended.append(output)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            done += 1
    print(f"killed {done} times, {len(ended)} came to an end")
    answers = [json.loads(text) for text in (expected, *ended)]
    for answer in answers:
        for volatile in ("runs", "downloaded", "logs"):
            del answer[volatile]
    assert answers[1:] == answers[:1] * len(ended)
    assert answers[0]["bad"]["tag"] == tag_of(6)


def test_killed_three_times_it_comes_to_the_same_answer(bench: Bench) -> None:
    killed_over_and_over(bench, 3)


@pytest.mark.slow
@pytest.mark.spread
def test_killed_a_hundred_times_it_comes_to_the_same_answer(bench: Bench) -> None:
    killed_over_and_over(bench, 100)


# -- wheels that do not fit --------------------------------------------------------------------------------------------


@pytest.fixture
def three(here: Bench, tmp_path: Path) -> LocalForge:
    """A forge of three snapshots that a test may change. The second does not want this Python."""
    here.forge = tmp_path / "other" / "forge"
    return make_forge(here.forge, 3, others={2: {"requires_python": "<3"}})


def test_a_wheel_that_does_not_want_this_python_is_skipped(here: Bench, three: LocalForge) -> None:
    answer = run(here, failing_from(2), bad=tag_of(3))
    assert found(answer) == (tag_of(1), tag_of(3))
    assert "has no wheel of mlir" in answer.skipped[tag_of(2)]


def test_a_wheel_with_other_bytes_is_refused_and_the_answers_before_it_are_kept(
    here: Bench, three: LocalForge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    (wheel,) = three.root.glob(f"releases/{tag_of(1)}/*.whl")
    content = wheel.read_bytes()
    wheel.write_bytes(content[:-1] + b"!")
    state = tmp_path / "state"
    refused(lambda: run(here, failing_from(2), bad=tag_of(3), state=state), "forge-damaged")
    record = BisectRecord.from_text((state / RECORD_NAME).read_bytes())
    assert [(entry.tag, entry.answer) for entry in record.runs] == [(tag_of(3), "bad")]
    wheel.write_bytes(content)
    answer = run(here, failing_from(2), bad=tag_of(3), state=state)
    assert answer.record.runs[: len(record.runs)] == record.runs


def test_a_forge_that_can_t_be_reached_in_between_ends_it_and_the_next_run_goes_on(
    here: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    wheels = list[str]()

    class Failing(LocalForge):
        def download(self, release: Release, asset: Asset, destination: Path) -> None:
            if asset.name.endswith(".whl"):
                wheels.append(asset.name)
            if len(wheels) > 3:
                raise ForgeError("forge-unreachable", "the network is down")
            super().download(release, asset, destination)

    state = tmp_path / "state"
    options: dict[str, Any] = {**ENDS, "python": sys.executable, "state": state}
    refused(lambda: bisect(Failing(here.forge), Wish(command=failing_from(6), **options)), "forge-unreachable")
    before = BisectRecord.from_text((state / RECORD_NAME).read_bytes()).runs
    assert len(before) == 3
    answer = run(here, failing_from(6), state=state)
    assert found(answer) == (tag_of(5), tag_of(6))
    assert answer.record.runs[: len(before)] == before
