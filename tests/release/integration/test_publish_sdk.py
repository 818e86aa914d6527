"""Wheels of an SDK in a release: from the draft to the manifest and the pages, like any other."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from mlir_release.builder.projects.mlir import SDK_WHEEL
from mlir_release.ground.errors import NeedsPersonError
from mlir_release.ground.python import venv
from mlir_release.release.index.generate import generate
from mlir_release.release.transaction.publish import publish
from mlir_release.use.install import install
from tests.refusals import refused
from tests.release_stage import Stage, make_stage
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, TAG

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import Manifest

DISTRIBUTIONS = ("mlir-sdk", "mlir-sdk-tools", "mlir-test-tools")
TARGETS = make_targets(
    make_row(),
    *(make_row(name, suites=["sdk"], required=name == "mlir-sdk") for name in DISTRIBUTIONS),
    pythons=[PYTHON],
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = make_stage(tmp_path, targets=TARGETS)
    made.fill(pythons=[PYTHON])
    return made


def published(stage: Stage) -> Manifest:
    """The manifest of the release with the wheels of its SDK."""
    package = {f"mlir_sdk/{path.name}": path.read_bytes() for path in (SDK_WHEEL / "mlir_sdk").glob("*.py")}
    for name, files in zip(DISTRIBUTIONS, (package, {}, {}), strict=True):
        stage.fill(pythons=["py3"], distribution=name, files=files)
    return stage.publish(stage.dist / TAG).manifest


@pytest.fixture
def pages(stage: Stage, tmp_path: Path) -> Path:
    published(stage)
    site = tmp_path / "site"
    generate(stage.forge, site, base_url="https://example.org/pages", matrix=stage.matrix)
    return site / "snapshots"


def test_a_release_waits_for_those_that_are_required(stage: Stage) -> None:
    stage.upload(stage.dist / TAG)
    draft = stage.draft()
    assert draft.card().lacking_wheels == tuple(f"{name}-linux-x86_64-py3" for name in DISTRIBUTIONS)
    assert draft.card().lacking_tests == tuple(f"sdk-{name}-linux-x86_64-py3" for name in DISTRIBUTIONS)
    assert draft.card().lacking_required == ("mlir-sdk-linux-x86_64-py3",)
    with pytest.raises(NeedsPersonError, match="mlir-sdk-linux-x86_64-py3: there is no wheel"):
        publish(draft)


def test_the_manifest_has_them_with_their_tests(stage: Stage) -> None:
    manifest = published(stage)
    rows = {wheel.distribution: wheel for wheel in manifest.wheels}
    assert manifest.distributions == ("mlir", *DISTRIBUTIONS)
    profiles = ("sdk", "sdk-tools", "test-tools")
    assert [(rows[name].profile, rows[name].python) for name in DISTRIBUTIONS] == [(one, "py3") for one in profiles]
    assert manifest.pythons == (PYTHON,)
    tested = {test.name: test.wheel for test in manifest.tests}
    assert {tested[f"sdk-{name}-linux-x86_64-py3"] for name in DISTRIBUTIONS} == {
        rows[n].filename for n in DISTRIBUTIONS
    }


def test_requirements_choose_them_for_every_cpython_of_their_platform(pages: Path) -> None:
    for name in DISTRIBUTIONS:
        text = (pages / TAG / f"requirements-{TAG}-{name}.txt").read_text(encoding="utf-8")
        found, refusal = (Requirement(line) for line in text.splitlines() if not line.startswith("#"))
        assert found.marker is not None
        assert refusal.marker is not None
        for machine, fits in (("x86_64", True), ("aarch64", False)):
            for python in ("3.8", "3.14"):
                here = {"python_version": python, "sys_platform": "linux", "platform_machine": machine}
                assert (found.marker.evaluate(here), refusal.marker.evaluate(here)) == (fits, not fits)
    assert "mlir_sdk" not in (pages / TAG / f"requirements-{TAG}.txt").read_text(encoding="utf-8")


def test_the_index_and_the_releases_page_have_them(pages: Path) -> None:
    assert "mlir_sdk-" in (pages / "simple" / "mlir-sdk" / "index.html").read_text(encoding="utf-8")
    page = (pages / TAG / "index.html").read_text(encoding="utf-8")
    assert page.count("one wheel for all CPythons") == len(DISTRIBUTIONS)
    assert "all of them are imported as" not in page


def test_no_page_names_them_in_a_command_that_asks_pypi(pages: Path) -> None:
    for page in pages.parent.rglob("*.html"):
        for command in page.read_text(encoding="utf-8").split("<code>")[1:]:
            if "mlir-sdk" in (words := command.split("</code>")[0]):
                assert not {"-f", "--find-links", "--extra-index-url"}.intersection(words.split())


def test_they_are_installed_where_asked_for(stage: Stage, tmp_path: Path) -> None:
    manifest = published(stage)
    environment = venv.create(tmp_path / "environment", Path(sys.executable), pip=True)
    found = install(stage.forge, TAG, python=environment.python, sdk=True)
    names = [
        wheel.filename
        for name in ("mlir-sdk", "mlir-sdk-tools")
        for wheel in manifest.wheels
        if wheel.distribution == name
    ]
    assert list(found.sdk) == names
    assert found.cmake_dir == str(environment.site_packages() / "mlir_sdk" / "lib" / "cmake" / "mlir")
    assert found.to_json()["cmake-dir"] == found.cmake_dir
    without = install(stage.forge, TAG, python=environment.python, dry_run=True)
    assert (without.sdk, without.cmake_dir) == ((), "")


def test_a_release_without_them_is_not_installed(tmp_path: Path) -> None:
    targets = make_targets(make_row(), pythons=[PYTHON])
    stage = make_stage(tmp_path, targets=targets)
    stage.publish(stage.fill(pythons=[PYTHON]))
    environment = venv.create(tmp_path / "environment", Path(sys.executable), pip=True)
    error = refused(lambda: install(stage.forge, TAG, python=environment.python, sdk=True), "no-fitting-wheel")
    assert error.what == f"{TAG} has no wheel of mlir-sdk for CPython {platform.python_version()} on this machine"
    assert not (environment.site_packages() / "mlir").exists()
