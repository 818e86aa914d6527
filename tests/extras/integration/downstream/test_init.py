"""The kit is written whole or not at all, and nothing that is there is changed."""

from __future__ import annotations

import json
import tomllib
from functools import partial
from typing import TYPE_CHECKING, get_args

from mlir_release.extras.downstream.kit import KitOptions, write_kit
from mlir_release.extras.downstream.pin import Kind
from tests.extras.integration.downstream.conftest import NAME, DownstreamStage
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.wheel_factory import TAG

if TYPE_CHECKING:
    from pathlib import Path


FILES = (".github/dependabot.yml", ".github/workflows/wheels.yml", "pyproject.toml", "renovate.json")


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_same_release_gives_the_same_files_and_one_has_the_pin(site: DownstreamStage, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / NAME, tmp_path / "second" / NAME
    assert sorted(site.kit(first, "extension", name="").written) == list(FILES)
    site.kit(second, "extension", name="")
    assert files(first) == files(second)
    pyproject = files(first)["pyproject.toml"]
    assert f'name = "{NAME}"' in pyproject
    assert pyproject.count("20261120.02") - pyproject.count(TAG) == 3  # the comment, to build with, to run with
    assert "20261120.2" not in pyproject


def test_files_that_are_there_are_listed_together_and_nothing_is_written(site: DownstreamStage, tmp_path: Path) -> None:
    (tmp_path / "kit" / ".github").mkdir(parents=True)
    for name in ("renovate.json", ".github/dependabot.yml"):
        (tmp_path / "kit" / name).write_text("mine")
    before = files(tmp_path / "kit")
    error = refused(lambda: site.kit(tmp_path / "kit", "extension"), "output-in-the-way")
    assert all(name in error.what for name in before)
    assert files(tmp_path / "kit") == before


def test_a_pyproject_that_is_there_is_kept_and_what_it_lacks_is_shown(site: DownstreamStage, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    written = site.kit(tmp_path / "kit", "bundle")
    assert (tmp_path / "kit" / "pyproject.toml").read_text() == "[project]\nname = 'mine'\n"
    assert sorted(written.written) == [name for name in FILES if name != "pyproject.toml"]
    assert 'requires = ["scikit-build-core>=0.11", "mlir-sdk==20261120.02"]' in written.text()


def test_a_bundle_is_built_with_what_the_bindings_of_its_llvm_are(site: DownstreamStage, tmp_path: Path) -> None:
    site.publish("snapshot-20261121.01", "20261121.1", sdk=True, facts=FACTS)
    requires = {}
    for kind in get_args(Kind):
        site.kit(tmp_path / kind, kind, tag="snapshot-20261121.01")
        pyproject = tomllib.loads((tmp_path / kind / "pyproject.toml").read_text())
        requires[kind] = pyproject["build-system"]["requires"][1:]
    needed = ["nanobind>=2.9, <3.0", "typing_extensions>=4.12.2"]
    assert requires == {"extension": ["mlir==20261121.01"], "bundle": ["mlir-sdk==20261121.01", *needed]}


def test_what_could_not_be_written_whole_is_removed(site: DownstreamStage, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / ".github").write_text("a file where a folder is needed")
    refused(lambda: site.kit(tmp_path / "kit", "extension"), "system-refused")
    assert list(files(tmp_path / "kit")) == [".github"]


def test_a_draft_a_release_without_an_sdk_and_wrong_arguments_are_refused(
    site: DownstreamStage, tmp_path: Path
) -> None:
    site.stage.add_tag("snapshot-20261125.01", "20261125.1")
    site.publish("snapshot-20261121.01", "20261121.1")
    kit = partial(site.kit, tmp_path / "kit", "bundle")
    refused(partial(kit, tag="snapshot-20261125.01"), "release-not-published")
    refused(partial(kit, tag="snapshot-20261121.01"), "release-unsuitable")
    refused(partial(kit, name="-x-"), "option-invalid")
    refused(partial(kit, smoke="make check"), "needs-github")  # it calls a workflow
    asked = KitOptions(tag=TAG, kind="bundle", name=NAME)
    error = refused(lambda: write_kit(site.stage.forge, tmp_path / "kit", asked), "option-invalid")
    assert error.what == "where are the pages?"
    assert not (tmp_path / "kit").exists()


def test_a_pin_of_latest_good_follows_that_channel(site: DownstreamStage, tmp_path: Path) -> None:
    site.publish("snapshot-20261121.01", "20261121.1")
    site.yank("snapshot-20261121.01")
    assert site.kit(tmp_path / "good", "extension", tag="latest-good").tag == TAG
    site.kit(tmp_path / "tag", "extension")
    good, tag = (json.loads(files(tmp_path / name)["renovate.json"]) for name in ("good", "tag"))
    followed = good["customDatasources"]["mlir"]
    assert followed["defaultRegistryUrlTemplate"] == f"{site.base}/index.json"
    assert "channels.`latest-good`" in followed["transformTemplates"][0]
    assert {**good, "customDatasources": None} == {**tag, "customDatasources": None}
