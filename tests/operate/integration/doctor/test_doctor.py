"""The doctor on a GitHub that answers as its description says, an index on loopback, and a local forge."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from mlir_release.ground.errors import ReleaseError
from mlir_release.operate.doctor import actions
from mlir_release.operate.doctor.files import WORKFLOWS
from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.settings import SettingsReader
from tests import healthy
from tests.github_server import GitHubServer
from tests.github_server.records import Fault, Record
from tests.healthy import (
    ACTION,
    CALLER,
    CALLER_PATH,
    CI_PATH,
    COMPOSITE,
    INTEGRATE,
    ROOT,
    examined,
)  # fmt: skip
from tests.pin_factory import make_pin
from tests.refusals import refused
from tests.serving import make_stub, package_index, pypi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = "llvm/mlir-wheels"
#: The distributions of the shipped targets.toml.
NAMES = (
    "mlir", "mlir-core", "mlir-full", "mlir-all", "mlir-asserts", "mlir-sdk", "mlir-sdk-tools", "mlir-test-tools",
    "llvm-libclang",
)  # fmt: skip
FILES = healthy.signed_by(REPOSITORY, healthy.FILES)
RELEASE_FILES = healthy.signed_by(REPOSITORY, healthy.RELEASE_FILES)
TAGS = {"ref_name": {"include": ["refs/tags/snapshot-*", "refs/tags/llvm-*", "refs/tags/abandoned/*"], "exclude": []}}
PINS = {"ref_name": {"include": ["refs/heads/snapshots", "refs/heads/release/*"], "exclude": []}}
SETTINGS: dict[str, Any] = {
    "workflows": (*WORKFLOWS, "walk.yml"),
    "immutable": True,
    "private_reports": True,
    "teams": ("@llvm/mlir-release",),
    "pages": "workflow",
    "environments": {"pypi": ["llvm-*"], "github-pages": None},
    "environment_reviewers": {"pypi": ("octocat",)},
    "rulesets": [
        {"target": "tag", "conditions": TAGS, "rules": [{"type": "deletion"}, {"type": "update"}]},
        {"rules": [{"type": "deletion"}, {"type": "non_fast_forward"}, {"type": "pull_request"}]},
        {"conditions": PINS, "rules": [{"type": "deletion"}, {"type": "non_fast_forward"}]},
    ],
    "secrets": ("INTEGRATE_TOKEN",),
    "variables": {"MLIR_RELEASE_PYPI_OWNER": "llvm", "MLIR_RELEASE_SCHEDULE": "on"},
}
ADMINISTRATOR = ("repo", "admin", "contents")


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        add_used(server)
        yield server


def add_used(github: GitHubServer) -> None:
    """The repositories of everything that the workflows use, at the commits that they name."""
    pinned = re.findall(r"([\w-]+/[\w-]+)[\w/.-]*@([0-9a-f]{40})", b"\n".join((*FILES.values(), COMPOSITE)).decode())
    commits = dict.fromkeys((commit for _, commit in pinned), "main")
    files = {f"{folder}action.yml": ACTION for folder in ("", "restore/", "save/")}
    github.add_repository("actions/checkout", files, commits=commits)
    for name, _ in pinned:
        github.repositories[name] = github.repositories["actions/checkout"]  # to make one takes a while
    github.add_repository("actions/upload-pages-artifact", {"action.yml": COMPOSITE}, commits=commits)
    called = ".github/workflows/integrate.yml"
    github.add_repository("llvm/mlir-release", {called: (ROOT / called).read_bytes()}, commits=commits)


class Doctor:
    """Runs the command, without asking PyPI unless it is told an index."""

    def __init__(self, github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.github = github
        self.monkeypatch = monkeypatch
        self.rows: list[dict[str, str]] = []
        self.errors = ""  #: what went to standard error

    def ask(self, token: str, *options: str) -> tuple[dict[str, str], int]:
        """The worst level of each check, and the exit code."""
        code = self.run(token, "--json", *(options or ("--no-pypi",)))[1]
        worst: dict[str, str] = {}
        for row in self.rows:
            worst[row["check"]] = max(
                row["level"], worst.get(row["check"], ""), key=["", "ok", "unknown", "problem"].index
            )
        return worst, code

    def run(self, token: str, *options: str, repository: str = REPOSITORY) -> tuple[str, int]:
        console.json_mode = False
        for key, value in self.github.environment(REPOSITORY, token).items():
            self.monkeypatch.setenv(key, value)
        arguments = ["doctor", "--forge", f"github:{repository}", *options]
        done = CliRunner().invoke(app, arguments, standalone_mode=False)
        if isinstance(done.exception, ReleaseError):
            raise done.exception
        assert done.exception is None, done.output
        assert not token or token not in done.output
        self.errors = done.stderr
        if "--json" in options:
            self.rows = json.loads(done.stdout)
        return done.stdout, done.return_value or 0

    def text(self, check: str) -> str:
        return "\n".join(row["text"] for row in self.rows if row["check"] == check)


@pytest.fixture
def doctor(github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.delenv("GH_TOKEN", raising=False)
    monkeypatch.delenv("MLIR_RELEASE_PYPI_OWNER", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr(actions, "capture", lambda *_, **__: healthy.NOTHING_LINTED)  # test_linters.py runs zizmor
    return Doctor(github, monkeypatch)


def well(found: dict[str, str]) -> set[str]:
    return {check for check, level in found.items() if level == "ok"}


def test_a_repository_that_is_set_up(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    found, code = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    assert set(found.values()) == {"ok"}, doctor.rows
    assert code == 0


def test_a_new_repository(github: GitHubServer, doctor: Doctor) -> None:
    snapshot = ".github/workflows/snapshot.yml"
    files = {snapshot: FILES[snapshot], "integrate.toml": INTEGRATE, CALLER_PATH: CALLER}
    bypassed = {"conditions": PINS, "rules": [{"type": "update"}], "current_user_can_bypass": "always"}
    github.add_repository(
        REPOSITORY,
        files,
        disabled=("release.yml",),
        issues=False,
        rulesets=[{"rules": [{"type": "required_status_checks"}]}, bypassed],
    )
    found, code = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    tokens = {"token-contents", "token-actions", "token-issues", "token-pull-requests"}
    assert well(found) == {*tokens, "actions", "allowed-actions", "default-permissions", "triggers", "workflow-lint",
                           "integrate-caller",
                           "job-permissions", "pinned-actions", "action-runtimes"}  # fmt: skip
    assert set(found.values()) == {"ok", "problem"}
    assert code == 7
    assert doctor.text("pin-branch").splitlines() == [
        f"jobs may not commit pins to {branch}: update (rules 2)" for branch in ("snapshots", "release/22.1.8")
    ]
    assert doctor.text("protected-branch") == (
        "main, which every release's toolkit comes from, can be changed by any job that may write contents and "
        "force-pushed and deleted"
    )


def test_without_a_token_what_is_hidden_is_unknown(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    found, code = doctor.ask("")
    assert code == 0
    hidden = {"token", "actions", "default-permissions", "immutable-releases", "pull-request-token",
              "pull-request-creation", "protected-branch", "schedule"}  # fmt: skip
    assert {check for check, level in found.items() if level == "unknown"} == hidden
    assert well(found) == found.keys() - hidden


def test_what_can_not_be_looked_at_is_one_error(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    for repository, given, branch, problem in (
        (REPOSITORY, "ghp_wrong", "main", "token-invalid"),
        ("llvm/other", token, "", "not-on-forge"),
        (REPOSITORY, token, "mian", "branch-missing"),
    ):
        options = ["--no-pypi", *(["--branch", branch] if branch else [])]
        refused(partial(doctor.run, given, *options, repository=repository), problem)


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_a_jobs_token_is_not_judged_by_what_github_says_of_users(github: GitHubServer, doctor: Doctor) -> None:
    # GitHub tells an installation that it may neither push nor pull, whatever it may do.
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    found, _ = doctor.ask(github.token(scopes=("contents",)))
    assert "token" not in found
    assert found["token-contents"] == "ok"
    assert found["token-actions"] == found["token-issues"] == found["token-pull-requests"] == "unknown"
    asked = Counter(record.path for record in github.requests if f"/{REPOSITORY}/" in record.path)
    del asked[f"/api/v3/repos/{REPOSITORY}/git/ref/heads/main"]  # which may move meanwhile
    assert [path for path, count in asked.items() if count > 1] == []
    found, code = doctor.ask(github.token(scopes=()))
    assert found["token-contents"] == "problem"
    assert code == 7
    assert not github.repositories[REPOSITORY].releases  # asking left nothing behind


def test_a_fine_grained_token_that_lacks_permissions(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    token = github.token(scopes=("contents",), kind="github_pat")

    def refuse(record: Record) -> Fault | None:
        if not record.path.endswith(("/issues", "/actions/workflows", "/pages")):
            return None
        wanted = {"issues": "issues=read", "workflows": "actions=write", "pages": "pages=read"}
        headers = {"X-Accepted-GitHub-Permissions": wanted[record.path.rpartition("/")[2]]}
        return Fault(status=403, message="Resource not accessible by personal access token", headers=headers)

    github.faults = refuse
    found, _ = doctor.ask(token)
    assert found["token-issues"] == found["token-actions"] == "problem"
    assert found["token-pull-requests"] == "unknown"
    assert found["pages"] == found["workflows"] == "unknown"
    remedies = {row["check"]: row["remedy"] for row in doctor.rows}
    assert remedies["workflows"].endswith("a token that has actions: write")
    # A reader's token is judged by its user's role.
    github.faults = lambda record: None
    found, _ = doctor.ask(github.token(scopes=(), kind="github_pat"))
    assert found["token"] == "problem"


def test_a_question_that_is_too_much_for_github_is_unknown(github: GitHubServer) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    github.faults = lambda record: Fault(status=502) if record.path.endswith("/generate-notes") else None
    waits: list[float] = []
    client = GitHubClient(REPOSITORY, token=github.token(), api=github.api_url, server=github.url, sleep=waits.append)
    seen = SettingsReader(client).observe(FILES)
    assert waits
    assert seen.token.writes is None
    assert [finding.level for finding in examined(seen) if finding.check == "token-contents"] == ["unknown"]


@pytest.mark.parametrize(("private", "check"), [(True, "token"), (False, "token-actions")])
def test_a_token_for_public_repositories(github: GitHubServer, doctor: Doctor, private: bool, check: str) -> None:
    """GitHub of workflows: "need the `repo` scope to use this endpoint"."""
    github.add_repository(REPOSITORY, FILES, **SETTINGS, private=private)
    found, _ = doctor.ask(github.token(scopes=("public_repo",), kind="ghp"))
    assert [name for name, level in found.items() if name.startswith("token") and level == "problem"] == [check]


# -- rules -----------------------------------------------------------------------------------------------------------


def test_protection_that_can_not_be_read_is_unknown(github: GitHubServer, doctor: Doctor) -> None:
    tags, _, pins = SETTINGS["rulesets"]
    settings = SETTINGS | {"protection": {"lock_branch": {"enabled": True}}, "rulesets": [tags, pins]}
    github.add_repository(REPOSITORY, FILES, **settings)
    found, _ = doctor.ask(github.token(scopes=("contents",)))
    assert (found["protected-branch"], found["pin-branch"]) == ("unknown", "ok")
    assert "how main is protected" in doctor.text("protected-branch")
    found, _ = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    assert found["protected-branch"] == "ok"
    del github.repositories[REPOSITORY].settings["protection"]
    github.repositories[REPOSITORY].settings["rulesets"] = [tags]
    found, _ = doctor.ask(github.token(scopes=("contents",)))
    assert found["protected-branch"] == "problem"  # the branch says itself that it is not protected


def test_classic_protection_may_admit_the_jobs(github: GitHubServer, doctor: Doctor) -> None:
    actions: dict[str, Any] = {"slug": "github-actions"}
    restrictions: dict[str, Any] = {
        **dict.fromkeys(("url", "users_url", "teams_url", "apps_url"), "http://x/y"), "users": [], "teams": [],
        "apps": [actions],
    }  # fmt: skip
    tags, _, pins = SETTINGS["rulesets"]
    settings = SETTINGS | {"rulesets": [tags, pins]}
    github.add_repository(REPOSITORY, FILES, **settings, protection={"restrictions": restrictions, "url": "http://x/y"})
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    assert doctor.ask(token)[0]["protected-branch"] == "problem"
    actions["slug"] = "another-app"
    assert doctor.ask(token)[0]["protected-branch"] == "ok"


def test_rulesets_of_the_organisation_count(github: GitHubServer, doctor: Doctor) -> None:
    parent = {"source_type": "Organization", "source": "llvm"}
    tags, branch, pins = SETTINGS["rulesets"]
    review = {**parent, "name": "review", "conditions": PINS, "rules": [{"type": "pull_request"}]}
    settings = SETTINGS | {"rulesets": [{**parent, **tags}, {**parent, **branch}, pins, review]}
    github.add_repository(REPOSITORY, FILES, **settings)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    found, _ = doctor.ask(token)
    assert found["tag-rules"] == found["protected-branch"] == "ok"
    assert found["pin-branch"] == "problem"
    assert "review" in doctor.text("pin-branch")


def test_a_plan_without_rulesets(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS | {"rulesets": ()}, private=True)
    upgrade = Fault(status=403, message="Upgrade to GitHub Pro or make this repository public to enable this feature.")
    github.faults = lambda record: upgrade if "/rule" in record.path else None
    found, _ = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    assert found["protected-branch"] == found["pin-branch"] == "problem"  # there are no rules
    assert found["tag-rules"] == "unknown"
    assert "Upgrade to GitHub Pro" in doctor.text("tag-rules")


def test_a_ruleset_that_only_watches_is_none(github: GitHubServer, doctor: Doctor) -> None:
    settings = SETTINGS | {"rulesets": [{**rules, "enforcement": "evaluate"} for rules in SETTINGS["rulesets"]]}
    github.add_repository(REPOSITORY, FILES, **settings)
    found, _ = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    assert found["tag-rules"] == found["protected-branch"] == found["pin-branch"] == "problem"


def test_who_passes_a_rule(github: GitHubServer, doctor: Doctor) -> None:
    review: dict[str, Any] = {
        "conditions": PINS,
        "rules": [{"type": "pull_request"}],
        "current_user_can_bypass": "always",
    }
    github.add_repository(REPOSITORY, FILES, **SETTINGS | {"rulesets": [*SETTINGS["rulesets"], review]})
    person, app = github.token(scopes=ADMINISTRATOR, kind="ghp"), github.token(scopes=("contents",))
    assert doctor.ask(person)[0]["pin-branch"] == "problem"  # an administrator passes, but jobs don't
    assert doctor.ask(app)[0]["pin-branch"] == "ok"  # this App passes
    review["bypass_actors"] = [{"actor_id": 7, "actor_type": "Integration", "bypass_mode": "always"}]
    assert doctor.ask(person)[0]["pin-branch"] == "unknown"  # whether that App commits the pin is not known
    review["bypass_actors"] = [{"actor_id": 7, "actor_type": "Integration", "bypass_mode": "pull_request"}]
    assert doctor.ask(person)[0]["pin-branch"] == "problem"


# -- files, secrets, settings ------------------------------------------------------------------------------------------


def test_a_file_where_workflows_should_be(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, {"targets.toml": FILES["targets.toml"], ".github/workflows": b"x"}, **SETTINGS)
    assert doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))[0]["files"] == "problem"
    assert ".github/workflows/snapshot.yml" in doctor.text("files")


def test_the_token_of_integrate(github: GitHubServer, doctor: Doctor) -> None:
    settings: dict[str, Any] = SETTINGS | {"secrets": [f"OTHER_{number}" for number in range(120)]}
    github.add_repository(REPOSITORY, FILES, **settings)
    place, token = github.repositories[REPOSITORY].settings, github.token(scopes=ADMINISTRATOR, kind="ghp")
    found, _ = doctor.ask(token)
    assert found["pull-request-token"] == found["pull-request-creation"] == "problem"
    place["workflow_permissions"] = {"can_approve_pull_request_reviews": True}
    found, _ = doctor.ask(token)
    assert (found["pull-request-token"], found["pull-request-creation"]) == ("problem", "ok")
    place["secrets"] = (*place["secrets"], "integrate_token")  # on the second page
    assert doctor.ask(token)[0]["pull-request-token"] == "ok"
    place["secrets"], place["organization_secrets"] = (), ("INTEGRATE_TOKEN",)
    assert doctor.ask(token)[0]["pull-request-token"] == "ok"
    place["personal"] = True  # there is no organisation
    assert doctor.ask(token)[0]["pull-request-token"] == "problem"
    del place["personal"]
    forbidden = Fault(status=404, message="Not Found")
    github.faults = lambda record: forbidden if "/organization-" in record.path else None
    assert doctor.ask(token)[0]["pull-request-token"] == "unknown"


def test_actions_that_may_not_run(github: GitHubServer, doctor: Doctor) -> None:
    selected = {"github_owned_allowed": True, "verified_allowed": False, "patterns_allowed": ["pypa/*"]}
    github.add_repository(REPOSITORY, FILES, **SETTINGS, selected_actions=selected, archived=True)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    found, _ = doctor.ask(token)
    assert (found["allowed-actions"], found["archived"]) == ("ok", "problem")
    selected["github_owned_allowed"] = False
    assert doctor.ask(token)[0]["allowed-actions"] == "problem"
    assert "actions/checkout" in doctor.text("allowed-actions")
    selected["patterns_allowed"] = ["actions/*", "pypa/*"]
    assert doctor.ask(token)[0]["allowed-actions"] == "ok"


def test_actions_that_must_be_named_by_their_commits(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS, commits_required=True)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    found, code = doctor.ask(token)
    assert (found["pinned-actions"], found["action-runtimes"], code) == ("ok", "ok", 0)
    pages = github.repositories["actions/upload-pages-artifact"]
    loose = {"action.yml": b"runs: {using: composite, steps: [{uses: actions/upload-artifact@main}]}"}
    github.add_repository("elsewhere/loose", loose, commits=pages.settings["commits"])
    github.repositories["actions/upload-pages-artifact"] = github.repositories["elsewhere/loose"]
    found, code = doctor.ask(token)
    assert (found["pinned-actions"], code) == ("problem", 7)
    assert "actions/upload-artifact@main (inside actions/upload-pages-artifact@" in doctor.text("pinned-actions")
    github.repositories[REPOSITORY].settings["commits_required"] = False
    assert doctor.ask(token)[0]["pinned-actions"] == "ok"
    found, code = doctor.ask(github.token(kind="github_pat"))  # may not see the policy
    assert (found["pinned-actions"], code) == ("unknown", 0)


def test_jobs_that_do_not_say_what_they_need(github: GitHubServer, doctor: Doctor) -> None:
    silent = b"on: push\njobs: {test: {runs-on: ubuntu-24.04}}\n"
    other = {".github/workflows/README.md": b"# no workflow", ".github/workflows/old.d/x.yml": b"nor this"}
    github.add_repository(REPOSITORY, {**FILES, CI_PATH: silent, **other}, **SETTINGS)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    found, code = doctor.ask(token)
    assert (found["default-permissions"], code) == ("ok", 0)
    github.repositories[REPOSITORY].settings["workflow_permissions"] = {"default_workflow_permissions": "write"}
    assert doctor.ask(token)[0]["default-permissions"] == "problem"
    assert "ci.yml" in doctor.text("default-permissions")


def test_the_secret_of_an_environment(github: GitHubServer, doctor: Doctor) -> None:
    job = b"""\
