"""The first run against the GitHub on loopback: what it asks, what it finds, and that nothing is left of it."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import convert, parse_json
from mlir_release.ground.errors import ForgeError
from mlir_release.operate.doctor.files import FirstRun
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import SnapshotTag
from mlir_release.release.pinning.state import tag_message
from tests.documents import read_yaml
from tests.github_server import Fault, GitHubServer
from tests.healthy import ROOT
from tests.refusals import refused
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tools import first_run
from tools.first_run import AFTER, REFUSED_STEP, WORKFLOW, ask_github, check_scratch, clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.github_server.records import Dispatch, Record

REPOSITORY = "llvm/scratch"
TARGETS = make_targets(make_row(), pythons=["cp312"])
FILES = {
    "llvm-project.version": b"b" * 40 + b"\n",
    "targets.toml": TARGETS.encode(),
    ".github/workflows/first-run.yml": b"on: workflow_dispatch\n",
}
PROTECTED = {
    "target": "tag",
    "conditions": {"ref_name": {"include": ["refs/tags/snapshot-*", "refs/tags/abandoned/*"], "exclude": []}},
    "rules": [{"type": "deletion"}, {"type": "update"}],
}


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    """A scratch repository, whose runners do what first-run.yml says."""
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, FILES, workflows=(WORKFLOW,), after="success")
        server.on_dispatch = lambda name, made: play(server, made)
        yield server


def play(server: GitHubServer, made: Dispatch) -> None:
    """The job `dispatched`: it fails in its first attempt, and is refused a name in the second."""
    repository, now = server.repositories[REPOSITORY], server.clock()
    (run,) = (run for run in repository.runs if run["id"] == made.run_id)
    attempts = repository.jobs.setdefault(made.run_id, [])
    again = bool(attempts)
    run |= {"status": "completed", "conclusion": "success" if again else "failure"}
    step = (REFUSED_STEP, now, now, "success" if again else "skipped")
    job = {"id": server.next_id(), "name": "checks: first run, dispatched", "started": now, "completed": now, "log": "",
           "conclusion": run["conclusion"], "labels": ("ubuntu-24.04",), "steps": [step]}  # fmt: skip
    after = {"id": server.next_id(), "name": AFTER, "conclusion": server.repositories[REPOSITORY].settings["after"]}
    attempts += [job, {**job, **after, "steps": []}]


def forge_of(github: GitHubServer, *scopes: str) -> GitHubForge:
    token = github.token("job", scopes=scopes or ("contents", "actions", "issues"))
    client = GitHubClient(REPOSITORY, token=token, api=github.api_url, server=github.url, sleep=lambda seconds: None)
    return GitHubForge(client, actor="octocat")


def ask(github: GitHubServer, *scopes: str) -> dict[str, tuple[str, str]]:
    """Level and text of each answer."""
    forge = forge_of(github, *scopes)
    found = ask_github(forge, make_revision("a" * 40), Matrix.parse(TARGETS), pause=lambda _: None)
    return {finding.check: (finding.level, finding.text) for finding in found}


def refs(github: GitHubServer) -> list[str]:
    return github.repositories[REPOSITORY].git.text("for-each-ref", "--format=%(refname)").split()


def nothing_is_left(github: GitHubServer) -> None:
    repository = github.repositories[REPOSITORY]
    assert refs(github) == ["refs/heads/main"]
    assert repository.releases == {}
    assert [(issue["state"], issue["labels"]) for issue in repository.issues if issue["state"] == "open"] == []
    assert not any(issue["labels"] for issue in repository.issues)


def test_everything_is_asked_and_nothing_is_left(github: GitHubServer) -> None:
    found = ask(github)
    assert {check: level for check, (level, _) in found.items()} == {
        "fresh-ref": "ok", "other-workflows": "unknown", "issue-label": "ok", "transaction": "ok", "draft": "ok",
        "publish-older": "unknown", "rerun": "ok", "out-of-time": "ok", "abandon": "ok", "clean-up": "ok",
    }  # fmt: skip
    assert "(409)" in found["rerun"][1]
    nothing_is_left(github)
    assert [made.workflow for made in github.repositories[REPOSITORY].dispatches] == [WORKFLOW]  # and no release.yml


@pytest.mark.parametrize("refused", [False, True])
def test_a_ref_at_a_commit_with_other_workflows(github: GitHubServer, refused: bool) -> None:
    change_workflow(github)
    level, text = ask(github, "contents", "actions", "issues", *([] if refused else ["workflows"]))["other-workflows"]
    assert level == "ok"
    assert ("Resource not accessible by integration" in text) == refused
    nothing_is_left(github)


def change_workflow(github: GitHubServer) -> None:
    forge = forge_of(github, "contents", "workflows")
    head = forge.head("main")
    forge.commit("main", expected=head, files={".github/workflows/first-run.yml": b"on: {}\n"}, message="Change it")


@pytest.mark.parametrize("refused", [False, True])
def test_a_release_whose_tag_has_other_workflows(github: GitHubServer, refused: bool) -> None:
    change_workflow(github)
    refusals = [Fault(status=403, message="Resource not accessible by integration")] if refused else []
    github.faults = lambda record: (
        refusals.pop() if refusals and "PATCH /repos/{owner}/{repo}/releases" in record.operation else None
    )
    level, text = ask(github, "contents", "actions", "issues", "workflows")["publish-older"]
    assert (level, "refuses to publish" in text) == (("problem", True) if refused else ("ok", False))
    nothing_is_left(github)


def test_a_run_that_was_killed_after_it_published_is_cleaned_up(github: GitHubServer) -> None:
    change_workflow(github)
    ask_until(github, "POST", "/git/trees", "contents", "actions", "issues", "workflows")
    assert [release.draft for release in github.repositories[REPOSITORY].releases.values()] == [False]
    check_scratch(forge_of(github))
    assert clean(forge_of(github, "contents", "actions", "issues", "workflows")).level == "ok"
    nothing_is_left(github)


def test_a_job_that_is_skipped_after_one_that_ran_out_of_time(github: GitHubServer) -> None:
    github.repositories[REPOSITORY].settings["after"] = "skipped"
    assert ask(github)["out-of-time"] == (
        "problem",
        "a job with `!cancelled()` is skipped after one that ran out of time",
    )


def test_what_github_refuses_is_a_problem_and_the_rest_is_asked(github: GitHubServer) -> None:
    found = ask(github, "contents", "actions")
    assert found["issue-label"][0] == "problem"
    assert found["rerun"][0] == "ok"
    nothing_is_left(github)


def test_an_issue_whose_label_is_dropped_is_closed_all_the_same(github: GitHubServer) -> None:
    issues = github.repositories[REPOSITORY].issues

    def drop(record: Record) -> None:
        for issue in issues:
            issue["labels"] = []

    github.faults = drop
    assert ask(github)["issue-label"] == ("problem", "a new issue has no label")
    nothing_is_left(github)


def test_tags_that_rules_protect_are_abandoned(github: GitHubServer) -> None:
    github.repositories[REPOSITORY].settings["rulesets"] = [PROTECTED]
    level, text = ask(github)["clean-up"]
    assert level == "unknown"
    assert "Cannot delete this ref" in text
    left = [name for name in refs(github) if name != "refs/heads/main"]
    assert [name.partition("snapshot")[0] for name in left] == ["refs/tags/abandoned/", "refs/tags/"]


def ask_until(github: GitHubServer, method: str, path: str, *scopes: str) -> None:
    """Let the job's token be revoked at a request, so that nothing of the run comes after it."""
    revoked: list[Record] = []

    def refuse(record: Record) -> Fault | None:
        if revoked or (record.method == method and path in record.path):
            revoked.append(record)
        return Fault(status=401, message="Bad credentials") if revoked else None

    github.faults = refuse
    with pytest.raises(ForgeError):
        ask(github, *scopes)
    github.faults = lambda record: None


