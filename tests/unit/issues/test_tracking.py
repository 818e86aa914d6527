"""Issues follow how the required targets fare, whatever order releases are looked at in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlir_release.forge.services import Issue
from mlir_release.issues.failures import Failure, Findings
from mlir_release.issues.job_logs import Evidence, excerpts
from mlir_release.issues.tracking import MAX_BODY, IssueChange, Place, plan_changes, workflow_run_url
from tests.job_factory import make_job

NAMES = ("a", "b", "c")
TAGS = ("snapshot-20261120.01", "snapshot-20261120.02", "snapshot-20261121.01")


def findings(tag: str, failing: set[str], known: tuple[str, ...] = NAMES) -> Findings:
    failures = {name: Failure(name=name, summary="why") for name in sorted(failing)}
    return Findings(tag=tag, failing=failures, passing=frozenset(known) - failing)


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
        found = findings(tag, failing)
        carry_out(issues, plan_changes(found, list(issues.values())))
        assert plan_changes(found, list(issues.values())) == ()
        keys = [issue.key for issue in issues.values()]
        assert len(keys) == len(set(keys))
        assert {f"snapshot/{name}" for name in failing} <= set(keys)
    if looks:
        newest = max(tag for tag, _ in looks)
        last = next(failing for tag, failing in reversed(looks) if tag == newest)
        # What an older release found afterwards may add what is not known to be well, and takes nothing away.
        assert {f"snapshot/{name}" for name in last} <= {issue.key for issue in issues.values()}


def test_a_second_issue_of_one_target_is_closed() -> None:
    steps = plan_changes(findings(TAGS[0], {"a"}), [])
    issues = [
        Issue(number=number, key=steps[0].key, title=steps[0].title, body=steps[0].text, url="u") for number in (4, 9)
    ]
    (step,) = plan_changes(findings(TAGS[0], {"a"}), issues)
    assert (step.action, step.issue) == ("close", issues[1])
    assert "#4" in step.text


def test_an_older_release_changes_nothing_of_a_newer_failure() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan_changes(findings(TAGS[2], {"a"}), []))
    assert plan_changes(findings(TAGS[0], {"a"}), list(issues.values())) == ()
    assert plan_changes(findings(TAGS[0], set()), list(issues.values())) == ()


def test_the_first_failure_is_remembered_and_the_run_is_linked() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan_changes(findings(TAGS[0], {"a"}), []))
    carry_out(
        issues,
        plan_changes(findings(TAGS[2], {"a"}), list(issues.values()), place=Place(log_url="https://example.org/run")),
    )
    (issue,) = issues.values()
    assert f"First failed in: `{TAGS[0]}`" in issue.body
    assert f"Last failed in: `{TAGS[2]}` ([log](https://example.org/run))" in issue.body


def test_snapshots_and_numbered_releases_are_tracked_apart() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan_changes(findings(TAGS[0], {"a"}), []))
    carry_out(issues, plan_changes(findings("llvm-22.1.8.01", {"a"}), list(issues.values())))
    assert [issue.key for issue in issues.values()] == ["snapshot/a", "numbered/a"]
    carry_out(issues, plan_changes(findings("llvm-22.1.8.02", set()), list(issues.values())))
    assert [issue.key for issue in issues.values()] == ["snapshot/a"]


def body(failure: Failure, **given: Evidence | Place | None) -> str:
    found = Findings(tag=TAGS[0], failing={failure.name: failure}, passing=frozenset())
    evidence = given.get("evidence")
    place = given.get("place")
    assert evidence is None or isinstance(evidence, Evidence)
    assert place is None or isinstance(place, Place)
    (step,) = plan_changes(found, [], evidence={failure.name: evidence} if evidence else None, place=place)
    return step.text


def test_an_issue_has_every_command_that_a_person_may_need() -> None:
    failure = Failure(name="smoke-a", summary="why", wheel="a")
    place = Place(forge="github:o/n", repository="github.com/o/n", workflow="build.yml")
    text = body(failure, evidence=Evidence(job=make_job("smoke-a", "failure", run_id="77")), place=place)
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
    text = body(Failure(name="sdk-windows-x64", summary="there is no SDK", takes_down=("w1", "w2")))
    assert "The platform `windows-x64` keeps" in text
    for name in ("w1", "w2"):
        assert f"- `{name}`" in text
    assert f"release waive {TAGS[0]} --only 'runtime=windows-x64' --reason" in text


def test_whatever_a_log_says_the_issue_fits_and_its_dates_stay_readable() -> None:
    noise = ["##[error]" + "x" * 900, "````", f"Last failed in: `{TAGS[2]}`", "<!-- mlir-release: snapshot/b -->"]
    lines = [*noise, *(f"{n} " + "é" * 3000 for n in range(2000)), "##[error]Process completed with exit code 1."]
    failure = Failure(name="a", summary="why", detail="y" * 40_000)
    evidence = Evidence(job=make_job("a", "failure"), excerpt=excerpts([*lines, *noise])[""])
    text = body(failure, evidence=evidence)
    assert len(text) <= MAX_BODY
    assert "##[error]Process completed with exit code 1." in text
    issue = Issue(number=1, key="snapshot/a", title="a fails", body=text, url="u")
    found = Findings(tag=TAGS[0], failing={"a": failure}, passing=frozenset())
    assert plan_changes(found, [issue], evidence={"a": evidence}) == ()
    (step,) = plan_changes(findings(TAGS[1], set()), [issue])  # not taken for one of a newer release
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
    failure = Failure(name="a", summary="there is no wheel", required=False)
    (step,) = plan_changes(Findings(tag=TAGS[0], failing={"a": failure}, passing=frozenset()), [])
    assert step.title == "a fails (experimental)"
    assert "**Nothing is blocked**" in step.text
    assert "waive" not in step.text
    assert "abandon" not in step.text
    assert "dispatch release.yml" in step.text
    platform = Failure(name="sdk-p", summary="there is no SDK", required=False, leaves_out=("x", "y"))
    (step,) = plan_changes(Findings(tag=TAGS[0], failing={"sdk-p": platform}, passing=frozenset()), [])
    assert "The experimental platform `p` is not part of" in step.text
    assert "- `x`\n- `y`" in step.text


def test_an_issue_about_a_target_that_is_no_more_is_closed_by_the_next_release() -> None:
    issues: dict[int, Issue] = {}
    carry_out(issues, plan_changes(findings(TAGS[1], {"a", "b"}), []))
    known = frozenset(NAMES) - {"a"}
    nothing_else = Findings(tag=TAGS[0], failing={}, passing=frozenset(), targets=known)
    assert plan_changes(nothing_else, list(issues.values())) == ()  # an older release says nothing about it
    numbered = Findings(tag="llvm-22.1.8.01", failing={}, passing=frozenset(), targets=known)
    assert plan_changes(numbered, list(issues.values())) == ()
    (step,) = plan_changes(Findings(tag=TAGS[2], failing={}, passing=frozenset(), targets=known), list(issues.values()))
    assert (step.action, step.key) == ("close", "snapshot/a")
    assert "no such target" in step.text
