"""The simulated week: each part by hand, and the whole against the estimate and the guides."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.week.__main__ import (
    TUESDAY,
    jobs_of_a_snapshot,
    requests_table,
    shipped,
)
from benchmarks.week.play import Player, Setting, Week, fitting_size
from benchmarks.week.queue import BOOT, Job, Queue
from benchmarks.week.requests import Log, most_within
from benchmarks.week.stores import DAY, Artifacts, Caches
from benchmarks.week.verdict import verdicts
from benchmarks.week.workflows import Upload, cron_times, read_workflows
from mlir_release.extras.cost.estimate import add_snapshot
from mlir_release.extras.cost.measured import Cost
from mlir_release.release.model.matrix import Matrix
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[4]
GB = 1e9


@cache
def of_ours(*, public: bool = True) -> tuple[Setting, Week]:
    setting = replace(shipped(), public=public)
    return setting, Player(setting, 0).play()


def small() -> Setting:
    """One platform with one wheel, of which nothing is signed."""
    return replace(shipped(), matrix=Matrix.parse(make_targets(make_row(), pythons=["cp312"])), ci=False)


def test_two_jobs_share_one_runner_and_a_third_waits_for_both() -> None:
    queue = Queue(1, 1)
    first, second = (Job(name=str(minutes), length=lambda m=minutes: m) for minutes in (10.0, 20.0))  # type: ignore[misc]
    third = Job(name="third", macos=True, length=lambda: 5.0, needs=[first, second])
    queue.submit([first, second, third])
    queue.run()
    assert (first.ended, second.ended, third.ended) == (10 + BOOT, 30 + 2 * BOOT, 35 + 3 * BOOT)


def test_of_ten_gb_what_nobody_has_used_for_longest_goes_first() -> None:
    caches = Caches()
    for when, key in enumerate(("a-1", "b-1")):
        caches.save(key, 4 * GB, when, built=when)
    assert caches.restore("a-", 2) is not None
    caches.save("c-1", 4 * GB, 3, built=3)
    assert [entry.key for entry in caches.entries] == ["a-1", "c-1"]
    assert (caches.peak, caches.evicted) == (12 * GB, 1)


def test_a_cache_that_nobody_has_used_for_seven_days_is_gone() -> None:
    caches = Caches()
    caches.save("a-1", GB, 0, built=0)
    assert caches.restore("a-", 7 * DAY) is not None  # which is a use
    assert caches.restore("a-", 14 * DAY + 1) is None


def test_the_newest_is_restored_and_stays_when_superseded_ones_are_deleted() -> None:
    caches = Caches()
    for when, key in enumerate(("a-1", "ab-1", "a-2")):
        caches.save(key, GB, when, built=when)
    newest = caches.restore("a-", 3)
    assert newest is not None
    assert newest.key == "a-2"
    assert caches.delete_superseded("a-") == 1
    assert [entry.key for entry in caches.entries] == ["ab-1", "a-2"]


def test_artifacts_are_held_for_as_long_as_they_are_kept() -> None:
    artifacts = Artifacts()
    artifacts.upload("sdk", 2 * GB, 0, days=3)
    artifacts.upload("sdk", GB, DAY, days=3)
    artifacts.upload("log", GB, 4 * DAY, days=30)
    assert artifacts.byte_days(0, 7 * DAY) == {"sdk": 9 * GB, "log": 30 * GB}
    assert artifacts.peak(0, 7 * DAY) == 3 * GB
    assert artifacts.peak(3 * DAY, 7 * DAY) == artifacts.peak(4 * DAY, 5 * DAY) == GB


@pytest.mark.parametrize(("times", "most"), [([], 0), ([0, 59.9, 60], 2), ([0, 30, 60, 61, 90], 3), ([0, 100, 200], 1)])
def test_the_busiest_hour_begins_anywhere_and_is_no_longer(times: Sequence[float], most: int) -> None:
    assert most_within(times, 60) == most


def test_a_job_writes_no_faster_than_the_toolkit() -> None:
    log, job = Log(), Job(name="publish: upload wheels and test reports (x)", length=lambda: 0)
    job.began, job.ended = 0.0, 20.0
    log.add(job, 0, wheels=20, tests=30, dispatches=0)  # four writes a wheel, two a report
    assert log.busiest("writes", 1) == 60
    assert log.busiest("writes", 60) == 140
    assert log.busiest("rest", 60) == log.days[0]["publish --upload-only"][1] == 8 + 8 * 20 + 4 * 30


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        ("23 2 * * 1-6", [0, 1, 2, 3, 4, 5, 7]),
        ("23 2 * * 0", [6]),
        ("23 2 * * *", list(range(8))),
        ("23 2 * * 1,7", [0, 6, 7]),
    ],
)
def test_schedules_have_weekdays(cron: str, days: list[int]) -> None:
    assert [when / DAY for when in cron_times(cron, 8)] == pytest.approx([day + 143 / 1440 for day in days])


def test_a_workflow_says_what_it_keeps_waits_for_and_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "tiny.yml").write_text(
        """
