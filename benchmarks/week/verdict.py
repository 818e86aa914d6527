"""What fits an account, by the figures of simulated weeks, and what to switch off where something doesn't."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.week.play import Player, fitting_size
from benchmarks.week.requests import counted
from benchmarks.week.stores import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from benchmarks.week.play import Setting, Week
    from mlir_release.release.model.matrix import Matrix

#: Weeks of a month.
MONTH = 365.25 / 12 / 7

#: Included minutes that a minute takes, by system: docs.github.com, "GitHub Actions", minute multipliers.
MULTIPLIERS = {"linux": 1, "windows": 2, "macos": 10}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a week, and what it may be."""

    resource: str
    value: float
    limit: float | None  #: None: no limit
    unit: str

    @property
    def fits(self) -> bool:
        """Whether it is within its limit."""
        return self.limit is None or self.value <= self.limit

    def text(self) -> str:
        """``29.1 of 0.5 GB``"""
        digits = 1 if self.unit in ("GB", "hours") else 0
        limit = "" if self.limit is None else f" of {self.limit:,.{digits}f}"
        return f"{self.value:,.{digits}f}{limit} {self.unit}{'' if limit else ', free'}"


def figures(setting: Setting, weeks: Sequence[Week]) -> list[Figure]:
    """The worst of some weeks, by resource."""
    account, limits, private = setting.account, counted().limits, not setting.public
    gaps = 24 / (setting.per_day or 2) if not setting.weekly else 7 * 24

    def most(of: Callable[[Week], float]) -> float:
        return max(map(of, weeks))

    def minutes(week: Week) -> float:
        systems = week.cost().systems
        return MONTH * sum(MULTIPLIERS[name] * spent.billed for name, spent in systems.items())

    return [
        Figure(
            resource="hours from tag to publication",
            value=most(lambda week: max(week.published, default=0.0)) / 60,
            limit=min(gaps, float(setting.matrix.release.deadline)),
            unit="hours",
        ),
        Figure(
            resource="included minutes a month", value=most(minutes), limit=account.minutes if private else None,
            unit="minutes",
        ),
        Figure(
            resource="compiler caches not found",
            value=most(lambda week: sum(not one.hit for one in week.restored)),
            limit=0, unit="a week",
        ),
        Figure(
            resource="artifacts held, on average",
            value=most(lambda week: sum(week.artifacts.byte_days(week.begin, week.begin + 7 * DAY).values())) / 7e9,
            limit=account.artifacts / 1e9 if private else None,
            unit="GB",
        ),
        Figure(
            resource="requests in an hour", value=most(lambda week: week.requests.busiest("rest", 60)),
            limit=limits.rest, unit="requests",
        ),
        Figure(
            resource="writes in a minute", value=most(lambda week: week.requests.busiest("writes", 1)),
            limit=limits.writes_a_minute, unit="requests",
        ),
        Figure(
            resource="writes in an hour", value=most(lambda week: week.requests.busiest("writes", 60)),
            limit=limits.writes, unit="requests",
        ),
    ]  # fmt: skip


def only_systems(matrix: Matrix, *keep: str) -> Matrix:
    """The matrix without the platforms of other systems."""
    return replace(matrix, wheels=tuple(wheel for wheel in matrix.wheels if wheel.runtime.os in keep))


def without_weekly(matrix: Matrix) -> Matrix:
    """The matrix without the configurations that one day of the week has."""
    return replace(matrix, wheels=tuple(one for one in matrix.wheels if one.configuration.cadence == "always"))


def only_first_platform(matrix: Matrix) -> Matrix:
    """The matrix of one platform: the first that is required, else the first."""
    first = next((wheel for wheel in matrix.wheels if wheel.required), matrix.wheels[0]).runtime
    return replace(matrix, wheels=tuple(wheel for wheel in matrix.wheels if wheel.runtime.name == first.name))


def fit_caches(setting: Setting) -> Setting:
    """With superseded caches deleted, and sizes that fit."""
    size = min(setting.entry_limit, fitting_size(setting.matrix))
    return replace(setting, deletes=True, entry_limit=size)


#: What can be switched off, the least painful first.
SWITCHES: Mapping[str, Callable[[Setting], Setting]] = {
    "keeping superseded caches": fit_caches,
    "CI's schedules": lambda setting: replace(setting, ci=False),
    "weekly rows": lambda setting: replace(setting, matrix=without_weekly(setting.matrix)),
    "a second snapshot a day": lambda setting: replace(setting, per_day=1),
    "macOS": lambda setting: replace(setting, matrix=only_systems(setting.matrix, "linux", "windows")),
    "snapshots on other days than Monday": lambda setting: replace(setting, weekly=True),
    "all platforms but the first": lambda setting: replace(setting, matrix=only_first_platform(setting.matrix)),
}


class Levels:
    """The figures of a setting with this or that switched off, each played once."""

    def __init__(self, setting: Setting, seeds: int) -> None:
        self._setting, self._seeds = setting, seeds
        self._found: dict[tuple[str, ...], dict[str, Figure]] = {}

    def without(self, off: Iterable[str]) -> Mapping[str, Figure]:
        """The figures by resource. ``off``: of :data:`SWITCHES`"""
        key, setting = tuple(off), self._setting
        if key not in self._found:
            for name in key:
                setting = SWITCHES[name](setting)
            weeks = [Player(setting, seed).play() for seed in range(self._seeds)]
            self._found[key] = {figure.resource: figure for figure in figures(setting, weeks)}
        return self._found[key]

    def remedy(self, resource: str) -> list[str] | None:
        """What to switch off so that a resource fits, in that order; None: all of it is not enough."""
        as_it_is, off = self.without(())[resource], list[str]()
        if as_it_is.fits:
            return off
        for name in SWITCHES:
            off.append(name)
            if self.without(off)[resource].fits:
                helpful = [one for one in off if self.without([one])[resource].value < 0.9 * as_it_is.value]
                return helpful if self.without(helpful)[resource].fits else off
        return None


def verdicts(setting: Setting, seeds: int) -> Iterator[tuple[Figure, str]]:
    """For each resource its figure with nothing off, and what follows."""
    levels = Levels(setting, seeds)
    for resource, figure in levels.without(()).items():
        off = levels.remedy(resource)
        least = levels.without(SWITCHES)[resource].text() if off is None else ""
        yield (
            figure,
            f"doesn't fit: {least} with all off" if off is None else f"off: {', '.join(off)}" if off else "fits",
        )
