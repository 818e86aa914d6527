"""Each thing that can be set up wrongly is found, alone, with a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from mlir_release.ground.console import in_markdown
from mlir_release.operate.doctor.files import FIRST_RUN_FILE, SECURITY_FILE
from mlir_release.operate.doctor.results import Examination, Finding
from mlir_release.release.forge.codeowners import CODEOWNERS_FILE
from mlir_release.release.forge.observations import (
    AllowedActions,
    BranchRules,
    Environment,
    Names,
    Observations,
    Refusal,
    Rule,
    Token,
    WorkflowDefaults,
)
from tests.healthy import CALLER_PATH, CI_PATH, FILES, KEPT, TAG_RULES, WELL, examined, found, signed_by

if TYPE_CHECKING:
    from collections.abc import Collection

CREATION = Rule(kind="creation", ruleset="closed", include=("~ALL",))
ELSEWHERE = Environment(refs="selected", branches=("trunk",), tags=("main",))
REVIEW = Rule(kind="pull_request", ruleset="review")
KEPT_ONLY = BranchRules(rules=KEPT, protection=frozenset())


def without(path: str) -> dict[str, bytes]:
    return {name: content for name, content in FILES.items() if name != path}


def rules_of(*rules: Rule, classic: Collection[str] = ()) -> BranchRules:
    return BranchRules(rules=rules, protection=frozenset(classic))


def findings(seen: Observations, level: str) -> list[Finding]:
    return [finding for finding in examined(seen) if finding.level == level]


def test_nothing_is_wrong_where_nothing_is_wrong() -> None:
    found = examined(WELL)
    assert [finding for finding in found if finding.level != "ok"] == []
    assert {finding.check for finding in found} == {
        "token-contents", "token-actions", "token-issues", "token-pull-requests", "files", "triggers",
        "job-permissions", "workflow-lint", "actions", "allowed-actions", "workflows", "default-permissions",
        "protected-branch", "pin-branch", "tag-rules",
        "immutable-releases", "issues", "pages", "pages-environment", "environment", "environment-reviewers",
        "pull-request-token",
        "integrate-caller", "pinned-actions", "action-runtimes",
        "code-owners", "security-policy", "private-reports", "signer", "schedule",
    }  # fmt: skip


def first_run(level: str) -> bytes:
    answers = [Finding("draft", "ok", "listed"), {"check": "after", "level": level, "text": "x", "remedy": "y"}]
    return msgspec.json.encode({"asked": "2026-11-28", "answers": answers})


def test_answers_of_a_first_run_that_are_well() -> None:
    found = examined(replace(WELL, files={**FILES, FIRST_RUN_FILE: first_run("ok")}))
    assert [finding.text for finding in found if finding.check == "first-run"] == [
        "all 2 answers of GitHub's to the first run of 2026-11-28 are as they should be"
    ]


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("token", {"token": Token(kind="classic", scopes=frozenset({"read:org"}), role=True)}),
        ("token", {"token": Token(kind="classic", scopes=frozenset({"public_repo"}), role=True), "private": True}),
        ("token", {"token": Token(kind="classic", scopes=frozenset({"repo"}), role=False)}),
        ("token", {"token": Token(kind="fine-grained", role=False)}),
        ("token-actions", {"token": Token(kind="classic", scopes=frozenset({"public_repo"}), role=True)}),
        ("files", {"files": {path: text for path, text in FILES.items() if not path.endswith("pages.yml")}}),
        ("default-branch", {"default_branch": "master"}),
        ("default-branch", {"default_branch": "master", "branch": "master"}),
        ("actions", {"actions_enabled": False}),
        ("archived", {"archived": True}),
        ("allowed-actions", {"allowed_actions": AllowedActions(policy="local_only")}),
        ("allowed-actions", {"allowed_actions": AllowedActions(policy="selected", patterns=("actions/*",))}),
        ("allowed-actions", {"allowed_actions": AllowedActions(policy="selected", github_owned=True)}),
        (
            "allowed-actions",
            {
                "allowed_actions": AllowedActions(
                    policy="selected", github_owned=True, verified=True, patterns=("!actions/checkout@*",)
                )
            },
        ),
        ("workflows", {"workflows": {".github/workflows/snapshot.yml": "disabled_inactivity"}}),
        ("protected-branch", {"rules": BranchRules(rules=KEPT, protection=frozenset())}),
        ("protected-branch", {"rules": BranchRules(rules=(REVIEW,), protection=frozenset())}),
        ("protected-branch", {"rules": BranchRules(rules=(REVIEW, KEPT[0]), protection=frozenset())}),
        ("protected-branch", {"rules": rules_of(*KEPT, replace(REVIEW, bypass="asker"))}),
        ("protected-branch", {"rules": rules_of(*KEPT, Rule(kind="required_status_checks"))}),
        ("protected-branch", {"rules": rules_of(classic={"lock_branch", "allow_deletions"})}),
        ("protected-branch", {"rules": rules_of(classic={"restrictions", "allow_force_pushes"})}),
        ("protected-branch", {"rules": rules_of(classic={"required_status_checks"})}),
        ("pin-branch", {"pins": {"snapshots": rules_of(*KEPT, REVIEW)}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(*KEPT, Rule(kind="required_linear_history"))}}),
        ("pin-branch", {"pins": {"snapshots": KEPT_ONLY, "release/22.1.8": rules_of(*KEPT, Rule(kind="creation"))}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(classic={"lock_branch"})}}),
        ("pin-branch", {"pins": {"snapshots": rules_of()}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(KEPT[0])}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(classic={"url", "allow_force_pushes"})}}),
        ("tag-rules", {"tag_rules": TAG_RULES[:1]}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, include=("refs/tags/llvm-*",)) for rule in TAG_RULES)}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, exclude=("refs/tags/snapshot-*",)) for rule in TAG_RULES)}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, include=("~DEFAULT_BRANCH",)) for rule in TAG_RULES)}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, include=("refs/*",)) for rule in TAG_RULES)}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, exclude=("refs/tags/abandoned/*",)) for rule in TAG_RULES)}),
        ("schedule", {"variables": Names(seen={"MLIR_RELEASE_PYPI_OWNER": "llvm", "MLIR_RELEASE_SCHEDULE": "off"})}),
        ("first-run", {"files": {**FILES, FIRST_RUN_FILE: b'{"asked": "2026-11-28", "answers": [{}]}'}}),
        ("first-run", {"files": {**FILES, FIRST_RUN_FILE: first_run("problem")}}),
        ("tag-creation", {"tag_rules": (*TAG_RULES, CREATION)}),
        ("immutable-releases", {"immutable": False}),
        ("issues", {"issues": False}),
        ("code-owners", {"files": without(CODEOWNERS_FILE)}),
        ("code-owners", {"files": {**FILES, CODEOWNERS_FILE: b"/mlir_release/ @llvm/mlir\n"}}),
        ("code-owners", {"files": {**FILES, CODEOWNERS_FILE: b"* @llvm/mlir\n/.github/\n"}}),
        ("code-owners", {"codeowners_errors": ("line 1: Unknown owner",)}),
        ("security-policy", {"files": without(SECURITY_FILE)}),
        ("private-reports", {"private_reports": False}),
        ("pages", {"pages": ""}),
        ("pages", {"pages": "legacy"}),
        ("pages-environment", {"environments": {**(WELL.environments or {}), "github-pages": ELSEWHERE}}),
        ("environment", {"environments": {}}),
        ("environment", {"environments": {"pypi": Environment(reviewed=True)}}),
        ("environment", {"environments": {"pypi": Environment(reviewed=True, refs="protected")}}),
        ("environment", {"environments": {"pypi": Environment(reviewed=True, refs="selected", tags=("*",))}}),
        ("environment-reviewers", {"environments": {"pypi": Environment(refs="selected", tags=("llvm-*",))}}),
        (
            "environment",
            {
                "environments": {
                    "pypi": Environment(reviewed=True, refs="selected", tags=("llvm-*",), branches=("main",))
                }
            },
        ),
        ("environment", {"environments": {"pypi": Environment(reviewed=True, refs="selected", branches=("llvm-*",))}}),
    ],
)
def test_one_thing_wrong_is_one_problem(check: str, changes: dict[str, Any]) -> None:
    found = findings(replace(WELL, **changes), "problem")
    assert {finding.check for finding in found} == {check}
    assert all(finding.remedy for finding in found)


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("files", {"files": None}),
        ("actions", {"actions_enabled": None}),
        ("default-permissions", {"defaults": None}),
        ("allowed-actions", {"allowed_actions": None}),
        ("allowed-actions", {"allowed_actions": AllowedActions(policy="selected", github_owned=True, verified=True)}),
        ("workflows", {"workflows": None}),
        ("immutable-releases", {"immutable": None}),
        ("code-owners", {"codeowners_errors": None}),
        ("private-reports", {"private_reports": None}),
        ("tag-rules", {"tag_rules": None}),
        ("tag-creation", {"tag_rules": (*TAG_RULES, replace(CREATION, bypass=None))}),
        ("protected-branch", {"rules": BranchRules(rules=None, protection=frozenset())}),
        ("protected-branch", {"rules": BranchRules(rules=KEPT, protection=None)}),
        ("protected-branch", {"rules": rules_of(*KEPT, replace(REVIEW, bypass=None))}),
        ("protected-branch", {"rules": rules_of(*KEPT, replace(REVIEW, bypass="another"))}),
        ("pin-branch", {"pins": {"snapshots": BranchRules(rules=None, protection=frozenset())}}),
        ("pin-branch", {"pins": {"snapshots": BranchRules(rules=KEPT, protection=None)}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(*KEPT, replace(REVIEW, bypass=None))}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(*KEPT, replace(REVIEW, bypass="another"))}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(*KEPT, Rule(kind="commit_message_pattern"))}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(*KEPT, Rule(kind="required_signatures"))}}),
        ("pin-branch", {"pins": {"snapshots": rules_of(classic={"required_signatures"})}}),
        ("pages", {"pages": None}),
        ("environment", {"environments": None}),
        ("pull-request-token", {"secrets": Names(seen={}, complete=False)}),
        ("token", {"token": Token(kind="none")}),
        ("token", {"token": Token(kind="classic", scopes=frozenset({"repo"}))}),
    ],
)
def test_what_is_hidden_is_unknown_and_not_ok(check: str, changes: dict[str, Any]) -> None:
    answers = examined(replace(WELL, **changes))
    assert {finding.level for finding in answers if finding.check == check} == {"unknown"}
    found = [finding for finding in answers if finding.level != "ok"]
    assert all(finding.remedy for finding in found)
    # A secret that is not seen leaves open, too, whether the job's own token opens pull requests.
    others = {finding.check for finding in found} - {check}
    assert others <= {"pull-request-creation"}


def test_what_a_plan_lacks_is_reported_in_githubs_words() -> None:
    said = "403 Upgrade to GitHub Pro or make this repository public to enable this feature."
    seen = replace(WELL, tag_rules=None, refusals={"/rulesets": Refusal(said=said)})
    (found,) = findings(seen, "unknown")
    assert said in found.text
    assert "plan" in found.remedy


def test_a_downstream_that_is_only_walked_needs_nothing_of_the_release_side() -> None:
    files = {path: text for path, text in FILES.items() if path in ("integrate.toml", CALLER_PATH)}
    bare = replace(
        WELL, files=files, branch="main", default_branch="main", immutable=False, tag_rules=(), pages="",
        environments={}, rules=rules_of(), workflows={CALLER_PATH: "active"},
    )  # fmt: skip
    found = examined(bare)
    assert {finding.level for finding in found} == {"ok"}
    assert "pull-request-token" in {finding.check for finding in found}
    asleep = replace(bare, workflows={CALLER_PATH: "disabled_inactivity"})
    assert [finding.check for finding in findings(asleep, "problem")] == ["workflows"]
    assert findings(replace(bare, workflows={CI_PATH: "disabled_manually"}), "problem") == []


def test_a_rule_that_who_asks_passes_does_not_stop_it() -> None:
    seen = replace(
        WELL,
        tag_rules=(*TAG_RULES, replace(CREATION, bypass="asker")),
        pins={"snapshots": rules_of(*KEPT, replace(REVIEW, bypass="asker"), Rule(kind="deletion", bypass=None))},
    )
    assert findings(seen, "problem") == findings(seen, "unknown") == []


@pytest.mark.parametrize("kind", ["fine-grained", "app"])
def test_permissions_that_github_does_not_show_are_unknown(kind: Any) -> None:
    role = True if kind == "fine-grained" else None
    seen = replace(WELL, token=Token(kind=kind, role=role, writes=True))
    levels = {finding.check: finding.level for finding in examined(seen) if finding.check.startswith("token")}
    assert levels == {
        "token-contents": "ok", "token-actions": "unknown", "token-issues": "unknown", "token-pull-requests": "unknown",
    }  # fmt: skip
    seen = replace(WELL, token=Token(kind=kind, role=role, writes=False, refused=frozenset({"issues"})))
    levels = {finding.check: finding.level for finding in examined(seen) if finding.check.startswith("token")}
    assert levels["token-contents"] == levels["token-issues"] == "problem"
    assert levels["token-actions"] == "unknown"
    seen = replace(WELL, token=Token(kind=kind, role=role))
    assert "token-contents" in {finding.check for finding in findings(seen, "unknown")}


def test_default_permissions_matter_where_a_job_does_not_ask() -> None:
    open_by_default = WorkflowDefaults(write=True, pull_requests=True)
    assert findings(replace(WELL, defaults=open_by_default), "problem") == []
    silent = {**FILES, CI_PATH: b"on: push\njobs: {test: {runs-on: ubuntu-24.04}}\n"}
    found = findings(replace(WELL, defaults=open_by_default, files=silent), "problem")
    assert [finding.check for finding in found] == ["default-permissions"]
    assert "ci.yml" in found[0].text
    assert findings(replace(WELL, files=silent), "problem") == []


def test_actions_may_run_that_are_named_or_of_the_same_owner() -> None:
    named = AllowedActions(policy="selected", patterns=("Actions/*", "llvm/mlir-release/*", "pypa/*"))
    assert findings(replace(WELL, allowed_actions=named), "problem") == []
    named = replace(named, patterns=("actions/*", "pypa/*"))
    (found,) = findings(replace(WELL, allowed_actions=named), "problem")
    assert found.text == "not allowed to run: llvm/mlir-release/.github/workflows/integrate.yml"
    githubs = AllowedActions(policy="selected", github_owned=True, patterns=("pypa/*",))
    assert findings(replace(WELL, allowed_actions=githubs), "problem") == [found]
    files = signed_by("llvm/wheels", FILES)
    assert findings(replace(WELL, repository="llvm/wheels", files=files, allowed_actions=named), "problem") == []


def test_a_repository_that_puts_nothing_on_pypi_needs_no_environment() -> None:
    text = FILES["targets.toml"].replace(b'distribution = "mlir"', b'distribution = "mlir-ours"')
    seen = replace(WELL, files={**FILES, "targets.toml": text}, environments={})
    assert findings(seen, "problem") == []
    assert "environment" not in {finding.check for finding in examined(seen)}


def test_remedies_are_shown_once_and_problems_first() -> None:
    found = (
        Finding(check="a", level="unknown", text="a|b", remedy="look"),
        Finding(check="b", level="problem", text="b", remedy="mend"),
        Finding(check="b", level="problem", text="c", remedy="mend"),
        Finding(check="c", level="unknown", text="c", remedy="look"),
        Finding(check="d", level="ok", text="d"),
    )
    examination = Examination(found)
    assert examination.text().splitlines() == ["To do:", "  - b: mend", "  - a, c: look", examination.count]
    assert examination.count == "2 problems, 2 unknown, 1 ok"
    table = in_markdown(examination).splitlines()
    assert table[0] == examination.count
    assert table[-2] == r"| a | unknown | a\|b | look |"
    assert len(table) == 1 + 3 + 4


#: Dots in the tags of final releases: ``llvm-22.1.8.01``; a candidate's has fewer: ``llvm-23.1rc1.01``.
FINAL_ONLY = "llvm-*.*.*.*"


@pytest.mark.parametrize(
    ("pattern", "candidates", "level"),
    [("llvm-*", False, "ok"), ("llvm-*", True, "ok"), (FINAL_ONLY, False, "ok"), (FINAL_ONLY, True, "problem")],
)
def test_the_environment_must_admit_the_candidates_that_go_to_pypi(pattern: str, candidates: bool, level: str) -> None:
    targets = FILES["targets.toml"].replace(
        b"[release]\n", b"[release]\npypi-candidates = %s\n" % str(candidates).lower().encode()
    )
    there = {"pypi": Environment(refs="selected", tags=(pattern,))}
    files = {**FILES, "targets.toml": targets}
    (finding,) = found("environment", environments=there, files=files)
    assert finding.level == level
    assert ("release candidates" in finding.text) == candidates
    (reviewers,) = found("environment-reviewers", environments=there, files=files)
    assert reviewers.level == "problem"
