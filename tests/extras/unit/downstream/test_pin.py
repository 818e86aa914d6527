"""What a downstream's files say of the release that they pin."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mlir_release.extras.downstream.kit import make_kit
from mlir_release.extras.downstream.pin import RUNNERS, Pin, make_pin
from mlir_release.ground.python.platforms import Platform
from tests.paper_forge import make_manifest
from tests.refusals import refused

ROOT = Path(__file__).parents[4]
TAG = "snapshot-20261120.02"
PYTHONS = ("cp313", "cp312", "cp314t")
REPOSITORY = "https://github.com/LLVM/mlir-wheels"


def pin(*platforms: str, site: str = "", repository: str = REPOSITORY) -> Pin:
    manifest = make_manifest(TAG, platforms=platforms or ("manylinux_2_28_x86_64",), pythons=PYTHONS)
    return make_pin(manifest, name="My_Dialect", kind="extension", site=site, repository=repository)


def test_runners_and_cibuildwheel_are_those_of_our_own_releases() -> None:
    runtimes = tomllib.loads((ROOT / "targets.toml").read_text(encoding="utf-8"))["runtime"].values()
    assert {str(Platform.of(each["os"], each["arch"])): each["runner"] for each in runtimes} == RUNNERS
    lock = (ROOT / "requirements" / "toolkit.txt").read_text(encoding="utf-8")
    (locked,) = re.findall(r"^cibuildwheel==([\d.]+)", lock, re.MULTILINE)
    assert f'--spec "cibuildwheel[uv]=={locked}" ' in make_kit(pin())[".github/workflows/wheels.yml"]


def test_a_release_is_built_for_on_the_platforms_that_it_has() -> None:
    made = pin("manylinux_2_28_x86_64", "manylinux_2_36_aarch64", "macosx_13_0_arm64", "musllinux_1_2_x86_64")
    assert made.runners == ("ubuntu-24.04", "ubuntu-24.04-arm", "macos-15")
    assert made.images == {"aarch64": "manylinux_2_39", "x86_64": "manylinux_2_28"}
    assert [python.tag for python in made.pythons] == ["cp312", "cp313"]  # free-threaded ones have no stable ABI
    assert (made.name, made.module) == ("my-dialect", "my_dialect")


@pytest.mark.parametrize(
    ("options", "site"),
    [
        ({}, "https://llvm.github.io/mlir-wheels"),
        ({"site": "https://wheels.example/mlir/"}, "https://wheels.example/mlir"),
        ({"site": "wheels.example"}, ""),
        ({"site": "file:///pages"}, ""),
        ({"repository": "https://git.example/llvm/mlir-wheels"}, ""),
        ({"repository": ""}, ""),
    ],
)
def test_the_pages_are_those_of_github_or_the_given_ones(options: dict[str, str], site: str) -> None:
    if site:
        assert pin(**options).site == site
        return
    refused(lambda: pin(**options), "option-invalid")
