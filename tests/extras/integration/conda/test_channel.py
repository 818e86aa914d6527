"""A release's wheels as conda packages, shown by the pages' index and installed from there by rattler; its recipe."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rattler.exceptions import SolverError

from mlir_release.extras.conda import pages as conda_pages
from mlir_release.extras.conda.channel import package_release
from mlir_release.extras.conda.index import index
from mlir_release.extras.conda.recipe import write_recipe
from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.index.generate import IndexOutcome, generate
from mlir_release.release.index.site import SiteOptions
from mlir_release.release.transaction.decisions import yank
from tests.conda_client import install, make_stand_ins, pixi_form
from tests.refusals import refused
from tests.release_stage import REQUIRED_TARGETS, Stage, make_stage
from tests.revision_factory import FACTS
from tests.serving import serve
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, REVISION, TAG, VERSION, make_report, make_wheel

MINOR = f"3.{sys.version_info.minor}"
NAME = "mlir-python-bindings"
PACKAGE = f"{NAME}-{VERSION}-{PYTHON}_linux_64_0.conda"


def published(folder: Path, targets: str = REQUIRED_TARGETS, **filling: Any) -> Stage:
    """A stage whose release is published; ``filling``: of :meth:`Stage.fill`"""
    stage = make_stage(folder, targets=targets)
    stage.publish(stage.fill(**filling))
    return stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return published(tmp_path, files={f"mlir-{VERSION}.dist-info/licenses/LICENSE.TXT": b"a licence\n"})


def pages(stage: Stage, folder: Path, channels: Path, url: str | None = None) -> IndexOutcome:
    given = {"conda": channels, "conda_url": url}
    options = SiteOptions(sections={"conda": conda_pages}, given=given)
    return generate(stage.forge, folder, base_url=folder.as_uri(), options=options)


def records(site: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]]
    found = json.loads((site / "snapshots" / "conda" / "linux-64" / "repodata.json").read_bytes())["packages.conda"]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="the wheels are Linux's")
def test_a_client_solves_and_installs_from_the_pages(stage: Stage, tmp_path: Path) -> None:
    packaged = package_release(stage.forge, TAG, tmp_path / "channels")
    assert {name for _, name, _ in packaged.packages} == {PACKAGE, PACKAGE.replace(PYTHON, "cp310")}
    abi = ("python_abi", MINOR, f"5_{PYTHON}")
    others = make_stand_ins(tmp_path / "others", [("python", f"{MINOR}.9", "0_cpython"), abi])
    with serve(tmp_path / "channels") as files, serve(tmp_path / "site") as served:
        pages(stage, tmp_path / "site", tmp_path / "channels", files.url + "/{folder}")
        site = f"{served.url}/snapshots/conda"
        installed = install([site, others], [f"{NAME}=={VERSION}"], tmp_path / "prefix", tmp_path / "cache")
        assert files.paths(".conda") == [f"/snapshots/linux-64/{PACKAGE}"]
    assert installed[NAME].file_name == PACKAGE
    assert installed[NAME].license == "Apache-2.0 WITH LLVM-exception"
    modules = tmp_path / "prefix" / "lib" / f"python{MINOR}" / "site-packages"
    program = (
        f"import sys; sys.path.insert(0, {str(modules)!r}); import mlir._release; print(mlir._release.revision); "
        "from importlib.metadata import distribution as d; print(d('mlir').version, d('mlir').read_text('INSTALLER'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [REVISION, VERSION, "conda"]


@pytest.mark.skipif(sys.platform != "linux", reason="the wheels are Linux's")
def test_a_package_for_the_stable_abi_is_for_all_its_cpythons_and_no_other(tmp_path: Path) -> None:
    tag, version, served = "snapshot-20261120.03", "20261120.3", ("cp312", "cp313")
    stage = make_stage(tmp_path, targets=make_targets(make_row(), pythons=served))
    stage.add_tag(tag, version, facts=replace(FACTS, version="23.1.4", has_stable_abi=True))
    shared = make_wheel(stage.dist, tag=tag, version=version, python="cp312", serves=served, requires_python="<3.14")
    for python in served:
        make_report(stage.dist, shared, target=f"smoke-mlir-linux-x86_64-{python}")
    stage.publish(stage.dist, tag=tag)
    package_release(stage.forge, tag, tmp_path / "channels")
    channel = (tmp_path / "channels" / "snapshots").as_uri()
    with_gil = [(name, "3.13.9", "0") for name in ("python", "cpython", "python-gil")]
    install([channel, make_stand_ins(tmp_path / "gil", with_gil)], [NAME], tmp_path / "prefix", tmp_path / "cache")
    assert (tmp_path / "prefix" / "lib" / "python3.13" / "site-packages" / "mlir" / "_release.py").is_file()
    too_old, too_new = ([(name, python, "0") for name, _, _ in with_gil] for python in ("3.11.9", "3.14.0"))
    for number, others in enumerate((too_old, too_new, with_gil[:2])):
        address = make_stand_ins(tmp_path / f"others-{number}", others)
        with pytest.raises(SolverError):
            install([channel, address], [NAME], tmp_path / "none", tmp_path / f"cache-{number}")


def contents(folder: Path, pattern: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob(pattern) if path.is_file()}


def test_the_same_wheels_give_the_same_bytes(stage: Stage, tmp_path: Path) -> None:
    for name in ("one", "two"):
        package_release(stage.forge, TAG, tmp_path / name)
    packages = contents(tmp_path / "one", "*.conda")
    assert len(packages) == 2
    assert contents(tmp_path / "two", "*.conda") == packages
    before = contents(tmp_path / "one", "*")
    package_release(stage.forge, TAG, tmp_path / "one")
    assert contents(tmp_path / "one", "*") == before


def test_the_index_is_of_the_files_that_are_there(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "channels" / "snapshots" / "linux-64"
    package_release(stage.forge, TAG, tmp_path / "channels")
    index = (folder / "repodata.json").read_text()
    digest = hashlib.sha256((folder / PACKAGE).read_bytes()).hexdigest()
    (folder / PACKAGE).write_bytes(b"made by another version of what makes them")
    (folder / "repodata.json").write_text(index.replace(digest, "0" * 64))
    package_release(stage.forge, TAG, tmp_path / "channels")
    assert json.loads((folder / "repodata.json").read_bytes())["packages.conda"][PACKAGE]["sha256"] == digest


def test_the_program_that_indexes_ends_well_each_time(stage: Stage, tmp_path: Path) -> None:
    """Where rattler's threads outlive the interpreter, a third of such programs crash as they end."""
    packaged = package_release(stage.forge, TAG, tmp_path)
    repodata = tmp_path / "snapshots" / "linux-64" / "repodata.json"
    for _ in range(12):
        repodata.unlink()
        index(Path(packaged.channel))
        assert PACKAGE in json.loads(repodata.read_bytes())["packages.conda"]


