"""Wheel requests made of targets and of profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.ground.errors import UsageError
from mlir_release.release.forge.checkout import matrix_of_checkout
from tests.prefix_factory import REVISION

ROOT = Path(__file__).parents[4]


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
    with pytest.raises(UsageError) as caught:
        WheelRequest.of_order(target.order(tag="t", version="1", revision="b" * 40), sdk)
    assert (caught.value.id, "the SDK is of another revision than the wheel" in caught.value.what) == (
        "sdk-mismatch",
        True,
    )


def test_an_sdk_of_two_versions_serves_no_release(sdk: Sdk) -> None:
    target = matrix_of_checkout(ROOT).wheels[0]
    mixed = Sdk(root=sdk.root, info=structs.replace(sdk.info, source_version="22.1.7"))
    assert WheelRequest.of_order(target.order(), mixed).tag == "local"
    with pytest.raises(UsageError) as caught:
        WheelRequest.of_order(target.order(tag="snapshot-20261120.02", version="20261120.2"), mixed)
    assert (caught.value.id, "the SDK has the libraries of LLVM" in caught.value.what) == ("sdk-mismatch", True)


def test_a_profile_makes_a_request_of_its_own_distribution(sdk: Sdk) -> None:
    made = WheelRequest.of_profile("core", sdk=sdk, version="1.2")
    assert (made.distribution, str(made.version), made.target) == ("mlir-core", "1.2", f"mlir-core-{sdk.info.platform}")
    assert made.floor == ""
