"""Which of the real actions are taken from a folder of clones, at which commits, and which stay stand-ins."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git
from tests.workflows.real_actions import NEVER, RealActions
from tests.workflows.results_service import ResultsService

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789012345678901234567890123456789"


def clone(folder: Path, name: str, files: dict[str, str]) -> str:
    """A clone with one commit, which is returned."""
    place = folder / name.replace("/", "+")
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    git = Git(place)
    git.run("add", ".")
    git.run("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "x")
    return f"{name}@{git.text('rev-parse', 'HEAD')}"


def test_what_is_taken_and_what_is_not(tmp_path: Path) -> None:
    clones = tmp_path / "clones"
    cache = clone(clones, "actions/cache", {
        "action.yml": "runs:\n  using: node24\n  main: 'dist/index.js'\n  post: dist/save.js\n", "dist/index.js": "",
        "save/action.yml": "runs:\n  using: node24\n  main: ../dist/save.js\n",
    })  # fmt: skip
    outer = clone(
        clones, "example/outer", {"action.yml": f"runs:\n  steps:\n    - uses: {cache}\n    - uses: a/b@{COMMIT}\n"}
    )
    signing = f"{next(iter(NEVER))}@{COMMIT}"
    (clones / f"example+files@{COMMIT}").mkdir()
    (clones / f"example+files@{COMMIT}" / "action.yml").write_text("runs: {using: node24, main: x.js}\n")
    with ResultsService(tmp_path / "results") as results:
        real = RealActions(clones, tmp_path / "unpacked", results)
        found = real.provide([outer, signing, f"example/files@{COMMIT}", f"actions/cache@{COMMIT}"])
        assert real.provide([outer]) == found  # once is enough
    assert found.keys() == {outer, cache, f"example/files@{COMMIT}"}
    assert real.replaced.keys() == {signing, f"a/b@{COMMIT}", f"actions/cache@{COMMIT}"}
    assert f"real: example/files@{COMMIT} (files, not a clone)" in real.report()
    assert f"stand-in: {signing} ({NEVER[signing.partition('@')[0]]})" in real.report()
    # The address of the server is GitHub's for an action that asks for that, and for no other.
    assert "main: rehearsal-main.cjs\n  post: rehearsal-post.cjs" in (found[cache] / "action.yml").read_text()
    assert 'import("./../dist/save.js")' in (found[cache] / "save" / "rehearsal-main.cjs").read_text()
    assert "main: x.js" in (found[f"example/files@{COMMIT}"] / "action.yml").read_text()
