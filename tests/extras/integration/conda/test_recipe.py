"""A recipe is written of what a release's manifest says, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from mlir_release.extras.conda.recipe import write_recipe
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.refusals import refused
from tests.release_stage import REQUIRED_TARGETS, Stage, make_stage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path, targets=REQUIRED_TARGETS)
    upload(Draft.load(stage.forge, stage.tag), stage.fill())
    return stage


def test_a_published_release_has_a_recipe_the_same_each_time(stage: Stage, tmp_path: Path) -> None:
    manifest = publish(Draft.load(stage.forge, stage.tag)).manifest
    written = write_recipe(stage.forge, stage.tag, tmp_path / "recipe")
    names = ["recipe.yaml", "variants.yaml"]
    assert sorted(path.name for path in (tmp_path / "recipe").iterdir()) == names
    first = [(tmp_path / "recipe" / name).read_bytes() for name in names]
    write_recipe(stage.forge, stage.tag, tmp_path / "recipe")
    assert [(tmp_path / "recipe" / name).read_bytes() for name in names] == first
    content, configuration = map(yaml.safe_load, first)
    assert {source["then"]["sha256"] for source in content["source"]} == {wheel.sha256 for wheel in manifest.wheels}
    assert len(configuration["python"]) == len(written.variants) == len(manifest.wheels)
    assert content["extra"]["mlir-release"]["revision"] == manifest.revision


def test_a_draft_has_none(stage: Stage, tmp_path: Path) -> None:
    refused(lambda: write_recipe(stage.forge, stage.tag, tmp_path / "recipe"), "release-not-published")
    assert not (tmp_path / "recipe").exists()


@pytest.mark.parametrize(
    ("distribution", "expected"), [("mlir-cor", "option-invalid"), ("mlir-full", "release-unsuitable")]
)
def test_a_distribution_that_is_not_there_is_an_error(
    stage: Stage, tmp_path: Path, distribution: str, expected: str
) -> None:
    publish(Draft.load(stage.forge, stage.tag))
    refused(lambda: write_recipe(stage.forge, stage.tag, tmp_path / "recipe", distribution=distribution), expected)
    assert not (tmp_path / "recipe").exists()
