"""What a recorded command of clang's becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.extras.mlgo.corpora.cc1 import clang_flags, generating, llc_flags, optimizing, with_profiles

#: As clang 22 records it, shortened.
COMMAND = [
    "-cc1", "-triple", "x86_64-pc-linux-gnu", "-O3", "-emit-obj", "-main-file-name", "a.cpp",
    "-mrelocation-model", "pic", "-pic-level", "2", "-mcmodel=medium", "-ffunction-sections", "-sys-header-deps",
    "-dependency-file", "a.d", "-MT", "a.o", "-fembed-bitcode=all", "-faddrsig",
]  # fmt: skip

#: What only the front end reads.
SOURCES = [
    "-resource-dir", "/lib/clang/22", "-D", "NDEBUG", "-I", "/src", "-internal-isystem", "/usr/include", "-Wall",
    "-std=c++17", "-fdebug-compilation-dir=/build", "-ferror-limit", "19",
]  # fmt: skip


def test_clang_gets_what_counts_for_bitcode_without_outputs_and_sources() -> None:
    profile = "-fprofile-instrument-use-path=/build/a.profdata"
    assert clang_flags([*COMMAND, *SOURCES, profile]) == (
        "-cc1", "-triple", "x86_64-pc-linux-gnu", "-O3", "-mrelocation-model", "pic", "-pic-level", "2",
        "-mcmodel=medium", "-ffunction-sections", "-faddrsig", profile,
    )  # fmt: skip


@pytest.mark.parametrize("option", ["-fprofile-instrument-use-path", "-fprofile-sample-use"])
def test_profiles_are_named_in_full(option: str) -> None:
    words = ["-cc1", f"{option}=a.profdata", f"{option}=/b.profdata", "-O2"]
    assert with_profiles(words, Path("/build")) == [
        "-cc1", f"{option}=/build/a.profdata", f"{option}=/b.profdata", "-O2"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (COMMAND, ("-O3", "-relocation-model=pic", "-code-model=medium", "-function-sections")),
        (["-cc1", "-Oz", "-fdata-sections"], ("-O2", "-data-sections")),
        (["-cc1", "-mrelocation-model", "static"], ("-relocation-model=static",)),
    ],
)
def test_llc_gets_what_the_module_does_not_say(command: list[str], flags: tuple[str, ...]) -> None:
    assert llc_flags(command) == flags


def test_all_options_of_llc_have_their_like_in_clang() -> None:
    flags = ["-O2", "-relocation-model=pic", "-code-model=large", "-function-sections", "-data-sections"]
    assert generating(flags)[3:] == [
        "-O2", "-mrelocation-model", "pic", "-mcmodel=large", "-ffunction-sections", "-fdata-sections",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "level"), [(["-O1", "-Oz"], "Oz"), (["-Og"], "O1"), (["-cc1"], "O0"), (["-O3", "-fno-rtti"], "O3")]
)
def test_opt_runs_the_pipeline_of_the_last_level(flags: list[str], level: str) -> None:
    assert optimizing([*flags, "-mllvm", "-x=1"]) == [f"-passes=default<{level}>", "-x=1"]
