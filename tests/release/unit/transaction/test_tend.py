"""What becomes of pending releases, by their age and what they lack."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from mlir_release.release.forge.base import ReleaseRow
from mlir_release.release.forge.services import Run
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import TagState
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.steps import SweepLine, pages
from mlir_release.release.transaction.tend import Pending, plan_sweep
from tests.memory_forge import MemoryForge
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.pinning.state import State
    from mlir_release.release.transaction.draft import Draft
    from mlir_release.release.transaction.steps import SweepAction

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
CONFIG = Matrix.parse(make_targets(make_row())).release
assert (CONFIG.deadline, CONFIG.superseded_after) == (24, 72)
OLD, NEW, NEWEST = "snapshot-20261117.01", "snapshot-20261118.01", "snapshot-20261120.01"


def tagged(name: str, state: State = "pending", *, revision: str = "") -> TagState:
    return TagState(
        tag=parse_release_tag(name),
        state=state,
        commit="c" * 40,
        revision=revision or name[-11:-3].rjust(40, "0"),
        request_id=f"r-{name}",
        wheel_version="1",
    )


def pending(name: str = OLD, *, hours: float, runs: Sequence[Run] = (), **fields: Any) -> Pending:
    """A tag of so many hours ago; with a draft, unless ``fields`` say otherwise."""
    began, draft = NOW - timedelta(hours=hours), cast("Draft", "the draft")
    return replace(Pending(state=tagged(name), began=began, drafted=True, runs=tuple(runs), draft=draft), **fields)


def run(conclusion: str | None, *, hours: float) -> Run:
    """One that began so many hours ago; None: it is under way."""
    status = "in_progress" if conclusion is None else "completed"
    began = NOW - timedelta(hours=hours)
    return Run(id="1", workflow="release.yml", ref="", status=status, conclusion=conclusion, created_at=began)


def row(name: str, *, draft: bool) -> ReleaseRow:
    published = None if draft else NOW
    return ReleaseRow(id=name, tag=name, title="", draft=draft, prerelease=True, created_at=NOW, published_at=published)


def plan(
    *found: Pending, newer: Sequence[str] = (), others: Sequence[TagState] = (), more: Sequence[SweepLine] = ()
) -> tuple[SweepLine, ...]:
    """The plan for these pending ones.

    :param newer: tags with a draft, about which nothing is planned
    :param others: further tags, each with its release, or with a draft
    """
    drafted = [*(one.state for one in found if one.drafted), *map(tagged, newer)]
    ledger = Ledger(cast("Forge", MemoryForge({})))
    states = [*(one.state for one in found), *map(tagged, newer), *others]
    rows = [*(row(state.name, draft=True) for state in drafted)]
    rows += [row(state.name, draft=state.state != "published") for state in others]
    states.sort(key=lambda state: (state.tag.kind == "numbered", state.tag))
    vars(ledger).update(now=NOW, states=states, rows=rows)
    return plan_sweep(ledger, CONFIG, found, more=more)


def only(*found: Pending, newer: Sequence[str] = ()) -> tuple[SweepAction, str]:
    (line,) = plan(*found, newer=newer)
    return line.action, line.reason


FAILED, RUNNING = run("failure", hours=2), run(None, hours=2)
LACKS = ("mlir-windows-x64-cp312", "smoke-mlir-windows-x64-cp312")


@pytest.mark.parametrize(
    ("hours", "runs", "lacking", "newer", "action", "reason"),
    [
        (2, [run("success", hours=2)], (), [], "publish", "its build is over"),
        (2, [FAILED], (), [NEWEST], "publish", "its build is over"),  # a report.yml that failed, or an experiment
        (100, [FAILED], (), [NEWEST], "publish", "all required targets are there"),  # rather than abandoned
        (25, [run(None, hours=25)], (), [], "publish", "its deadline has passed"),
        (2, [], (), [], "publish", "its build is over"),  # all was uploaded by hand
        (2, [RUNNING], None, [NEWEST], "wait", "its build is under way; until 2026-11-21T10:00:00Z"),
        (30, [RUNNING], LACKS, [NEWEST], "wait", f"under way; missing or failing: {', '.join(LACKS)}"),
        (72, [FAILED], LACKS, [NEWEST], "abandon", f"superseded by {NEWEST}; not published within 72 hours; missing"),
        (71, [FAILED], LACKS, [NEWEST], "blocked", "abandoned from 2026-11-20T13:00:00Z on, if there is a newer one"),
        (500, [FAILED], LACKS, [], "blocked", "its build is over"),
        (73, [run(None, hours=1), FAILED], LACKS, [NEWEST], "wait", "its build is under way"),  # a person tries again
        (73, [run(None, hours=25)], LACKS, [NEWEST], "abandon", "superseded"),  # it hangs
        (1, [], LACKS, [], "dispatch", "its build was not dispatched"),
        (0.4, [], LACKS, [], "wait", "just now"),
        (73, [], LACKS, [NEWEST], "abandon", "superseded"),
        (80, [], LACKS, [], "dispatch", "its build was not dispatched"),
    ],
)
def test_a_pending_snapshot(
    hours: float,
    runs: list[Run],
    lacking: tuple[str, ...] | None,
    newer: list[str],
    action: SweepAction,
    reason: str,
) -> None:
    found = only(pending(hours=hours, runs=runs, lacking=lacking), newer=newer)
    assert found[0] == action
    assert reason in found[1]


def test_a_complete_one_that_can_not_be_verified_makes_way_too() -> None:
    for hours, newer, otherwise in ((71, [NEWEST], ""), (72, [NEWEST], f"superseded by {NEWEST}"), (72, [], "")):
        (line,) = plan(pending(hours=hours, runs=[FAILED], lacking=()), newer=newer)
        assert line.action == "publish"
        assert (line.otherwise.reason if line.otherwise else "").startswith(otherwise)
        assert bool(line.otherwise) is bool(otherwise)


def test_an_older_one_supersedes_nothing() -> None:
    found = plan(pending(NEW, hours=80, runs=[FAILED], lacking=LACKS), newer=[OLD])
    assert [line.action for line in found] == ["blocked"]


def test_what_a_killed_process_left_without_a_draft() -> None:
    assert only(pending(hours=1, drafted=False)) == ("dispatch", "it has no draft, and its build was not dispatched")
    assert only(pending(hours=0.1, drafted=False))[0] == "wait"
    assert only(pending(hours=73, drafted=False), newer=[NEWEST])[0] == "abandon"
    # Its maker made it for a job that another tag does: it may have been about to give it up.
    twin = pending(NEW, hours=1, drafted=False, state=tagged(NEW, revision="a" * 40))
    (found,) = plan(twin, others=[tagged(OLD, "published", revision="a" * 40)])
    assert (found.action, OLD in found.reason) == ("blocked", True)
    (found,) = plan(replace(twin, drafted=True), others=[tagged(OLD, "published", revision="a" * 40)])
    assert found.action == "dispatch"  # it was forced


def test_a_draft_that_was_deleted_by_hand_is_not_made_again() -> None:
    assert only(pending(hours=2, drafted=False, runs=[FAILED]))[0] == "blocked"
    assert only(pending(hours=2, drafted=False, runs=[RUNNING]))[0] == "wait"


def test_the_newest_is_never_abandoned() -> None:
    found = plan(*(pending(name, hours=100, runs=[FAILED], lacking=LACKS) for name in (OLD, NEW, NEWEST)))
    assert [(line.tag, line.action) for line in found] == [(OLD, "abandon"), (NEW, "abandon"), (NEWEST, "blocked")]


def test_what_frees_something_comes_first_and_what_is_left_alone_last() -> None:
    found = plan(
        pending(OLD, hours=2, runs=[RUNNING]),
        pending(NEW, hours=2, runs=[FAILED], lacking=()),
        pending("snapshot-20261116.01", hours=80, runs=[FAILED], lacking=LACKS),
        others=[tagged("snapshot-20261115.01", "abandoned"), tagged("llvm-22.1.8.01")],
        more=[SweepLine(tag=NEWEST, action="pages", reason="published", step=pages("main"))],
    )
    assert [(line.action, line.step is not None) for line in found] == [
        ("delete", True), ("abandon", True), ("publish", True), ("pages", True), ("wait", False), ("blocked", False)
    ]  # fmt: skip
    assert found[-1].tag == "llvm-22.1.8.01"


def test_only_what_waits_for_nothing_is_looked_at() -> None:
    late = timedelta(hours=24)
    for found, due in (
        (pending(hours=1, runs=[RUNNING]), False),
        (pending(hours=1, runs=[FAILED]), True),
        (pending(hours=1), True),
        (pending(hours=25, runs=[RUNNING]), True),
        (pending(hours=25, drafted=False), False),
    ):
        assert found.is_due(NOW, CONFIG) is due
        assert replace(found, began=found.began - late).is_due(NOW, CONFIG) is found.drafted


def test_a_long_list_of_targets_is_cut() -> None:
    names = tuple(f"target-{number}" for number in range(9))
    _, reason = only(pending(hours=2, runs=[FAILED], lacking=names))
    assert "target-0, target-1, target-2 and 6 more" in reason
