"""A day and a week of a release repository: the queue, minutes, caches, artifacts, and requests of GitHub's APIs.

    python -m benchmarks.week [--targets FILE] [--seeds 1] [--abi3] [--delete-superseded] [--entry-size MB]

A simulation. The jobs are those of the build matrix and of the workflow files; they take what ``mlir-release cost
--estimate`` assumes, give or take a fifth, and SDKs less where they find a compiler cache. Everything succeeds at the
first attempt. Private repositories don't sign. Of several weeks, tables show the first, and verdicts the worst.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.week.play import ACCOUNTS, Player, Setting, Week, fitting_size, time_to_publication
from benchmarks.week.requests import Kind, counted
from benchmarks.week.storage import Year, a_year
from benchmarks.week.stores import CACHE_LIMIT, DAY
from benchmarks.week.verdict import SWITCHES, verdicts
from benchmarks.week.workflows import cache_limit, cron_times, read_workflows
from mlir_release.extras.cost.measured import Sum
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]

#: The part of the runners that others' jobs keep busy.
LOADS = (0.0, 0.5, 0.9)

#: An ordinary day of the week, and those that have weekly rows, too.
TUESDAY, MONDAY, THURSDAY = (1,), (0,), (3,)

Rows = list[list[str]]


def shipped(targets: Path = ROOT / TARGETS_FILE, *, folder: Path = ROOT / ".github" / "workflows") -> Setting:
    """A matrix with this repository's workflows, with nothing switched off."""
    matrix, workflows = Matrix.parse(targets.read_text(encoding="utf-8")), read_workflows(folder)
    caches = workflows["compiler-caches.yml"].jobs.values()
    return Setting(
        matrix=matrix,
        workflows=workflows,
        slow_files=sum("mark.slow" in path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")),
        per_day=len(list(cron_times(workflows["snapshot.yml"].crons[0], 1))),
        # Whoever saves caches needs no such right: a job that has it deletes them.
        deletes=any(job.writes_actions for job in caches),
        entry_limit=cache_limit(folder) or fitting_size(matrix),
    )


def jobs_table(public: Week, private: Week) -> Rows:
    """Jobs of an ordinary day and of Monday, by workflow."""
    days = (TUESDAY, MONDAY)
    costs = [(public.cost(day), private.cost(day)) for day in days]
    found: Rows = []
    for name in [*sorted(costs[1][0].workflows), None]:
        row = [f"`{name}`" if name else "together"]
        for day, (open_, closed) in zip(days, costs, strict=True):
            sums = [cost.workflows.get(name) if name else cost.total for cost in (open_, closed)]
            jobs, seconds = (sums[0].jobs, sums[0].seconds) if sums[0] else (0, 0.0)
            billed = sums[1].billed if sums[1] else 0
            row += [f"{jobs} ({public.macs(day, name)})", f"{seconds / 60:,.0f}", f"{billed:,}"]
        found.append(row)
    return found


def jobs_of_a_snapshot(setting: Setting) -> Rows:
    """All jobs of one snapshot, whatever the schedule has besides, and those of them on macOS."""
    week = Player(replace(setting, ci=False, per_day=1), 0).play()
    return [
        [name, str(week.cost(day).total.jobs), str(week.macs(day))]
        for name, day in (("of an ordinary day", TUESDAY), ("of Monday", MONDAY), ("of Thursday", THURSDAY))
    ]


def queue_table(setting: Setting, seeds: int) -> Iterator[list[str]]:
    """Minutes from the tag to publication, by account, other load, and targets of a job."""
    for account in ACCOUNTS:
        for load in LOADS:
            row = [account.name, f"{load:.0%}"]
            for size in (1, None):
                one = replace(setting, account=account, per_job=size)
                taken = [time_to_publication(one, load, seed) for seed in range(seeds)]
                row.append(f"{median(taken):.0f} ({max(taken):.0f})")
            yield row


def caches_table(week: Week) -> Rows:
    """For each platform: SDKs of a week, caches found and not, what was compiled again, and minutes."""
    found = []
    for name in dict.fromkeys(one.runtime for one in week.restored):
        mine = [one for one in week.restored if one.runtime == name]
        hits, share = sum(one.hit for one in mine), sum(one.compiled for one in mine) / len(mine)
        days = "daily" if len({one.day for one in mine}) > 1 else "weekly"
        minutes = sum(one.minutes for one in mine)
        found.append(
            [f"`{name}`", days, str(len(mine)), str(hits), str(len(mine) - hits), f"{share:.0%}", f"{minutes:,.0f}"]
        )
    return found


def variants(setting: Setting) -> Iterator[tuple[str, Setting]]:
    """Ways to treat the compiler caches, which one can compare."""
    fitting = fitting_size(setting.matrix)
    yield "as the workflows are", setting
    yield "superseded deleted", replace(setting, deletes=True)
    yield f"entries of {fitting / 1e6:.0f} MB", replace(setting, deletes=False, entry_limit=fitting)
    yield f"superseded deleted, entries of {fitting / 1e6:.0f} MB", replace(setting, deletes=True, entry_limit=fitting)


def variants_table(setting: Setting) -> Rows:
    """What each way comes to."""
    found = []
    for name, variant in variants(setting):
        week = Player(variant, 0).play()
        held = sum(week.artifacts.byte_days(week.begin, week.begin + 7 * DAY).values()) / 7e9
        row = [name, f"{week.caches.peak / 1e9:.1f}", str(week.caches.evicted)]
        days: dict[str, set[int]] = {}
        for one in week.restored:
            days.setdefault(one.runtime, set()).add(one.day)
        for daily in (True, False):
            mine = [one for one in week.restored if (len(days[one.runtime]) > 1) is daily]
            row += [str(sum(one.hit for one in mine)), str(sum(not one.hit for one in mine))]
        minutes = sum(one.minutes for one in week.restored)
        found.append([*row, f"{minutes:,.0f}", f"{held:.1f}"])
    return found


def artifacts_table(week: Week) -> Rows:
    """Bytes times days of a week by kind, and the mean."""
    found = week.artifacts.byte_days(week.begin, week.begin + 7 * DAY)
    whole = [(f"`{name}…`", size) for name, size in sorted(found.items(), key=lambda pair: -pair[1])]
    return [
        [name, f"{size / 1e9:,.1f}", f"{size / 7e9:,.2f}"] for name, size in [*whole, ("together", sum(found.values()))]
    ]


def requests_table(week: Week) -> Rows:
    """Of Monday, by command."""
    return week.requests.table(0)


def peaks_table(week: Week) -> Rows:
    """The most requests in a minute and in an hour, of an ordinary day and of Monday, and their limits."""
    limits = counted().limits
    asked: list[tuple[str, Kind, str, float, int]] = [
        ("REST requests", "rest", "hour", 60, limits.rest),
        ("GraphQL", "graphql", "hour", 60, limits.graphql),
        ("writes", "writes", "hour", 60, limits.writes),
        ("writes", "writes", "minute", 1, limits.writes_a_minute),
    ]
    found = []
    for name, kind, span, minutes, limit in asked:
        days = [week.requests.busiest(kind, minutes, week.begin + day * DAY) for day in (1, 0)]
        found.append([name, span, *(f"{most:,}" for most in (*days, limit))])
    return found


def verdict_table(setting: Setting, seeds: int) -> Rows:
    """For Free and Team, public and private: the figures, whether they fit, and what to switch off."""
    found = []
    for public in (True, False):
        for account in ACCOUNTS[:2]:
            mine = replace(setting, account=account, public=public)
            kind = f"{account.name}, {'public' if public else 'private'}"
            found += [[kind, figure.resource, figure.text(), verdict] for figure, verdict in verdicts(mine, seeds)]
            if not (public or account.private_pages):
                found.append([kind, "pages", "none in private repositories", "doesn't fit"])
    return found


def markdown(titles: Sequence[str], table: Rows) -> str:
    """A table. ``>`` before a title: numbers."""
    lines = [[title.lstrip(">") for title in titles], ["--:" if title.startswith(">") else "---" for title in titles]]
    head = f"| {' | '.join(lines[0])} |\n|{'|'.join(lines[1])}|"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in table)])


