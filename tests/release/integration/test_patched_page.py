"""What docs/downstream.md tells a project that carries patches, done as it is written there."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.pinning.state import find_state
from mlir_release.release.transaction.publish import publish
from tests.attacks.carried_stage import EXPORT, NAME, Carrying, bare
from tests.attacks.selected_stage import ADA, TREE
from tests.project_factory import Repository

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

PAGE = Path(__file__).parents[3] / "docs/downstream.md"
UPSTREAM, FORK = "https://github.com/llvm/llvm-project.git", "https://github.com/acme/llvm-project.git"


def blocks(language: str) -> list[str]:
    """The blocks of the section in a language; commands have none."""
    section = (
        PAGE.read_text(encoding="utf-8").partition("\n## A project that carries patches\n")[2].partition("\n## ")[0]
    )
    parts = [part.partition("\n") for part in section.split("```")[1::2]]
    return [text for named, _, text in parts if named == language]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, standalone_mode=False, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    upstream, fork = bare(tmp_path / "llvm-project"), bare(tmp_path / "fork")
    upstream.run("update-ref", "refs/heads/main", commit_files(upstream, None, TREE, "[mlir] Begin\n", ADA))
    acme = Carrying(tmp_path, upstream, fork, (str(upstream.directory), str(fork.directory)))
    monkeypatch.setenv("MLIR_RELEASE_FORGE", f"local:{acme.forge.root}")
    project = Repository(tmp_path / "compiler", {PIN_FILE: f"{acme.tip}\n".encode()})

    (written,) = blocks("toml")
    assert EXPORT in written
    tables = tomllib.loads(written.replace(UPSTREAM, acme.addresses[0]).replace(FORK, acme.addresses[1]))
    targets = tomllib.loads(acme.targets())
    targets["release"] = {**tables.pop("release"), "provenance": "none"}
    content = tomli_w.dumps(targets | tables).encode()
    acme.forge.commit("main", expected=acme.forge.head("main"), files={"targets.toml": content}, message="Configure\n")
    assert {wheel.configuration.distribution for wheel in matrix_of_branch(acme.forge, "main").wheels} == {NAME}

    snapshot, *after = [line for block in blocks("") for line in block.splitlines()]
    run(*told(snapshot, {"acme/compiler": project.url}))
    tag = next(tag.name for tag in acme.forge.tags())
    state = find_state(acme.forge, tag)
    assert state.stack is not None
    assert publish(acme.fill(tag, state.wheel_version, state.revision)).manifest.stack == state.stack
    for commit in (acme.tip, acme.base):
        find, install = (told(line, {"COMMIT": commit}) for line in after)
        said = run(*find)
        assert tag in said
        assert "Revert loops (revert of #7): it breaks" in said
        assert tag in run(*install, "--dry-run", "--no-deps", "--python", sys.executable)


def told(line: str, instead: dict[str, str]) -> Sequence[str]:
    """The arguments of a command of the page, with this world's names."""
    for name, value in instead.items():
        assert name in line
        line = line.replace(name, value)
    program, *arguments = shlex.split(line)
    assert program == "mlir-release"
    return arguments
