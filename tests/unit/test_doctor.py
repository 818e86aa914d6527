"""Each thing that can be set up wrongly is found, alone, with a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mlir_release.doctor import PYPI_LIMIT, REQUIRED_FILES, Observations, TagRule, examine

RULES = tuple(
    TagRule(kind=kind, include=("refs/tags/snapshot-*", "refs/tags/llvm-*")) for kind in ("update", "deletion")
)

WELL = Observations(
    repository="llvm/mlir-wheels",
    branch="main",
    default_branch="main",
    may_push=True,
    scopes=None,
    files=frozenset({*REQUIRED_FILES, "integrate.toml"}),
    actions_enabled=True,
    workflows=dict.fromkeys((path for path in REQUIRED_FILES if path.endswith(".yml")), "active"),
    immutable=True,
    tag_rules=RULES,
    branch_rules=frozenset({"deletion", "non_fast_forward"}),
    issues=True,
    pages="workflow",
    environments={"pypi": ("llvm-*",)},
    secrets=frozenset({"INTEGRATE_TOKEN"}),
    pypi_owners=frozenset({"llvm"}),
    pypi_bytes=10**9,
    pypi_asked=True,
)
OWNERS = frozenset({"llvm"})


def test_nothing_is_wrong_where_nothing_is_wrong() -> None:
    found = examine(WELL, owners=OWNERS)
    assert {finding.level for finding in found} == {"ok"}
    assert len(found) == 14


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("token", {"may_push": False}),
        ("token", {"scopes": frozenset({"read:org"})}),
        ("files", {"files": frozenset({"targets.toml", "integrate.toml"})}),
        ("default-branch", {"default_branch": "master"}),
        ("actions", {"actions_enabled": False}),
        ("workflows", {"workflows": {".github/workflows/snapshot.yml": "disabled_inactivity"}}),
        ("pin-branch", {"branch_rules": frozenset({"pull_request"})}),
        ("tag-rules", {"tag_rules": RULES[:1]}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, include=("refs/tags/llvm-*",)) for rule in RULES)}),
        ("tag-rules", {"tag_rules": tuple(replace(rule, exclude=("refs/tags/snapshot-*",)) for rule in RULES)}),
        ("tag-creation", {"tag_rules": (*RULES, TagRule(kind="creation", include=("~ALL",)))}),
        ("immutable-releases", {"immutable": False}),
        ("issues", {"issues": False}),
        ("pages", {"pages": ""}),
        ("pages", {"pages": "legacy"}),
        ("environment", {"environments": {}}),
        ("environment", {"environments": {"pypi": None}}),
        ("environment", {"environments": {"pypi": ("*",)}}),
        ("pull-request-token", {"secrets": frozenset()}),
        ("pypi-owner", {"pypi_owners": frozenset({"somebody"})}),
        ("pypi-storage", {"pypi_bytes": int(PYPI_LIMIT * 0.9)}),
    ],
)
def test_one_thing_wrong_is_one_problem(check: str, changes: dict[str, Any]) -> None:
    found = examine(replace(WELL, **changes), owners=OWNERS)
    problems = [finding for finding in found if finding.level == "problem"]
    assert {finding.check for finding in problems} == {check}
    assert all(finding.remedy for finding in problems)


def test_a_rule_that_the_bot_bypasses_does_not_stop_it() -> None:
    rule = TagRule(kind="creation", include=("~ALL",), bypassed=True)
    assert all(finding.level == "ok" for finding in examine(replace(WELL, tag_rules=(*RULES, rule)), owners=OWNERS))


@pytest.mark.parametrize(
    "field",
    ["may_push", "actions_enabled", "workflows", "immutable", "tag_rules", "branch_rules", "pages", "environments",
     "secrets", "pypi_owners", "pypi_bytes"],
)  # fmt: skip
def test_what_is_hidden_is_unknown_and_not_well(field: str) -> None:
    changed: Any = {field: None}
    found = examine(replace(WELL, **changed), owners=OWNERS)
    assert [finding.level for finding in found if finding.level != "ok"] == ["unknown"]
