"""Issues follow how the required targets fare, whatever order releases are looked at in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.builder.model.test_report import TestFailure, TestReport
from mlir_release.ground.hosting import Issue
from mlir_release.ground.job_names import sdk_jobs
from mlir_release.operate.issues import IssueChange, IssuePlace, plan_changes, workflow_run_url
from mlir_release.release.judging.status import IssueRecord, read_record
from tests.job_factory import make_job
from tests.standing_factory import make_standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.ground.hosting import RunJob
    from mlir_release.release.judging.scorecard import Standing

NAMES = ("a", "b", "c")
TAGS = ("snapshot-20261120.01", "snapshot-20261120.02", "snapshot-20261121.01")


def plan(tag: str, failing: set[str], issues: Iterable[Issue] = (), **given: Any) -> tuple[IssueChange, ...]:
    rows = {name: make_standing(name) for name in sorted(failing)}
    return plan_changes(tag, list(issues), failing=rows, passing=set(NAMES) - failing, **given)


def plan_row(row: Standing, issues: Iterable[Issue] = (), **given: Any) -> tuple[IssueChange, ...]:
    return plan_changes(TAGS[0], list(issues), failing={row.name: row}, passing=(), **given)


def carry_out(issues: dict[int, Issue], steps: tuple[IssueChange, ...]) -> None:
    for step in steps:
        if step.issue is None:
            number = max(issues, default=0) + 1
            issues[number] = Issue(number=number, key=step.key, title=step.title, body=step.text, url=f"u/{number}")
        elif step.action == "update":
            old = step.issue
            issues[old.number] = Issue(number=old.number, key=old.key, title=step.title, body=step.text, url=old.url)
        else:
            del issues[step.issue.number]


@given(st.lists(st.tuples(st.sampled_from(TAGS), st.sets(st.sampled_from(NAMES))), max_size=8))
def test_one_issue_for_each_failing_target_and_nothing_to_do_the_second_time(
    looks: list[tuple[str, set[str]]],
) -> None:
    issues: dict[int, Issue] = {}
    for tag, failing in looks:
        carry_out(issues, plan(tag, failing, issues.values()))
        assert plan(tag, failing, issues.values()) == ()
        keys = [issue.key for issue in issues.values()]
        assert len(keys) == len(set(keys))
        assert {f"snapshot/{name}" for name in failing} <= set(keys)
    if looks:
        newest = max(tag for tag, _ in looks)
        last = next(failing for tag, failing in reversed(looks) if tag == newest)
        # What an older release found afterwards may add what is not known to be well, and takes nothing away.
        assert {f"snapshot/{name}" for name in last} <= {issue.key for issue in issues.values()}


def test_a_second_issue_of_one_target_is_closed() -> None:
    steps = plan(TAGS[0], {"a"})
    issues = [
        Issue(number=number, key=steps[0].key, title=steps[0].title, body=steps[0].text, url="u") for number in (4, 9)
    ]
    (step,) = plan(TAGS[0], {"a"}, issues)
    assert (step.action, step.issue) == ("close", issues[1])
    assert "#4" in step.text


def test_an_older_release_changes_nothing_of_a_newer_failure() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(TAGS[2], {"a"}))
    assert plan(TAGS[0], {"a"}, issues.values()) == ()
    assert plan(TAGS[0], set(), issues.values()) == ()


def test_the_first_failure_is_remembered_and_the_run_is_linked() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(TAGS[0], {"a"}))
    carry_out(
        issues,
        plan(TAGS[2], {"a"}, issues.values(), place=IssuePlace(log_url="https://example.org/run")),
    )
    (issue,) = issues.values()
    assert f"First failed in: `{TAGS[0]}`" in issue.body
    assert f"Last failed in: `{TAGS[2]}` ([log](https://example.org/run))" in issue.body


def test_snapshots_and_numbered_releases_are_tracked_apart() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(TAGS[0], {"a"}))
    carry_out(issues, plan("llvm-22.1.8.01", {"a"}, issues.values()))
    assert [issue.key for issue in issues.values()] == ["snapshot/a", "numbered/a"]
    carry_out(issues, plan("llvm-22.1.8.02", set(), issues.values()))
    assert [issue.key for issue in issues.values()] == ["snapshot/a"]


def body(row: Standing, *jobs: RunJob, place: IssuePlace | None = None) -> str:
    (step,) = plan_row(row, jobs={job.name: job for job in jobs}, place=place)
    return step.text


def test_an_issue_has_every_command_that_a_person_may_need() -> None:
    failure = make_standing("smoke-a", wheel="a", jobs=("tests: a",))
    place = IssuePlace(forge="github:o/n", repository="github.com/o/n", workflow="build.yml")
    text = body(failure, make_job("tests: a", "failure", run_id="77"), place=place)
    for command in (
        "export MLIR_RELEASE_FORGE=github:o/n",
        f"mlir-release release dispatch build.yml --ref {TAGS[0]}",
        "gh run rerun 77 --failed --repo github.com/o/n",
        f"mlir-release publish {TAGS[0]} --discard a",
        f"mlir-release release waive {TAGS[0]} smoke-a --reason '…'",
        f"mlir-release release abandon {TAGS[0]} --reason '…'",
    ):
        assert f"\n{command}" in text
    assert "gh run rerun" not in body(failure, place=place)


def test_an_issue_of_a_platform_lists_and_waives_what_it_takes_down() -> None:
    text = body(make_standing("sdk-windows-x64", reasons=("there is no SDK",), takes_down=("w1", "w2")))
    assert "The platform `windows-x64` keeps" in text
    for name in ("w1", "w2"):
        assert f"- `{name}`" in text
    assert f"release waive {TAGS[0]} --only 'runtime=windows-x64' --reason" in text


def test_the_jobs_that_failed_are_linked_else_how_the_first_ended() -> None:
    first, second = sdk_jobs("x")
    row = make_standing("sdk-x", jobs=(second, first), reasons=("there is no SDK",))
    well, ill = make_job(first, "success"), make_job(second, "timed_out", number=2)
    text = body(row, well, ill)
    assert "Its job [`sdk: x (resumed)`](https://example.org/jobs/2) ended as *timed_out*.\n" in text
    assert "`sdk: x`" not in text
    assert "What went wrong came after" not in text
    assert "[`sdk: x`](https://example.org/jobs/1) ended as *success*. So what went wrong came after it" in body(
        row, well
    )
    running = make_job(first, None)
    assert "has not ended yet" in body(row, running)
    assert "Its job" not in body(row, make_job("wheels: x", "failure"))


def test_whatever_tests_are_called_the_issue_fits_and_its_dates_stay_readable() -> None:
    names = ["````", f"Last failed in: `{TAGS[2]}`", "<!-- mlir-release: snapshot/b -->", "é" * 5000]
    failures = tuple(TestFailure(name=f"{number} {name}") for number in range(100) for name in names)
    report = TestReport(target="smoke-a", suite="smoke", passed=False, failures=failures)
    failure = make_standing("smoke-a", state="failed", report=report)
    text = body(failure)
    assert len(text) <= 60_000
    issue = Issue(number=1, key="snapshot/smoke-a", title="smoke-a fails", body=text, url="u")
    assert plan_row(failure, [issue]) == ()
    # Not taken for one of a newer release.
    (step,) = plan_changes(TAGS[1], [issue], failing={}, passing={"smoke-a"})
    assert step.action == "close"


def test_the_address_of_a_workflow_run_needs_all_its_parts() -> None:
    environ = {
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "llvm/mlir-wheels",
        "GITHUB_RUN_ID": "7",
    }
    assert workflow_run_url(environ) == "https://github.com/llvm/mlir-wheels/actions/runs/7"
    for name in environ:
        assert workflow_run_url({**environ, name: ""}) == ""
    assert workflow_run_url({}) == ""


def test_an_issue_of_an_experimental_target_says_that_nothing_waits_for_it() -> None:
    (step,) = plan_row(make_standing("a", required=False))
    assert step.title == "a fails (experimental)"
    assert "**Nothing is blocked**" in step.text
    assert "waive" not in step.text
    assert "abandon" not in step.text
    assert "dispatch release.yml" in step.text
    platform = make_standing("sdk-p", reasons=("there is no SDK",), required=False, leaves_out=("x", "y"))
    (step,) = plan_row(platform)
    assert "The experimental platform `p` is not part of" in step.text
    assert "- `x`\n- `y`" in step.text


def test_an_issue_about_a_target_that_is_no_more_is_closed_by_the_next_release() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(TAGS[1], {"a", "b"}))

    def look(tag: str) -> tuple[IssueChange, ...]:
        known = frozenset(NAMES) - {"a"}
        return plan_changes(tag, list(issues.values()), failing={}, passing=(), targets=known)

    assert look(TAGS[0]) == ()  # an older release says nothing about it
    assert look("llvm-22.1.8.01") == ()
    (step,) = look(TAGS[2])
    assert (step.action, step.key) == ("close", "snapshot/a")
    assert "no such target" in step.text


# -- what the next command reads of an issue ---------------------------------------------------------------------------

#: As the toolkit wrote it before there was a marker.
OLD = f"""\
The target `a` keeps `{TAGS[1]}` from being published: there is no wheel.

