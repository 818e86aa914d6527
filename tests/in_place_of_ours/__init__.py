"""Two made-up projects with the names that the trunk's tests and the shipped files use, and nothing else of ours.

They are data alone: no wheel project, no recipe of an SDK, no suites. With them in the place of
``builder/projects/mlir`` and ``builder/projects/clang``, the trunk's tests show that the trunk needs neither.
"""

from __future__ import annotations

from pathlib import Path

from mlir_release.ground.llvm.projects import Makes, Profile, Project

_FOLDER = Path(__file__).parent


def _profile(distribution: str, makes: Makes, code_generators: tuple[str, ...] | None = None) -> Profile:
    return Profile(
        distribution=distribution, makes=makes, summary=f"A made-up {distribution}", code_generators=code_generators
    )


MLIR = Project(
    name="mlir",
    title="A made-up project",
    package=__name__,
    folder=_FOLDER,
    module="mlir",
    profiles={
        "host": _profile("mlir", "each-python", ()),
        "core": _profile("mlir-core", "each-python"),
        "full": _profile("mlir-full", "each-python", ("NVPTX", "AMDGPU")),
        "all": _profile("mlir-all", "each-python", ("all",)),
        "sdk": _profile("mlir-sdk", "sdk"),
        "sdk-tools": _profile("mlir-sdk-tools", "sdk"),
        "test-tools": _profile("mlir-test-tools", "sdk"),
        "source": _profile("mlir", "source", ()),
    },
    subprojects=(),
    needs="mlir/python/requirements.txt",
    paths=("mlir",),
    suites=("smoke", "bindings", "regression", "sdk", "source", "performance"),
    has_requirements=True,
    has_stable_abi=True,
    entry="mlir.ir",
    pypi=("mlir",),
)

CLANG = Project(
    name="clang",
    title="Another made-up project",
    package=__name__,
    folder=_FOLDER,
    module="clang",
    profiles={"libclang": _profile("llvm-libclang", "any-python")},
    subprojects=(),
    needs="clang/made-up",
    paths=("clang",),
    suites=("smoke", "bindings"),
    entry="clang.cindex",
)
