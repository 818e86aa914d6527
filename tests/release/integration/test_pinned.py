"""A tag whose commit does more than pin is not built, not published and not uploaded, whoever looks after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import tag_message
from mlir_release.release.pypi.publish import Destination, publish_to_index
from mlir_release.release.transaction.sweep import sweep
from tests.pin_factory import make_pin
from tests.refusals import refused
from tests.release_stage import WHO, Stage
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from collections.abc import Callable

TAMPERED, VERSION = "snapshot-20261120.03", "20261120.3"
NUMBERED = "llvm-22.1.8.01"
EVIL = {".github/workflows/release.yml": b"on: push\n"}


def tag(stage: Stage, name: str, version: str) -> None:
    """A tag as ours, with a draft, on a pin commit that changes a workflow."""
    commit = make_pin(stage.forge, REVISION, EVIL)
    message = tag_message(parse_release_tag(name), revision=REVISION, request_id="r", wheel_version=version)
    stage.forge.create_tag(name, commit, message)
    stage.forge.create_draft(name, title=name, body="", prerelease=True)


def publishes_nothing(stage: Stage, action: Callable[[], object]) -> None:
    """Check that an action refuses the tag of :func:`tag`, and that nothing is published."""
    assert ".github" in refused(action, "tampered").why
    assert not [release.tag for release in stage.forge.releases() if not release.draft]


def test_it_is_not_built_and_not_published(stage: Stage) -> None:
    tag(stage, TAMPERED, VERSION)
    publishes_nothing(stage, lambda: stage.draft(TAMPERED).missing_rows("wheels"))
    stage.upload(stage.fill(tag=TAMPERED, version=VERSION), tag=TAMPERED)
    publishes_nothing(stage, lambda: stage.publish(tag=TAMPERED))
    publishes_nothing(stage, lambda: stage.publish(tag=TAMPERED, dry_run=True))


def test_the_newest_pin_is_printed(stage: Stage) -> None:
    shown = CliRunner().invoke(app, ["pin", "show", "--latest", "--forge", f"local:{stage.forge.root}"])
    assert (shown.exit_code, shown.stdout) == (0, f"{REVISION}\n")


@pytest.mark.parametrize("complete", [True, False])
def test_the_sweep_reports_it(stage: Stage, complete: bool) -> None:
    tag(stage, TAMPERED, VERSION)
    if complete:
        stage.upload(stage.fill(tag=TAMPERED, version=VERSION), tag=TAMPERED)
        run = stage.forge.dispatch("release.yml", ref=TAMPERED, inputs={})
        assert run is not None
        taken = stage.forge.take_run("release.yml")
        assert taken is not None
        stage.forge.finish_run(taken, "failure")
    forge = LocalForge(stage.forge.root, clock=lambda: stage.forge.now().replace(hour=16), identity=WHO)
    outcome = sweep(forge, branch="main")
    assert [error.id for error in outcome.failures] == ["tampered"]
    assert [row.action for row in outcome.rows if row.error] == ["publish" if complete else "dispatch"]
    assert not forge.published(TAMPERED)
    assert complete or not forge.runs("release.yml", ref=TAMPERED)


def test_a_numbered_one_does_not_go_to_pypi(stage: Stage) -> None:
    tag(stage, NUMBERED, "22.1.8")
    stage.forge.publish(stage.forge.drafts(NUMBERED)[0])  # by hand
    to = Destination(repository_url="http://127.0.0.1:9/legacy/")
    refused(lambda: publish_to_index(stage.forge, NUMBERED, to), "tampered")
