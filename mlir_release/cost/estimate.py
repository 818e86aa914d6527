"""What a week of snapshots would take, from the build matrix and a few figures: for before there are runs to measure.

Pure, and an estimate: :data:`WORK` says what was measured, on what, and what is assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal

from mlir_release.cost.measured import Cost, Spent, system_of
from mlir_release.model.matrix_jobs import RESUMED, job_rows
from mlir_release.model.release_tags import SnapshotTag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.model.targets import Matrix


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a job does."""

    core_minutes: float  #: shared by the runner's cores
    minutes: float  #: whatever the runner: checking out, installing the toolkit, moving SDKs and wheels
    source: str

    def minutes_on(self, cores: int) -> float:
        """How long it takes on a runner."""
        return self.minutes + self.core_minutes / cores


#: Jobs whose number the matrix gives: an SDK's, a wheel's, and each suite's.
WORK: Mapping[str, Work] = {
    "sdk": Work(core_minutes=360, minutes=6, source="LLVM 19.1.7, nothing cached: about 90 min on 4 cores, ±30 %"),
    "wheels": Work(
        core_minutes=4, minutes=4, source="22.1.8: 197 s of CPU and 16 s of repair on a cold compiler cache"
    ),
    "smoke": Work(core_minutes=0.25, minutes=3, source="14 s"),
    "bindings": Work(core_minutes=3, minutes=3, source="42 to 78 s on 4 cores, with the addon of upstream's tests"),
    "regression": Work(core_minutes=10, minutes=3, source="assumed"),
}

#: The other jobs of one snapshot: workflow, name, and minutes, all assumed; runner: :data:`OTHER_RUNNER`.
OTHERS = (
    ("snapshot.yml", "Bump, pin, tag, draft, dispatch", 2),
    ("release.yml", "What is missing", 2),
    ("release.yml", "Keep what was compiled", 2),
    ("compiler-caches.yml", "The platforms", 2),
    ("release.yml", "Upload the wheels to the draft", 8),
    ("release.yml", "Verify and publish", 15),
    ("release.yml", "Keep the issues", 2),
    ("pages.yml", "Generate", 4),
    ("pages.yml", "Deploy", 1),
    ("pages.yml", "What a stranger gets", 6),
)
OTHER_RUNNER = ("ubuntu-24.04",)

_MONDAY = date(2026, 1, 5)  # any: weekly configurations are built on Mondays


def cores_of(labels: Sequence[str], *, public: bool) -> int:
    """Cores of GitHub's standard runners (docs.github.com, "GitHub-hosted runners reference").

    What is none of these is taken for the standard runner of its system.
    """
    if any(re.fullmatch(r"macos-.*-intel", label) for label in labels):
        return 4
    if system_of(labels) == "macos":
        return 3
    return 4 if public else 2


def estimate(matrix: Matrix, *, per_day: int = 2, public: bool) -> Cost:
    """A week of snapshots in which everything goes well at the first attempt.

    :param per_day: snapshots of new revisions a day
    :param public: whether the repository is public: its standard runners have more cores
    """
    cost = Cost(weeks=1)
    for day in range(7):
        for number in range(1, per_day + 1):
            _add_snapshot(cost, matrix.due(SnapshotTag(_MONDAY + timedelta(days=day), number)), public=public)
    return cost


def _add_snapshot(cost: Cost, matrix: Matrix, *, public: bool) -> None:
    cost.runs += len({workflow for workflow, _, _ in OTHERS})
    for workflow, name, minutes in OTHERS:
        cost.add(workflow, Spent(name=name, labels=OTHER_RUNNER, seconds=60 * minutes))
    rows = [
        *(("sdk", row) for row in job_rows(matrix, "sdk")),
        *(("wheels", row) for row in job_rows(matrix, "wheels")),
        *((row["suite"], row) for row in job_rows(matrix, "tests")),
    ]
    for kind, row in rows:
        labels = (row["runner"],)
        taken = WORK[kind].minutes_on(cores_of(labels, public=public))
        cost.add("release.yml", Spent(name=row["name"], labels=labels, seconds=60 * taken))
        if kind == "sdk":
            # The second job of an SDK always runs, and sees that it has nothing to do; one more keeps the caches.
            cost.add("release.yml", Spent(name=f"{row['name']}{RESUMED}", labels=labels, seconds=60))
            cost.add("compiler-caches.yml", Spent(name=f"compiled-{row['name']}", labels=labels, seconds=180))


def comparison(private: Cost, public: Cost, group: Literal["stages", "systems"]) -> list[list[object]]:
    """Rows of a table: name, jobs a week, minutes and US dollars in a private repository, minutes in a public one.

    The last row is the total.
    """
    mine, theirs = getattr(private, group), getattr(public, group)
    rows = [(name, mine[name], theirs[name]) for name in sorted(mine, key=lambda name: -mine[name].dollars)]
    return [
        [name, one.jobs, f"{one.billed:,}", f"{one.dollars:,.0f}" + (" + ?" if one.unpriced else ""), f"{two.billed:,}"]
        for name, one, two in [*rows, ("together", private.total, public.total)]
    ]


def assumptions(per_day: int) -> list[str]:
    """What the estimate rests on, a line each."""
    return [
        f"snapshots of new revisions a day: {per_day}, each of which succeeds at once",
        "private repositories have 2 cores on Linux and Windows, public ones 4; macOS 3 (arm64) or 4 (Intel)",
        *(
            f"{name}: {work.core_minutes:g} core minutes + {work.minutes:g} minutes ({work.source})"
            for name, work in WORK.items()
        ),
        f"the other jobs of a snapshot: {sum(minutes for _, _, minutes in OTHERS)} minutes (assumed)",
    ]
