"""One table of platforms, and the names of CPythons: each spelling of one is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.builder.model.names import WheelKey
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.cpython import CPython, split_target
from mlir_release.ground.python.platforms import SYSTEMS, Platform, PlatformTag, common_arch, executable_name
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from tests.refusals import refused

ROOT = Path(__file__).parents[4]

#: What Python says on each machine of the repository's own targets.toml -> its runtime, and the tag of its wheels.
HOSTS = {
    ("Linux", "x86_64"): ("linux-x86_64", "manylinux_2_28_x86_64"),
    ("Linux", "aarch64"): ("linux-aarch64", "manylinux_2_28_aarch64"),
    ("Darwin", "arm64"): ("macos-arm64", "macosx_13_0_arm64"),
    ("Darwin", "x86_64"): ("macos-x86_64", "macosx_13_0_x86_64"),  # an Intel processor, or a Python under Rosetta
    ("Windows", "AMD64"): ("windows-x64", "win_amd64"),
    ("Windows", "amd64"): ("windows-x64", "win_amd64"),
}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))


@pytest.mark.parametrize("host", HOSTS, ids="-".join)
def test_every_host_selects_its_runtime_its_targets_and_its_slots(
    host: tuple[str, str], matrix: Matrix, pretend: Any
) -> None:
    pretend(system=host[0], machine=host[1])
    name, tag = HOSTS[host]
    here = Platform.of_host()
    runtime = matrix.runtime(here)
    assert (runtime.name, str(runtime.tag), runtime.platform) == (name, tag, here)
    assert matrix.runtime(here, name) == runtime
    # An SDK that is made there writes the platform as text; whoever reads it selects the same targets.
    wheels = matrix.for_platform(Platform.parse(str(here)), configuration="mlir").wheels
    assert [wheel.name for wheel in wheels] == [
        f"mlir-{name}-{python}" for python in ("cp311", "cp312", "cp313", "cp314", "cp314t", "cp315t", "cp315")
    ]
    for wheel in wheels:
        interpreter = wheel.interpreter.removesuffix("t")
        slot = WheelKey.of_file(f"mlir-1-{interpreter}-{wheel.python}-{tag}.whl")
        assert slot == wheel.slot
        assert slot == WheelKey(distribution="mlir", python=wheel.interpreter, platform=here)


def test_every_runtime_of_ours_has_a_host(matrix: Matrix) -> None:
    ordinary = {wheel.runtime.name for wheel in matrix.only("llvm=mlir").wheels}
    assert ordinary == {name for name, _ in HOSTS.values()}


@pytest.mark.parametrize(
    ("system", "machine", "why"),
    [("Linux", "sparc64", "sparc64"), ("FreeBSD", "amd64", "FreeBSD"), ("Darwin", "riscv64", "macOS"), ("", "", "''")],
)
def test_an_unknown_machine_is_named(system: str, machine: str, why: str, pretend: Any) -> None:
    pretend(system=system, machine=machine)
    error = refused(Platform.of_host, "machine-unsuitable")
    assert why in error.why
    assert "linux-x86_64" in error.remedy


def test_a_host_without_a_runtime(matrix: Matrix) -> None:
    with pytest.raises(UsageError) as caught:
        matrix.runtime(Platform.of("linux", "riscv64"))
    assert "no runtime of the matrix is for linux-riscv64" in caught.value.what
    assert "windows-x64 (windows-x86_64)" in caught.value.why
    with pytest.raises(UsageError, match="linux-aarch64 for linux-x86_64"):
        matrix.runtime(Platform.of("linux", "x86_64"), "linux-aarch64")
    with pytest.raises(UsageError) as caught:
        matrix.for_platform(Platform.of("macos", "arm64"), configuration="mlir-core")
    assert caught.value.id == "option-invalid"
    assert "mlir-core" in caught.value.what
    assert "macos-arm64" in caught.value.what


def test_one_sdk_serves_one_runtime() -> None:
    """Two runtimes of one platform differ in their floor; a wheel is never tagged with the other's."""
    text = (ROOT / TARGETS_FILE).read_text(encoding="utf-8")
    text += """
[runtime.linux-old]
os = "linux"
arch = "amd64"
runner = "ubuntu-22.04"
floor = "manylinux_2_17"
pythons = ["cp316"]

[[target]]
llvm = "mlir"
runtime = "linux-old"
suites = ["smoke", "bindings"]
required = false
"""
    matrix = Matrix.parse(text)
    here = Platform.of("linux", "x86_64")
    assert {wheel.runtime.name for wheel in matrix.for_platform(here, configuration="mlir").wheels} == {"linux-x86_64"}
    assert matrix.runtime(here, "linux-old").floor == "manylinux_2_17"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("linux-x86_64", "linux-x86_64"),
        ("linux-amd64", "linux-x86_64"),
        ("linux-arm64", "linux-aarch64"),
        ("Linux-riscv64", "linux-riscv64"),
        ("macos-arm64", "macos-arm64"),
        ("darwin-aarch64", "macos-arm64"),
        ("windows-x64", "windows-x86_64"),
        ("Windows-AMD64", "windows-x86_64"),
        ("win32-ARM64", "windows-arm64"),
    ],
)
def test_spellings_of_platforms(text: str, canonical: str) -> None:
    found = Platform.parse(text)
    assert str(found) == canonical
    assert Platform.parse(canonical) == found


