"""What a revision demands of the jobs' tools, before anything is made for it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.llvm.llvm_facts import LlvmFacts
from mlir_release.ground.python.locked import read_lock
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.start import start
from tests.memory_forge import MemoryForge
from tests.refusals import refused
from tests.revision_factory import FACTS, LLVM_FILES, make_revision
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from mlir_release.ground.errors import ReleaseError

SHA = "b" * 40
GCC = {"GNU": "14.2"}
REQUIRED, EXPERIMENTAL = (
    Matrix.parse(make_targets(make_row(required=required), compiler=GCC)) for required in (True, False)
)
#: Linux is required, macOS is not.
BOTH = Matrix.parse(
    make_targets(
        make_row(),
        make_row(runtime="macos-arm64", required=False),
        compiler=GCC,
        others={"macos-arm64": {"pythons": ["cp312"], "compiler": {"AppleClang": "17.0"}}},
    )
)


def make_forge() -> MemoryForge:
    return MemoryForge({"llvm-project.version": f"{'a' * 40}\n".encode()})


def begins_nothing(matrix: Matrix, **facts: Any) -> ReleaseError:
    """The error about a revision of other ``facts``; neither a snapshot nor a release is begun."""
    forge = make_forge()
    before = forge.key()
    revision = make_revision(SHA, facts=replace(FACTS, **facts))
    for version in (None, "22.1.8"):
        for dry_run in (True, False):
            action = partial(start, forge, revision, matrix, version=version, dry_run=dry_run)
            error = refused(action, "revision-unsuitable")
    assert forge.key() == before
    return error


def notes(matrix: Matrix, facts: LlvmFacts) -> tuple[str, ...]:
    outcome = start(make_forge(), make_revision(SHA, facts=facts), matrix)
    assert outcome.action == "started"
    return outcome.notes


def test_a_newer_cmake_or_python_than_the_jobs_have_is_refused_for_all() -> None:
    (cmake,) = (pin.version for pin in read_lock() if pin.name == "cmake")
    error = begins_nothing(EXPERIMENTAL, build_tools=("CMake>=4.1", "Python>=3.13", "GNU>=7.4"))
    assert error.why == f"LLVM 22.1.8 needs CMake>=4.1, not {cmake}; LLVM 22.1.8 needs Python>=3.13, not 3.12"
    assert "tools/lock_builds.py" in error.remedy


@pytest.mark.parametrize("matrix", [REQUIRED, BOTH])
def test_a_newer_compiler_than_a_required_platform_has_is_refused(matrix: Matrix) -> None:
    error = begins_nothing(matrix, build_tools=("GNU>=99",))
    assert error.why == "LLVM 22.1.8 needs GNU>=99, not 14.2 as on linux-x86_64"


def test_a_newer_compiler_than_any_platform_has_is_refused() -> None:
    assert "GNU>=99" in begins_nothing(EXPERIMENTAL, build_tools=("GNU>=99",)).why


def test_an_experimental_platform_with_an_older_compiler_is_left_out() -> None:
    facts = replace(FACTS, build_tools=(*FACTS.build_tools[:-2], "AppleClang>=21.0", "MSVC>=19.28"))
    assert notes(BOTH, facts) == (
        "no wheels for cp312: LLVM 22.1.8 needs AppleClang>=21.0, not 17.0 as on macos-arm64",
    )


def test_the_next_minimum_of_llvm_is_met() -> None:
    """LLVM 24's: llvm-project#223854."""
    assert notes(BOTH, replace(FACTS, build_tools=("CMake>=3.31.0", *FACTS.build_tools[1:]))) == ()


def test_what_can_not_be_read_refuses_nothing_and_is_noted() -> None:
    tree = LLVM_FILES | {"llvm/CMakeLists.txt": "cmake_minimum_required(VERSION ${FROM_ELSEWHERE})\n"}
    found = LlvmFacts.read(tree.get)
    facts = replace(FACTS, build_tools=found.build_tools)
    assert notes(BOTH, facts) == ("its tree does not say which CMake, Python it needs; nothing is refused for that",)


def test_a_revision_without_the_project_of_every_target_is_refused() -> None:
    """Another project may be in it, so that its facts can be read."""
    assert "LLVM 22.1.8 has no mlir/python/requirements.txt" in begins_nothing(REQUIRED, lacks=("mlir",)).why


def test_a_revision_whose_bindings_need_a_newer_cpython_than_all_targets_have_is_refused() -> None:
    error = begins_nothing(REQUIRED, minimum_python="3.20")
    assert error.what.startswith("no target of the build matrix can be made of llvm-project")
    assert error.why == "no wheels for cp312, cp313: LLVM 22.1.8 needs CPython 3.20 or newer"
