"""What fails in a release, and what is well again, as a scorecard tells: each such target has an issue.

A platform whose SDK fails is one failure, not one for each of the wheels that it takes down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.foreign import code_block

if TYPE_CHECKING:
    from mlir_release.model.matrix import Matrix
    from mlir_release.release.scorecard import Scorecard, Standing

#: Names of failed tests that are listed at most, and their length: GitHub refuses an issue of over 65536 characters.
MAX_NAMES = 50
MAX_NAME = 300


def failing_targets(card: Scorecard) -> dict[str, Standing]:
    """What keeps a release from being published, or an experimental target out of it, by name.

    What could not be tested doesn't fail, nor does what is waived. An SDK stands for what it takes down
    (:attr:`Standing.takes_down`, :attr:`Standing.leaves_out`).
    """
    tried = _tried(card)
    down = {name for name, row in card.sdks.items() if row.state == "failed"}
    taken: dict[str, list[Standing]] = {name: [] for name in down}
    failing: dict[str, Standing] = {}
    for wheel in card.matrix.wheels:
        if not card.lacks(wheel) or wheel.name in tried:
            continue
        row = replace(
            card.members[wheel.members[0].name], name=wheel.name, required=card.is_required(wheel), state="missing"
        )
        if wheel.runtime.name in down:
            taken[wheel.runtime.name].append(row)
        else:
            failing[wheel.name] = row
    for test in card.matrix.tests:
        row = card.tests[test.name]
        if row.ok or not tried.intersection(test.wheels):
            continue
        if row.platform in down and row.state != "failed":
            taken[row.platform].append(row)
        else:
            failing[test.name] = row
    let_off = {row.platform for row in card.members.values() if row.required and row.state == "waived"}
    for name, rows in taken.items():
        required = tuple(row.name for row in rows if row.required)
        if rows and (required or name not in let_off):  # else the required ones are waived: nothing new is known
            sdk = card.sdks[name]
            failing[sdk.name] = replace(
                sdk,
                required=bool(required),
                takes_down=required,
                leaves_out=tuple(row.name for row in rows if not row.required),
            )
    return failing


def passing_targets(card: Scorecard) -> frozenset[str]:
    """What is well: wheels that are there, tests of those that pass, and SDKs."""
    tried = _tried(card)
    tests = [
        test.name for test in card.matrix.tests if card.tests[test.name].state == "good" and tried & {*test.wheels}
    ]
    return frozenset({*card.files, *tests, *(row.name for row in card.sdks.values() if row.state == "good")})


def known_targets(matrix: Matrix) -> frozenset[str]:
    """The names of everything that can fail."""
    wheels, tests = {wheel.name for wheel in matrix.wheels}, {test.name for test in matrix.tests}
    return frozenset(wheels | tests | {f"sdk-{runtime.name}" for runtime in matrix.runtimes})


def _tried(card: Scorecard) -> set[str]:
    """The wheels that could be tested: those that are there, and those that were deleted because a test failed."""
    failed = {name for name, row in card.tests.items() if row.state == "failed"}
    deleted = (
        wheel.name
        for wheel in card.matrix.wheels
        if card.lacks(wheel) and any(test.needs_wheel and test.name in failed for test in wheel.tests)
    )
    return {*card.files, *deleted}


def summary(row: Standing) -> str:
    """Why something fails, on one line."""
    if row.kind == "wheel":
        return "there is no wheel"
    if row.kind == "sdk":
        return row.reasons[0]
    if row.state == "stale":
        return "the report tells of another build of the wheel than the draft has"
    if row.report is None:
        return "it was not run, or ended without a report"
    count = len(row.report.failures)
    return f"{count} test{'' if count == 1 else 's'} failed" if count else "the run failed as a whole"


def detail(row: Standing) -> str:
    """The names of the tests that failed, in Markdown; empty if none is known."""
    if row.report is None or row.state == "stale":
        return ""
    failed = row.report.failed
    shown = [name[:MAX_NAME] for name in failed[:MAX_NAMES]]
    more = [f"… and {len(failed) - len(shown)} more"] if len(failed) > len(shown) else []
    return code_block([*shown, *more]) if shown else ""
