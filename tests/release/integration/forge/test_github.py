"""The GitHub forge does what every forge must do, and asks GitHub only what its published description allows."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.trees import commit_files
from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.github import client as github_client
from mlir_release.release.forge.github.client import PAUSES
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.github.issues import GitHubPullRequests
from mlir_release.release.forge.github.runs import GitHubRuns
from tests.github_server import Fault
from tests.github_stage import REPOSITORY
from tests.refusals import refused
from tests.release.integration.forge.conformance import ForgeConformance, Setting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.github_server import GitHubServer, Record

MONDAY = datetime(2026, 11, 16, 6, 23, tzinfo=UTC)


def open_forge(github: GitHubServer, token: str = "") -> GitHubForge:
    return GitHubForge.open(REPOSITORY, environ=github.environment(REPOSITORY, token or github.token()))


def get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url.partition("#")[0]) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        error.close()
        return None


class TestGitHubForge(ForgeConformance):
    @pytest.fixture
    def setting(self, github: GitHubServer, without_waiting: None) -> Setting:
        token = github.token()
        return Setting(
            forge=open_forge(github, token),
            again=lambda: open_forge(github, token),
            stranger=get,
            message=github.repositories[REPOSITORY].git.message,
        )


def test_a_refused_request_waits_as_long_as_github_says(github: GitHubServer, pauses: list[float]) -> None:
    answers = [
        Fault(status=403, headers={"retry-after": "31"}, message="You have exceeded a secondary rate limit."),
        Fault(status=429, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 600)}),
        Fault(status=502),
    ]
    github.faults = lambda record: answers.pop(0) if answers else None
    assert open_forge(github).head("main")
    assert pauses[0] == 31
    assert 300 < pauses[1] < 620
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        (Fault(status=403, message=""), 60),
        (Fault(status=403, message="You have exceeded a secondary rate limit."), 60),
        (Fault(status=429, message="Too many requests"), 60),
        (Fault(status=500), 1),
        (Fault(drop="before"), 1),
    ],
)
def test_git_is_limited_as_rest_is(github: GitHubServer, pauses: list[float], fault: Fault, first: float) -> None:
    """Git shows no retry-after; that the token is not to blame, REST says."""
    forge = open_forge(github)
    answers = [fault]
    github.faults = lambda record: answers.pop() if answers and ".git/" in record.path else None
    assert forge.tags() == []
    assert pauses == [first]
    github.faults = lambda record: fault if ".git/" in record.path else None
    refused(forge.tags, "forge-rate-limited" if first == 60 else "forge-unreachable")
    assert len(pauses) == 1 + github_client.ATTEMPTS - 1


def test_a_limit_of_rest_says_how_long_git_must_wait(github: GitHubServer, pauses: list[float]) -> None:
    limit = Fault(status=403, headers={"retry-after": "7"}, message="You have exceeded a secondary rate limit.")
    answers = [limit, limit]
    github.faults = lambda record: answers.pop() if answers else None
    assert open_forge(github).tags() == []
    assert pauses == [7]


@pytest.mark.parametrize(
    ("token", "message", "id"),
    [
        ("", "The 'llvm' organization has enabled or enforced SAML SSO.", "token-lacks-right"),
        ("ghs_wrong", "", "token-invalid"),
    ],
)
def test_git_is_refused_for_good(github: GitHubServer, pauses: list[float], token: str, message: str, id: str) -> None:
    github.faults = lambda record: Fault(status=403, message=message) if ".git/" in record.path else None
    refused(open_forge(github, token).tags, id)
    assert pauses == []


def test_names_that_an_address_must_escape(github: GitHubServer) -> None:
    forge = open_forge(github)
    made = forge.commit("main", expected=forge.head("main"), files={"notes/100% of #1.md": b"all"}, message="m\n")
    assert forge.read("notes/100% of #1.md", commit=made) == b"all"
    made = forge.commit("integrates/llvm#1", expected=None, base=made, files={"a": b"1"}, message="m\n")
    assert forge.head("integrates/llvm#1") == made


def test_a_repository_that_is_not_there(github: GitHubServer) -> None:
    forge = GitHubForge.open("llvm/nothing", environ=github.environment("llvm/nothing", github.token()))
    refused(forge.releases, "not-on-forge", "GitHub has no such thing, or hides it from this token")
    refused(forge.tags, "not-on-forge", "GitHub has no such thing, or hides it from this token")


@pytest.mark.parametrize("told", [True, False], ids=["told", "an older server"])
def test_the_command_shows_the_run_that_it_started(github: GitHubServer, told: bool) -> None:
    github.older_dispatch = "" if told else "ignores"
    environment = github.environment(REPOSITORY, github.token())
    arguments = ["release", "dispatch", "release.yml", "--ref", "main", "--input", "a=1", "--json"]
    options = ["--forge", f"github:{REPOSITORY}"]
    done = CliRunner(env=environment).invoke(app, [*arguments, *options], standalone_mode=False, catch_exceptions=False)
    (made,) = github.dispatches
    assert made.inputs == {"a": "1"}
    shown = json.loads(done.stdout)
    assert shown["run"] == (str(made.run_id) if told else None)
    assert shown["url"] == (f"{github.url}/{REPOSITORY}/actions/runs/{made.run_id}" if told else "")


@pytest.mark.parametrize("older", ["ignores", "refuses"])
def test_an_older_server_does_not_tell_the_run(github: GitHubServer, older: str) -> None:
    github.older_dispatch = older
    forge = open_forge(github)
    for count in (1, 2):
        assert forge.dispatch("release.yml", ref="main", inputs={"a": "1"}) is None
        assert len(github.repositories[REPOSITORY].dispatches) == count
    unprocessable = sum(record.status == 422 for record in github.requests)
    assert unprocessable == (1 if older == "refuses" else 0)  # it is asked once only
    assert not [run.url for run in forge.runs("release.yml", ref="main") if "/actions/runs/" not in run.url]


@pytest.mark.parametrize("arrives", [True, False], ids=["carried out", "not carried out"])
def test_a_late_run_whose_answer_was_lost_is_not_dispatched_again(
    github: GitHubServer, pauses: list[float], arrives: bool
) -> None:
    github.runs_appear_after = len(PAUSES)
    asked = 0

    def faulty(record: Record) -> Fault | None:
        nonlocal asked
        here = record.operation.endswith("/dispatches")
        asked += here
        return (Fault(drop="after") if arrives else Fault(status=502)) if here and asked == 1 else None

    github.faults = faulty
    run = open_forge(github).dispatch("release.yml", ref="main", inputs={})
    (made,) = github.repositories[REPOSITORY].dispatches
    assert run is not None
    assert run.id == str(made.run_id)
    assert asked == (1 if arrives else 2)
    assert sum(pauses) >= sum(PAUSES)


@pytest.mark.usefixtures("pauses")
def test_compiler_caches_that_are_superseded_go_and_no_other(github: GitHubServer) -> None:
    """Of 120, the newest of each SDK and those of other branches stay; one that GitHub took away meanwhile is none."""
    names = ["sdk-linux-x86_64", "sdk-linux-x86_64_all", "sdk-windows-x64"]
    keys = [f"compiled-{names[number % 3]}-{number}-1" for number in range(117)] + ["compiled-sdk-windows-x64-90-2"]
    made = [("refs/heads/main", key) for key in [*keys, "fetched-1-1"]] + [("refs/pull/1/merge", keys[0])]
    repository = github.repositories[REPOSITORY]
    repository.caches = [
        {"id": number, "ref": ref, "key": key, "version": "v", "size_in_bytes": 420_000_000}
        | dict.fromkeys(("created_at", "last_accessed_at"), f"2026-11-27T{number // 60:02}:{number % 60:02}:00Z")
        for number, (ref, key) in enumerate(made)
    ]
    gone = [Fault(status=404, message="Not Found")]
    github.faults = lambda record: gone.pop() if gone and record.method == "DELETE" else None
    services = open_forge(github).services
    deleted = services.tidy_caches("main")
    left = [keys[114], keys[115], keys[117], "fetched-1-1", keys[0]]
    assert sorted(deleted) == sorted({*keys} - {*left[:3]})
    assert [row["key"] for row in repository.caches if row["key"] != deleted[0]] == left
    assert services.tidy_caches("main") == deleted[:1]
    assert services.tidy_caches("main") == []


def test_a_list_of_assets_that_fails_is_asked_for_again(
    github: GitHubServer, pauses: list[float], tmp_path: Path
) -> None:
    forge = open_forge(github)
    forge.create_tag("v1", head_of(forge, "main"), "v1\n")
    draft = forge.create_draft("v1", title="v1", body="", prerelease=False)
    (tmp_path / "a.txt").write_text("a")
    asset = forge.upload(draft, "a.txt", tmp_path / "a.txt")
    faults = [Fault(status=502)]
    github.faults = lambda record: faults.pop() if faults and record.operation.endswith("/assets") else None
    forge.delete_asset(draft, asset)
    assert pauses == [1]
    assert not github.repositories[REPOSITORY].releases[int(draft.id)].assets


@pytest.fixture
def timings(github: GitHubServer) -> GitHubRuns:
    return GitHubRuns(open_forge(github).client)


def test_runs_of_more_than_a_page(github: GitHubServer, timings: GitHubRuns) -> None:
    made = [github.add_run(REPOSITORY, "snapshot.yml", created=MONDAY + timedelta(hours=hour)) for hour in range(250)]
    found = timings.since(MONDAY + timedelta(hours=10))
    assert [run.id for run in found] == [str(id) for id in reversed(made[10:])]
    assert {run.workflow for run in found} == {"snapshot.yml"}


def test_runs_of_more_than_a_search(github: GitHubServer, timings: GitHubRuns) -> None:
    for minute in range(1205):
        github.add_run(REPOSITORY, "ci.yml", created=MONDAY + timedelta(minutes=minute))
    assert len(timings.since(MONDAY)) == 1205


def test_jobs_with_their_steps(github: GitHubServer, timings: GitHubRuns) -> None:
    github.repositories[REPOSITORY].git.run("update-ref", "refs/tags/snapshot-20261116.01", "refs/heads/main")
    run = github.add_run(REPOSITORY, "release.yml", ref="snapshot-20261116.01", created=MONDAY)
    end = MONDAY + timedelta(hours=2)
    step = ("Build the SDK", MONDAY, end, "success")
    github.add_job(run, "sdk", labels=["ubuntu-24.04"], started=MONDAY, completed=end, steps=[step])
    github.add_job(run, "pypi", labels=[], started=MONDAY, completed=MONDAY, conclusion="skipped")
    github.add_job(run, "wheels", labels=["macos-15"], started=end, completed=None, conclusion=None)
    (found,) = timings.since(MONDAY)
    assert (found.ref, found.status) == ("snapshot-20261116.01", "in_progress")
    sdk, wheels = timings.jobs(found)
    assert (sdk.name, sdk.labels, sdk.started_at, sdk.completed_at) == ("sdk", ("ubuntu-24.04",), MONDAY, end)
    assert [(s.name, s.started_at, s.completed_at, s.conclusion) for s in sdk.steps] == [step]
    assert (wheels.status, wheels.conclusion, wheels.completed_at) == ("in_progress", None, None)


# -- pull requests of an integrate: each said and done once, whatever becomes of the answers --------------------------

BRANCH = "integrates/llvm-20261120"


@pytest.fixture
def pulls(github: GitHubServer, pauses: list[float]) -> GitHubPullRequests:
    github.repositories[REPOSITORY].git.run("update-ref", f"refs/heads/{BRANCH}", "refs/heads/main")
    token = github.token(scopes=("actions", "contents", "issues", "pull_requests"))
    return GitHubPullRequests(open_forge(github, token).client)


def lose_answers(github: GitHubServer, drop: Literal["", "before", "after"]) -> None:
    """The first try of each write gets no answer."""
    written: set[str] = set()

    def fault(record: Record) -> Fault | None:
        key = f"{record.method} {record.path}"
        if not drop or record.method == "GET" or key in written:
            return None
        written.add(key)
        return Fault(drop=drop)

    github.faults = fault


@pytest.mark.parametrize("drop", ["", "before", "after"])
def test_a_pull_request_from_draft_to_review(
    github: GitHubServer, pulls: GitHubPullRequests, drop: Literal["", "before", "after"]
) -> None:
    lose_answers(github, drop)
    first = pulls.ensure_draft(branch=BRANCH, base="main", title="Integrate LLVM", body="3 behind")
    assert pulls.ensure_draft(branch=BRANCH, base="main", title="Integrate LLVM", body="2 behind") == first
    for text in ("stopped", "stopped", "goes on"):
        pulls.comment(branch=BRANCH, key="walk", body=text)
    pulls.mark_ready(branch=BRANCH)
    pulls.mark_ready(branch=BRANCH)
    found = [issue for issue in github.repositories[REPOSITORY].issues if "head" in issue]
    assert [(pull["title"], pull["body"], pull["draft"]) for pull in found] == [("Integrate LLVM", "2 behind", False)]
    comments = list(pulls._required(BRANCH).get_issue_comments())
    assert [comment.body for comment in comments] == ["<!-- mlir-release:walk -->\ngoes on"]


def test_a_branch_without_a_pull_request(pulls: GitHubPullRequests) -> None:
    refused(
        lambda: pulls.comment(branch=BRANCH, key="walk", body="stopped"),
        "not-on-forge",
        "there is no open pull request for",
    )


@pytest.mark.parametrize("drop", ["", "before", "after"])
def test_ci_runs_once_at_each_head(
    github: GitHubServer, pulls: GitHubPullRequests, drop: Literal["", "before", "after"]
) -> None:
    lose_answers(github, drop)
    repository = github.repositories[REPOSITORY]
    repository.settings["workflows"] = ("ci.yml", "llvm.yml")
    first = repository.git.resolve(f"refs/heads/{BRANCH}")
    assert first is not None
    second = commit_files(repository.git, first, {"a": b"1"}, "On\n", repository.signature("bot"))
    pulls.dispatch(workflow="llvm.yml", branch=BRANCH)  # another workflow at the same commit is none
    for _ in range(2):
        pulls.ensure_ci(workflow="ci.yml", branch=BRANCH, head=first)
    repository.git.run("update-ref", f"refs/heads/{BRANCH}", second)
    for _ in range(2):
        pulls.ensure_ci(workflow="ci.yml", branch=BRANCH, head=second)
    heads = [run["head_sha"] for run in repository.runs if run["workflow"] == "ci.yml"]
    assert heads == [first, second]


def test_a_workflow_that_is_not_there(pulls: GitHubPullRequests) -> None:
    refused(
        lambda: pulls.dispatch(workflow="nothing.yml", branch=BRANCH),
        "not-on-forge",
        "the repository has no workflow",
    )
