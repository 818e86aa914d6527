"""A repository at which nothing is wrong: this one's own files, and those of a downstream that is walked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from mlir_release.ground.programs.process import Captured
from mlir_release.operate.doctor import actions
from mlir_release.operate.doctor.checks import TABLE, ask, look, run_checks
from mlir_release.operate.doctor.files import REQUIRED, SECURITY_FILE, Contents, Examined
from mlir_release.release.forge import checkout
from mlir_release.release.forge.codeowners import CODEOWNERS_FILE, format_codeowners
from mlir_release.release.forge.observations import (
    AllowedActions,
    BranchRules,
    Environment,
    Names,
    Observations,
    Rule,
    Token,
    WorkflowDefaults,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.operate.doctor.actions import Read
    from mlir_release.operate.doctor.results import Finding
    from mlir_release.release.model.matrix import Matrix

ROOT = Path(__file__).resolve().parent.parent


def signed_by(repository: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files as the repository's owner sets them up: attest.yml of the repository itself signs."""
    return {path: checkout.signed_by(repository, content.decode()).encode() for path, content in files.items()}


#: What a release repository has.
RELEASE_FILES = {
    **signed_by("openxla/stablehlo", {path: (ROOT / path).read_bytes() for path in (*REQUIRED, SECURITY_FILE)}),
    CODEOWNERS_FILE: format_codeowners(["@llvm/mlir-release"]).encode(),
}

INTEGRATE = b"""\
[upstream]
url = "https://github.com/llvm/llvm-project.git"
pin-file = "llvm-project.version"

[smoke]
command = ["./smoke.sh"]
"""

CALLER_PATH = ".github/workflows/walk.yml"
CALLER = b"""\
name: Walk LLVM
on:
  schedule:
    - cron: "5 4 * * *"
  workflow_dispatch:
    inputs:
      branch: {type: string, default: ""}
      strategy: {type: string, default: parallel}
      width: {type: number, default: 8}
permissions: {}
jobs:
  walk:
    permissions:
      contents: write
      pull-requests: write
      actions: write
    uses: llvm/mlir-release/.github/workflows/integrate.yml@0123456789012345678901234567890123456789
    with:
      branch: ${{ inputs.branch }}
      next-workflow: walk.yml
    secrets:
      app_token: ${{ secrets.INTEGRATE_TOKEN }}
"""

#: Dispatched on integrate's branch, instead of a token.
CI_PATH = ".github/workflows/ci.yml"
CI = b"on: {push: {branches: [main]}, workflow_dispatch: {}}\njobs: {test: {runs-on: ubuntu-24.04, permissions: {}}}\n"

#: A release repository that is a downstream, too.
FILES = {**RELEASE_FILES, "integrate.toml": INTEGRATE, CALLER_PATH: CALLER}

#: An action of others, as far as its file matters; and one that uses another.
ACTION = b"runs: {using: node24, main: dist/index.js}\n"
COMPOSITE = b"""\
runs:
  using: composite
  steps:
    - run: echo
      shell: sh
    - uses: actions/upload-artifact@0123456789012345678901234567890123456789 # v7
"""


def read_used(repository: str, path: str, ref: str) -> bytes | None:
    """The files of everything that the workflows use."""
    if repository == "openxla/stablehlo" and path in FILES:
        return FILES[path]
    if repository in ("openxla/stablehlo", "llvm/mlir-wheels", "llvm/mlir-release"):
        return (ROOT / path).read_bytes() if (ROOT / path).is_file() else None
    if repository.partition("/")[0] not in ("actions", "pypa") or not path.endswith("action.yml") or len(ref) != 40:
        return None
    return COMPOSITE if repository == "actions/upload-pages-artifact" else ACTION


TAG_RULES = tuple(
    Rule(kind=kind, ruleset="tags", include=("refs/tags/snapshot-*", "refs/tags/llvm-*", "refs/tags/abandoned/*"))
    for kind in ("update", "deletion")
)

#: Rules by which a branch keeps its past.
KEPT = (Rule(kind="deletion"), Rule(kind="non_fast_forward"))

WELL = Observations(
    repository="openxla/stablehlo",
    private=False,
    archived=False,
    branch="main",
    default_branch="main",
    token=Token(kind="classic", scopes=frozenset({"repo"}), role=True),
    files=FILES,
    actions_enabled=True,
    commits_required=True,
    allowed_actions=AllowedActions(policy="all"),
    defaults=WorkflowDefaults(write=False, pull_requests=False),
    workflows={path: "active" for path in FILES if path.endswith(".yml")},
    immutable=True,
    tag_rules=TAG_RULES,
    rules=BranchRules(rules=(*KEPT, Rule(kind="pull_request", ruleset="main")), protection=frozenset()),
    pins=dict.fromkeys(("snapshots", "release/22.1.8"), BranchRules(rules=KEPT, protection=frozenset())),
    issues=True,
    pages="workflow",
    environments={
        "pypi": Environment(refs="selected", tags=("llvm-*",), reviewed=True),
        "github-pages": Environment(refs="selected", branches=("main", "master")),
    },
    secrets=Names(seen={"INTEGRATE_TOKEN": ""}),
    environment_secrets={"pypi": frozenset()},
    variables=Names(seen={"MLIR_RELEASE_PYPI_OWNER": "llvm", "MLIR_RELEASE_SCHEDULE": "on"}),
    codeowners_errors=(),
    private_reports=True,
    refusals={},
)


#: The end of zizmor where it finds nothing.
NOTHING_LINTED = Captured(returncode=0, stdout="[]", stderr="", ending="exit code 0")


def examined(seen: Observations, read: Read = read_used) -> list[Finding]:
    """What the checks find in a repository where zizmor, which takes a while, finds nothing."""
    with patch.object(actions, "capture", return_value=NOTHING_LINTED):
        return run_checks(look(seen, read))


def asked(check: str, matrix: Matrix, forge: Any, **given: Any) -> list[Finding]:
    """What a check finds in a repository with a matrix and releases."""
    known = Examined(seen=given.pop("seen", WELL), contents=Contents(matrix=matrix), forge=forge, **given)
    row = next(row for _, rows in TABLE for row in rows if row.name == check)
    return ask(row, known)


def found(check: str, read: Read = read_used, **changes: Any) -> list[Finding]:
    """What one check finds in the healthy repository with some changes."""
    return [finding for finding in examined(replace(WELL, **changes), read) if finding.check == check]
