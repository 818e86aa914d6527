from __future__ import annotations

import sys

import pytest

from mlir_release.builder.sdk.elf import ElfFacts
from mlir_release.builder.wheels.platform_tags import (
    ActualPlatform,
    AuditwheelAnswer,
    beyond_policies,
    check_tags,
    newest_policy,
    platforms_of,
)

WHEEL = "Tag: cp311-cp311-{}\n"


def elf(**facts: object) -> ElfFacts:
    return ElfFacts(machine="x86_64", **facts)  # type: ignore[arg-type]


def check(platform: str, truth: ActualPlatform, files: dict[str, ElfFacts]) -> set[str]:
    tags = (f"cp311-cp311-{platform}",)
    return {problem.id for problem in check_tags(WHEEL.format(platform), tags, truth, files, tuple(files), {})}


def test_platforms_keep_their_order() -> None:
    tags = ("cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_17_x86_64", "cp311-cp311-linux_x86_64")
    assert platforms_of(tags) == ("manylinux_2_17_x86_64", "linux_x86_64")


def test_packed_relocations_need_a_new_glibc_even_where_they_do_not_say_so() -> None:
    quiet = elf(packed_relocations=True, versions={"libc.so.6": ("GLIBC_2.14",)})
    assert quiet.glibc == (2, 36)
    truth = ActualPlatform(tag="manylinux_2_36_x86_64")
    assert check("manylinux_2_28_x86_64", truth, {"mlir/libx.so": quiet}) == {"relr-undeclared", "platform-tag-untrue"}


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("manylinux2014_x86_64", {"relr-undeclared"}),
        ("manylinux_2_35_x86_64", {"relr-undeclared"}),
        ("linux_x86_64", {"relr-undeclared"}),  # promises nothing of glibc: any is offered the wheel
        ("manylinux_2_35_x86_64.manylinux_2_39_x86_64", {"relr-undeclared"}),
        ("manylinux_2_36_x86_64", set()),
        ("manylinux_2_39_x86_64", set()),
        ("musllinux_1_2_x86_64", set()),
    ],
)
def test_packed_relocations_must_say_so_where_the_tag_admits_a_glibc_before_them(
    platform: str, expected: set[str]
) -> None:
    """Debian 13's linker leaves the need out of libraries that take no versioned symbol from libc."""
    quiet = elf(packed_relocations=True)
    tags = tuple(f"cp311-cp311-{part}" for part in platform.split("."))
    truth = ActualPlatform(tag="manylinux_2_17_x86_64")
    problems = check_tags(WHEEL.format(platform), tags, truth, {"mlir/libx.so": quiet}, (), {})
    assert {problem.id for problem in problems} == expected


@pytest.mark.parametrize(("symbol", "expected"), [("GLIBC_2.35", {"relr-undeclared"}), ("GLIBC_2.36", set())])
def test_a_symbol_that_is_as_new_as_packed_relocations_refuses_older_ones_as_well(
    symbol: str, expected: set[str]
) -> None:
    library = elf(packed_relocations=True, versions={"libc.so.6": (symbol,)}, soname="liba.so")
    module = elf(packed_relocations=True, needed=("liba.so",))
    truth = ActualPlatform(tag="linux_x86_64")
    assert check("linux_x86_64", truth, {"m/liba.so": library, "m/_x.so": module}) == expected


def test_a_file_is_guarded_by_what_it_needs() -> None:
    """The dynamic linker refuses all of them together, before it relocates the first."""
    library = elf(packed_relocations=True, declares_packed_relocations=True, soname="liba.so")
    middle = elf(packed_relocations=True, needed=("liba.so",), soname="libb.so")
    module = elf(packed_relocations=True, needed=("libb.so",))
    alone = elf(packed_relocations=True, needed=("libc.so.6",))
    files = {"m/liba.so": library, "m/libb.so": middle, "m/_x.cpython-311-x86_64-linux-gnu.so": module}
    truth = ActualPlatform(tag="linux_x86_64")
    assert check("linux_x86_64", truth, files) == set()
    assert check("linux_x86_64", truth, {**files, "m/alone.so": alone}) == {"relr-undeclared"}
    assert check("linux_x86_64", truth, {"m/liba.so": library}) == set(), "it says so itself"


