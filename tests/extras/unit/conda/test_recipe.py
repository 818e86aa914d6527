"""Which packages a release makes, and what their recipe says."""

from __future__ import annotations

import msgspec

from mlir_release.extras.conda.recipe import recipe, variant_configuration, variants
from tests.paper_forge import make_manifest
from tests.refusals import refused

TAG = "snapshot-20261120.01"
PLATFORMS = ("manylinux_2_28_x86_64", "macosx_13_0_arm64", "win_amd64")


def url(name: str) -> str:
    return f"https://releases.example/{name}"


def test_each_wheel_is_a_variant_of_its_platform_and_cpython() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS, pythons=["cp312", "cp39"])
    made, left_out = variants(manifest, "mlir")
    assert [(variant.subdir, variant.python.tag) for variant in made] == [
        ("linux-64", "cp39"),
        ("linux-64", "cp312"),
        ("osx-arm64", "cp39"),
        ("osx-arm64", "cp312"),
        ("win-64", "cp39"),
        ("win-64", "cp312"),
    ]
    assert left_out == ()
    assert variant_configuration(made) == {"python": ["3.9.*", "3.12.*"]}


def test_the_sources_are_the_wheels_by_address_and_digest() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp312", "cp313"])
    content = recipe(manifest, "mlir", variants(manifest, "mlir")[0], url)
    first = manifest.wheels[0]
    assert content["source"][0] == {
        "if": 'target_platform == "linux-64" and match(python, "3.12.*")',
        "then": {"url": url(first.filename), "sha256": first.sha256},
    }
    assert content["build"]["skip"] == [
        'not ((target_platform == "linux-64" and match(python, "3.12.*"))'
        ' or (target_platform == "linux-64" and match(python, "3.13.*")))'
    ]
    assert content["package"]["name"] == "mlir-python-bindings"
    assert content["requirements"]["run"] == [
        "python",
        "numpy <3,>=1.19.5",
        "ml_dtypes <1,>=0.1",
        "__glibc >=2.28,<3.0a0",
    ]
    assert content["requirements"]["run_constraints"] == [
        "mlir-python-bindings-all <0a0",
        "mlir-python-bindings-core <0a0",
        "mlir-python-bindings-full <0a0",
    ]


def test_what_only_some_variants_need_is_conditional() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS[:2], pythons=["cp312"])
    newer = 'numpy<3,>=2; sys_platform == "darwin"'
    wheels = tuple(
        msgspec.structs.replace(wheel, requires_dist=("typing-extensions", newer)) for wheel in manifest.wheels
    )
    manifest = msgspec.structs.replace(manifest, wheels=wheels)
    content = recipe(manifest, "mlir", variants(manifest, "mlir")[0], url)
    assert content["requirements"]["run"] == [
        "python",
        "typing_extensions",
        {
            "if": 'target_platform == "linux-64" and match(python, "3.12.*")',
            "then": ["__glibc >=2.28,<3.0a0"],
        },
        {
            "if": 'target_platform == "osx-arm64" and match(python, "3.12.*")',
            "then": ["numpy <3,>=2", "__osx >=13.0"],
        },
    ]


def test_a_wheel_for_the_stable_abi_is_a_variant_for_each_cpython_that_it_serves() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp312"])
    wheel = msgspec.structs.replace(manifest.wheels[0], serves=("cp312", "cp313", "cp314"))
    manifest = msgspec.structs.replace(manifest, wheels=(wheel,))
    made, _ = variants(manifest, "mlir")
    assert [variant.python.tag for variant in made] == ["cp312", "cp313", "cp314"]
    assert len(recipe(manifest, "mlir", made, url)["source"]) == 1


def test_wheels_that_no_selector_can_choose_are_named() -> None:
    manifest = make_manifest(TAG, platforms=["manylinux_2_28_x86_64", "manylinux_2_28_riscv64"], pythons=["cp314t"])
    made, left_out = variants(manifest, "mlir")
    assert made == ()
    assert set(left_out) == {wheel.filename for wheel in manifest.wheels}
    refused(lambda: recipe(manifest, "mlir", made, url), "release-unsuitable")


def test_the_oldest_of_a_wheels_platforms_counts() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp312"])
    both = ("manylinux_2_31_x86_64", "manylinux_2_28_x86_64")
    wheel = msgspec.structs.replace(manifest.wheels[0], platforms=both)
    manifest = msgspec.structs.replace(manifest, wheels=(wheel,))
    (made,) = variants(manifest, "mlir")[0]
    assert made.requires[-1] == "__glibc >=2.28,<3.0a0"


def test_the_address_of_upstream_is_named_only_if_it_is_one() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp312"])
    made, _ = variants(manifest, "mlir")
    assert recipe(manifest, "mlir", made, url)["about"]["repository"] == manifest.upstream
    local = msgspec.structs.replace(manifest, upstream="/srv/upstream.git")
    assert "repository" not in recipe(local, "mlir", made, url)["about"]