def test_a_run_that_was_killed_is_cleaned_up_by_the_next(github: GitHubServer) -> None:
    ask_until(github, "POST", "/rerun-failed-jobs")
    assert len(refs(github)) > 2
    assert clean(forge_of(github)).text == "nothing is left of first runs"
    nothing_is_left(github)


PEOPLES = (
    "heads/first-run-docs-by-ada", "heads/first-run-old", "heads/first-run/notes", "heads/first-running-total",
    "heads/first-run/run-1/pins", "tags/first-run-1.0", "tags/first-run/run-1",
)  # fmt: skip


def test_what_people_made_stays_whatever_its_name(github: GitHubServer) -> None:
    forge, repository = forge_of(github), github.repositories[REPOSITORY]
    head = forge.head("main")
    assert head is not None
    for name in PEOPLES:
        repository.git.run("update-ref", f"refs/{name}", head)
    forge.create_tag("first-run/local-0123456789abcdef", head, "The first run of the year\n")
    message = tag_message(
        SnapshotTag(date(2026, 11, 20), 1), revision="b" * 40, request_id="first-run-of-ada",
        wheel_version="20261120.1",
    )  # fmt: skip
    forge.create_tag("snapshot-20261120.01", head, message)
    forge.create_draft("snapshot-20261120.01", title="Ada's", body="", prerelease=False)
    forge.services.tracker.open("mlir-linux", "mlir-linux fails", "See its log.")
    before, drafts = refs(github), list(repository.releases)
    clean(forge)
    assert (refs(github), list(repository.releases)) == (before, drafts)
    assert ask(github)["clean-up"][0] == "ok"
    assert (refs(github), list(repository.releases)) == (before, drafts)
    assert [issue["labels"] for issue in repository.issues if issue["state"] == "open"] == [["release-target"]]


