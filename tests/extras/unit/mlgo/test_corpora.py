"""Corpora: what recorded commands and link lines become, compile commands, and which modules are held out."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec
import pytest

from mlir_release.extras.mlgo.corpora.cc1 import clang_flags, generating, llc_flags, optimizing, with_profiles
from mlir_release.extras.mlgo.corpora.corpus import load_corpus, read_commands, split
from mlir_release.extras.mlgo.corpora.thinlto import codegen_options, inputs_of
from mlir_release.extras.mlgo.documents import Module
from tests.refusals import refused

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


# -- link lines -----------------------------------------------------------------------------------------------------


#: What lld does unless the line says otherwise.
DEFAULTS = ["-O2", "-ffunction-sections", "-fdata-sections"]

LINE = shlex.split(
    "/usr/bin/clang++ -O3 -march=x86-64-v3 -fPIC -flto=thin -fuse-ld=lld -fprofile-use=p.profdata "
    "-target x86_64-linux-gnu -mllvm -enable-misched -Wl,--lto-O1,-mllvm,-unroll-threshold=9 -fno-vectorize "
    "-Wl,--plugin-opt=-stats -Wl,--gc-sections -fveclib=libmvec -Llib a.o lib/b.o libc.a -o program.o -lm"
)

#: In the shape of https://github.com/google/ml-compiler-opt/blob/main/docs/regalloc-demo/demo.md.
CHROMIUM = shlex.split(
    'python3 "../../build/link_wrapper.py" --output="./browser" -- ../../llvm-build/bin/clang++ '
    "-Wl,--version-script=../../build/browser.map -Werror -fuse-ld=lld -Wl,--build-id=sha1 -fPIC -Wl,-z,relro "
    "-Wl,--icf=all -Wl,-mllvm,-instcombine-lower-dbg-declare=0 -Wl,--save-temps=import "
    "-Wl,--thinlto-emit-index-files -flto=thin -Wl,--thinlto-jobs=all -Wl,--thinlto-cache-dir=cache "
    "-Wl,--thinlto-cache-policy=cache_size=10\\%:cache_size_files=100 -Wl,-mllvm,-import-instr-limit=30 "
    "-fwhole-program-vtables -m64 -no-canonical-prefixes -Wl,-O2 -Wl,--gc-sections -rdynamic -nostdlib++ "
    "--sysroot=../../build/sysroot -fsanitize=cfi-vcall -fsanitize=cfi-icall -pie -Wl,--lto-O2 -o ./browser "
    "-Wl,--start-group ./obj/a.o obj/b/b.o obj/c/libc.a -Wl,--end-group -ldl -l:libffi_pic.a"
)


def test_objects_and_archives_are_those_that_are_linked() -> None:
    assert inputs_of(LINE, ".o") == ["a.o", "lib/b.o"]
    assert inputs_of([*LINE, "libc.a", "-lib.a"], ".a") == ["libc.a"]
    assert inputs_of(CHROMIUM, ".o") == ["obj/a.o", "obj/b/b.o"]
    assert inputs_of(CHROMIUM, ".a") == ["obj/c/libc.a"]


def test_the_options_are_those_that_the_linker_gets_and_its_own_come_last() -> None:
    assert codegen_options(LINE) == shlex.split(
        "-O2 -ffunction-sections -fdata-sections -O3 -march=x86-64-v3 -target x86_64-linux-gnu -mllvm -enable-misched "
        "-fveclib=libmvec -O1 -mllvm -unroll-threshold=9 -mllvm -stats"
    )


def test_of_the_guides_line_the_options_are_those_that_the_guide_derives_and_count_for_bitcode() -> None:
    """The guide's others are of the front end and the link: --sysroot, -nostdlib++, -no-canonical-prefixes, -c."""
    assert codegen_options(CHROMIUM) == [
        *DEFAULTS,
        *shlex.split("-m64 -fPIC -mllvm -instcombine-lower-dbg-declare=0 -mllvm -import-instr-limit=30 -O2"),
    ]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("-Wl,-mllvm -Wl,-x=1", "-mllvm -x=1"),
        ("-Xlinker -mllvm -Xlinker -x=1", "-mllvm -x=1"),
        ("-Wl,-mllvm=-x -mllvm=-y", "-mllvm -y -mllvm -x"),
        ("-Wl,--mllvm,-x -Wl,-plugin-opt=-y -Wl,-plugin-opt=mcpu=z", "-mllvm -x -mllvm -y"),
        ("-Wl,-plugin-opt=O3 -Wl,--lto-O1", "-O3 -O1"),
        ("-Wl,-O3 -Wl,--lto-CGO3", ""),
        ("-Os", "-O2"),
        ("-Oz -Wl,--lto-O3", "-O2 -O3"),
        ("-Ofast", "-O3"),
        ("-Og", "-O1"),
        ("-fPIC", ""),
        ("-fno-pic -pie", "-fPIC"),
        ("-fPIC -no-pie", "-fno-pic"),
        ("-pie -no-pie", "-fno-pic"),
        ("-shared -no-pie", "-fPIC"),
        ("-static", "-fno-pic"),
        ("-static-pie", "-fPIC"),
        ("-Wl,-pie", "-fPIC"),
        ("-ffunction-sections -fvisibility=hidden -fno-vectorize -fopenmp", ""),
    ],
)
def test_each_way_to_say_it(line: str, options: str) -> None:
    assert codegen_options(["clang", *line.split(), "a.o"]) == [*DEFAULTS, *options.split()]


# -- the corpus -----------------------------------------------------------------------------------------------------


def modules(count: int) -> list[Module]:
    return [
        Module(name=f"m{index}.o", bitcode=f"bitcode/m{index}.o.bc", sha256=f"{index:064x}", flags=(), held_out=False)
        for index in range(count)
    ]


def test_the_split_has_the_share_and_depends_on_names_alone() -> None:
    found = split(modules(20), 0.25)
    assert [module.name for module in found] == sorted(module.name for module in modules(20))
    assert sum(module.held_out for module in found) == 5
    assert split(modules(20)[::-1], 0.25) == found


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_both_sides_have_a_module(share: float) -> None:
    found = split(modules(3), share)
    assert {module.held_out for module in found} == {True, False}


def test_modules_of_the_same_content_are_one() -> None:
    first, second, third = modules(3)
    assert [m.name for m in split([first, msgspec.structs.replace(second, sha256=first.sha256), third], 0.5)] == [
        "m0.o",
        "m2.o",
    ]


def test_commands_are_read_in_both_forms_and_those_without_an_object_left_out(tmp_path: Path) -> None:
    entries = [
        {"directory": "/b", "command": "clang -c 'a b.c' -o x/a.o", "file": "a b.c"},
        {"directory": "/b", "arguments": ["clang", "-c", "b.c", "-o", "/b/x/b.o"], "file": "b.c"},
        {"directory": "/b", "command": "tblgen c.td", "file": "c.td"},
    ]
    (tmp_path / "c.json").write_text(json.dumps(entries))
    assert read_commands(tmp_path / "c.json") == {"x/a.o": Path("/b"), "x/b.o": Path("/b")}


@pytest.mark.parametrize("content", [None, "{", "3", '[{"directory": "/b"}]', '["x"]'])
def test_a_folder_that_is_no_build_tree_is_refused(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "c.json").write_text(content)
    refused(lambda: read_commands(tmp_path / "c.json"), "input-invalid")


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    refused(lambda: load_corpus(tmp_path), "input-missing")