def test_one_processor_has_one_name_on_all_systems() -> None:
    """Systems differ in theirs: Linux says aarch64 where macOS says arm64."""
    found = {common_arch(spelling) for system in SYSTEMS.values() for spelling in system.architectures}
    assert found == {"x86_64", "aarch64", "ppc64le", "riscv64", "s390x"}
    for spellings, name in ((("x86_64", "AMD64", "x64", "amd64"), "x86_64"), (("ARM64", "aarch64"), "aarch64")):
        assert {common_arch(spelling) for spelling in spellings} == {name}
    assert (common_arch("i386"), common_arch("x86*")) == ("i386", "x86*")


@pytest.mark.parametrize("text", ["", "linux", "linux-", "-x86_64", "linux-x86", "solaris-x86_64", "macos-riscv64"])
def test_what_is_no_platform(text: str) -> None:
    with pytest.raises(ValueError, match=r"platform|unknown"):
        Platform.parse(text)


@pytest.mark.parametrize(
    ("tag", "canonical", "platform", "version"),
    [
        ("manylinux_2_28_x86_64", "manylinux_2_28_x86_64", ("linux", "x86_64"), (2, 28)),
        ("manylinux2014_aarch64", "manylinux_2_17_aarch64", ("linux", "aarch64"), (2, 17)),
        ("manylinux1_i686", "manylinux_2_5_i686", ("linux", "i686"), (2, 5)),
        ("musllinux_1_2_x86_64", "musllinux_1_2_x86_64", ("musl", "x86_64"), (1, 2)),
        ("linux_x86_64", "linux_x86_64", ("linux", "x86_64"), None),
        ("macosx_11_0_arm64", "macosx_11_0_arm64", ("macos", "arm64"), (11, 0)),
        ("macosx_11_0_universal2", "macosx_11_0_universal2", ("macos", "universal2"), (11, 0)),
        ("macosx_13_0", "macosx_13_0", ("macos", ""), (13, 0)),
        ("win_amd64", "win_amd64", ("windows", "x86_64"), None),
        ("win_arm64", "win_arm64", ("windows", "arm64"), None),
        ("win32", "win32", ("windows", "win32"), None),
        ("any", "any", ("any", "any"), None),
        ("", "", ("", ""), None),
    ],
)
def test_platform_tags(tag: str, canonical: str, platform: tuple[str, str], version: tuple[int, int] | None) -> None:
    found = PlatformTag.parse(tag)
    assert str(found) == canonical
    assert (found.platform, found.version) == (Platform(*platform), version)
    assert found.glibc == (version if tag.startswith("manylinux") else None)
    assert found.macos == (version if tag.startswith("macosx") else None)


def test_floors() -> None:
    assert PlatformTag.parse("manylinux_2_28_x86_64").floor == "manylinux_2_28"
    assert PlatformTag.parse("macosx_13_0_arm64").floor == "macosx_13_0"
    assert PlatformTag.parse("win_amd64").floor == "win_amd64"


@pytest.mark.parametrize(
    ("host", "version", "tag"),
    [
        (("Darwin", "arm64"), "15.6.1", "macosx_15_0_arm64"),
        (("Darwin", "x86_64"), "10.15", "macosx_10_15_x86_64"),
        (("Linux", "x86_64"), "2.36", "manylinux_2_36_x86_64"),
        (("Linux", "aarch64"), "", "linux_aarch64"),
        (("Windows", "AMD64"), "", "win_amd64"),
    ],
)
def test_tag_of_the_host(host: tuple[str, str], version: str, tag: str, pretend: Any) -> None:
    pretend(system=host[0], machine=host[1])
    pretend(mac_ver=(version, ("", "", ""), ""), libc_ver=("glibc" if version else "", version))
    assert str(PlatformTag.of_host()) == tag


