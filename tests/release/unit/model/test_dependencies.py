"""Locked dependencies: which wheels are for which machine, and what a manifest may not say of them."""

from __future__ import annotations

import pytest
from msgspec import structs

from mlir_release.ground.errors import VerificationError
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.release.model.manifest import Dependencies, LockedPackage, LockedWheel, Manifest, fits
from tests.paper_forge import make_manifest

TAG = "snapshot-20261120.02"
WHEEL = LockedWheel(url="https://files.example/ab/numpy-2.5.5-cp312-cp312-win_amd64.whl", sha256="a" * 64, size=7)
NUMPY = LockedPackage(name="numpy", version="2.5.5", marker="python_full_version >= '3.12'", wheels=(WHEEL,))


@pytest.mark.parametrize(
    ("tags", "python", "platform", "expected"),
    [
        ("cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64", "3.12", "manylinux_2_28_x86_64", True),
        ("cp312-cp312-manylinux_2_28_x86_64", "3.13", "manylinux_2_28_x86_64", False),
        ("cp312-cp312-manylinux_2_28_x86_64", "3.12", "manylinux_2_28_aarch64", False),
        ("cp312-cp312-manylinux_2_28_x86_64", "3.12", "musllinux_1_2_x86_64", False),
        ("cp312-cp312-musllinux_1_1_x86_64", "3.12", "musllinux_1_2_x86_64", True),
        ("cp312-cp312-macosx_10_13_universal2", "3.12", "macosx_13_0_arm64", True),
        ("cp312-cp312-macosx_10_13_universal2", "3.12", "manylinux_2_28_x86_64", False),
        ("cp312-cp312-macosx_14_0_arm64", "3.12", "macosx_13_0_arm64", True),  # for newer systems: pip's better choice
        ("cp310-abi3-win_amd64", "3.14", "win_amd64", True),
        ("cp310-abi3-win_amd64", "3.14t", "win_amd64", False),
        ("cp314-cp314t-win_amd64", "3.14t", "win_amd64", True),
        ("cp314-cp314t-win_amd64", "3.14", "win_amd64", False),
        ("py3-none-any", "3.14t", "macosx_13_0_x86_64", True),
    ],
)
def test_a_wheel_is_kept_for_the_machines_that_it_is_for(tags: str, python: str, platform: str, expected: bool) -> None:
    assert fits(f"numpy-2.5.5-{tags}.whl", CPython.parse(python), PlatformTag.parse(platform)) == expected


def test_a_manifest_keeps_them_and_one_without_is_written_as_before() -> None:
    plain = make_manifest(TAG)
    assert "dependencies" not in plain.to_text()
    rows = (Dependencies(requires=("numpy>=2",), packages=(NUMPY, structs.replace(NUMPY, marker="", wheels=()))),)
    manifest = structs.replace(plain, dependencies=rows)
    assert Manifest.from_text(manifest.to_text(), where="") == manifest.sorted()
    assert plain.to_text() == structs.replace(manifest, dependencies=()).to_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://files.example/ab/numpy-", "ftp://files.example/ab/numpy-"),
        ("https://files.example/ab/numpy-", "https://files.example/\\u0022 onload=/numpy-"),
        ("https://files.example/ab/numpy-", "https://files.example/ab/evil-"),
        ("numpy-2.5.5-cp312", "numpy-2.5.4-cp312"),
        ("numpy-2.5.5-cp312", "numpy-cp312"),
        ('"sha256": "' + "a" * 64, '"sha256": "' + "a" * 63),
        ("python_full_version >= '3.12'", "python_full_version >= "),
        ("python_full_version >= '3.12'", "os.system('x') == ''"),
        ('"version": "2.5.5"', '"version": "new"'),
    ],
)
def test_a_manifest_can_not_name_anything_else(old: str, new: str) -> None:
    manifest = structs.replace(make_manifest(TAG), dependencies=(Dependencies(requires=("numpy",), packages=(NUMPY,)),))
    text = manifest.to_text()
    assert old in text
    with pytest.raises(VerificationError):
        Manifest.from_text(text.replace(old, new), where="")
