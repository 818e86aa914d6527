"""What a downstream's files say of the release that they pin."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from msgspec import structs

from mlir_release.extras.downstream.kit import make_kit, renovate
from mlir_release.extras.downstream.pin import RUNNERS, Pin, make_pin
from mlir_release.ground.python.platforms import Platform
from mlir_release.release.model.manifest import LeftOut
from tests import npm
from tests.paper_forge import make_manifest
from tests.refusals import refused

ROOT = Path(__file__).parents[4]
NAME = "My_Dialect"
TAG = "snapshot-20261120.02"
PYTHONS = ("cp313", "cp312", "cp314t")
REPOSITORY = "https://github.com/LLVM/mlir-wheels"


def pin(*platforms: str, site: str = "", repository: str = REPOSITORY) -> Pin:
    manifest = make_manifest(TAG, platforms=platforms or ("manylinux_2_28_x86_64",), pythons=PYTHONS)
    return make_pin(manifest, name=NAME, kind="extension", site=site, repository=repository)


#: Evaluates the expression of a data source on a document, as Renovate does.
EVALUATE = """
const [module, expression, document] = process.argv.slice(1);
require(module)(expression).evaluate(JSON.parse(document)).then((found) => console.log(JSON.stringify(found)));
"""
EVERYWHERE = ("manylinux_2_28_x86_64", "macosx_13_0_arm64", "win_amd64")


def offered(made: Pin, document: object, channel: str = "") -> list[str]:
    """The versions that Renovate finds in a document of the pages."""
    (expression,) = renovate(made, channel)["customDatasources"]["mlir"]["transformTemplates"]
    command = [npm.node(), "-e", EVALUATE, npm.provide("jsonata", "2.1.0"), expression, json.dumps(document)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [row["version"] for row in json.loads(done.stdout).get("releases", [])]


def test_the_pin_moves_only_to_a_release_with_all_platforms_of_the_project() -> None:
    days = {
        "snapshot-20261120.02": EVERYWHERE,
        "snapshot-20261121.01": EVERYWHERE[:2],
        "snapshot-20261122.10": EVERYWHERE,
    }
    made = pin(*EVERYWHERE)
    manifests = {tag: make_manifest(tag, platforms=platforms, pythons=PYTHONS) for tag, platforms in days.items()}
    wheels = [wheel for manifest in manifests.values() for wheel in manifest.wheels]
    assert offered(made, {"files": [{"filename": each.filename, "yanked": False} for each in wheels]}) == [
        "20261120.02",
        "20261122.10",
    ]
    shapes = [
        [{"distribution": "mlir", "tags": wheel.filename.split("-", 2)[2][:-4]} for wheel in manifest.wheels]
        for manifest in manifests.values()
    ]
    rows = [{"tag": tag, **({"wheels": number} if number else {})} for number, tag in enumerate(manifests)]
    found = {
        tag: offered(made, {"releases": rows, "shapes": shapes, "channels": {"latest-good": tag}}, "latest-good")
        for tag in days
    }
    assert list(found.values()) == [["20261120.02"], [], ["20261122.10"]]


def test_uv_locks_no_release_that_lacks_a_platform_and_one_that_is_left_out_is_named() -> None:
    manifest = make_manifest(TAG, platforms=EVERYWHERE[:2], pythons=PYTHONS)
    rows = [LeftOut(target=f"mlir-{runtime}-cp312", reason="") for runtime in ("windows-x64", "macos-arm64")]
    made = make_pin(structs.replace(manifest, left_out=tuple(rows)), name=NAME, kind="extension", repository=REPOSITORY)
    assert (made.left_out, made.runners) == (("windows-x86_64",), ("ubuntu-24.04", "macos-15"))
    uv = tomllib.loads(make_kit(made)["pyproject.toml"])["tool"]["uv"]
    assert uv["required-environments"] == [
        "sys_platform == 'darwin' and platform_machine == 'arm64'",
        "sys_platform == 'linux' and platform_machine == 'x86_64'",
    ]


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