def test_what_is_no_package_in_a_channel_is_an_error(stage: Stage, tmp_path: Path) -> None:
    strange = tmp_path / "snapshots" / "linux-64" / "half-1-0.conda"
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b"PK")
    said = "rattler can't index this folder of conda packages"
    error = refused(lambda: package_release(stage.forge, TAG, tmp_path), "input-invalid", said)
    assert "could not open conda file" in str(error).lower()
    strange.unlink()
    assert package_release(stage.forge, TAG, tmp_path).packages


def test_the_index_has_what_is_offered_and_says_where_it_is(stage: Stage, tmp_path: Path) -> None:
    package_release(stage.forge, TAG, tmp_path / "channels")
    site = tmp_path / "site"
    pages(stage, site, tmp_path / "channels", "https://files.example/all")
    repodata = json.loads((site / "snapshots" / "conda" / "linux-64" / "repodata.json").read_bytes())
    assert repodata["info"]["base_url"] == "https://files.example/all/"
    assert repodata["repodata_version"] == 2
    assert (site / "snapshots" / "conda" / "noarch" / "repodata.json").is_file()
    assert not list(site.rglob("*.conda"))
    page = site / "snapshots" / TAG / "index.html"
    command = f"conda install -c {site.as_uri()}/snapshots/conda -c conda-forge {NAME}=={VERSION}"
    assert command in page.read_text()
    assert pixi_form(page)["dependencies"] == {NAME: f"=={VERSION}"}
    (wheel,) = (path.name for path in stage.dist.rglob(f"mlir-*-{PYTHON}-*.whl"))
    yank(stage.forge, TAG, "miscompiles", branch="main", file=wheel)
    pages(stage, site, tmp_path / "channels")
    assert set(records(site)) == {PACKAGE.replace(PYTHON, "cp310")}
    yank(stage.forge, TAG, "miscompiles", branch="main")
    pages(stage, site, tmp_path / "channels")
    assert not records(site)
    assert command not in page.read_text()


