"""``targets.toml``: LLVM configurations x runtimes x suites, each described once and tied by target rows.

A row names an LLVM configuration, a runtime (a platform and its CPythons) and the suites that gate it; it expands to
one :class:`WheelTarget` for every CPython and to the :class:`TestTarget` of its suites. Names are derived from those
words only, so they are stable as long as what they name is the same thing.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from mlir_release.errors import UsageError
from mlir_release.filters import TAG, compile_filter
from mlir_release.versions import NumberedTag, ReleaseTag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Path of the matrix in a release repository.
TARGETS_FILE = "targets.toml"

_PYTHON = re.compile(r"cp3(?P<minor>[0-9]{1,2})(?P<threads>t?)")
_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")

Profile = Literal["host", "core", "full"]
Scope = Literal["python", "platform"]

#: The suites there are (mlir_release.wheels.suites runs them), and what each is run once for.
SUITES: Mapping[str, Scope] = {"smoke": "python", "bindings": "python", "regression": "platform"}


@dataclass(frozen=True, kw_only=True)
class GreenPolicy:
    """What "green" means: a revision on which every one of ``checks`` has succeeded."""

    checks: tuple[str, ...]  #: names of check runs, or contexts of commit statuses
    depth: int = 50  #: how many of the newest upstream commits are looked at
    fallback: Literal["head", "stop"] = "stop"  #: if none of them is green


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig:
    """Where revisions come from and where the pin lives."""

    upstream: str  #: URL or path that git can fetch from
    upstream_branch: str = "main"
    branch: str = "main"  #: the branch of the release repository that holds the pin
    workflow: str = "release.yml"  #: dispatched on each new tag
    green: GreenPolicy | None = None


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """An LLVM configuration: what is linked into the wheels, and the distribution that they are called."""

    name: str
    distribution: str
    profile: Profile
    cadence: Literal["always", "weekly"] = "always"  #: weekly: Monday's snapshots (UTC) and every numbered release


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A platform with the CPythons that wheels are made for there."""

    name: str
    os: str
    arch: str
    runner: str  #: GitHub runner label
    floor: str  #: the oldest platform tag that the wheels must install on
    pythons: tuple[str, ...]  #: ``cp312``, ``cp314t``, …


@dataclass(frozen=True, kw_only=True)
class WheelTarget:
    """One wheel of a release."""

    configuration: Configuration
    runtime: Runtime
    python: str
    required: bool
    suites: tuple[str, ...]
    tags: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        """``mlir-linux-x86_64-cp312``."""
        return f"{self.configuration.name}-{self.runtime.name}-{self.python}"

    @property
    def distribution(self) -> str:
        """What pip calls it."""
        return self.configuration.distribution

    @property
    def profile(self) -> Profile:
        """What is linked in."""
        return self.configuration.profile

    def test_name(self, suite: str) -> str:
        """The name of the test target by which ``suite`` gates this wheel."""
        parts = [suite, self.configuration.name, self.runtime.name]
        return "-".join([*parts, self.python] if SUITES[suite] == "python" else parts)

    def facts(self) -> dict[str, frozenset[str]]:
        """What filters see."""
        return {
            "name": frozenset({self.name}),
            "llvm": frozenset({self.configuration.name}),
            "distribution": frozenset({self.distribution}),
            "profile": frozenset({self.profile}),
            "runtime": frozenset({self.runtime.name}),
            "os": frozenset({self.runtime.os}),
            "arch": frozenset({self.runtime.arch}),
            "python": frozenset({self.python}),
            "suite": frozenset(self.suites),
            TAG: self.tags | {"required" if self.required else "experimental", self.configuration.cadence},
        }