on: {schedule: [{cron: "0 1 * * *"}]}
concurrency: {group: tiny}
jobs:
  build:
    name: "sdk: ${{ matrix.one }}"
    timeout-minutes: 30
    steps:
      - {uses: actions/cache/restore@v5, with: {key: "made-${{ matrix.one }}-1"}}
      - {uses: actions/upload-artifact@v7, with: {name: "sdk-${{ matrix.one }}", retention-days: 3}}
      - {uses: actions/upload-artifact@v7, with: {name: log}}
      - {uses: actions/upload-artifact@v7, if: "${{ failure() }}", with: {name: core}}
  again: {needs: build, if: "needs.build.outputs.finished == 'false'", runs-on: x}
  sign: {needs: [build], if: inputs.attest, uses: ./.github/workflows/signer.yml, with: {output: "signed-${{ x }}"}}
  push: {if: "github.event_name != 'schedule'", runs-on: x}
""",
        encoding="utf-8",
    )
    step = "{uses: actions/upload-artifact@v7, with: {name: '${{ inputs.output }}', retention-days: 1}}"
    (tmp_path / "signer.yml").write_text(f"jobs: {{it: {{steps: [{step}]}}}}", encoding="utf-8")
    tiny = read_workflows(tmp_path)["tiny.yml"]
    build, sign = tiny.jobs["build"], tiny.jobs["sign"]
    assert (tiny.group, tiny.crons, build.timeout, build.restores) == ("tiny", ("0 1 * * *",), 30, "made-")
    assert build.uploads == (Upload(name="sdk-", days=3), Upload(name="log", days=90))
    assert (sign.signs, sign.needs, sign.uploads) == (True, ("build",), (Upload(name="signed-", days=1),))
    assert tiny.lacks(signed=True, has_tag=False, cron="") == {"again"}
    assert tiny.lacks(signed=False, has_tag=False, cron="0 1 * * *") == {"again", "sign", "push"}


def test_mondays_jobs_are_those_of_the_estimate() -> None:
    """What the matrix plans and what the workflow files have is the same, job by job."""
    setting, week = of_ours()
    planned = Cost(weeks=1)
    add_snapshot(planned, setting.due(0), public=True)
    ci = week.cost((0,)).workflows["ci.yml"].jobs
    assert week.cost((0,)).total.jobs - ci == (setting.per_day or 0) * planned.total.jobs
    assert week.macs((0,)) == (setting.per_day or 0) * planned.systems["macos"].jobs


def test_a_job_that_no_workflow_has_is_an_error_and_one_that_no_estimate_has_is_counted() -> None:
    setting = small()
    release, snapshot = setting.workflows["release.yml"], setting.workflows["snapshot.yml"]
    jobs = {key: job for key, job in release.jobs.items() if key != "plan"}
    with pytest.raises(LookupError, match="plan: missing targets"):
        Player(replace(setting, workflows={**setting.workflows, "release.yml": replace(release, jobs=jobs)}), 0).play()
    more = replace(snapshot, jobs={**snapshot.jobs, "more": replace(snapshot.jobs["sweep"], key="more", title="more")})
    one, two = (
        Player(replace(setting, workflows={**setting.workflows, "snapshot.yml": each}), 0).play().cost(TUESDAY)
        for each in (snapshot, more)
    )
    assert two.total.jobs == one.total.jobs + (setting.per_day or 0)


def test_a_compiler_cache_grows_to_its_limit_and_superseded_ones_go() -> None:
    setting = replace(small(), entry_limit=0.5 * GB)
    kept, deleted = (Player(replace(setting, deletes=deletes), 0).play() for deletes in (False, True))
    assert len(deleted.caches.entries) == 1
    assert len(kept.caches.entries) > 10  # 10 GB hold 20 of them; those older than seven days are gone
    assert {entry.size for entry in kept.caches.entries} == {0.5 * GB}
    for week in (kept, deleted):
        assert [one.hit for one in week.restored] == [True] * 14
        assert week.restored[0].compiled == pytest.approx(0.25, abs=0.01)  # half a day old


def test_small_entries_without_superseded_ones_are_all_found() -> None:
    setting, _ = of_ours()
    week = Player(replace(setting, deletes=True, entry_limit=fitting_size(setting.matrix)), 0).play()
    assert all(one.hit for one in week.restored)


def test_a_private_repository_signs_nothing_and_what_does_not_fit_names_a_remedy() -> None:
    week = of_ours(public=False)[1]
    assert not any("sign" in spent.name and workflow == "release.yml" for _, workflow, spent in week.spent)
    assert len(week.published) == 14
    small_verdicts = {figure.resource: verdict for figure, verdict in verdicts(replace(small(), public=False), 1)}
    assert small_verdicts["requests in an hour"] == "fits"
    assert small_verdicts["included minutes a month"].startswith("off: a second snapshot a day")
    assert small_verdicts["artifacts held, on average"].startswith("off: ")


def test_the_guide_shows_what_comes_out_today() -> None:
    setting, week = of_ours()
    guide = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    for rows in (jobs_of_a_snapshot(setting), requests_table(week)):
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        assert table in guide, f"jobs, counts or schedules changed; docs/limits.md must have these rows:\n{table}"
