"""Targets whose requirements have no wheels: excluded when the tag is made, and recorded in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from mlir_release.ground.python.resolver import Resolution, WantedPlace
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.pinning import installable
from mlir_release.release.pinning.installable import IndexAnswers, ask, format_reasons, parse_reasons
from mlir_release.release.pinning.state import matrix_of
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.start import start
from tests.memory_forge import MemoryForge
from tests.refusals import refused
from tests.revision_factory import FACTS, make_revision
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


UPSTREAM = ("numpy>=2.1.0, <=2.1.2",)
TEXT = make_targets(make_row(suites=["smoke", "bindings"]), pythons=["cp313", "cp314"])
MATRIX = Matrix.parse(TEXT)
REVISION = make_revision("b" * 40, facts=replace(FACTS, runtime_requirements=UPSTREAM))
WHY = "numpy<=2.1.2,>=2.1.0 has no wheel there (2.3.2 to 2.5.5 have)"


class Index:
    """Answers for pip, and notes what it was asked."""

    def __init__(self, **answers: Resolution) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, requirements: Sequence[str], wanted: Iterable[WantedPlace]) -> dict[WantedPlace, Resolution]:
        self.asked.append(tuple(requirements))
        return {one: self.answers.get(one.python.tag, Resolution(installable=True)) for one in wanted}


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    found = Index(cp314=Resolution(installable=False, why=WHY))
    monkeypatch.setattr(installable, "resolve_all", found)
    return found


def make_forge() -> MemoryForge:
    return MemoryForge({"llvm-project.version": b"a" * 40 + b"\n", "targets.toml": TEXT.encode()})


def test_the_tag_records_what_is_excluded_and_later_jobs_agree(index: Index) -> None:
    forge = make_forge()
    done = start(forge, REVISION, MATRIX, request_id="r1")
    assert f"no wheels for cp314: {WHY}" in done.notes
    (state,) = Ledger(forge, whole=True).states
    assert state.excluded == {"linux-x86_64-cp314": WHY}
    index.answers.clear()  # NumPy's new wheels do not change a release that is under way
    matrix = matrix_of(forge, state)
    assert [wheel.name for wheel in matrix.wheels] == ["mlir-linux-x86_64-cp313"]
    assert [str(row) for row in matrix.excluded] == [f"mlir-linux-x86_64-cp314: {WHY}"]
    start(forge, REVISION, MATRIX, request_id="r1")
    assert len(index.asked) == 1


def test_what_upstream_s_tests_import_is_asked_for_where_they_run(index: Index) -> None:
    ask(Matrix.parse(make_targets(make_row(suites=["smoke"]), pythons=["cp313"])), REVISION.facts())
    assert index.asked == [("numpy<=2.1.2,>=2.1.0",)]
    ask(MATRIX, REVISION.facts())
    (_, locked) = index.asked[-1]
    assert locked.startswith("pyyaml==")  # the version that the tests run with, and no newer one


def test_the_tests_take_the_version_that_the_wheel_requires_itself(index: Index) -> None:
    ask(MATRIX, replace(FACTS, runtime_requirements=(*UPSTREAM, "PyYAML>=5.3.1, <=6.0.1")))
    assert index.asked == [("numpy<=2.1.2,>=2.1.0", "PyYAML<=6.0.1,>=5.3.1")]


def test_a_dry_run_says_it_before_anything_is_pinned(index: Index) -> None:
    forge = make_forge()
    planned = start(forge, REVISION, MATRIX, request_id="r1", dry_run=True)
    assert f"no wheels for cp314: {WHY}" in planned.notes
    assert [[Requirement(text).name for text in asked] for asked in index.asked] == [["numpy", "pyyaml"]]
    assert not forge.tags()


def test_the_overrides_are_what_is_asked_about(index: Index) -> None:
    requires = {"numpy": {"specifier": "<3", "reason": "2.1.2 has no wheel for 3.14"}}
    matrix = Matrix.parse(make_targets(make_row(suites=["smoke", "bindings"]), requires=requires))
    ask(matrix, REVISION.facts())
    assert index.asked[0][0] == "numpy<3,>=2.1.0"


def test_no_cpython_meets_the_requirements(index: Index) -> None:
    index.answers["cp313"] = Resolution(installable=False, why="numpy has no wheel for cp313")
    forge = make_forge()
    error = refused(lambda: start(forge, REVISION, MATRIX, request_id="r1"), "revision-unsuitable")
    assert WHY in error.why
    assert "[requires]" in error.remedy
    assert not forge.tags()
    assert forge.read("llvm-project.version", commit=forge.branches["main"]) == b"a" * 40 + b"\n"


def test_an_unreachable_index_excludes_nothing_and_is_noted(index: Index) -> None:
    index.answers["cp314"] = Resolution(installable=None, why="Connection\nrefused")
    forge = make_forge()
    done = start(forge, REVISION, MATRIX, request_id="r1")
    (note,) = [note for note in done.notes if note.startswith("pip could not find out")]
    assert note.endswith("has wheels for cp314; nothing is left out for that: Connection refused")
    (state,) = Ledger(forge, whole=True).states
    assert state.excluded == {}
    assert len(matrix_of(forge, state).wheels) == 2


def test_an_unknown_override_is_an_error_before_anything_is_pinned(index: Index) -> None:
    requires = {"nunpy": {"specifier": "<3", "reason": "x"}}
    matrix = Matrix.parse(make_targets(make_row(suites=["smoke", "bindings"]), requires=requires))
    forge = make_forge()
    refused(lambda: start(forge, REVISION, matrix, request_id="r1"), "config-invalid")
    assert not index.asked
    assert not forge.tags()


@pytest.mark.parametrize(
    "reasons",
    [{}, {"a-cp314": WHY}, {"a-cp314": "one: two, three", "b-cp315t": "for cp315t: Cannot install"}],
)
def test_reasons_are_read_back(reasons: dict[str, str]) -> None:
    assert parse_reasons(format_reasons(reasons)) == reasons


def test_a_reason_is_one_line_of_its_own() -> None:
    assert parse_reasons(format_reasons({"a": "x | b: y\nz"})) == {"a": "x / b: y z"}


def test_nothing_is_asked_without_requirements() -> None:
    assert ask(MATRIX, FACTS) == IndexAnswers(reasons={}, unknown=())
