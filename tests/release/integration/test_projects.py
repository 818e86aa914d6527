"""Releases with wheels of another project: beside MLIR's from one tag, held back by it or not, and all alone."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.operate.issues import track
from mlir_release.release.index.generate import generate
from mlir_release.release.judging.check import check_release
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.reverts import BUILT_FROM, built_from
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.probe.probe import CleanRoom, probe_published
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from mlir_release.use.install import install
from tests.made_up_project import alone, fill_plain, made_up_targets, registered
from tests.paper_forge import PaperForge, make_index, make_manifest
from tests.refusals import refused
from tests.release.integration.sweep_stage import SweepStage, revision_of, version_of
from tests.release_stage import Stage, find_release, make_stage
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG, VERSION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.release.model.manifest import Manifest

PYTHONS = (OTHER_PYTHON, PYTHON)
PLAIN = "plain-linux-x86_64-py3"
FILE = f"plain_library-{VERSION}-py3-none-manylinux_2_28_x86_64.whl"
MLIR = f"mlir-{VERSION}-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"


@pytest.fixture
def both() -> Iterator[None]:
    with registered("plain"):
        yield


@pytest.fixture
def stage(tmp_path: Path, both: None) -> Stage:
    return make_stage(tmp_path, targets=made_up_targets(mlir=True, pythons=PYTHONS))


def published(stage: Stage) -> Manifest:
    """The release with wheels of both projects."""
    fill_plain(stage.fill(), pythons=PYTHONS)
    return stage.publish(stage.dist / TAG).manifest


def test_one_tag_has_the_wheels_of_both(stage: Stage) -> None:
    assert stage.draft().card().lacking_wheels[-1] == PLAIN
    manifest = published(stage)
    assert {wheel.filename: wheel.project for wheel in manifest.wheels}[FILE] == "plain"
    assert dict(manifest.projects) == {"mlir": ("mlir",), "plain": ("plain-library",)}
    assert (manifest.main, manifest.heads) == ("mlir", ("mlir", "plain-library"))
    assert [test.name for test in manifest.tests if "plain" in test.name] == [
        f"smoke-plain-linux-x86_64-{python}" for python in PYTHONS
    ]
    names = {asset.name for asset in find_release(stage.forge, TAG).assets}
    assert {"requirements.txt", "requirements-plain-library.txt", "pylock.plain-library.toml", FILE} <= names
    body = find_release(stage.forge, TAG).body
    assert "Wheels of MLIR's Python bindings and of Plain's library, built from" in body
    assert f"plain-library=={VERSION}" in body
    assert check_release(stage.forge, TAG).tag == TAG


def test_a_manifest_of_mlir_alone_says_nothing_of_projects(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    text = stage.publish(stage.fill()).manifest.to_text()
    assert '"project"' not in text
    assert '"main"' not in text


def test_both_reports_of_the_one_wheel_count(stage: Stage) -> None:
    fill_plain(stage.fill(), pythons=PYTHONS, failed=[OTHER_PYTHON])
    stage.upload(stage.dist / TAG)
    card = stage.draft().card()
    assert card.failing.keys() == {f"smoke-plain-linux-x86_64-{OTHER_PYTHON}"}
    error = refused(stage.publish)
    assert f"smoke-plain-linux-x86_64-{OTHER_PYTHON}: failed" in str(error.why)


def test_a_wheel_that_names_another_project_than_its_target_has_is_no_part(stage: Stage) -> None:
    folder = stage.fill()
    fill_plain(folder, pythons=PYTHONS)
    (folder / FILE).unlink()
    make_wheel(folder, distribution="plain-library", profile="library", python="py3", target=PLAIN)
    for python in PYTHONS:
        make_report(folder, folder / FILE, target=f"smoke-plain-linux-x86_64-{python}")
    stage.upload(folder)
    said = f"says that its project is mlir; {PLAIN} is of plain"
    assert said in str(refused(stage.publish).why)


# -- a project that fails ----------------------------------------------------------------------------------------------


def failing(tmp_path: Path, *, gates: bool) -> tuple[SweepStage, str]:
    """A snapshot whose wheel of ``plain`` fails its smoke test, after its build."""
    stage = SweepStage(tmp_path, targets=made_up_targets(mlir=True, gates=gates, pythons=PYTHONS))
    tag = stage.snapshot()
    stage.fill(tag)
    folder = tmp_path / "plain"
    about = {"tag": tag, "version": version_of(tag), "revision": revision_of(tag)}
    upload(Draft.load(stage.forge, tag), fill_plain(folder, pythons=PYTHONS, failed=[PYTHON], **about))
    stage.end_run("failure")
    return stage, tag


def test_a_failing_project_holds_the_other_one_back(tmp_path: Path, both: None) -> None:
    stage, tag = failing(tmp_path, gates=True)
    sweep(stage.forge, branch="main")
    assert find_release(stage.forge, tag).draft
    issues = track(stage.forge, stage.forge.services.tracker, tag)
    (row,) = issues.failing.values()
    assert (row.name, row.project, row.required) == (f"smoke-plain-linux-x86_64-{PYTHON}", "plain", True)


def test_one_that_does_not_gate_is_left_out_and_the_notes_say_so(tmp_path: Path, both: None) -> None:
    stage, tag = failing(tmp_path, gates=False)
    (row,) = Draft.load(stage.forge, tag).card().failing.values()
    assert not row.required
    sweep(stage.forge, branch="main")
    release = find_release(stage.forge, tag)
    assert not release.draft
    assert not any("plain" in asset.name for asset in release.assets if asset.name.endswith(".whl"))
    assert f"- `{PLAIN}`: smoke-plain-linux-x86_64-{PYTHON}: failed" in release.body
    manifest = Draft.load(stage.forge, tag)
    assert "requirements-plain-library.txt" not in {asset.name for asset in release.assets}
    assert manifest.release.asset("requirements.txt") is not None


def test_requirements_of_the_main_name_never_become_another_projects(tmp_path: Path, both: None) -> None:
    text = made_up_targets(mlir=True, pythons=PYTHONS).replace("required = true", "required = false")
    stage = make_stage(tmp_path, targets=text)
    manifest = stage.publish(fill_plain(stage.dist / TAG, pythons=PYTHONS)).manifest
    assert manifest.distributions == ("plain-library",)
    assert {lock.filename for lock in manifest.locks} == {
        "requirements-plain-library.txt", "pylock.plain-library.toml"
    }  # fmt: skip


# -- what reads releases -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return venv.create(tmp_path_factory.mktemp("python") / "environment", Path(sys.executable), pip=True).root


@pytest.fixture
def python(empty: Path, tmp_path: Path) -> Path:
    """Of an empty environment of its own."""
    shutil.copytree(empty, tmp_path / "environment", symlinks=True)
    return next((tmp_path / "environment").glob("*/python"))


def test_pages_index_and_installation_know_both(stage: Stage, tmp_path: Path, python: Path, pypi: str) -> None:
    published(stage)
    site = tmp_path / "site"
    generate(stage.forge, site, base_url=site.as_uri(), matrix=stage.matrix)
    found = {path.relative_to(site).as_posix() for path in site.rglob("*")}
    assert {
        "snapshots/simple/plain-library/index.html", "snapshots/simple/mlir/index.html",
        "snapshots/latest/requirements-plain-library.txt", "snapshots/latest/requirements.txt",
        f"snapshots/{TAG}/requirements-{TAG}-plain-library.txt",
    } <= found  # fmt: skip
    start = (site / "getting-started" / "index.html").read_text()
    assert "requirements-plain-library.txt" in start
    assert "import plain_library.first" in start
    assert "<h1>MLIR for Python" in (site / "index.html").read_text()
    assert "Imported as <code>plain_library</code>." in (site / "snapshots" / TAG / "index.html").read_text()
    catalogue = read_index(stage.forge)
    assert built_from(catalogue) == (*BUILT_FROM, "mlir")
    (entry,) = catalogue.entries
    assert {wheel.distribution: wheel.project for wheel in entry.wheels}["plain-library"] == "plain"
    room = CleanRoom(pythons=[Path(sys.executable)], pip_options=["--index-url", pypi])
    steps = probe_published(stage.forge, site, TAG, room, base_url=site.as_uri(), branch="main").steps
    assert {step.wanted for step in steps} == {MLIR, FILE}
    assert any(step.got == "installed; imported plain_library, plain_library.first" for step in steps)
    assert install(stage.forge, TAG, python=python).filename == MLIR
    assert install(stage.forge, TAG, python=python, distribution="plain-library").filename == FILE


def test_pages_show_a_project_that_the_newest_snapshot_lacks(tmp_path: Path, both: None) -> None:
    forge, plain = PaperForge(), {"plain-library": "plain"}
    older = make_manifest("snapshot-20261119.01", distributions=("mlir", *plain), projects=plain)
    for manifest in (older, make_manifest("snapshot-20261120.01", previous=older)):
        forge.add(manifest)
    make_index(forge, tmp_path)
    line = "snapshots/latest/requirements-plain-library.txt"
    assert (tmp_path / line).read_text().count("20261119.1") > 1
    assert line in (tmp_path / "index.html").read_text()
    assert line in (tmp_path / "getting-started" / "index.html").read_text()


def test_a_release_without_the_distribution_leads_to_one_that_has_it(stage: Stage, python: Path) -> None:
    published(stage)
    error = refused(
        lambda: install(stage.forge, TAG, python=python, distribution="mlir-core"), "no-fitting-wheel", "mlir-core"
    )
    assert "release find --distribution mlir-core" in error.remedy


def test_a_package_of_that_name_stays_alone(stage: Stage, tmp_path: Path, python: Path) -> None:
    published(stage)
    foreign = make_wheel(
        tmp_path / "foreign", distribution="other", files={"plain_library/__init__.py": b""}, version="1"
    )
    assert capture([python, "-m", "pip", "install", "--quiet", "--no-index", foreign]).ok
    error = refused(
        lambda: install(stage.forge, TAG, python=python, distribution="plain-library"), "install-failed", "other 1"
    )
    assert "imported as plain_library" in str(error.why)


def test_a_wheel_that_does_not_work_is_told(stage: Stage, python: Path) -> None:
    fill_plain(stage.fill(), pythons=PYTHONS)
    folder = stage.dist / TAG
    (folder / FILE).unlink()
    make_wheel(
        folder, distribution="plain-library", profile="library", python="py3", target=PLAIN,
        release_info={"project": "plain"}, files={"plain_library/first.py": b"ANSWER = 41\n"},
    )  # fmt: skip
    for each in PYTHONS:
        make_report(folder, folder / FILE, target=f"smoke-plain-linux-x86_64-{each}")
    stage.publish(folder)
    error = refused(lambda: install(stage.forge, TAG, python=python, distribution="plain-library"), "install-failed")
    assert "AssertionError" in str(error.why)


def test_who_has_not_the_project_can_read_and_install_its_release(tmp_path: Path, python: Path) -> None:
    with registered("plain"):
        stage = make_stage(tmp_path, targets=made_up_targets(mlir=True, pythons=PYTHONS))
        published(stage)
    found = install(stage.forge, TAG, python=python, distribution="plain-library")
    assert found.filename == FILE


def test_a_repository_of_another_project_alone(tmp_path: Path, python: Path, pypi: str) -> None:
    with alone("plain"):
        text = made_up_targets(pythons=PYTHONS)
        stage = make_stage(tmp_path, targets=text)
        assert Matrix.parse(text).main == "plain-library"
        manifest = stage.publish(fill_plain(stage.dist / TAG, pythons=PYTHONS)).manifest
        assert manifest.main == "plain-library"
        release = find_release(stage.forge, TAG)
        assert release.title == f"Plain {TAG}"
        assert "MLIR" not in release.body
        assert {"requirements.txt", "pylock.toml"} <= {asset.name for asset in release.assets}
        site = tmp_path / "site"
        generate(stage.forge, site, base_url=site.as_uri(), matrix=stage.matrix)
        for page in ("index.html", "getting-started/index.html", "status/index.html", f"snapshots/{TAG}/index.html"):
            text = (site / page).read_text().replace("mlir-release", "").replace(str(site), "")
            assert "mlir" not in text.lower(), page
        room = CleanRoom(pythons=[Path(sys.executable)], pip_options=["--index-url", pypi])
        steps = probe_published(stage.forge, site, TAG, room, base_url=site.as_uri(), branch="main").steps
        assert {step.wanted for step in steps} == {FILE}
        words = ["install", "latest", "--forge", str(stage.forge.root), "--python", str(python), "--json"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["filename"] == FILE
        assert built_from(read_index(stage.forge)) == (*BUILT_FROM, "plain")
        done = CliRunner().invoke(app, ["release", "find", "--forge", str(stage.forge.root), "--json"])
        assert done.exit_code == 0, done.output
