"""The first release of a new repository, with the build matrix that it begins with: Linux alone is enough."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import NeedsPersonError
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import parse_tag
from tests.refusals import refused
from tests.release_stage import Stage, make_stage
from tests.wheel_factory import TAG, make_report, make_wheel

if TYPE_CHECKING:
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.wheel_target import WheelTarget

#: What a fork has, but for signatures, which a forge on disk can't make.
TARGETS = (
    (Path(__file__).parents[3] / TARGETS_FILE)
    .read_text(encoding="utf-8")
    .replace("[release]\n", '[release]\nprovenance = "none"\n', 1)
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path, targets=TARGETS)


def due(stage: Stage) -> Matrix:
    """Without what is built weekly."""
    tag = parse_tag(TAG)
    assert tag is not None
    return stage.matrix.for_tag(tag)


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


def test_it_is_published_when_only_linux_x86_64_has_wheels(stage: Stage) -> None:
    matrix = due(stage)
    linux = tuple(wheel for wheel in matrix.wheels if wheel.required)
    assert {wheel.runtime.name for wheel in linux} == {"linux-x86_64"}
    manifest = stage.publish(build(stage, linux)).manifest
    assert {wheel.target for wheel in manifest.wheels} == {wheel.name for wheel in linux}
    # The others are named, so that nobody takes them for forgotten.
    others = {wheel.name for wheel in matrix.wheels} - {wheel.name for wheel in linux}
    assert {row.target for row in manifest.left_out} == others
    assert any("macos" in name for name in others)
    assert any("windows" in name for name in others)


def test_it_is_not_published_without_one_of_them(stage: Stage) -> None:
    *linux, last = (wheel for wheel in due(stage).wheels if wheel.required)
    stage.upload(build(stage, tuple(linux)))
    error = refused(stage.publish, kind=NeedsPersonError)
    assert last.name in error.why