First failed in: `{TAGS[0]}`
Last failed in: `{TAGS[1]}` ([log](https://example.org/run))

To try again (what is complete in the draft is kept):

```sh
mlir-release release dispatch release.yml --ref {TAGS[1]}
```
"""


def issue(body: str, title: str = "a fails") -> Issue:
    return Issue(number=1, key="snapshot/a", title=title, body=body, url="u")


def marker(text: str) -> str:
    return f"<!-- mlir-release-track: {text} -->"


@pytest.mark.parametrize("required", [True, False])
def test_an_issue_remembers_in_a_marker_that_nobody_sees(required: bool) -> None:
    (step,) = plan_row(make_standing("a", required=required))
    assert step.text.startswith("<!-- ")
    record = IssueRecord(first=TAGS[0], last=TAGS[0], required=required)
    for written in (step.text, step.text.replace("\n", "\r\n"), f"A person's remark.\n\n{step.text}"):
        assert read_record(issue(written, "renamed")) == record
    without_lines = step.text.replace("failed in: ", "")
    assert read_record(issue(without_lines)) == record


@pytest.mark.parametrize("title", ["a fails", "a fails (experimental)"])
def test_an_issue_of_an_older_toolkit_is_read_and_gets_a_marker(title: str) -> None:
    old = issue(OLD, title)
    assert read_record(old) == IssueRecord(first=TAGS[0], last=TAGS[1], required=title == "a fails")
    assert plan(TAGS[0], set(), [old]) == ()  # its last failure is newer
    (step,) = plan(TAGS[2], {"a"}, [old])
    assert step.action == "update"
    assert read_record(issue(step.text)) == IssueRecord(first=TAGS[0], last=TAGS[2], required=True)


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{}",
        "{",
        "[" * 100_000,
        '{"first": 1, "last": 2, "required": 3}',
        '{"first": "x", "last": "y", "required": true}',
        f'{{"first": "{TAGS[0]}", "last": "-->", "required": true}}',
        f'{{"first": "{TAGS[0]}", "last": "llvm-22.1.8.01", "required": true}}',
        f'{{"first": "{TAGS[0]}", "last": "{TAGS[0]}", "required": "yes"}}',
    ],
)
def test_a_damaged_marker_ends_nothing(damaged: str) -> None:
    assert read_record(issue(marker(damaged))) is None
    assert read_record(issue(f"{marker(damaged)}\n{OLD}")) == read_record(issue(OLD))
    (step,) = plan(TAGS[2], {"a"}, [issue(marker(damaged))])
    assert read_record(issue(step.text)) == IssueRecord(first=TAGS[2], last=TAGS[2], required=True)


def test_what_a_log_says_is_no_marker() -> None:
    record = IssueRecord(first=TAGS[0], last=TAGS[2], required=True)
    quoted = f"The target `a` fails.\n\n```text\n{record.marker()}\nFirst failed in: `{TAGS[0]}`\n```\n"
    assert read_record(issue(quoted)) is None
    assert read_record(issue(f"{marker('{}')}\n{quoted}")) is None


def test_a_later_toolkit_may_add_to_the_marker() -> None:
    text = f'{{"first": "{TAGS[0]}", "last": "{TAGS[1]}", "required": false, "more": [1]}}'
    assert read_record(issue(marker(text))) == IssueRecord(first=TAGS[0], last=TAGS[1], required=False)


def test_the_issue_of_another_project_names_it() -> None:
    assert "The target `c` of the project `clang` keeps" in body(make_standing("c", project="clang"))
    assert "The platform `p_clang` of the project `clang` keeps" in body(
        make_standing("sdk-p_clang", project="clang", reasons=("there is no SDK",))
    )
    assert "of the project" not in body(make_standing("c"))
