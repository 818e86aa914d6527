"""Whoever follows the steps of docs/first-release-repository.md (on loopback) leaves the doctor nothing to say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.operate.doctor.files import REQUIRED, SECURITY_FILE
from tests.healthy import ROOT
from tests.operate.integration.doctor.test_doctor import ADMINISTRATOR, NAMES, REPOSITORY, Doctor, doctor, github
from tests.serving import pypi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.github_server import GitHubServer

__all__ = ["doctor", "github"]  # fixtures

TEAM = "@llvm/mlir-release"


def steps() -> Iterator[tuple[str, str]]:
    """The steps of the page: what is in bold, and the whole text."""
    page = (ROOT / "docs" / "first-release-repository.md").read_text(encoding="utf-8")
    section = re.split(r"^#+ ", page.partition("\n## Set up\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    for text in re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]:
        name = re.match(r"\*\*(.+?)\.?\*\*", text)
        assert name, text
        yield name[1], text


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


class Person:
    """Does on the server what each step tells a person to do on GitHub."""

    def __init__(self, github: GitHubServer, folder: Path) -> None:
        self.github = github
        self.folder = folder
        self.settings: dict[str, Any] = {"issues": False, "rulesets": [], "variables": {}, "teams": ()}

    def rules(self, target: str, patterns: list[str], *kinds: str) -> None:
        folder = {"branch": "heads", "tag": "tags"}[target]
        names = {"include": [f"refs/{folder}/{pattern}" for pattern in patterns], "exclude": []}
        row = {"target": target, "conditions": {"ref_name": names}, "rules": [{"type": kind} for kind in kinds]}
        self.settings["rulesets"].append(row)

    def repository(self, text: str) -> None:
        self.settings["teams"] = (TEAM,) if "write access" in text else ()
        for path in (*REQUIRED, SECURITY_FILE):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.folder / path)
        workflows = sorted(path.name for path in (self.folder / ".github" / "workflows").glob("*.yml"))
        bare = self.github.add_repository(REPOSITORY, {}, workflows=workflows)
        self.github.repositories[REPOSITORY].settings |= self.settings
        self.settings = self.github.repositories[REPOSITORY].settings
        self.run("git init --quiet --initial-branch=main")
        self.run("git add .")
        self.run("git config user.name somebody")
        self.run("git config user.email somebody@users.example")
        self.run("git commit --quiet --message 'The toolkit'")
        subprocess.run(["git", "-C", bare, "update-ref", "-d", "refs/heads/main"], check=True)  # it is empty
        block = re.search(r"```\n(.*?)```", text, re.DOTALL)
        assert block
        for line in block[1].replace("OWNER/NAME", REPOSITORY).replace("@ORGANISATION/TEAM", TEAM).strip().splitlines():
            command = line.strip().replace(f"https://github.com/{REPOSITORY}.git", str(bare))
            for part in command.partition("  #")[0].split("&&"):
                self.run(part)

    def run(self, line: str) -> None:
        words = shlex.split(line)
        if words[0] == "git":
            subprocess.run(words, cwd=self.folder, check=True, capture_output=True)
        elif words[0].endswith("/mlir-release"):
            done = CliRunner().invoke(app, [*words[1:], "-C", str(self.folder)])
            assert done.exit_code == 0, done.output
        else:
            assert {"venv", "install"} & set(words), line

    def actions(self, text: str) -> None:
        assert "*Read*" in text
        self.settings["workflow_permissions"] = {"default_workflow_permissions": "read"}

    def pages(self, text: str) -> None:
        assert "*GitHub Actions*" in text
        self.settings["pages"] = "workflow"

    def immutable_releases(self, _: str) -> None:
        self.settings["immutable"] = True

    def tags(self, text: str) -> None:
        kinds = re.findall(r"\*restrict (update|deletion)s\*", text)
        self.rules("tag", quoted(text.partition("target ")[2].partition(";")[0]), *kinds)

    def branches(self, text: str) -> None:
        words = {"restrict deletions": "deletion", "block force pushes": "non_fast_forward",
                 "require a pull request before merging": "pull_request"}  # fmt: skip
        for part in text.split("\n   - ")[1:]:
            branches, _, rest = part.partition(": ")
            wanted = [words[name] for name in re.findall(r"\*(.+?)\*", " ".join(rest.split())) if name in words]
            self.rules("branch", quoted(branches), *wanted)

    def reports(self, text: str) -> None:
        self.settings["issues"] = "Enable issues" in text
        self.settings["private_reports"] = "private\n   vulnerability reporting" in text

    def pypi(self, text: str) -> None:
        (environment,) = re.findall(r"> New\*: `(\w+)`", text)
        (rule,) = re.findall(r"tag rule `([^`]+)`", text)
        self.settings["environments"] = {environment: [rule]}
        if "*required reviewers*" in text:
            self.settings["environment_reviewers"] = {environment: ("octocat",)}
        self.variable(text, "llvm")
        assert set(NAMES) <= set(quoted(text))  # the index of the test knows them

    def what_to_build(self, _: str) -> None:
        """Nothing: the shipped file will do."""

    def schedule(self, text: str) -> None:
        self.variable(text, quoted(text)[1])

    def check(self, text: str) -> None:
        assert "mlir-release doctor" in text

    def variable(self, text: str, value: str) -> None:
        (name,) = re.findall(r"the repository variable `(\w+)`", text)
        self.settings["variables"][name] = value


def test_every_step_followed_leaves_no_problem(github: GitHubServer, doctor: Doctor, tmp_path: Path) -> None:
    person = Person(github, tmp_path / "clone")
    for name, text in steps():
        getattr(person, re.sub(r"\W", "_", name.lower()))(text)
    with pypi(tmp_path / "index", NAMES, owner="llvm", size=10**9) as url:
        found, code = doctor.ask(github.token(scopes=ADMINISTRATOR, kind="ghp"), "--index-url", url)
    assert [row for row in doctor.rows if row["level"] != "ok"] == []
    assert code == 0
    assert {"schedule", "code-owners", "private-reports", "tag-rules", "signer"} <= found.keys()
