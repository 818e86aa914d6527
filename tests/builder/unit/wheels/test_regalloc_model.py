"""Wheels with a learned eviction policy: requests, staged projects, and what they say of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs, to_builtins

from mlir_release.builder.model.regalloc_model import ADVISOR, MODEL
from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.sdk.regalloc_model import ModelFolder
from mlir_release.builder.wheels.build import key
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import stage
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.assets import read_wheel
from tests.prefix_factory import make_sdk
from tests.refusals import refused
from tests.regalloc_factory import INSIDE, add_advisor, make_model
from tests.release.unit.model.test_targets import with_model
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sdk(tmp_path: Path) -> Sdk:
    made = make_sdk(tmp_path / "sdk")
    add_advisor(made.root / "source")
    return made


@pytest.fixture
def plain(sdk: Sdk) -> WheelRequest:
    return WheelRequest.of_profile("host", sdk=sdk)


@pytest.fixture
def learned(plain: WheelRequest, tmp_path: Path) -> WheelRequest:
    return replace(plain, regalloc=ModelFolder.load(make_model(tmp_path / "models" / "evict")))


def defines(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["scikit-build"]["cmake"]
    return dict(found["define"])


def test_the_project_has_the_model_and_the_advisor_and_says_so(learned: WheelRequest, tmp_path: Path) -> None:
    project = stage(learned, tmp_path / "project")
    assert (project / "upstream" / ADVISOR).is_file()
    assert {path.name for path in (project / "regalloc").iterdir()} == {f"{MODEL}.cpp", f"{MODEL}.h"}
    assert defines(project)["MLIR_RELEASE_REGALLOC_MODEL"] == INSIDE.policy
    assert json.loads((project / "mlir" / "_release.json").read_text())["regalloc_model"] == to_builtins(INSIDE)
    assert INSIDE.policy in (project / "sboms" / "mlir.cdx.json").read_text()


def test_a_wheel_without_a_model_is_as_it_was(plain: WheelRequest, tmp_path: Path) -> None:
    project = stage(plain, tmp_path / "project")
    assert not (project / "regalloc").exists()
    assert not (project / "upstream" / ADVISOR).exists()
    assert "MLIR_RELEASE_REGALLOC_MODEL" not in defines(project)
    assert "regalloc_model" not in json.loads((project / "mlir" / "_release.json").read_text())


def test_what_an_sdk_was_compiled_with_is_in_its_wheels(plain: WheelRequest, tmp_path: Path) -> None:
    info = structs.replace(plain.sdk.info, regalloc_model=INSIDE)
    assert SdkInfo.from_json(info.to_json(), where="here") == info
    assert "regalloc_model" not in plain.sdk.info.to_json()
    request = replace(plain, sdk=Sdk(root=plain.sdk.root, info=info))
    project = stage(request, tmp_path / "project")
    assert defines(project)["MLIR_RELEASE_REGALLOC_MODEL"] == INSIDE.policy
    assert not (project / "regalloc").exists()
    assert replace(request, profile="core", distribution="mlir-core").regalloc_model is None


def test_a_build_with_a_model_has_a_place_of_its_own(plain: WheelRequest, learned: WheelRequest) -> None:
    assert key(plain) != key(learned)


def test_a_target_names_its_model_by_its_path_in_the_repository(sdk: Sdk, tmp_path: Path) -> None:
    target = Matrix.parse(with_model("llvm", "mlir", "models/evict")).wheels[0]
    make_model(tmp_path / "models" / "evict")
    assert WheelRequest.of_order(target.order(), sdk, tmp_path).regalloc_model == INSIDE
    make_model(tmp_path / "old" / "models" / "evict", features=("mask",))
    said = ", and this LLVM's advisor gives other features"
    refused(lambda: WheelRequest.of_order(target.order(), sdk, tmp_path / "old"), "model-unsuitable", said)


def test_a_release_wants_a_model_that_won_and_a_local_build_does_not(learned: WheelRequest) -> None:
    said = "no evaluation shows that the model is better than LLVM's heuristic, so no release may have it"
    refused(lambda: replace(learned, tag="snapshot-20261120.02"), "model-unsuitable", said)


def test_the_manifests_row_names_it(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, release_info={"regalloc_model": to_builtins(INSIDE)})
    assert read_wheel(wheel).info.regalloc_model == INSIDE


def test_a_package_without_a_model_can_set_no_option(plain: WheelRequest, tmp_path: Path) -> None:
    project = stage(plain, tmp_path / "project")
    code = "from mlir._release import set_llvm_option as s; s('regalloc-enable-advisor', 'release')"
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert "this build of MLIR can't set LLVM's options" in done.stderr
