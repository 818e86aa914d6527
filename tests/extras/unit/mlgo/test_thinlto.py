"""What a link line says about the modules of a ThinLTO link."""

from __future__ import annotations

import shlex

import pytest

from mlir_release.extras.mlgo.corpora.thinlto import codegen_options, inputs_of

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
