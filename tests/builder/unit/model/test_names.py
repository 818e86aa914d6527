"""What the names of wheels and releases say."""

from __future__ import annotations

import pytest

from mlir_release.builder.model.names import WheelKey
from mlir_release.release.model.matrix import Matrix
from tests.release_stage import TARGETS


@pytest.mark.parametrize(
    ("filename", "slot"),
    [
        ("mlir-1.2-cp312-cp312-manylinux_2_28_x86_64.whl", ("mlir", "cp312", "linux", "x86_64")),
        ("a_b-1-cp314-cp314t-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", ("a-b", "cp314t", "linux", "aarch64")),
        ("mlir-1-cp310-cp310-linux_x86_64.whl", ("mlir", "cp310", "linux", "x86_64")),
        ("mlir-1-cp312-abi3-macosx_11_0_arm64.whl", ("mlir", "cp312", "macos", "arm64")),
        ("mlir-1-cp312-cp312-win_amd64.whl", ("mlir", "cp312", "windows", "x86_64")),
        ("mlir-1-cp312-cp312-musllinux_1_2_x86_64.whl", ("mlir", "cp312", "musl", "x86_64")),
        ("mlir-1-cp312-cp312-win32.whl", ("mlir", "cp312", "windows", "win32")),
        ("a_b-1.tar.gz", ("a-b", "source", "any", "any")),
    ],
)  # fmt: skip
def test_slots(filename: str, slot: tuple[str, str, str, str]) -> None:
    found = WheelKey.of_file(filename)
    assert found is not None
    assert (found.distribution, found.python, found.platform.os, found.platform.arch) == slot


@pytest.mark.parametrize(
    "filename", ["mlir.tar.gz", "mlir-x.tar.gz", "mlir.whl", "mlir-x-cp312-cp312-any.whl", "", "a-b-c-d-e-f-g.whl"]
)
def test_what_is_no_wheel_has_no_slot(filename: str) -> None:
    assert WheelKey.of_file(filename) is None


def test_a_target_and_its_wheel_have_one_slot() -> None:
    target = Matrix.parse(TARGETS).wheels[0]
    name = f"mlir-20261120.2-{target.python}-{target.python}-manylinux_2_28_x86_64.whl"
    assert target.slot == WheelKey.of_file(name)
