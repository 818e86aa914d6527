"""Which conda packages a release makes, directly and by a recipe, and what they need."""

from __future__ import annotations

import msgspec

from mlir_release.extras.conda.package import packages
from mlir_release.extras.conda.recipe import recipe, variant_configuration, variants
from tests.paper_forge import make_manifest
from tests.refusals import refused

TAG = "llvm-22.1.8.01"
PLATFORMS = ("manylinux_2_28_x86_64", "macosx_13_0_arm64", "win_amd64")


def test_each_wheel_is_a_package_of_its_platform_and_cpython() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS, pythons=["cp312", "cp39"], version="22.1.8")
    made, left_out = packages(manifest)
    assert [(package.subdir, package.filename) for package in made] == [
        ("linux-64", "mlir-python-bindings-22.1.8-cp312_linux_64_0.conda"),
        ("linux-64", "mlir-python-bindings-22.1.8-cp39_linux_64_0.conda"),
        ("osx-arm64", "mlir-python-bindings-22.1.8-cp312_osx_arm64_0.conda"),
        ("osx-arm64", "mlir-python-bindings-22.1.8-cp39_osx_arm64_0.conda"),
        ("win-64", "mlir-python-bindings-22.1.8-cp312_win_64_0.conda"),
        ("win-64", "mlir-python-bindings-22.1.8-cp39_win_64_0.conda"),
    ]
    assert {package.wheel.filename for package in made} == {wheel.filename for wheel in manifest.wheels}
    assert left_out == ()


def test_what_a_wheel_needs_is_said_in_condas_words() -> None:
    (made,), _ = packages(make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp312"]))
    assert made.depends == (
        "python 3.12.*",
        "python_abi 3.12.* *_cp312",
        "numpy <3,>=1.19.5",
        "ml_dtypes <1,>=0.1",
        "__glibc >=2.28,<3.0a0",
    )
    assert made.constrains == tuple(f"mlir-python-bindings-{other} <0a0" for other in ("all", "core", "full"))


def test_a_free_threaded_cpython_has_a_package_of_its_own() -> None:
    made, _ = packages(make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp314", "cp314t"]))
    assert [package.depends[:2] for package in made] == [
        ("python 3.14.*", "python_abi 3.14.* *_cp314"),
        ("python 3.14.*", "python_abi 3.14.* *_cp314t"),
    ]


def test_a_wheel_for_the_stable_abi_is_one_package_that_needs_what_any_cpython_needs() -> None:
    manifest = make_manifest(TAG, platforms=PLATFORMS[:1], pythons=["cp312"])
    numpy = 'numpy>=2.1; python_version < "3.14"', 'numpy>=2.3; python_version >= "3.14"'
    wheel = msgspec.structs.replace(
        manifest.wheels[0], serves=("cp312", "cp313", "cp314"), requires_python=">=3.12,<3.15", requires_dist=numpy
    )
    (made,), _ = packages(msgspec.structs.replace(manifest, wheels=(wheel,)))
    assert made.build == "cp312abi3_linux_64_0"
    assert made.depends == (
        "python <3.15,>=3.12",
        "cpython >=3.12",
        "python-gil",
        "numpy >=2.1",
        "__glibc >=2.28,<3.0a0",
        "numpy >=2.3",
    )


def test_an_sdk_has_no_package_and_a_platform_without_condas_name_is_named() -> None:
    manifest = make_manifest(TAG, platforms=["manylinux_2_28_riscv64"], pythons=["cp312"])
    name = f"mlir_sdk-{manifest.version}-py3-none-any.whl"
    sdk = msgspec.structs.replace(manifest.wheels[0], distribution="mlir-sdk", python="py3", filename=name)
    made, left_out = packages(msgspec.structs.replace(manifest, wheels=(*manifest.wheels, sdk)))
    assert made == ()
    assert left_out == (manifest.wheels[0].filename,)


# -- the recipe -----------------------------------------------------------------------------------------------------


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
