from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_release.release.model.matrix import Matrix
from mlir_release.release.pinning.pinned import check_run
from mlir_release.release.transaction.start import start
from tests.memory_forge import MemoryForge
from tests.refusals import refused
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets

TARGETS = make_targets(make_row())
MATRIX = Matrix.parse(TARGETS)
WORKFLOW = "release.yml"


@pytest.fixture
def forge() -> MemoryForge:
    return MemoryForge({"llvm-project.version": b"a" * 40 + b"\n", "targets.toml": TARGETS.encode()})


def is_another(forge: MemoryForge, run: str, tag: str, id: str = "tampered") -> None:
    refused(lambda: check_run(forge, run, tag, workflow=WORKFLOW), id)


def test_the_run_that_a_snapshot_dispatched(forge: MemoryForge) -> None:
    tag = start(forge, make_revision("b" * 40), MATRIX, request_id="r").tag
    (run,) = forge.runs(WORKFLOW, ref=tag)
    assert check_run(forge, run.id, tag, workflow=WORKFLOW) == run


def test_runs_of_anything_else(forge: MemoryForge) -> None:
    tag = start(forge, make_revision("b" * 40), MATRIX, request_id="r").tag
    on_branch = forge.dispatch(WORKFLOW, ref="main", inputs={})
    other = forge.dispatch("other.yml", ref=tag, inputs={})
    assert on_branch is not None
    assert other is not None
    for run in (on_branch.id, other.id, "999"):
        is_another(forge, run, tag)
    is_another(forge, "0", "main", "option-invalid")
    is_another(forge, "0", "snapshot-20991231.01", "tag-missing")


def test_a_branch_of_the_snapshots_name_is_not_the_snapshot(forge: MemoryForge) -> None:
    """GitHub lists its runs under the same name; only the commit differs."""
    tag = start(forge, make_revision("b" * 40), MATRIX, request_id="r").tag
    (run,) = forge.runs(WORKFLOW, ref=tag)
    forge.run_list[0] = replace(run, commit="f" * 40)
    is_another(forge, run.id, tag)


def test_a_run_of_a_numbered_release(forge: MemoryForge) -> None:
    tag = start(forge, make_revision("b" * 40), MATRIX, version="22.1.8", request_id="r").tag
    (run,) = forge.runs(WORKFLOW, ref=tag)
    is_another(forge, run.id, tag, "release-unsuitable")