@dataclass(frozen=True, kw_only=True)
class TestTarget:
    """One run of a suite. ``python`` is None for suites that run once a platform."""

    __test__ = False  # not a pytest class, whatever its name

    suite: str
    configuration: Configuration
    runtime: Runtime
    python: str | None
    required: bool
    wheels: tuple[str, ...]  #: names of the wheel targets that it gates

    @property
    def name(self) -> str:
        """Suite, LLVM configuration, runtime: a failure's name tells where to look."""
        parts = [self.suite, self.configuration.name, self.runtime.name]
        return "-".join(parts if self.python is None else [*parts, self.python])


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The build matrix: all wheels, in the file's order."""

    release: ReleaseConfig
    wheels: tuple[WheelTarget, ...]

    @classmethod
    def parse(cls, text: str, *, where: str = TARGETS_FILE) -> Matrix:
        """Parse ``targets.toml``. :raises UsageError: for the first mistake, with the table and key it is in."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(
                "targets-not-toml",
                f"{TARGETS_FILE} is not valid TOML",
                where=where,
                why=str(error),
                remedy="mend the line that is named",
            ) from None
        return _Reader(where).matrix(data)

    @cached_property
    def tests(self) -> tuple[TestTarget, ...]:
        """The test targets of all wheels; one that gates several wheels stands once, required if any of them is."""
        found: dict[str, TestTarget] = {}
        for wheel in self.wheels:
            for suite in wheel.suites:
                name = wheel.test_name(suite)
                known = found.get(name)
                found[name] = TestTarget(
                    suite=suite,
                    configuration=wheel.configuration,
                    runtime=wheel.runtime,
                    python=wheel.python if SUITES[suite] == "python" else None,
                    required=wheel.required or (known is not None and known.required),
                    wheels=(*(known.wheels if known else ()), wheel.name),
                )
        return tuple(found.values())

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """The runtimes in use, each once: one SDK is made for each."""
        return tuple({wheel.runtime.name: wheel.runtime for wheel in self.wheels}.values())

    def wheel(self, name: str) -> WheelTarget:
        """The wheel target called ``name``. :raises UsageError:"""
        for wheel in self.wheels:
            if wheel.name == name:
                return wheel
        raise UsageError(
            "target-unknown",
            f"there is no target called {name!r}",
            remedy=f"targets: {', '.join(wheel.name for wheel in self.wheels)}",
        )

    def only(self, text: str) -> Matrix:
        """The matrix with only the wheels that the filter ``text`` accepts. :raises UsageError: if that is none."""
        facts = [(wheel, wheel.facts()) for wheel in self.wheels]
        known: dict[str, set[str]] = {}
        for _, values in facts:
            for key, found in values.items():
                known.setdefault(key, set()).update(found)
        known.setdefault(TAG, set()).update({"required", "experimental"})
        predicate = compile_filter(text, known)
        chosen = tuple(wheel for wheel, values in facts if predicate(values))
        if not chosen:
            raise UsageError(
                "filter-matches-nothing",
                f"no target fits the filter {text!r}",
                remedy="mlir-release matrix shows all targets",
            )
        return replace(self, wheels=chosen)

    def due(self, tag: ReleaseTag) -> Matrix:
        """The matrix of one release: weekly configurations only in Monday's snapshots and in numbered releases."""
        every = isinstance(tag, NumberedTag) or tag.date.weekday() == 0
        return replace(
            self, wheels=tuple(wheel for wheel in self.wheels if every or wheel.configuration.cadence == "always")
        )

    def named(self, names: Iterable[str]) -> Matrix:
        """The matrix with only the wheels called ``names``, in the file's order."""
        wanted = set(names)
        return replace(self, wheels=tuple(wheel for wheel in self.wheels if wheel.name in wanted))


def python_version(tag: str) -> str:
    """``3.12`` for ``cp312``, ``3.14t`` for ``cp314t``. :raises ValueError:"""
    match = _PYTHON.fullmatch(tag)
    if match is None:
        raise ValueError(f"not a CPython tag: {tag!r}")
    return f"3.{match['minor']}{match['threads']}"


