"""The real actions, at the commits that the workflows name, from a folder of clones: ``DIR/OWNER+NAME[/repo]``.

Of a clone that lacks files (dist), the folder may have the files beside it: ``DIR/OWNER+NAME@COMMIT``. Nothing of
theirs is kept here. What signs or deploys stays a stand-in, and so does what the folder lacks.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

from mlir_release.ground.python.pythons import installed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.workflows.results_service import ResultsService

#: What a machine of our own can't do.
NEVER = {
    "pypa/gh-action-pypi-publish": "uploads with an identity that only GitHub's runners get",
    "actions/deploy-pages": "deploys to GitHub's own servers",
}

#: They refuse servers that are not GitHub's, by the address; for them alone the server's is said to be GitHub's.
ONLY_FOR_GITHUB = ("actions/upload-artifact", "actions/download-artifact", "actions/cache")
SHIM = """\
process.env.GITHUB_SERVER_URL = "https://github.com";
import("./MAIN").catch((error) => { console.error(error); process.exit(1); });
"""

USES = re.compile(r"uses:\s*(\w[^/\s]*/[^/\s@]+)\S*@([0-9a-f]{40})")


@dataclass
class RealActions:
    """Unpacked below ``workspace``.

    :param folder: with the clones
    """

    folder: Path
    workspace: Path
    results: ResultsService
    used: dict[str, Path] = field(default_factory=dict)  #: by OWNER/NAME@COMMIT
    replaced: dict[str, str] = field(default_factory=dict)  #: the same, and why it is a stand-in

    def provide(self, uses: Iterable[str]) -> dict[str, Path]:
        """Unpack what is there of ``OWNER/NAME@COMMIT``, and of what these use."""
        queue = list(uses)
        while queue:
            use = queue.pop()
            if use in self.used or use in self.replaced:
                continue  # it was met twice
            name, _, commit = use.partition("@")
            if name in NEVER:
                self.replaced[use] = NEVER[name]
                continue
            target = self.workspace / use.replace("/", "+")
            if not self._unpack(name, commit, target):
                self.replaced[use] = f"{self.folder} has no such commit"
                continue
            self.used[use] = target
            files = [*target.glob("action.yml"), *target.glob("*/action.yml")]
            if name in ONLY_FOR_GITHUB:
                for file in files:
                    _say_github(file)
            nested = {f"{m[1]}@{m[2]}" for file in files for m in USES.finditer(file.read_text(encoding="utf-8"))}
            queue += nested
        return self.used

    def _unpack(self, name: str, commit: str, target: Path) -> bool:
        clone = self.folder / name.replace("/", "+")
        if (files := clone.with_name(f"{clone.name}@{commit}")).is_dir():
            shutil.copytree(files, target)
            return True
        for place in (clone / "repo", clone):
            done = subprocess.run(
                ["git", "-C", str(place), "archive", "--format=tar", commit], capture_output=True, check=False
            ) if place.is_dir() else None  # fmt: skip
            if done is not None and done.returncode == 0:
                with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
                    archive.extractall(target, filter="data")
                return True
        return False

    def environment(self, run: int) -> dict[str, str]:
        """What a runner has for them: the service, Node, and CPythons where setup-python looks for them."""
        node = shutil.which("node")
        assert node is not None, "the real actions need Node 24 on PATH"
        programs, tools = self.workspace / "bin", self.workspace / "tools"
        programs.mkdir(parents=True, exist_ok=True)
        if not (programs / "node").exists():
            (programs / "node").symlink_to(node)
        machine = {"aarch64": "arm64"}.get(platform.machine(), "x64")
        for python in installed():
            done = subprocess.run(
                [python.executable, "-Ic", "import platform, sys; print(platform.python_version(), sys.base_prefix)"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            version, _, prefix = done.stdout.strip().partition(" ")
            place = tools / "Python" / version / machine
            if not place.exists():
                place.parent.mkdir(parents=True)
                place.symlink_to(prefix)
                place.with_name(f"{machine}.complete").touch()
        return {
            **self.results.environment(run), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TOOL_CACHE": str(tools), "AGENT_TOOLSDIRECTORY": str(tools),
            "RESULTS": str(self.results.folder / str(run)),
        }  # fmt: skip

    def report(self) -> str:
        """What ran as it is, and what did not."""
        files = {use for use in self.used if (self.folder / use.replace("/", "+")).is_dir()}
        lines = [f"real: {use}{' (files, not a clone)' if use in files else ''}" for use in sorted(self.used)]
        return "\n".join(lines + [f"stand-in: {use} ({why})" for use, why in sorted(self.replaced.items())])


def _say_github(file: Path) -> None:
    """Let an action's program begin with the address of GitHub's server."""
    text = file.read_text(encoding="utf-8")

    def wrapped(match: re.Match[str]) -> str:
        name = f"rehearsal-{match['kind']}.cjs"
        (file.parent / name).write_text(SHIM.replace("MAIN", match["path"]), encoding="utf-8")
        return f"{match['kind']}: {name}"

    file.write_text(re.sub(r"(?P<kind>main|post): '?(?P<path>[^'\n]+\.js)'?", wrapped, text), encoding="utf-8")
