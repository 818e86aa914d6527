"""A project that another distribution brings: a C library with a Python module over it."""

from pathlib import Path

from mlir_release.builder.projects.api import Profile, Project

PROJECT = Project(
    name="sums",
    title="the library of sums",
    package=__name__,
    folder=Path(__file__).parent,
    module="sums",
    profiles={
        "library": Profile(distribution="sums", makes="any-python", summary="A library that adds"),
        "source": Profile(distribution="sums", makes="source", summary="A library that adds, as sources"),
    },
    subprojects=("sums",),
    needs="sums/lib/sums.c",
    paths=("sums",),
    suites=("smoke", "bindings"),
)
