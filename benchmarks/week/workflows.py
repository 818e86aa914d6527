"""What the workflow files say: jobs and what they wait for, schedules, artifacts, compiler caches, limits of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Days that GitHub keeps an artifact whose step doesn't say, and one of Pages.
KEPT, PAGES_KEPT = 90, 1

_EXPRESSION = re.compile(r"\$\{\{.*?\}\}")
_DISPATCH = re.compile(r"release dispatch ([a-z-]+\.yml)")

#: Conditions that hold for no snapshot that succeeds at the first attempt: of numbered releases, of further attempts.
UNMET = ("startsWith(github.ref_name, 'llvm-')", "outputs.finished == 'false'", "inputs.fetch != ''")

#: Conditions of jobs that sign.
SIGNING = ("inputs.attest", "outputs.attest == 'true'")


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A step that keeps an artifact where all goes well. ``name``: as it begins"""

    name: str
    days: float


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A job of a workflow file."""

    key: str
    title: str  #: with expressions
    needs: tuple[str, ...]
    condition: str
    signs: bool
    called: str  #: the file that it calls, whose jobs are in its place
    timeout: float | None  #: minutes; None: an expression, or another file's
    uploads: tuple[Upload, ...]
    dispatches: tuple[tuple[str, bool], ...]  #: workflows, and whether only releases that are signed have it
    restores: str  #: what the compiler caches that it restores are called, up to the platform; empty: none
    saves: bool  #: a compiler cache
    writes_actions: bool
    commands: str  #: of all its steps

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What its name is; expressions in parentheses may be missing."""
        parts = re.split(r"( \(\$\{\{.*?\}\}\)|\$\{\{.*?\}\})", self.title)
        found = (
            r"(?: \(.*\))?" if part.startswith(" (${{") else ".+" if part.startswith("${{") else re.escape(part)
            for part in parts
        )
        return re.compile("".join(found))

    @cached_property
    def literal(self) -> int:
        """How much of its name is fixed."""
        return len(_EXPRESSION.sub("", self.title))


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A workflow file."""

    name: str
    crons: tuple[str, ...]
    group: str  #: of runs that wait for each other; empty: each run has its own
    jobs: Mapping[str, JobSpec]

    def lacks(self, *, signed: bool, has_tag: bool, cron: str) -> set[str]:
        """The jobs that a run for a snapshot doesn't have, by their conditions."""
        lacking: set[str] = set()
        for key, job in self.jobs.items():
            done = re.findall(r"needs\.([\w-]+)\.result == 'success'", job.condition)
            if (
                any(words in job.condition for words in UNMET)
                or (not signed and job.signs and any(words in job.condition for words in SIGNING))
                or ("||" not in job.condition and lacking & set(done))
                or (not has_tag and "inputs.tag != ''" in job.condition)
                or (bool(cron) and not self._at(job, cron))
                or (not job.condition and lacking & set(job.needs))
            ):
                lacking.add(key)
        return lacking

    @staticmethod
    def _at(job: JobSpec, cron: str) -> bool:
        """Whether a schedule starts a job. Without a condition, the jobs that it needs decide."""
        if "github.event.schedule" in job.condition:
            return f"github.event.schedule == '{cron}'" in job.condition
        return "event_name != 'schedule'" not in job.condition or "vars." in job.condition


def read_workflows(folder: Path) -> dict[str, Workflow]:
    """The workflow files of a folder, by their names."""
    raw = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yml"))}
    return {name: _workflow(name, data, raw) for name, data in raw.items()}


def _workflow(name: str, data: Mapping[Any, Any], raw: Mapping[str, Any]) -> Workflow:
    events = data.get("on", data.get(True)) or {}  # YAML takes "on" for true
    group = str((data.get("concurrency") or {}).get("group", ""))
    schedules = events.get("schedule") or [] if isinstance(events, dict) else []
    return Workflow(
        name=name,
        crons=tuple(entry["cron"] for entry in schedules),
        group="" if _EXPRESSION.search(group) else group,
        jobs={key: _job(key, job, raw) for key, job in data["jobs"].items()},
    )