on: {workflow_dispatch: {}}
jobs:
  walk:
    runs-on: ubuntu-24.04
    environment: walking
    permissions: {contents: write}
    steps:
      - uses: llvm/mlir-release/actions/integrate@v1
        with: {command: run, token: "${{ secrets.INTEGRATE_TOKEN }}"}
"""
    settings = SETTINGS | {"secrets": (), "environments": {**SETTINGS["environments"], "walking": None}}
    github.add_repository(REPOSITORY, {**FILES, CALLER_PATH: job}, **settings)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    assert doctor.ask(token)[0]["pull-request-token"] == "problem"
    github.repositories[REPOSITORY].settings["environment_secrets"] = {"walking": ("INTEGRATE_TOKEN",)}
    assert doctor.ask(token)[0]["pull-request-token"] == "ok"


@pytest.mark.parametrize(
    ("refs", "reviewers", "level", "said"),
    [
        (["llvm-*"], ("octocat",), "ok", ""),
        (["llvm-*"], (), "ok", ""),
        (["llvm-*", "refs/heads/main"], ("octocat",), "problem", ""),
        (["refs/heads/llvm-*"], ("octocat",), "problem", ""),
        ("protected", (), "problem", "protected branches"),
        (None, (), "problem", "any branch or tag"),
    ],
)
def test_who_may_deploy_to_pypi_and_must_approve_that(
    github: GitHubServer, doctor: Doctor, refs: Any, reviewers: tuple[str, ...], level: str, said: str
) -> None:
    settings = {"environments": {"pypi": refs}, "environment_reviewers": {"pypi": reviewers}}
    github.add_repository(REPOSITORY, FILES, **SETTINGS | settings)
    found, _ = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    assert (found["environment"], found["environment-reviewers"]) == (level, "ok" if reviewers else "problem")
    assert doctor.text("environment").endswith(said)


# -- the index -------------------------------------------------------------------------------------------------------


def test_the_project_on_the_index(github: GitHubServer, doctor: Doctor, tmp_path: Path) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    place = github.repositories[REPOSITORY].settings
    with pypi(tmp_path / "index", NAMES, owner="llvm", size=10**9) as url:
        found, code = doctor.ask(token, "--index-url", url)
        assert (found["pypi-owner"], found["pypi-names"], found["pypi-storage"], code) == ("ok", "ok", "ok", 0)
        assert "llvm" in doctor.text("pypi-owner")
        assert doctor.ask(token, "--index-url", url, "--owner", "somebody")[0]["pypi-owner"] == "problem"
        place["variables"] = {}
        assert doctor.ask(token, "--index-url", url)[0]["pypi-owner"] == "problem"  # the job would refuse, too
        assert doctor.ask(token, "--index-url", url, "--owner", "llvm")[0]["pypi-owner"] == "ok"
        stranger = github.token(scopes=("contents",))
        assert doctor.ask(stranger, "--index-url", url)[0]["pypi-owner"] == "unknown"
    with pypi(tmp_path / "index", NAMES, owner="llvm", size=9 * 10**9) as url:
        found, code = doctor.ask(token, "--index-url", url, "--owner", "llvm")
        assert (found["pypi-storage"], code) == ("problem", 7)


def test_an_index_that_does_not_tell_owners(github: GitHubServer, doctor: Doctor, tmp_path: Path) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS)
    token = github.token(scopes=ADMINISTRATOR, kind="ghp")
    (tmp_path / "packages").mkdir()
    with package_index(tmp_path / "packages", "-P", ".", "-a", ".") as url:
        found, _ = doctor.ask(token, "--index-url", f"{url}simple/")
        assert found["pypi-owner"] == "ok"  # nobody has the name, and the first upload takes it
        assert found["pypi-names"] == "problem"  # nor the others, which are never uploaded
        assert "mlir-core is free" in doctor.text("pypi-names")
        assert "mlir-full is free" in doctor.text("pypi-names")
        make_stub(tmp_path / "packages")
        found, _ = doctor.ask(token, "--index-url", f"{url}simple/")
        assert found["pypi-owner"] == "problem"
        assert "0.0.1" in doctor.text("pypi-owner")
        assert found["pypi-storage"] == "unknown"  # it does not tell sizes, either


# -- how it is shown -------------------------------------------------------------------------------------------------


def test_people_see_a_table_and_what_to_do(github: GitHubServer, doctor: Doctor) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS | {"pages": ""})
    shown, code = doctor.run(github.token(scopes=ADMINISTRATOR, kind="ghp"), "--no-pypi")
    assert code == 7
    assert "\x1b" not in shown  # no colour off a terminal
    assert any(line.split() == ["problem", "pages", "Pages", "are", "off"] for line in shown.splitlines())
    assert "To do:\n  - pages: Settings > Pages > Source: GitHub Actions\n1 problem, 0 unknown, " in shown


def test_in_actions_there_are_annotations_and_a_summary(
    github: GitHubServer, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    github.add_repository(REPOSITORY, FILES, **SETTINGS | {"pages": ""})
    console.in_actions = True
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    found, code = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"))
    assert (found["pages"], code) == ("problem", 7)
    assert "::warning::pages: Pages are off%0Ato do: Settings > Pages" in doctor.errors
    summary = (tmp_path / "summary").read_text()
    assert "| pages | problem | Pages are off | Settings > Pages > Source: GitHub Actions |" in summary


# -- a local forge -----------------------------------------------------------------------------------------------------


def local(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[dict[str, str], int]:
    console.json_mode = False
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    done = CliRunner().invoke(app, ["doctor", "--forge", f"local:{folder}", "--json", *options], standalone_mode=False)
    assert done.exception is None, done.output
    return {row["check"]: row["level"] for row in json.loads(done.stdout)}, done.return_value or 0


def test_a_local_forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.release_stage import make_stage

    forge = make_stage(tmp_path).forge
    head = head_of(forge, "main")
    forge.commit("main", expected=head, files=RELEASE_FILES, message="Begin")
    well = {"git": "ok", "branch": "ok", "files": "ok", "pins": "ok", "projects": "ok", "cpython": "ok"}
    assert local(forge.root, monkeypatch) == (well, 0)
    make_pin(forge, "c" * 40, {"toolkit.py": b"by hand"})
    assert local(forge.root, monkeypatch) == (well | {"pins": "problem"}, 7)
    make_pin(forge, "c" * 40)
    assert local(forge.root, monkeypatch) == (well, 0)
    assert local(forge.root, monkeypatch, "--branch", "other")[0]["branch"] == "problem"
    head = head_of(forge, "main")
    forge.commit("main", expected=head, files={"llvm-project.version": b"main\n"}, message="Break")
    assert local(forge.root, monkeypatch) == (well | {"files": "problem"}, 7)