def test_the_label_of_issues_that_people_have_closed_stays(github: GitHubServer) -> None:
    tracker = forge_of(github).services.tracker
    tracker.close(tracker.open("mlir-linux", "mlir-linux fails", "See its log."), "It passes.")
    ask(github)
    assert github.repositories[REPOSITORY].issues[0]["labels"] == ["release-target"]


def publish_release(github: GitHubServer) -> GitHubForge:
    """A release that people have published."""
    forge = forge_of(github)
    head = forge.head("main")
    assert head is not None
    forge.create_tag("v1", head, "v1\n")
    forge.publish(forge.create_draft("v1", title="v1", body="", prerelease=False))
    return forge


def test_a_dry_run_says_what_would_go(github: GitHubServer) -> None:
    ask_until(github, "DELETE", "/labels/")
    before = refs(github)
    snapshot, run = (name.removeprefix("refs/tags/") for name in before[-1:-3:-1])
    assert clean(forge_of(github), dry_run=True).text == (
        f"would delete the label release-target, {snapshot}, abandoned/{snapshot}, {run}/pins, {run}"
    )
    assert refs(github) == before
    clean(forge_of(github))
    nothing_is_left(github)


@pytest.mark.parametrize("command", ["clean", "github"])
def test_a_repository_that_people_use_is_refused(
    github: GitHubServer, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_release(github)
    for name, value in github.environment(REPOSITORY, github.token("job")).items():
        monkeypatch.setenv(name, value)
    refused(lambda: run(command, "--forge", f"github:{REPOSITORY}"), "release-unsuitable")


def test_a_repository_with_releases_is_spared_unless_told(github: GitHubServer) -> None:
    forge = publish_release(github)
    refused(lambda: check_scratch(forge), "release-unsuitable")
    check_scratch(forge, anyway=True)
    assert ask(github)["transaction"][0] == "ok"
    assert refs(github) == ["refs/heads/main", "refs/tags/v1"]


# -- the other jobs --------------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[list[dict[str, str]], int]:
    console.json_mode = False
    done = CliRunner().invoke(first_run.first_run, [*arguments, "--json"], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout), done.return_value or 0


def test_the_answers_of_all_jobs_make_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout, answers, outputs = tmp_path / "checkout", tmp_path / "answers", tmp_path / "outputs"
    checkout.mkdir()
    (checkout / "targets.toml").write_text(TARGETS)
    (label,) = {runtime.runner for runtime in Matrix.parse(TARGETS).runtimes}
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    (row,), _ = run("runner", label, "--output", str(answers / f"{label}.json"))
    assert "the toolkit runs on CPython 3." in row["text"]
    (answers / "github.json").write_text(json.dumps([{"check": "draft", "level": "ok", "text": "fine", "remedy": ""}]))
    digest = outputs.read_text().splitlines()[1]
    handed = json.dumps({"file-0": f"{label} = {digest}"})
    options = (str(answers), "-C", str(checkout), "--handed-over")
    rows, _ = run("report", *options, handed, "--record", str(tmp_path / "first-run.json"))
    kept = convert(parse_json((tmp_path / "first-run.json").read_bytes()), FirstRun)
    assert [answer.check for answer in kept.answers] == [found["check"] for found in rows]
    assert [(found["check"], found["level"]) for found in rows if found["check"] != "runner"] == [
        ("draft", "ok"), ("handed-over", "ok"),
    ]  # fmt: skip
    assert "fine" in (tmp_path / "summary").read_text()
    (answers / "github.json").unlink()
    rows, code = run("report", *options, "{}")
    assert {found["check"] for found in rows if found["level"] == "problem"} >= {"github", "handed-over"}
    assert code == 7
    (answers / "github.json").write_text("[1]")
    refused(lambda: run("report", *options, "{}"), "input-invalid")
    (answers / "github.json").unlink()
    (answers / "github.json").mkdir()
    refused(lambda: run("report", *options, "{}"), "input-invalid")


def test_the_workflow_asks_each_runner_of_the_build_matrix() -> None:
    jobs = read_yaml(ROOT / ".github" / "workflows" / WORKFLOW)["jobs"]
    runners = jobs["runner"]["strategy"]["matrix"]["runner"]
    shipped = Matrix.parse((ROOT / "targets.toml").read_text(encoding="utf-8"))
    assert set(runners) == {runtime.runner for runtime in shipped.runtimes}
    assert list(jobs["runner"]["outputs"]) == [f"file-{number}" for number in range(len(runners))]
    assert REFUSED_STEP in {step["name"] for step in jobs["dispatched"]["steps"]}
    assert jobs["after"]["name"] == AFTER
    assert "!cancelled()" in jobs["after"]["if"]
    (step,) = jobs[jobs["after"]["needs"]]["steps"]
    assert int(step["run"].split()[1]) > 60 * jobs["out-of-time"]["timeout-minutes"]
