"""Whether the jobs can build a revision: its own tree says which CMake, Python and compiler it takes at least."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.host.locked import read_lock
from mlir_release.model.matrix import compiler_too_old
from mlir_release.model.matrix_jobs import DEFAULT_PYTHON
from mlir_release.model.targets import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.model.llvm_facts import LlvmFacts
    from mlir_release.model.matrix import Matrix


def tools_of_all_jobs() -> Mapping[str, str]:
    """What LLVM is configured with everywhere, by the names of ``model.llvm_facts.BUILD_TOOLS``."""
    (cmake,) = (pin.version for pin in read_lock() if pin.name == "cmake")
    return {"CMake": cmake, "Python": DEFAULT_PYTHON.version}


def check_tools(matrix: Matrix, facts: LlvmFacts, sha: str) -> tuple[str, ...]:
    """Refuse a revision that the jobs' tools can't build for something required, or for no target at all.

    :param sha: of the revision
    :returns: notes about demands that could not be read, and so refuse nothing
    :raises UsageError: ``revision-unsuitable``
    """
    found = [f"LLVM {facts.version} needs {demand}" for demand in facts.unmet(tools_of_all_jobs())]
    too_old = {runtime.name: compiler_too_old(runtime, facts) for runtime in matrix.runtimes}
    required = {wheel.runtime.name for wheel in matrix.wheels if wheel.required}
    if all(too_old.values()):
        required = set(too_old)
    found += [reason for name, reason in too_old.items() if reason and name in required]
    if found:
        raise UsageError(
            "revision-unsuitable",
            f"llvm-project {sha[:12]} demands newer tools than the jobs have; nothing is tagged",
            where=TARGETS_FILE,
            why="; ".join(found),
            remedy="lock a newer CMake (requirements/builds.in, then tools/lock_builds.py), use a runner or an image "
            "with a newer compiler and write its version into targets.toml, or choose an older revision",
        )
    unread = facts.unread_tools
    return (f"its tree does not say which {', '.join(unread)} it needs; nothing is refused for that",) if unread else ()