def _job(key: str, data: Mapping[str, Any], raw: Mapping[str, Any]) -> JobSpec:
    steps, given, called = data.get("steps") or [], data.get("with") or {}, ""
    if "uses" in data:
        called = data["uses"].partition("@")[0].rpartition("/")[2]
        jobs = raw[called]["jobs"].values() if called in raw else ()
        if len(jobs) == 1:  # it stands for that job
            steps, called = next(iter(jobs))["steps"], ""
    needs = data.get("needs") or []
    minutes = data.get("timeout-minutes")
    keys = [str(step["with"]["key"]) for step in steps if str(step.get("uses", "")).startswith("actions/cache")]
    restoring = any(str(step.get("uses", "")).startswith("actions/cache/restore") for step in steps)
    dispatches = dict.fromkeys(
        (workflow, "provenance" in str(step.get("if", "")))
        for step in steps
        if "vars." not in str(step.get("if", ""))
        for workflow in _DISPATCH.findall(str(step.get("run", "")))
    )
    return JobSpec(
        key=key,
        title=str(data.get("name", key)),
        needs=(needs,) if isinstance(needs, str) else tuple(needs),
        condition=str(data.get("if", "")),
        signs="uses" in data and not called,
        called=called,
        timeout=minutes if isinstance(minutes, int | float) else None,
        uploads=tuple(_uploads(steps, given)),
        dispatches=tuple(dispatches),
        restores=_EXPRESSION.split(keys[0])[0] if keys and restoring else "",
        saves=bool(keys) and not restoring,
        writes_actions=(data.get("permissions") or {}).get("actions") == "write",
        commands="\n".join(str(step.get("run", "")) for step in steps),
    )


def _uploads(steps: list[Any], given: Mapping[str, Any]) -> Iterator[Upload]:
    for step in steps:
        action, options = str(step.get("uses", "")), step.get("with") or {}
        name = str(options.get("name", "artifact"))
        for key, value in given.items():
            name = name.replace(f"${{{{ inputs.{key} }}}}", str(value))
        name = _EXPRESSION.split(name)[0]
        if action.startswith("actions/upload-pages-artifact"):
            yield Upload(name=name, days=float(options.get("retention-days", PAGES_KEPT)))
        elif action.startswith("actions/upload-artifact") and "failure()" not in str(step.get("if", "")):
            yield Upload(name=name, days=float(options.get("retention-days", KEPT)))


def cache_limit(folder: Path) -> float | None:
    """Bytes that the workflows let a compiler cache have; None: an expression says."""
    found = re.findall(r"^ *CCACHE_MAXSIZE: *(.+?) *(?:#.*)?$", (folder / "platform.yml").read_text(), re.MULTILINE)
    match = re.fullmatch(r"\"?([0-9.]+)([MG])\"?", found[0]) if found else None
    return float(match[1]) * {"M": 1e6, "G": 1e9}[match[2]] if match else None


def cron_times(cron: str, days: int) -> Iterator[float]:
    """The minutes since a Monday's midnight at which a schedule starts something, in so many days.

    Lists, steps and ranges of minutes, hours and weekdays are read; days of the month and months are not.
    """
    minutes, hours, of_month, months, weekdays = cron.split()
    if (of_month, months) != ("*", "*"):
        raise ValueError(f"a schedule by days of the month: {cron}")
    on = {7 if day == 0 else day for day in _numbers(weekdays, 0, 6)}
    for day in range(days):
        if day % 7 + 1 in on:
            for hour in _numbers(hours, 0, 23):
                for minute in _numbers(minutes, 0, 59):
                    yield day * 1440.0 + hour * 60 + minute


def _numbers(text: str, first: int, last: int) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, dash, high = span.partition("-")
        if span == "*":
            low, high = str(first), str(last)
        elif not dash:
            high = low if not step else str(last)
        found |= set(range(int(low), int(high) + 1, int(step or 1)))
    return sorted(found)
