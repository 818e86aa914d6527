"""Its SDK: see :mod:`mlir_release.builder.sdk.port`."""

from pathlib import Path

from mlir_release.builder.projects.api import Bindings, Recipe

from . import PROJECT

RECIPE = Recipe(
    project=PROJECT,
    kept_sources=("sums",),
    needed_sources=("LICENSE.TXT", "cmake/Modules", "sums/lib"),
    needed_to_build=("llvm/CMakeLists.txt", "sums/CMakeLists.txt"),
    tools={},
    components=lambda source, system: ["sums-headers"],
    settings={},
    packages=("libsums-{v}-dev",),
    pieces={"include/sums": "libsums-{v}-dev"},
    programs=(),
    fill=lambda prefix, source, output: [],  # the headers are all
    for_builds=(),
    for_tests=("sums/python/tests",),
    bindings=lambda facts: Bindings("3.9"),
    code=(Path(__file__),),
)
