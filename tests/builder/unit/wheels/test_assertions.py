"""Wheels with LLVM's assertions: of which SDK they are made, and what they say of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import stage
from mlir_release.ground.errors import UsageError
from mlir_release.release.model.matrix import Matrix
from tests.prefix_factory import make_sdk
from tests.release.unit.model.test_targets import with_assertions

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.wheel_target import WheelTarget

PLAIN, *_, ASSERTS = Matrix.parse(with_assertions()).wheels


@pytest.fixture
def plain(tmp_path: Path) -> Sdk:
    return make_sdk(tmp_path / "sdk")


@pytest.fixture
def asserting(plain: Sdk) -> Sdk:
    return Sdk(root=plain.root, info=structs.replace(plain.info, configuration="release+asserts"))


def test_a_wheel_says_whether_it_has_assertions(plain: Sdk, asserting: Sdk, tmp_path: Path) -> None:
    project = stage(WheelRequest.of_order(ASSERTS.order(), asserting), tmp_path / "project")
    assert json.loads((project / "mlir" / "_release.json").read_text())["assertions"] is True
    assert "and LLVM's assertions" in (project / "pyproject.toml").read_text()
    project = stage(WheelRequest.of_order(PLAIN.order(), plain), tmp_path / "project")
    assert "assertions" not in json.loads((project / "mlir" / "_release.json").read_text())


@pytest.mark.parametrize(("target", "has"), [(PLAIN, True), (ASSERTS, False)])
def test_an_sdk_that_has_them_and_one_that_has_not_are_no_substitutes(
    plain: Sdk, asserting: Sdk, target: WheelTarget, has: bool
) -> None:
    with pytest.raises(UsageError) as caught:
        WheelRequest.of_order(target.order(), asserting if has else plain)
    error = caught.value
    assert error.id == "sdk-mismatch"
    assert f"the SDK's configuration is release{'+asserts' if has else ''}" in error.why