def tables(setting: Setting, seeds: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    """The title of each table, those of its columns, and its rows."""
    week, private = (Player(replace(setting, public=public), 0).play() for public in (True, False))
    jobs = [">jobs (macOS)", ">minutes", ">billed, private"]
    yield (
        "Jobs of an ordinary day, and of Monday, in a public repository",
        ["workflow", *(f"{title}, {day}" for day in ("day", "Monday") for title in jobs)],
        jobs_table(week, private),
    )
    sunday = week.cost((6,)).workflows.get("ci.yml", Sum())
    yield (
        "CI's schedules on a Sunday",
        [">jobs", ">minutes"],
        [[str(sunday.jobs), f"{sunday.seconds / 60:,.0f}"]],
    )
    yield "Jobs of one snapshot", ["snapshot", ">jobs", ">on macOS"], jobs_of_a_snapshot(setting)
    yield (
        f"Minutes from the tag to publication, of a snapshot of an ordinary day: median, and longest, of {6 * seeds}",
        ["account", "others' load", ">a job for each target", ">these jobs"],
        list(queue_table(setting, 6 * seeds)),
    )
    yield (
        f"Compiler caches, of {CACHE_LIMIT / 1e9:.0f} GB",
        [
            "",
            ">peak GB",
            ">evicted",
            ">daily found",
            ">not",
            ">weekly found",
            ">not",
            ">SDK minutes a week",
            ">GB of artifacts",
        ],
        variants_table(setting),
    )
    yield (
        "Compiler caches by platform, as set",
        ["platform", "cadence", ">SDKs", ">found", ">not", ">compiled again", ">minutes"],
        caches_table(week),
    )
    peak = week.artifacts.peak(week.begin, week.begin + 7 * DAY)
    yield (
        f"Artifacts of a week; {peak / 1e9:.1f} GB at most",
        ["artifact", ">GB × days", ">GB held, on average"],
        artifacts_table(week),
    )
    yield "Requests of a Monday", ["command", ">runs", ">REST", ">of them writes", ">GraphQL"], requests_table(week)
    yield "The most requests at once", ["requests", "in a", ">ordinary day", ">Monday", ">limit"], peaks_table(week)
    year = a_year(setting.matrix, per_day=setting.per_day or 2)
    yield "A year of releases", Year.COLUMNS, year.table()
    yield "What these bytes mean", [""], [[line] for line in year.text().splitlines()]
    yield (
        f"What fits, and what to switch off, of {', '.join(SWITCHES)}",
        ["account", "resource", "as it is", "verdict"],
        verdict_table(setting, seeds),
    )
    longest = Counter(week.limits).most_common(3)
    yield (
        "Nearest to their time limits",
        ["job", ">of its limit"],
        [[f"`{name}`", f"{part:.0%}"] for name, part in longest],
    )


def main() -> None:
    """The tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", type=Path, default=ROOT / TARGETS_FILE, help="a matrix (default: the shipped one)")
    parser.add_argument("--seeds", type=int, default=1, help="weeks of each verdict; the queue has six times as many")
    parser.add_argument("--json", type=Path, help="a file that the tables are written to as well")
    parser.add_argument("--delete-superseded", action="store_true", help="as if compiler-caches.yml deleted these")
    parser.add_argument(
        "--entry-size", type=float, help="megabytes that a compiler cache may have, or 0: as many as fit"
    )
    parser.add_argument("--abi3", action="store_true", help="LLVM 23 on, where one wheel may serve several CPythons")
    arguments = parser.parse_args()
    setting = shipped(arguments.targets)
    if arguments.abi3:
        setting = replace(setting, matrix=setting.matrix.merge_abi3(lambda one: one.abi3 is not False))
    if arguments.delete_superseded:
        setting = replace(setting, deletes=True)
    if arguments.entry_size is not None:
        setting = replace(setting, entry_limit=1e6 * arguments.entry_size or fitting_size(setting.matrix))
    found = []
    for title, titles, table in tables(setting, arguments.seeds):
        print(f"**{title}**\n\n{markdown(titles, table)}\n", flush=True)
        found.append({"title": title, "columns": [name.lstrip(">") for name in titles], "rows": table})
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2))


if __name__ == "__main__":
    main()
