"""Issues follow how the required targets fare, whatever order releases are looked at in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlir_release.forge.base import Issue
from mlir_release.publish.tracking import Findings, Step, judge_draft, plan
from mlir_release.targets import Matrix
from tests.release_stage import TARGETS
from tests.wheel_factory import OTHER_PYTHON, PYTHON

MATRIX = Matrix.parse(TARGETS)
NAMES = ("a", "b", "c")
TAGS = ("snapshot-20261120.01", "snapshot-20261120.02", "snapshot-20261121.01")


def findings(tag: str, failing: set[str], known: tuple[str, ...] = NAMES) -> Findings:
    return Findings(tag=tag, failing=dict.fromkeys(sorted(failing), "why"), passing=frozenset(known) - failing)


def carry_out(issues: dict[int, Issue], steps: tuple[Step, ...]) -> None:
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
        found = findings(tag, failing)
        carry_out(issues, plan(found, list(issues.values())))
        assert plan(found, list(issues.values())) == ()
        keys = [issue.key for issue in issues.values()]
        assert len(keys) == len(set(keys))
        assert {f"snapshot/{name}" for name in failing} <= set(keys)
    if looks:
        newest = max(tag for tag, _ in looks)
        last = next(failing for tag, failing in reversed(looks) if tag == newest)
        # What an older release found afterwards may add what is not known to be well, and takes nothing away.
        assert {f"snapshot/{name}" for name in last} <= {issue.key for issue in issues.values()}


def test_a_second_issue_of_one_target_is_closed() -> None:
    steps = plan(findings(TAGS[0], {"a"}), [])
    issues = [
        Issue(number=number, key=steps[0].key, title=steps[0].title, body=steps[0].text, url="u") for number in (4, 9)
    ]
    (step,) = plan(findings(TAGS[0], {"a"}), issues)
    assert (step.action, step.issue) == ("close", issues[1])
    assert "#4" in step.text


def test_an_older_release_changes_nothing_of_a_newer_failure() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(findings(TAGS[2], {"a"}), []))
    assert plan(findings(TAGS[0], {"a"}), list(issues.values())) == ()
    assert plan(findings(TAGS[0], set()), list(issues.values())) == ()


def test_the_first_failure_is_remembered_and_the_run_is_linked() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(findings(TAGS[0], {"a"}), []))
    carry_out(issues, plan(findings(TAGS[2], {"a"}), list(issues.values()), log_url="https://example.org/run"))
    (issue,) = issues.values()
    assert f"First failed in: `{TAGS[0]}`" in issue.body
    assert f"Last failed in: `{TAGS[2]}` ([log](https://example.org/run))" in issue.body


def test_snapshots_and_numbered_releases_are_tracked_apart() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan(findings(TAGS[0], {"a"}), []))
    carry_out(issues, plan(findings("llvm-22.1.8.01", {"a"}), list(issues.values())))
    assert [issue.key for issue in issues.values()] == ["snapshot/a", "numbered/a"]
    carry_out(issues, plan(findings("llvm-22.1.8.02", set()), list(issues.values())))
    assert [issue.key for issue in issues.values()] == ["snapshot/a"]


def test_what_could_not_be_tried_is_neither_failing_nor_well() -> None:
    wheel, test = f"mlir-linux-x86_64-{PYTHON}", f"smoke-mlir-linux-x86_64-{PYTHON}"
    other = f"mlir-linux-x86_64-{OTHER_PYTHON}"
    found = judge_draft(TAGS[0], MATRIX, wheels=(wheel,), tests=(test,), reports={})
    assert set(found.failing) == {wheel}
    assert test not in found.passing
    assert {other, f"smoke-{other}"} <= found.passing


def test_an_experimental_target_has_no_issue() -> None:
    core = f"mlir-core-linux-x86_64-{PYTHON}"
    found = judge_draft(TAGS[0], MATRIX, wheels=(core,), tests=(f"smoke-{core}",), reports={})
    assert found.failing == {}
