"""Run the reusable workflow ``integrate.yml`` with act, called by a downstream's workflow as the documentation has it.

The toolkit (this checkout's files) and a small downstream are on a GitHub on loopback; the downstream's upstream is a
miniature one (``tests/integrate/integration/miniature.py``).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from tests.integrate.integration import miniature
from tests.workflows.rehearse import ROOT, Runner, toolkit_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.github_server import GitHubServer
    from tests.integrate.integration.miniature import World

TOOLKIT = "example/mlir-release"
DOWNSTREAM = "example/downstream"
WORKFLOW = "llvm.yml"  #: the downstream's, that the documentation shows
CI = "ci.yml"

#: Prepended to the smoke test: writes down everything that foreign code can see of the job, for the tests to read.
RECORD_SURROUNDINGS = """
{ env; git config --list; cat ~/.netrc; git -C "$GITHUB_WORKSPACE" config --list; } > "$SEEN_BY_PROBES/$$" 2>&1
"""


def make_world(root: Path) -> World:
    """A downstream with a submodule, whose upstream renames a function, and breaks another for a while."""
    up = miniature.begin(root, patched=False)
    base = up.previous
    up.filler(2, others=1)
    up.step("rename scale", "[mlir] Rename scale", scale="scale_by")
    up.heal(others=1)
    up.filler(1, others=1)
    return miniature.finish(root, up, base, carrier="submodule", patched=False)


#: What a caller may have besides: runners by a list of labels.
RUNNERS = """
      runs-on: '["ubuntu-24.04"]'
"""


def caller() -> str:
    """The workflow that ``docs/integrate.md`` shows, with everything that it may have besides."""
    text = (ROOT / "docs" / "integrate.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(name: LLVM\n.*?)```", text, re.DOTALL)
    assert found is not None
    text = found[1].replace("      next-workflow: llvm.yml\n", f"      next-workflow: llvm.yml{RUNNERS}")
    return text.replace("OWNER/mlir-release", TOOLKIT)


def lay_out_toolkit(folder: Path) -> None:
    """Copy this checkout's files, and spell out ``$/`` (the workflow's own repository and commit), which act lacks."""
    for name, content in toolkit_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name in ("integrate.yml", "roll.yml"):
        workflow = folder / ".github" / "workflows" / name
        workflow.write_text(re.sub(r"uses: \$/(\S+)", rf"uses: {TOOLKIT}/\1@main", workflow.read_text()))


def make_runner(github: GitHubServer, workspace: Path) -> tuple[Runner, World]:
    """The downstream on ``github``, and its runner. The world's checkout is a developer's clone of it."""
    world = make_world(workspace / "world")
    lay_out_toolkit(workspace / "toolkit")
    origin = github.add_repository(DOWNSTREAM, {}, workflows=(WORKFLOW, CI))
    config = (world.checkout / "integrate.toml").read_text()
    config = config.replace("[smoke]\n", '[smoke]\nenvironment = ["SEEN_BY_PROBES"]\n')
    files = {
        f".github/workflows/{WORKFLOW}": caller(),
        "integrate.toml": config + f'[ci]\nworkflow = "{CI}"\n',
        "smoke.sh": miniature.SMOKE.replace("set -e\n", RECORD_SURROUNDINGS + "set -e\n"),
    }
    for name, text in files.items():
        path = world.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    world.git("add", "--", *files)
    world.git("commit", "-q", "-m", "Walk LLVM forward on GitHub")
    world.git("remote", "set-url", "origin", str(origin))
    world.git("push", "-q", "--force", "origin", "main")
    seen = workspace / "seen"
    seen.mkdir()
    variables = world.environment() | {"SEEN_BY_PROBES": str(seen), "PATH": os.environ["PATH"]}
    token = github.token(scopes=("contents", "actions", "pull_requests", "issues"))
    runner = Runner(
        github, workspace, token, repository=DOWNSTREAM,
        folders={f"{TOOLKIT}@main": workspace / "toolkit"},
        variables=variables, lists_jobs=True,
    )  # fmt: skip
    return runner, world
