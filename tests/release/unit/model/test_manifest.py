"""The manifest, its locked dependencies, and waivers: round trips, and the message about a wrong value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mlir_release.builder.model.test_report import ExpectedFailures
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.release.model.manifest import (
    Dependencies,
    LeftOut,
    LockedPackage,
    LockedWheel,
    Manifest,
    Waiver,
    fits,
)
from tests.paper_forge import make_manifest, with_known_failures
from tests.refusals import refused

TAG = "snapshot-20261120.02"
HOSTILE = "</code><script>alert(1)</script> \" ' & \\ ]( \u202e \n"


def full() -> Manifest:
    return make_manifest(
        TAG,
        waivers=(Waiver(target="b", reason=HOSTILE, by="Ada <ada@example.org>", at="2026-11-20T12:00:00Z"),),
        left_out=(LeftOut(target="z", reason="x"), LeftOut(target="a", reason="y")),
    )


def test_text_reads_back() -> None:
    manifest = full()
    assert Manifest.from_text(manifest.to_text(), where="here") == manifest
    assert [row.target for row in manifest.left_out] == ["a", "z"]


def test_text_does_not_depend_on_the_order_of_rows() -> None:
    manifest = full()
    shuffled = replace(manifest, wheels=manifest.wheels[::-1], tests=manifest.tests[::-1])
    assert shuffled.to_text() == manifest.to_text()


def test_known_failures_of_all_runs_stand_together_by_their_reasons() -> None:
    first = ExpectedFailures(tests=("b", "a"), reason="why", link="https://upstream.example")
    other = ExpectedFailures(tests=("a",), reason="why", link="")
    manifest = with_known_failures(full(), 2, first, other)
    runs = tuple(test.name for test in manifest.tests[:2])
    assert manifest.known_failures == {replace(first, tests=("a", "b")): runs, other: runs}
    assert Manifest.from_text(manifest.to_text(), where="here") == manifest


def test_fields_of_later_versions_are_passed_over() -> None:
    data = {**json.loads(full().to_text()), "mood": "sunny"}
    assert Manifest.from_text(json.dumps(data), where="here") == full()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("tag",), "v1.0.0", "tag is 'v1.0.0', which is not a release tag"),
        (("tag",), None, "tag is missing"),
        (("kind",), "numbered", "kind is not 'snapshot'"),
        (("version",), "20261120.02", "version is '20261120.02', which is not a canonical"),
        (("version",), "x", "version is 'x', which is not a canonical"),
        (("revision",), "abc", "revision is 'abc', not a commit of 40 hex digits"),
        (("created_at",), "2026-11-20", "created_at is '2026-11-20', not a UTC time like 2026-11-20T12:00:00Z"),
        (("wheels",), {}, "wheels is not a list"),
        (("wheels", 0), 7, "wheels[0] is not an object"),
        (("wheels", 3, "sha256"), "0" * 63, "wheels[3].sha256 is"),
        (("wheels", 3, "size"), -1, "wheels[3].size is not a whole number"),
        (("wheels", 3, "size"), True, "wheels[3].size is not a whole number"),
        (("wheels", 3, "filename"), "../../etc/x.whl", "wheels[3].filename is"),
        (("wheels", 3, "filename"), 'a"b.whl', "wheels[3].filename is"),
        (("wheels", 0, "platforms", 0), 1, "wheels[0].platforms[0] is 1, not a plain file name"),
        (("tests", 0, "counts", "pass"), "many", "tests[0].counts.pass is not a whole number"),
        (("waivers", 0, "reason"), None, "waivers[0].reason is missing"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(path: tuple[Any, ...], value: object, said: str) -> None:
    data = json.loads(full().to_text())
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    error = refused(lambda: Manifest.from_text(json.dumps(data), where="the asset"), "file-damaged")
    assert error.what.startswith(said)
    assert error.where == "the asset"


@pytest.mark.parametrize("filename", ["mlir-99.0-cp312-cp312-linux_x86_64.whl", "pip-20261120.2-py3-none-any.whl"])
def test_a_file_of_another_version_or_distribution_is_refused(filename: str) -> None:
    data = json.loads(full().to_text())
    data["wheels"][0]["filename"] = filename
    with pytest.raises(VerificationError, match=f"{filename}, which is not one of"):
        Manifest.from_text(json.dumps(data), where="")


def test_one_file_name_twice_is_refused() -> None:
    data = json.loads(full().to_text())
    data["wheels"][1]["filename"] = data["wheels"][0]["filename"]
    with pytest.raises(VerificationError, match="twice"):
        Manifest.from_text(json.dumps(data), where="")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_manifest_at_all(content: bytes) -> None:
    error = refused(lambda: Manifest.from_text(content, where=""), "file-damaged")
    assert "release.json is written by" in error.remedy


def test_a_waiver_that_is_none() -> None:
    error = refused(lambda: Waiver.from_text(b'{"target": "x"}', where="waiver-x.json"), kind=VerificationError)
    assert (error.id, error.why) == ("file-damaged", "reason is missing")


# -- locked dependencies: which wheels are for which machine, and what a manifest may not say of them ------------------

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
    rows = (Dependencies(requires=("numpy>=2",), packages=(NUMPY, replace(NUMPY, marker="", wheels=()))),)
    manifest = replace(plain, dependencies=rows)
    assert Manifest.from_text(manifest.to_text(), where="") == manifest.sorted()
    assert plain.to_text() == replace(manifest, dependencies=()).to_text()


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
    manifest = replace(make_manifest(TAG), dependencies=(Dependencies(requires=("numpy",), packages=(NUMPY,)),))
    text = manifest.to_text()
    assert old in text
    with pytest.raises(VerificationError):
        Manifest.from_text(text.replace(old, new), where="")
