"""Releases without some targets of the matrix: of CPythons that the revision excludes, or of platforms to come."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from mlir_release.ground.errors import NeedsPersonError
from mlir_release.ground.python.cpython import CPython
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.refusals import refused
from tests.release_stage import Stage, find_release, make_stage
from tests.revision_factory import FACTS
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG, make_report, make_wheel

if TYPE_CHECKING:
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.wheel_target import WheelTarget

NEWER = "snapshot-20261120.03"
EXCLUDED, KEPT = f"mlir-linux-x86_64-{OTHER_PYTHON}", f"mlir-linux-x86_64-{PYTHON}"
DEMANDING = replace(FACTS, version="29.1.0", minimum_python=CPython.of_tag(PYTHON).version)
REASON = f"LLVM 29.1.0 needs CPython {DEMANDING.minimum_python} or newer"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = make_stage(tmp_path)
    made.add_tag(NEWER, "20261120.3", facts=DEMANDING)
    return made


def matrix(stage: Stage, *options: str) -> tuple[str, str]:
    """Standard output and standard error of the command."""
    console.json_mode = False
    command = ["matrix", *options, "--forge", f"local:{stage.forge.root}"]
    done = CliRunner().invoke(app, command, standalone_mode=False, catch_exceptions=False)
    return done.stdout, done.stderr


@pytest.mark.parametrize("option", ["--tag", "--missing"])
def test_the_matrix_of_a_tag_says_what_it_leaves_out(stage: Stage, option: str) -> None:
    table, said = matrix(stage, option, NEWER)
    assert KEPT in table
    assert EXCLUDED not in table
    assert said.splitlines() == [f"left out: {EXCLUDED}: {REASON}"]
    shown = json.loads(matrix(stage, option, NEWER, "--json")[0])
    assert KEPT in [row["name"] for row in shown["rows"]]
    assert shown["excluded"] == [{"target": EXCLUDED, "reason": REASON}]
    for kind, name in (("wheels", EXCLUDED), ("tests", f"smoke-{EXCLUDED}")):
        rows = json.loads(matrix(stage, option, NEWER, "--github", "--kind", kind)[0])["include"]
        assert rows
        assert name not in [row["name"] for row in rows]
    shown = json.loads(matrix(stage, option, NEWER, "--only", f"python={OTHER_PYTHON}", "--json")[0])
    assert (shown["rows"], len(shown["excluded"])) == ([], 1)


def test_the_tag_of_an_older_toolkit_leaves_nothing_out(stage: Stage) -> None:
    for option in ("--tag", "--missing"):
        table, said = matrix(stage, option, TAG)
        assert {EXCLUDED, KEPT} <= set(table.split())
        assert not said


def test_it_is_published_without_and_its_page_says_why(stage: Stage) -> None:
    draft = stage.draft(NEWER)
    upload(draft, stage.fill(tag=NEWER, version="20261120.3", pythons=(PYTHON,)))
    assert draft.card().lacking_wheels == (f"mlir-core-linux-x86_64-{PYTHON}",)
    outcome = publish(draft)
    assert [wheel.target for wheel in outcome.manifest.wheels] == [KEPT]
    assert {row.target: row.reason for row in outcome.manifest.left_out}[EXCLUDED] == REASON
    body = find_release(stage.again(), NEWER).body
    assert "### Left out" in body
    assert EXCLUDED in body
    assert not outcome.manifest.waivers


# -- the first release of a new repository: of the build matrix that it begins with, Linux alone is enough -------------

#: What a fork has, but for signatures, which a forge on disk can't make.
SHIPPED = (
    (Path(__file__).parents[3] / TARGETS_FILE)
    .read_text(encoding="utf-8")
    .replace("[release]\n", '[release]\nprovenance = "none"\n', 1)
)


@pytest.fixture
def fork(tmp_path: Path) -> Stage:
    return make_stage(tmp_path, targets=SHIPPED)


def due(stage: Stage) -> Matrix:
    """Without what is built weekly."""
    return stage.matrix.for_tag(parse_release_tag(TAG))


def build(stage: Stage, targets: tuple[WheelTarget, ...]) -> Path:
    """Wheels of the targets, and passing reports of their suites."""
    for target in targets:
        wheel = make_wheel(
            stage.dist,
            python=target.interpreter,
            distribution=target.distribution,
            profile=target.profile,
            platform=str(target.runtime.tag),
            target=target.name,
        )
        for test in target.tests:
            make_report(stage.dist, wheel if test.python else None, target=test.name, suite=test.suite)
    return stage.dist


def test_it_is_published_when_only_linux_x86_64_has_wheels(fork: Stage) -> None:
    matrix = due(fork)
    linux = tuple(wheel for wheel in matrix.wheels if wheel.required)
    assert {wheel.runtime.name for wheel in linux} == {"linux-x86_64"}
    manifest = fork.publish(build(fork, linux)).manifest
    assert {wheel.target for wheel in manifest.wheels} == {wheel.name for wheel in linux}
    # The others are named, so that nobody takes them for forgotten.
    others = {wheel.name for wheel in matrix.wheels} - {wheel.name for wheel in linux}
    assert {row.target for row in manifest.left_out} == others
    assert any("macos" in name for name in others)
    assert any("windows" in name for name in others)


def test_it_is_not_published_without_one_of_them(fork: Stage) -> None:
    *linux, last = (wheel for wheel in due(fork).wheels if wheel.required)
    fork.upload(build(fork, tuple(linux)))
    error = refused(fork.publish, kind=NeedsPersonError)
    assert last.name in error.why
