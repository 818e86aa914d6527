"""What a link line says about the modules of a ThinLTO link."""

from __future__ import annotations

import shlex

from mlir_release.extras.mlgo.thinlto import codegen_options, inputs_of

LINE = shlex.split(
    "/usr/bin/clang++ -O2 -march=x86-64-v3 -fPIC -flto=thin -fuse-ld=lld -fprofile-use=p.profdata "
    "-target x86_64-linux-gnu -mllvm -enable-misched -Wl,--lto-O3,-mllvm,-unroll-threshold=9 "
    "-Wl,--plugin-opt=-stats -Wl,--gc-sections -ffunction-sections -Llib a.o lib/b.o libc.a -o program.o -lm"
)


def test_objects_and_archives_are_those_that_are_linked() -> None:
    assert inputs_of(LINE, ".o") == ["a.o", "lib/b.o"]
    assert inputs_of([*LINE, "libc.a", "-lib.a"], ".a") == ["libc.a"]


def test_the_options_are_those_of_the_code_generator_in_their_order() -> None:
    assert codegen_options(LINE) == shlex.split(
        "-O2 -march=x86-64-v3 -fPIC -target x86_64-linux-gnu -mllvm -enable-misched -O3 -mllvm -unroll-threshold=9 "
        "-mllvm -stats -ffunction-sections"
    )
