"""The simulated week: its parts by hand, the whole against the estimate and the guides."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import tomli_w

from benchmarks.week.__main__ import jobs_of_a_snapshot, requests_table, shipped
from benchmarks.week.play import Player, Setting, Week
from benchmarks.week.queue import BOOT, Job, Queue
from benchmarks.week.requests import Log, most_within
from benchmarks.week.storage import a_year
from benchmarks.week.stores import DAY, Artifacts, Caches
from benchmarks.week.verdict import fit_caches, verdicts
from benchmarks.week.workflows import Upload, cron_times, read_workflows
from mlir_release.extras.cost.estimate import add_snapshot
from mlir_release.extras.cost.measured import Cost
from mlir_release.ground.llvm.projects import find_project
from mlir_release.release.model.matrix import Matrix
from tests.made_up_project import made_up_targets, registered
from tests.targets_factory import make_row, make_targets

DOCS = Path(__file__).parents[4] / "docs"
GB = 1e9
TINY = """
on: {schedule: [{cron: "0 1 * * *"}]}
concurrency: {group: tiny}
jobs:
  build:
    steps:
      - {uses: actions/cache/restore@v5, with: {key: "made-${{ matrix.one }}-1"}}
      - {uses: actions/upload-artifact@v7, with: {name: "sdk-${{ matrix.one }}", retention-days: 3}}
      - {uses: actions/upload-artifact@v7, with: {name: log}}
      - {uses: actions/upload-artifact@v7, if: "${{ failure() }}", with: {name: core}}
  again: {needs: build, if: "needs.build.outputs.finished == 'false'"}
  sign: {needs: [build], if: inputs.attest, uses: ./.github/workflows/signer.yml, with: {output: "signed-${{ x }}"}}
  push: {if: "github.event_name != 'schedule'"}
  sunday: {if: "github.event.schedule == '0 1 * * 0'"}