def test_a_package_that_no_release_has_is_not_shown(stage: Stage, tmp_path: Path) -> None:
    package_release(stage.forge, TAG, tmp_path / "channels")
    index = tmp_path / "channels" / "snapshots" / "linux-64" / "repodata.json"
    content = json.loads(index.read_bytes())
    content["packages.conda"]["mlir-python-bindings-99-0.conda"] = content["packages.conda"][PACKAGE]
    index.write_text(json.dumps(content))
    pages(stage, tmp_path / "site", tmp_path / "channels")
    assert set(records(tmp_path / "site")) == {PACKAGE, PACKAGE.replace(PYTHON, "cp310")}


def test_a_platform_that_the_folder_has_no_longer_is_not_shown(stage: Stage, tmp_path: Path) -> None:
    package_release(stage.forge, TAG, tmp_path / "channels")
    pages(stage, tmp_path / "site", tmp_path / "channels")
    shutil.rmtree(tmp_path / "channels" / "snapshots" / "linux-64")
    pages(stage, tmp_path / "site", tmp_path / "channels")
    assert [path.parent.name for path in (tmp_path / "site").rglob("repodata.json")] == ["noarch"]


# -- bad input -----------------------------------------------------------------------------------------------------


def makes_no_package(stage: Stage, folder: Path, tag: str = TAG) -> str:
    """The id of the error that it ends with."""
    error = refused(lambda: package_release(stage.forge, tag, folder))
    assert not list(folder.rglob("*.conda"))
    return error.id


def test_what_is_not_published_is_an_error(stage: Stage, tmp_path: Path) -> None:
    assert makes_no_package(stage, tmp_path / "channels", "snapshot-20261120.09") == "release-not-published"


def test_a_wheel_with_another_digest_is_an_error(stage: Stage, tmp_path: Path) -> None:
    for path in (stage.forge.root / "releases").rglob("*.whl"):
        path.write_bytes(path.read_bytes() + b"\0")
    assert makes_no_package(stage, tmp_path / "channels") in ("file-damaged", "release-tampered")


def test_a_wheel_with_scripts_is_an_error(tmp_path: Path) -> None:
    stage = published(tmp_path, files={f"mlir-{VERSION}.data/scripts/mlir-opt": b"#!/bin/sh\n"})
    assert makes_no_package(stage, tmp_path / "channels") == "wheel-unsuitable"


def test_a_release_without_a_wheel_for_conda_is_an_error(tmp_path: Path) -> None:
    targets = make_targets(make_row("mlir-sdk", suites=["sdk"]), pythons=[PYTHON])
    stage = published(tmp_path, targets, pythons=[ANY_PYTHON], distribution="mlir-sdk")
    assert makes_no_package(stage, tmp_path / "channels") == "release-unsuitable"


@pytest.mark.parametrize("content", [None, "{", "{}", '{"info": [], "packages.conda": {}}'])
def test_a_folder_without_channels_is_an_error(stage: Stage, tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "channels" / "releases" / "linux-64"
    folder.mkdir(parents=True)
    if content is not None:
        (folder / "repodata.json").write_text(content)
    said = "this is not a folder of conda channels"
    refused(lambda: pages(stage, tmp_path / "site", tmp_path / "channels"), "input-invalid", said)


# -- the recipe -----------------------------------------------------------------------------------------------------


def test_a_published_release_has_a_recipe_the_same_each_time(stage: Stage, tmp_path: Path) -> None:
    manifest = stage.publish().manifest
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


def test_a_draft_has_no_recipe(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    refused(lambda: write_recipe(stage.forge, stage.tag, tmp_path / "recipe"), "release-not-published")
    assert not (tmp_path / "recipe").exists()


@pytest.mark.parametrize(
    ("distribution", "expected"), [("mlir-cor", "option-invalid"), ("mlir-full", "release-unsuitable")]
)
def test_a_distribution_that_is_not_there_is_an_error(
    stage: Stage, tmp_path: Path, distribution: str, expected: str
) -> None:
    refused(lambda: write_recipe(stage.forge, stage.tag, tmp_path / "recipe", distribution=distribution), expected)
    assert not (tmp_path / "recipe").exists()