@pytest.mark.parametrize(
    ("claimed", "truth", "expected"),
    [
        ("any", ActualPlatform(tag="manylinux_2_17_x86_64"), {"platform-tag-untrue"}),
        ("manylinux_2_28_x86_64", ActualPlatform(tag="manylinux_2_17_x86_64"), set()),  # it needs less
        ("linux_x86_64", ActualPlatform(tag="linux_x86_64", external=("libLLVM.so.22.1",)), {"needs-outside-library"}),
    ],
)
def test_a_tag_promises_what_the_files_need(claimed: str, truth: ActualPlatform, expected: set[str]) -> None:
    assert check(claimed, truth, {"x.so": elf()}) == expected


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, None),
        ({"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.34")}, (2, 34)),
        ({"libc.so.6": ("GLIBC_2.4",), "libm.so.6": ("GLIBC_2.35",)}, (2, 35)),
        ({"libstdc++.so.6": ("GLIBCXX_3.4.30", "CXXABI_1.3")}, None),
        ({"libc.so.6": ("GLIBC_2.9", "GLIBC_2.10")}, (2, 10)),
    ],
)
def test_the_newest_symbol_version_counts(
    versions: dict[str, tuple[str, ...]], expected: tuple[int, int] | None
) -> None:
    assert elf(versions=versions).glibc == expected


def answer(**values: object) -> AuditwheelAnswer:
    """Of auditwheel, on a wheel that fits none of its policies."""
    plain = {
        "overall_tag": "linux_x86_64", "external_libs": {}, "policy_upgrades": {}, "pyfpe": False, "ucs2": False,
        "unsupported_isa": False,
    }  # fmt: skip
    return {**plain, **values}  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        ((2, 43), "manylinux_2_43_x86_64"),
        ((3, 0), "manylinux_3_0_x86_64"),
        ((2, 42), "manylinux_2_42_x86_64"),
        ((2, 38), "manylinux_2_42_x86_64"),  # libstdc++ is newer than in all that auditwheel's authors looked at
    ],
)
def test_a_tag_needs_no_policy(required: tuple[int, int], expected: str) -> None:
    tag, libraries = beyond_policies(answer(), "x86_64", required, (2, 41))
    assert (str(tag), set(libraries)) == (expected, set())


@pytest.mark.parametrize(
    "obstacle",
    [
        {"pyfpe": True},
        {"ucs2": True},
        {"unsupported_isa": True},
        {"policy_upgrades": {"manylinux_2_41_x86_64": {"blacklisted_symbols": {"libz.so.1": ["zcfree"]}}}},
    ],
)
def test_what_no_newer_glibc_makes_right_gets_no_manylinux_tag(obstacle: dict[str, object]) -> None:
    tag, libraries = beyond_policies(answer(**obstacle), "x86_64", (2, 43), (2, 41))
    assert (str(tag), set(libraries)) == ("linux_x86_64", set())


def test_libraries_count_by_what_the_newest_policy_allows() -> None:
    older = {"libs_to_eliminate": ["libexpat.so.1", "libLLVM.so.23.1"]}
    upgrades = {"manylinux_2_5_x86_64": older, "manylinux_2_17_x86_64": older}
    tag, libraries = beyond_policies(answer(policy_upgrades=upgrades), "x86_64", (2, 43), (2, 41))
    assert (str(tag), set(libraries)) == ("manylinux_2_43_x86_64", set())
    upgrades["manylinux_2_41_x86_64"] = {"libs_to_eliminate": ["libLLVM.so.23.1"]}
    tag, libraries = beyond_policies(answer(policy_upgrades=upgrades), "x86_64", (2, 43), (2, 41))
    assert (str(tag), set(libraries)) == ("linux_x86_64", {"libLLVM.so.23.1"})


@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is for Linux")
def test_the_newest_policy_is_read_from_the_installed_auditwheel() -> None:
    assert newest_policy() >= (2, 41)