"""
SIGNER = "jobs: {it: {steps: [{uses: actions/upload-artifact@v7, with: {name: '${{ inputs.output }}'}}]}}"


@cache
def ours() -> tuple[Setting, Week]:
    return (setting := shipped()), Player(setting, 0).play()


def small() -> Setting:  # nothing of it is signed
    return replace(ours()[0], matrix=Matrix.parse(make_targets(make_row(), pythons=["cp312"])), ci=False)


def test_two_jobs_share_one_runner_and_others_wait_for_both() -> None:
    queue, first, second = Queue(1, 1), Job(name="10", length=lambda: 10.0), Job(name="20", length=lambda: 20.0)
    others = [Job(name="5", macos=macos, length=lambda: 5.0, needs=[first, second]) for macos in (True, False)]
    queue.submit([first, second, *others])
    queue.run()
    ended = [job.ended - number * BOOT for number, job in enumerate((first, second, *others), 1)]
    assert ended == [10, 30, 35, 40]


def test_caches_go_by_use_by_age_and_when_they_are_superseded() -> None:
    caches = Caches()
    for when, key in enumerate(("a-1", "b-1")):
        caches.save(key, 4 * GB, when, built=when)
    assert caches.restore("a-", 2) is not None
    caches.save("a-2", 4 * GB, 3, built=3)  # 12 of 10 GB: b-1 has not been used for longest
    assert ([entry.key for entry in caches.entries], caches.peak, caches.evicted) == (["a-1", "a-2"], 12 * GB, 1)
    caches.save("ab-1", GB, 4, built=4)
    assert caches.delete_superseded("a-") == 1
    assert [entry.key for entry in caches.entries] == ["a-2", "ab-1"]
    assert caches.restore("a-", 3 + 7 * DAY) is not None  # which is a use
    assert caches.restore("ab-", 5 + 7 * DAY) is None


def test_artifacts_are_held_for_as_long_as_they_are_kept() -> None:
    artifacts = Artifacts()
    for name, size, day, days in (("sdk", 2, 0, 3), ("sdk", 1, 1, 3), ("log", 1, 4, 30)):
        artifacts.upload(name, size * GB, day * DAY, days=days)
    assert artifacts.byte_days(0, 7 * DAY) == {"sdk": 9 * GB, "log": 30 * GB}
    assert (artifacts.peak(0, 7 * DAY), artifacts.peak(3 * DAY, 7 * DAY)) == (3 * GB, GB)


def test_the_busiest_hour_begins_anywhere_and_a_job_writes_no_faster_than_the_toolkit() -> None:
    assert [most_within(times, 60) for times in ([], [0, 59.9, 60], [0, 30, 60, 61, 90])] == [0, 2, 3]
    log, job = Log(), Job(name="publish: upload wheels and test reports (x)", length=lambda: 0)
    job.began, job.ended = 0.0, 20.0
    log.add(job, 0, wheels=20, tests=30, dispatches=0)
    assert (log.busiest("writes", 1), log.busiest("writes", 60)) == (60, 4 * 20 + 2 * 30)
    assert log.busiest("rest", 60) == 8 + 8 * 20 + 4 * 30


def test_a_workflow_says_what_it_keeps_waits_for_and_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "tiny.yml").write_text(TINY, encoding="utf-8")
    (tmp_path / "signer.yml").write_text(SIGNER, encoding="utf-8")
    assert list(cron_times("23 2 * * 0-2", 8)) == [day * DAY + 143 for day in (0, 1, 6, 7)]  # 0: Sunday
    tiny = read_workflows(tmp_path)["tiny.yml"]
    build, sign = tiny.jobs["build"], tiny.jobs["sign"]
    assert (tiny.group, tiny.crons, build.restores) == ("tiny", ("0 1 * * *",), "made-")
    assert build.uploads == (Upload(name="sdk-", days=3), Upload(name="log", days=90))
    assert (sign.signs, sign.needs, sign.uploads) == (True, ("build",), (Upload(name="signed-", days=90),))
    assert tiny.lacks(signed=True, has_tag=False, cron="") == {"again"}
    assert tiny.lacks(signed=False, has_tag=False, cron="0 1 * * *") == {"again", "sign", "push", "sunday"}


def test_mondays_jobs_are_those_of_the_estimate_and_each_has_its_workflow() -> None:
    (setting, week), planned = ours(), Cost(weeks=1)
    add_snapshot(planned, setting.due(0), public=True)
    monday, release = week.cost((0,)), setting.workflows["release.yml"]
    assert monday.total.jobs - monday.workflows["ci.yml"].jobs == 2 * planned.total.jobs
    assert week.macs((0,)) == 2 * planned.systems["macos"].jobs
    jobs = {key: job for key, job in release.jobs.items() if key != "plan"}
    with pytest.raises(LookupError, match="plan: missing targets"):
        Player(replace(setting, workflows={**setting.workflows, "release.yml": replace(release, jobs=jobs)}), 0).play()


def test_compiler_caches_grow_to_their_limit_and_are_found_if_superseded_ones_go() -> None:
    setting = replace(small(), entry_limit=GB / 2)
    kept, deleted = (Player(replace(setting, deletes=deletes), 0).play() for deletes in (False, True))
    assert (len(kept.caches.entries), len(deleted.caches.entries)) == (15, 1)  # two a day, each used for half a day
    assert {entry.size for entry in kept.caches.entries} == {GB / 2}
    assert kept.restored[0].compiled == pytest.approx(0.25, abs=0.01)  # it is half a day old
    assert all(one.hit for one in Player(fit_caches(ours()[0]), 0).play().restored)


def test_a_private_repository_signs_nothing_and_has_remedies() -> None:
    week = Player(replace(ours()[0], public=False), 0).play()
    assert len(week.published) == 14
    assert not any("sign" in spent.name and workflow == "release.yml" for _, workflow, spent in week.spent)
    found = {figure.resource: verdict for figure, verdict in verdicts(replace(small(), public=False), 1)}
    assert found["requests in an hour"] == "fits"
    assert found["included minutes a month"].startswith("off: a second snapshot a day")


def test_a_weekly_configuration_is_kept_52_times_a_year_and_an_unmeasured_size_is_told() -> None:
    assert all(profile.size for ours in ("mlir", "clang") for profile in find_project(ours).profiles.values())
    data = tomllib.loads(make_targets(make_row(), make_row("mlir-sdk", suites=["sdk"])))
    data["llvm"]["mlir-sdk"]["cadence"] = "weekly"
    kept = [(row.files, row.size, row.releases) for row in a_year(Matrix.parse(tomli_w.dumps(data)), per_day=1).rows]
    host, sdk = (find_project("mlir").profile(name).size for name in ("host", "sdk"))
    assert kept == [(2, 2 * host, 364), (1, sdk, 52)]
    with registered("plain"):
        year = a_year(Matrix.parse(made_up_targets(mlir=True)), per_day=1)
    assert "not measured, and not in the sums: plain" in year.text()


def test_the_guides_show_what_comes_out_today() -> None:
    setting, week = ours()
    both = (setting.matrix, setting.matrix.merge_abi3(lambda _: True))
    whole, shared = (a_year(matrix, per_day=2).table() for matrix in both)
    assert f"{shared[-1][-1]} GB" in (DOCS / "cost.md").read_text(encoding="utf-8")
    for page, rows in (("cost", whole), ("limits", jobs_of_a_snapshot(setting)), ("limits", requests_table(week))):
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        guide = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        assert table in guide, (
            f"jobs, counts, sizes or schedules changed; docs/{page}.md must have these rows:\n{table}"
        )
