"""A release whose one wheel serves several CPythons, from its tag to its pages."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import NeedsPersonError
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.pythons import Python
from mlir_release.release.index.generate import generate
from mlir_release.release.transaction.decisions import waive, waive_only
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from mlir_release.use.install import choose
from tests.refusals import refused
from tests.release_stage import Stage, find_release, make_stage
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report, make_wheel

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import Manifest

TAG, VERSION = "snapshot-20261120.03", "20261120.3"
SERVED = ("cp312", "cp313", "cp314")
SHARED = "mlir-linux-x86_64-cp312-abi3"
FILE = f"mlir-{VERSION}-cp312-abi3-manylinux_2_28_x86_64.whl"
TARGETS = make_targets(make_row(), pythons=["cp311", *SERVED])


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """With a tag of a revision that can."""
    made = make_stage(tmp_path, targets=TARGETS)
    made.add_tag(TAG, VERSION, facts=replace(FACTS, version="23.1.4", has_stable_abi=True))
    return made


def fill(stage: Stage, *tested: str) -> Path:
    """The two wheels, and reports of the plain one and of those CPythons that the other was tested on."""
    folder = stage.dist / TAG
    plain = make_wheel(folder, tag=TAG, version=VERSION, python="cp311")
    make_report(folder, plain, target="smoke-mlir-linux-x86_64-cp311")
    requires = ">=3.12,<3.15"
    shared = make_wheel(folder, tag=TAG, version=VERSION, python="cp312", serves=SERVED, requires_python=requires)
    for python in tested:
        make_report(folder, shared, target=f"smoke-mlir-linux-x86_64-{python}")
    return folder


def published(stage: Stage) -> Manifest:
    return stage.publish(tag=TAG).manifest


def test_one_file_for_three_cpythons(stage: Stage, tmp_path: Path) -> None:
    draft = stage.draft(TAG)
    assert draft.card().lacking_wheels == ("mlir-linux-x86_64-cp311", SHARED)
    assert len(draft.card().lacking_tests) == 4
    upload(draft, fill(stage, *SERVED))
    card = stage.draft(TAG).card()
    assert (card.lacking_wheels, card.lacking_tests) == ((), ())
    manifest = published(stage)
    assert [(wheel.filename, wheel.serves) for wheel in manifest.wheels][1] == (FILE, SERVED)
    assert len(manifest.tests) == 4
    assert "3.12, 3.13, 3.14 (one wheel, stable ABI)" in find_release(stage.forge, TAG).body.replace("\\", "")
    site = tmp_path / "site"
    generate(stage.forge, site, base_url=site.as_uri(), matrix=stage.matrix)
    page = (site / "snapshots" / TAG / "index.html").read_text()
    assert page.count(f"{FILE}#sha256") >= len(SERVED), "in each of their columns"
    assert "loc_tracebacks" in page
    lines = (site / "snapshots" / TAG / f"requirements-{TAG}.txt").read_text()
    assert 'python_version >= "3.12"' in lines


@pytest.mark.parametrize(("tag", "file"), [("cp311", "cp311-cp311"), ("cp312", "cp312-abi3"), ("cp314", "cp312-abi3")])
def test_each_gets_its_file(stage: Stage, tag: str, file: str) -> None:
    stage.upload(fill(stage, *SERVED), tag=TAG)
    manifest = published(stage)
    cpython = CPython.of_tag(tag)
    python = Python(cpython=cpython, version=f"{cpython.major}.{cpython.minor}.0", executable=Path(sys.executable))
    assert f"-{file}-" in choose(manifest, python, "mlir").filename
    refused(lambda: choose(manifest, replace(python, cpython=CPython.of_tag("cp314t")), "mlir"), "no-fitting-wheel")


def test_one_that_it_serves_keeps_it_back_until_a_person_waives_it(stage: Stage) -> None:
    stage.upload(fill(stage, *SERVED[:2]), tag=TAG)
    draft = stage.draft(TAG)
    assert draft.card().lacking_required == ("smoke-mlir-linux-x86_64-cp314",)
    with pytest.raises(NeedsPersonError, match="cp314: was not run"):
        publish(draft)
    waive(stage.forge, TAG, "mlir-linux-x86_64-cp314", "its runner is gone")
    draft = stage.draft(TAG)
    assert not draft.card().lacking_tests
    assert not draft.card().lacking_required
    manifest = published(stage)
    assert [wheel.filename for wheel in manifest.wheels][1] == FILE
    assert [waiver.target for waiver in manifest.waivers] == ["mlir-linux-x86_64-cp314"]


def test_a_filter_waives_what_fails_of_one_cpython_only(stage: Stage) -> None:
    stage.upload(fill(stage, "cp312"), tag=TAG)
    done = waive_only(stage.forge, TAG, "python=cp314", "its runner is gone")
    assert [decision.subject for decision in done.decisions] == ["smoke-mlir-linux-x86_64-cp314"]
    assert stage.draft(TAG).card().lacking_required == ("smoke-mlir-linux-x86_64-cp313",)


def test_a_filter_of_one_cpython_has_the_whole_wheel_built_and_one_tested(stage: Stage) -> None:
    draft = stage.draft(TAG)
    (row,) = draft.missing_rows("platforms", only="python=cp313")
    (wheels,), (tests,) = (json.loads(row[kind])["include"] for kind in ("wheels", "tests"))
    (order,) = json.loads(wheels["orders"])
    assert (order["target"], tuple(order["serves"])) == (SHARED, SERVED)
    assert tests["targets"] == "smoke-mlir-linux-x86_64-cp313"
    assert set(draft.left_out) == {
        "mlir-linux-x86_64-cp311", *(f"smoke-mlir-linux-x86_64-{python}" for python in ("cp311", "cp312", "cp314")),
    }  # fmt: skip
