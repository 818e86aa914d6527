"""A month of snapshots with all that goes wrong in a month: what is published is whole, and nothing is left over.

The toolkit and the GitHub on loopback share one clock, and nobody waits. A fortnight is
tried; twenty-one months are marked ``slow``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.operate import issues
from mlir_release.release.index import observe
from mlir_release.release.judging.scorecard import score
from mlir_release.release.transaction import publish, sweep
from mlir_release.release.transaction.tend import plan_sweep
from tests.month.month import Month
from tests.month.verdict import GRAPHQL, REST, WRITES, published, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

    from mlir_release.operate.issues import IssueChange
    from mlir_release.release.judging.scorecard import Scorecard
    from mlir_release.release.transaction.steps import SweepLine

    #: A module, the name of a function in it, and another one in its place.
    Broken = tuple[ModuleType, str, Callable[..., object]]

SEED = 1
SEEDS = range(1, 22)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a workflow of GitHub's, whatever runs the tests."""
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_ACTIONS", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def report(month: Month) -> str:
    repository = month.repository
    states = [state.state for state in month.states]
    lines = [
        f"{len(states)} tags: {states.count('published')} published, {states.count('abandoned')} abandoned, "
        f"{states.count('pending')} pending; {len(repository.issues)} issues, "
        f"{len(month.runs_of('release.yml'))} runs of release.yml",
        f"requests that went wrong: {dict(sorted(month.weather.seen.items()))}; "
        f"jobs killed: {month.workflows.killed}, out of time: {month.workflows.out_of_time}; "
        f"changes of workflows: {month.merged}",
    ]
    for kind, limit in (("rest", REST), ("graphql", GRAPHQL), ("writes", WRITES)):
        days, hours = (month.requests_per(timedelta(hours=n), kind).values() for n in (24, 1))
        lines.append(
            f"{kind}: at most {max(days)} a day, {sum(days) / month.days:.0f} on average; "
            f"at most {max(hours)} an hour, of {limit}"
        )
    return "\n".join(lines)


def test_a_fortnight_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    month = Month(tmp_path, SEED, days=14, calm=5)
    month.live(monkeypatch)
    assert verdict(month) == [], "\n".join(month.workflows.failures)
    assert month.workflows.killed
    assert month.merged
    assert sum(month.weather.seen.values()) > 30
    assert len(published(month.repository)) > month.days / 2


@pytest.mark.slow
@pytest.mark.spread
@pytest.mark.parametrize("seed", SEEDS)
def test_a_month_ends_well(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    month = Month(tmp_path, seed)
    month.live(monkeypatch)
    with capsys.disabled():
        print(f"\nseed {seed}: {report(month)}")
    assert verdict(month) == [], "\n".join(month.workflows.failures)
    if seed == SEED:  # what is meant to go wrong went wrong
        kinds = {"down", "primary limit", "secondary limit", "no dispatches", "answer lost", "reset", "502"}
        kinds |= {"truncated", "stuck"}
        assert {kind for kind, count in month.weather.seen.items() if count} >= kinds
        assert month.workflows.killed
        assert month.people.waived
        assert month.people.abandoned
        assert len(month.people.yanked) == 2
        assert len(published(month.repository)) > month.days / 2


def test_the_same_seed_is_the_same_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    months = []
    for name in ("first", "second"):
        month = Month(tmp_path / name, SEED, days=3, calm=2)
        month.live(monkeypatch)
        months.append([(record.at, record.method, record.operation, record.status) for record in month.server.requests])
    assert months[0] == months[1]


# -- does it see anything? ------------------------------------------------------------------------------------------


def _nothing_is_missing() -> Broken:
    """Publish whatever is there."""

    def lenient(*about: Any, **options: Any) -> Scorecard:
        card = score(*about, **options)
        vars(card)["problems"] = ()
        return card

    return publish, "score", lenient


def _issues_stay_open() -> Broken:
    """Close no issue."""
    plan = issues.plan_changes

    def without_closing(*about: Any, **options: Any) -> tuple[IssueChange, ...]:
        return tuple(change for change in plan(*about, **options) if change.action != "close")

    return issues, "plan_changes", without_closing


def _nothing_is_abandoned() -> Broken:
    """Let pending snapshots pile up."""

    def patient(*about: Any, **options: Any) -> tuple[SweepLine, ...]:
        return tuple(line for line in plan_sweep(*about, **options) if line.action != "abandon")

    return sweep, "plan_sweep", patient


def _an_old_index() -> Broken:
    """Show what the pages show already, and nothing new after the first week."""
    tags = observe.published_tags

    def forgetful(forge: Any, known: Mapping[str, Any]) -> Mapping[str, Any]:
        found = tags(forge, known)
        return {tag: when for tag, when in found.items() if tag in known or len(known) < 8}

    return observe, "published_tags", forgetful


#: Ways to break the toolkit, and words of what the verdict must then say.
MUTATIONS: dict[str, tuple[Callable[[], Broken], str]] = {
    "publish ignores missing targets": (_nothing_is_missing, "is neither there nor waived"),
    "issues are never closed": (_issues_stay_open, "is still open"),
    "sweep abandons nothing": (_nothing_is_abandoned, "days old"),
    "the index forgets releases": (_an_old_index, "the index lists"),
}


@pytest.mark.slow
@pytest.mark.spread
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_toolkit_is_found_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it, words = MUTATIONS[name]
    monkeypatch.setattr(*break_it())
    month = Month(tmp_path, SEED, days=14, calm=5)
    month.live(monkeypatch)
    assert any(words in problem for problem in verdict(month))