class _Reader:
    """Validates tables key by key, so that each mistake gets a message that names it."""

    def __init__(self, where: str) -> None:
        self.where = where

    def error(self, place: str, why: str, remedy: str) -> UsageError:
        return UsageError(
            "targets-invalid", f"{TARGETS_FILE} has a mistake in {place}", where=self.where, why=why, remedy=remedy
        )

    def table(
        self, data: Any, place: str, required: Mapping[str, type], optional: Mapping[str, type]
    ) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.error(place, "it is not a table", f"write it as [{place}]")
        allowed = {**required, **optional}
        for key, value in data.items():
            if key not in allowed:
                import difflib

                close = difflib.get_close_matches(key, allowed, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"allowed: {', '.join(allowed)}"
                raise self.error(place, f"unknown key {key!r}", hint)
            if type(value) is not allowed[key]:
                raise self.error(
                    place, f"{key} is not a {allowed[key].__name__}", f"give {key} a {allowed[key].__name__}"
                )
            if isinstance(value, list) and not all(isinstance(item, str) for item in value):
                raise self.error(place, f"{key} holds something else than strings", f"give {key} a list of strings")
        for key in required:
            if key not in data:
                raise self.error(place, f"{key} is missing", f"add {key} = …")
        return data

    def choice(self, place: str, key: str, value: str, allowed: Iterable[str]) -> Any:
        options = list(allowed)
        if value not in options:
            raise self.error(place, f"{key} = {value!r} is not known", f"use one of: {', '.join(options)}")
        return value

    def matrix(self, data: dict[str, Any]) -> Matrix:
        top = self._top(data)
        release = self.table(
            top["release"],
            "release",
            {"upstream": str},
            {"upstream-branch": str, "branch": str, "workflow": str, "green": dict},
        )
        configurations = {name: self.configuration(name, table) for name, table in top["llvm"].items()}
        runtimes = {name: self.runtime(name, table) for name, table in top["runtime"].items()}
        wheels: list[WheelTarget] = []
        for number, row in enumerate(top["target"], 1):
            wheels += self.row(f"[[target]] number {number}", row, configurations, runtimes)
        self.check_unique(wheels)
        return Matrix(
            release=ReleaseConfig(**{key.replace("-", "_"): value for key, value in self._release(release).items()}),
            wheels=tuple(wheels),
        )

    def _release(self, release: dict[str, Any]) -> dict[str, Any]:
        """The table with its green policy read."""
        if "green" not in release:
            return release
        place = "release.green"
        table = self.table(release["green"], place, {"checks": list}, {"depth": int, "fallback": str})
        if not table["checks"]:
            raise self.error(place, "checks is empty", "name the checks that must have succeeded")
        if table.get("depth", 1) < 1:
            raise self.error(place, f"depth = {table['depth']} looks at no commit", "give a number from 1 on")
        if "fallback" in table:
            self.choice(place, "fallback", table["fallback"], ("head", "stop"))
        return {**release, "green": GreenPolicy(**{**table, "checks": tuple(table["checks"])})}

    def _top(self, data: dict[str, Any]) -> dict[str, Any]:
        required = {"schema": int, "release": dict, "llvm": dict, "runtime": dict, "target": list}
        rows = data.get("target")
        if isinstance(rows, list) and not all(isinstance(row, dict) for row in rows):
            raise self.error("target", "it is not a list of tables", "write each row as [[target]]")
        top = self.table({**data, "target": []} if isinstance(rows, list) else data, "the top level", required, {})
        if top["schema"] != 1:
            raise self.error("schema", f"this toolkit reads schema 1, not {top['schema']}", "use a newer mlir-release")
        return {**top, "target": rows}

    def name(self, place: str, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise self.error(
                place, f"{name!r} can't be part of a target's name", "use lower-case letters, digits, - and _"
            )
        return name

    def configuration(self, name: str, data: Any) -> Configuration:
        place = f"llvm.{name}"
        table = self.table(data, place, {"distribution": str, "profile": str}, {"cadence": str})
        return Configuration(
            name=self.name(place, name),
            distribution=self.name(place, table["distribution"]),
            profile=self.choice(place, "profile", table["profile"], ("host", "core", "full")),
            cadence=self.choice(place, "cadence", table.get("cadence", "always"), ("always", "weekly")),
        )

    def runtime(self, name: str, data: Any) -> Runtime:
        place = f"runtime.{name}"
        table = self.table(data, place, {"os": str, "arch": str, "runner": str, "floor": str, "pythons": list}, {})
        return Runtime(
            name=self.name(place, name),
            os=self.choice(place, "os", table["os"], ("linux", "macos", "windows")),
            arch=self.choice(place, "arch", table["arch"], ("x86_64", "aarch64", "arm64", "amd64")),
            runner=table["runner"],
            floor=table["floor"],
            pythons=self.pythons(place, table["pythons"]),
        )

    def pythons(self, place: str, tags: list[str]) -> tuple[str, ...]:
        for tag in tags:
            match = _PYTHON.fullmatch(tag)
            if match is None:
                raise self.error(place, f"{tag!r} is not a CPython tag", "write cp312, or cp314t for free-threaded")
            if int(match["minor"]) < 10:
                raise self.error(place, f"{tag}: upstream's bindings need CPython 3.10 or newer", "remove it")
        if not tags or len(set(tags)) != len(tags):
            raise self.error(place, "pythons is empty or names one twice", "list each CPython once")
        return tuple(tags)

    def row(
        self, place: str, data: Any, configurations: Mapping[str, Configuration], runtimes: Mapping[str, Runtime]
    ) -> Iterable[WheelTarget]:
        table = self.table(
            data,
            place,
            {"llvm": str, "runtime": str, "suites": list, "required": bool},
            {"pythons": list, "tags": list},
        )
        configuration = configurations[self.choice(place, "llvm", table["llvm"], configurations)]
        runtime = runtimes[self.choice(place, "runtime", table["runtime"], runtimes)]
        suites = tuple(self.choice(place, "suites", suite, SUITES) for suite in table["suites"])
        for python in self.pythons(place, table.get("pythons", list(runtime.pythons))):
            yield WheelTarget(
                configuration=configuration,
                runtime=runtime,
                python=python,
                required=table["required"],
                suites=suites,
                tags=frozenset(self.name(place, tag) for tag in table.get("tags", ())),
            )

    def check_unique(self, wheels: list[WheelTarget]) -> None:
        names: dict[str, WheelTarget] = {}
        files: dict[tuple[str, str, str, str], WheelTarget] = {}
        for wheel in wheels:
            if wheel.name in names:
                raise self.error(f"target {wheel.name}", "two rows make it", "remove one, or give one other pythons")
            names[wheel.name] = wheel
            # Everything that a wheel's file name is made of, except the version, which is one for the whole release.
            key = (wheel.distribution, wheel.python, wheel.runtime.os, wheel.runtime.arch)
            if key in files:
                raise self.error(
                    f"targets {files[key].name} and {wheel.name}",
                    f"both would make {wheel.distribution}-…-{wheel.python}-… for {wheel.runtime.os} {key[3]}",
                    "give one of the two LLVM configurations another distribution name",
                )
            files[key] = wheel
