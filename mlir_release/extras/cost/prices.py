"""The prices and the cores of GitHub's runners: ``prices.toml``, with its source and date."""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from msgspec import Struct, convert, field

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.python.platforms import HOST_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Systems by the first word of GitHub's own labels, and the standard runner of each.
_SYSTEMS = {system.runner: system.name for system in HOST_SYSTEMS.values()}
_STANDARD = {system.name: f"{system.runner}-latest" for system in HOST_SYSTEMS.values()}


class Runner(Struct, frozen=True, kw_only=True, rename="kebab"):
    """A kind of runner whose labels GitHub has chosen."""

    label: re.Pattern[str]
    dollars: float  #: a minute
    standard: bool = True  #: free in public repositories
    cores: int | None = None  #: None: as many as the system's standard runner
    cores_in_public: int | None = None  #: None: the same


class Prices(Struct, frozen=True, kw_only=True, rename="kebab"):
    """GitHub's price list."""

    source: str
    read_on: date
    currency: str
    not_priced: tuple[str, ...]  #: costs that the figures leave out
    runners: tuple[Runner, ...] = field(name="runner")

    def runner(self, labels: Sequence[str]) -> Runner | None:
        """The kind of runner with these labels; None if it is self-hosted, or the labels do not tell."""
        if "self-hosted" in labels:
            return None
        return next((runner for label in labels for runner in self.runners if runner.label.fullmatch(label)), None)

    def cores(self, labels: Sequence[str], *, public: bool) -> int:
        """Cores of a runner. One that is not in the list counts as the standard runner of its system."""
        runner = self.runner(labels)
        if runner is None or runner.cores is None:
            runner = self.runner([_STANDARD.get(system_of(labels), _STANDARD["linux"])])
        assert runner is not None
        assert runner.cores is not None
        return (public and runner.cores_in_public) or runner.cores


@cache
def prices() -> Prices:
    """The list that comes with the toolkit."""
    data = parse_toml(resources.files(__package__).joinpath("prices.toml").read_text(encoding="utf-8"))
    return convert(data, Prices, dec_hook=lambda _, label: re.compile(label))


def system_of(labels: Sequence[str]) -> str:
    """``linux``, ``macos``, ``windows``; ``other`` for a runner whose labels do not say."""
    for label in labels:
        if found := _SYSTEMS.get(label.partition("-")[0]):
            return found
    lowered = {label.lower() for label in labels}
    return next((name for name in _STANDARD if name in lowered), "other")
