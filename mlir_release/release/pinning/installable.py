"""Targets without installable or testable wheels, because a requirement has no wheels for them.

The index is asked when a tag is made, and the tag records the answer, so that all jobs of one release agree, whatever
is published meanwhile. Nobody signs the tag's message, so before publication the index is asked again about the targets
that the message leaves out (:func:`confirm`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.builder.model.suites import BINDINGS
from mlir_release.ground.console import console
from mlir_release.ground.python.locked import choose
from mlir_release.ground.python.requirements import of_other_names, required_names, wheel_requirements
from mlir_release.ground.python.resolver import WantedPlace, resolve_all

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.ground.python.cpython import CPython
    from mlir_release.release.model.matrix import Matrix

#: Trailer of a tag: the places (runtime and CPython) that get no wheels, with the reasons.
TRAILER_EXCLUDED = "Excluded"

_SEPARATOR = " | "


@dataclass(frozen=True, kw_only=True)
class IndexAnswers:
    """The index's answers about the places of a matrix."""

    reasons: Mapping[str, str]  #: why a place (``linux-x86_64-cp314``) can have no wheel
    unknown: tuple[str, ...]  #: places that the index gave no answer for


def with_tests(requirements: Sequence[str], tests: Sequence[str]) -> tuple[str, ...]:
    """The wheels' requirements, and further ones of upstream's ``tests``, locked as in a test run.

    A requirement of both (PyYAML, before LLVM 22) is not locked: the tests take the version that users would get.
    """
    beyond = choose(of_other_names(tests, required_names(requirements)))
    return (*requirements, *(pin.requirement for pin in beyond.pins))


def ask(matrix: Matrix, facts: LlvmFacts, *, only: Container[str] | None = None) -> IndexAnswers:
    """Ask for every place of a matrix whether the wheels' requirements, and their tests', can be met from wheels alone.

    :param only: ask for these places alone
    :raises UsageError: ``config-invalid``
    """
    requiring = [wheel for wheel in matrix.wheels if wheel.configuration.about.has_requirements]
    requirements = wheel_requirements(facts.runtime_requirements, matrix.overrides)
    tested = [wheel.configuration.about for wheel in requiring if BINDINGS in wheel.suites]
    if tests := list(dict.fromkeys(line for project in tested for line in project.test_requirements)):
        requirements = with_tests(requirements, tests)
    places = {
        wheel.platform_python: WantedPlace(wheel.python, wheel.runtime.tag)
        for wheel in requiring
        if wheel.python and (only is None or wheel.platform_python in only)
    }
    found = resolve_all(requirements, places.values())
    reasons = {place: found[wanted].why for place, wanted in places.items() if found[wanted].installable is False}
    unasked: dict[str, set[CPython]] = {}
    for wanted, answer in found.items():
        if answer.installable is None:
            unasked.setdefault(answer.why, set()).add(wanted.python)
    return IndexAnswers(
        reasons=reasons,
        unknown=tuple(
            "pip could not find out whether what the wheels and their tests require has wheels for "
            f"{', '.join(map(str, sorted(pythons)))}; nothing is left out for that: {' '.join(why.split())}"
            for why, pythons in unasked.items()
        ),
    )


def confirm(matrix: Matrix, facts: LlvmFacts | None) -> Matrix:
    """Ask the index again about targets that only the tag leaves out; those that it confirms are claimed no more.

    A place without an answer is not confirmed.

    :param facts: of its revision, as its own tree says them; None: not known, and nothing can be confirmed
    """
    claimed = {row.wheel.platform_python: row.wheel for row in matrix.excluded if row.claimed}
    if not claimed or facts is None:
        return matrix
    asked = replace(matrix, wheels=(*matrix.wheels, *claimed.values()))
    answers = ask(asked, facts, only=claimed)
    for unknown in answers.unknown:
        console.warn(unknown)
    return replace(
        matrix,
        excluded=tuple(
            replace(row, claimed=row.claimed and row.wheel.platform_python not in answers.reasons)
            for row in matrix.excluded
        ),
    )


def format_reasons(reasons: Mapping[str, str]) -> str:
    """The value of :data:`TRAILER_EXCLUDED`: one line."""
    return _SEPARATOR.join(
        f"{place}: {' '.join(reason.replace('|', '/').split())}" for place, reason in reasons.items()
    )


def parse_reasons(value: str) -> dict[str, str]:
    """Read :func:`format_reasons`'s text."""
    rows = (row.partition(": ") for row in value.split(_SEPARATOR) if row)
    return {place: reason for place, _, reason in rows}