def test_markers() -> None:
    assert Platform.of("windows", "x64").markers == ("win32", "AMD64")
    assert Platform.of("macos", "arm64").markers == ("darwin", "arm64")
    for unselectable in ("musllinux_1_2_x86_64", "macosx_11_0_universal2", "win32", "any"):
        assert PlatformTag.parse(unselectable).platform.markers is None


def test_triples() -> None:
    triples = ["x86_64-unknown-linux-gnu", "powerpc64le-unknown-linux-gnu", "arm64-apple-darwin"]
    names = ["linux-x86_64", "linux-ppc64le", "macos-arm64"]
    assert [Platform.parse(name).triple for name in names] == triples
    assert Platform.parse("windows-x64").triple == "x86_64-pc-windows-msvc"


def test_programs_have_the_suffix_of_the_host(pretend: Any) -> None:
    for system, name in (("Windows", "ninja.exe"), ("Darwin", "ninja"), ("FreeBSD", "ninja")):
        pretend(system=system, machine="amd64")
        assert executable_name("ninja") == name


def test_suffixes_of_files() -> None:
    suffixes = {name: (s.executable_suffix, s.shared_suffix) for name, s in SYSTEMS.items()}
    assert suffixes["windows"] == (".exe", ".dll")
    assert suffixes["macos"] == ("", ".dylib")
    assert suffixes["linux"] == ("", ".so")


@pytest.mark.parametrize(
    ("tag", "first", "others"),
    [
        ("manylinux_2_28_x86_64", "manylinux_2_28_x86_64", {"manylinux_2_17_x86_64", "manylinux2014_x86_64"}),
        ("manylinux_2_17_aarch64", "manylinux_2_17_aarch64", {"manylinux2014_aarch64", "linux_aarch64"}),
        ("macosx_13_0_arm64", "macosx_13_0_arm64", set()),
        ("win_amd64", "win_amd64", set()),
    ],
)
def test_what_the_oldest_machine_of_a_tag_accepts(tag: str, first: str, others: set[str]) -> None:
    accepted = PlatformTag.parse(tag).accepted
    assert accepted[0] == first
    assert others <= set(accepted)
    assert "manylinux_2_29_x86_64" not in accepted
    assert bool(others) == (len(accepted) > 1)


# -- CPythons ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tag", "version", "marker"),
    [
        ("cp312", "cp312", "3.12", "3.12"),
        ("cp314t", "cp314t", "3.14t", "3.14"),
        ("3.9", "cp39", "3.9", "3.9"),
        ("3.13t", "cp313t", "3.13t", "3.13"),
        ("python3.12", "cp312", "3.12", "3.12"),
        ("312", "cp312", "3.12", "3.12"),
    ],
)
def test_spellings_of_cpythons(text: str, tag: str, version: str, marker: str) -> None:
    found = CPython.parse(text)
    assert (found.tag, found.version, found.marker, str(found)) == (tag, version, marker, tag)


@pytest.mark.parametrize("text", ["", "cp", "cp27", "pp310", "py3", "3", "3.12.1", "cp301", "cp312d", "3.12 ", "3.١"])
def test_what_is_no_cpython(text: str) -> None:
    with pytest.raises(ValueError, match="not a CPython"):
        CPython.parse(text)


@pytest.mark.parametrize("text", ["3.12", "312", "python3.12", "cp3.12"])
def test_a_tag_has_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match="written like cp312"):
        CPython.of_tag(text)


def test_cpythons_are_ordered_by_version_not_by_text() -> None:
    tags = ["cp39", "cp310", "cp313", "cp313t", "cp314"]
    assert [python.tag for python in sorted(map(CPython.of_tag, reversed(tags)))] == tags


@given(st.integers(0, 99), st.booleans())
def test_the_tag_and_the_version_name_the_same_cpython(minor: int, free_threaded: bool) -> None:
    python = CPython(3, minor, free_threaded)
    assert CPython.of_tag(python.tag) == CPython.parse(python.version) == python


@pytest.mark.parametrize(
    ("name", "before", "python"),
    [
        ("mlir-linux-x86_64-cp312", "mlir-linux-x86_64", CPython(3, 12)),
        ("mlir-core-windows-x64-cp314t", "mlir-core-windows-x64", CPython(3, 14, free_threaded=True)),
        ("regression-mlir-macos-arm64", "regression-mlir-macos-arm64", None),
        ("local", "local", None),
    ],
)
def test_names_of_targets_end_with_the_cpython(name: str, before: str, python: CPython | None) -> None:
    assert split_target(name) == (before, python)
