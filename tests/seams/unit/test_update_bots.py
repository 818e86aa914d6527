"""Dependabot and Renovate look at every file that names an action of another repository, and at every lock."""

from __future__ import annotations

import json
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests import npm
from tests.documents import read_yaml

ROOT = Path(__file__).resolve().parents[3]

#: What Renovate's manager github-actions reads by default (docs.renovatebot.com/modules/manager/github-actions).
RENOVATE = (
    r"(^|/)(workflow-templates|\.(?:github|gitea|forgejo)/(?:workflows|actions))/.+\.ya?ml$",
    r"(^|/)action\.ya?ml$",
)
PINNED = re.compile(r"uses: (?P<action>[\w-]+/[\w./-]+)@(?P<commit>\S+)(?: # (?P<tag>\S+))?")


def files() -> list[Path]:
    """Workflows and actions that name others' actions."""
    every = [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "actions").glob("*/action.yml")]
    return [path.relative_to(ROOT) for path in every if PINNED.search(path.read_text(encoding="utf-8"))]


def test_dependabot_looks_into_the_folder_of_each() -> None:
    config = read_yaml(ROOT / ".github" / "dependabot.yml")
    (patterns,) = (
        entry["directories"] for entry in config["updates"] if entry["package-ecosystem"] == "github-actions"
    )
    assert "/" in patterns  # which means .github/workflows
    actions = [path for path in files() if path.name == "action.yml"]
    assert actions
    for path in actions:
        assert any(fnmatchcase(f"/{path.parent}", pattern) for pattern in patterns), path


def test_renovate_reads_each_by_default() -> None:
    config = json.loads((ROOT / ".github" / "renovate.json").read_text(encoding="utf-8"))
    assert "github-actions" in config["enabledManagers"]
    for path in files():
        assert any(re.search(pattern, path.as_posix()) for pattern in RENOVATE), path


@pytest.mark.slow  # 620 packages of npm
def test_renovates_own_validator_accepts_the_configuration() -> None:
    command = [*npm.renovate("config-validator"), "--strict", "--no-global", str(ROOT / ".github" / "renovate.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Config validated successfully" in done.stdout


def test_each_action_is_named_by_commit_and_tag_the_same_everywhere() -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for path in files():
        for match in PINNED.finditer((ROOT / path).read_text(encoding="utf-8")):
            if match["action"].endswith("/.github/workflows/attest.yml"):
                continue  # of this repository, at a branch, which signatures name
            assert re.fullmatch(r"[0-9a-f]{40}", match["commit"]), match[0]
            assert re.fullmatch(r"v\d+\.\d+\.\d+", match["tag"] or ""), (
                f"{match[0]}: the bots need the tag as a comment"
            )
            repository = "/".join(match["action"].split("/")[:2])
            found.setdefault(repository, set()).add((match["commit"], match["tag"]))
    assert {name: pins for name, pins in found.items() if len(pins) > 1} == {}
