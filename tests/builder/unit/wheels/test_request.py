"""Wheel requests made of targets and of profiles, and of which SDK wheels with LLVM's assertions are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import stage
from mlir_release.release.forge.checkout import matrix_of_checkout
from mlir_release.release.model.matrix import Matrix
from tests.prefix_factory import REVISION
from tests.refusals import refused
from tests.release.unit.model.test_targets import with_assertions

if TYPE_CHECKING:
    from mlir_release.release.model.wheel_target import WheelTarget

ROOT = Path(__file__).parents[4]
PLAIN, *_, ASSERTS = Matrix.parse(with_assertions()).wheels


@pytest.mark.parametrize(
    ("runtime", "floor"),
    [
        ("linux-x86_64", "manylinux_2_28_x86_64"),
        ("macos-arm64", "macosx_13_0_arm64"),
        ("windows-x64", "win_amd64"),
    ],
)
def test_a_target_makes_a_request_with_the_platform_tag_of_its_runtime(sdk: Sdk, runtime: str, floor: str) -> None:
    matrix = matrix_of_checkout(ROOT)
    target = next(wheel for wheel in matrix.wheels if wheel.runtime.name == runtime)
    local = WheelRequest.of_order(target.order(), sdk)
    assert local.floor == floor
    assert (local.distribution, local.profile, local.target) == (target.distribution, target.profile, target.name)
    assert (local.tag, str(local.version), local.revision) == ("local", "20200101.dev0", REVISION)
    release = WheelRequest.of_order(
        target.order(tag="snapshot-20261120.02", version="20261120.2", revision=REVISION), sdk
    )
    assert (release.tag, str(release.version)) == ("snapshot-20261120.02", "20261120.2")


def test_a_release_of_another_revision_is_refused(sdk: Sdk) -> None:
    target = matrix_of_checkout(ROOT).wheels[0]
    order, said = target.order(tag="t", version="1", revision="b" * 40), "the SDK is of another revision than the wheel"
    error = refused(lambda: WheelRequest.of_order(order, sdk), "sdk-mismatch", said)
    assert REVISION in error.why


def test_an_sdk_of_two_versions_serves_no_release(sdk: Sdk) -> None:
    target = matrix_of_checkout(ROOT).wheels[0]
    mixed = Sdk(root=sdk.root, info=structs.replace(sdk.info, source_version="22.1.7"))
    assert WheelRequest.of_order(target.order(), mixed).tag == "local"
    order = target.order(tag="snapshot-20261120.02", version="20261120.2")
    refused(lambda: WheelRequest.of_order(order, mixed), "sdk-mismatch", "the SDK has the libraries of LLVM")


def test_a_profile_makes_a_request_of_its_own_distribution(sdk: Sdk) -> None:
    made = WheelRequest.of_profile("core", sdk=sdk, version="1.2")
    assert (made.distribution, str(made.version), made.target) == ("mlir-core", "1.2", f"mlir-core-{sdk.info.platform}")
    assert made.floor == ""


@pytest.fixture
def asserting(sdk: Sdk) -> Sdk:
    return Sdk(root=sdk.root, info=structs.replace(sdk.info, configuration="release+asserts"))


def test_a_wheel_says_whether_it_has_assertions(sdk: Sdk, asserting: Sdk, tmp_path: Path) -> None:
    project = stage(WheelRequest.of_order(ASSERTS.order(), asserting), tmp_path / "project")
    assert json.loads((project / "mlir" / "_release.json").read_text())["assertions"] is True
    assert "and LLVM's assertions" in (project / "pyproject.toml").read_text()
    project = stage(WheelRequest.of_order(PLAIN.order(), sdk), tmp_path / "project")
    assert "assertions" not in json.loads((project / "mlir" / "_release.json").read_text())


@pytest.mark.parametrize(("target", "has"), [(PLAIN, True), (ASSERTS, False)])
def test_an_sdk_that_has_them_and_one_that_has_not_are_no_substitutes(
    sdk: Sdk, asserting: Sdk, target: WheelTarget, has: bool
) -> None:
    given = asserting if has else sdk
    error = refused(lambda: WheelRequest.of_order(target.order(), given), "sdk-mismatch")
    assert f"the SDK's configuration is release{'+asserts' if has else ''}" in error.why
