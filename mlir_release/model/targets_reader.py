"""Reads ``targets.toml``'s tables key by key, so that each mistake gets a message that names it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mlir_release.errors import UsageError
from mlir_release.model.cpython import CPython
from mlir_release.model.filters import alternatives
from mlir_release.model.matrix import Matrix, WheelTarget
from mlir_release.model.platforms import HOST_SYSTEMS, Platform, PlatformTag
from mlir_release.model.targets import SUITES, TARGETS_FILE, Configuration, GreenPolicy, ReleaseConfig, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")


def read_matrix(data: dict[str, Any], *, where: str) -> Matrix:
    """The matrix that a file's content says. :raises UsageError: ``targets-invalid``, for the first mistake"""
    return _Reader(where).matrix(data)


class _Reader:
    """Of one file; ``where`` names it in errors."""

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
                raise self.error(place, f"unknown key {key!r}", alternatives(key, allowed))
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
            raise self.error(place, f"{key} = {value!r} is not known", alternatives(value, options))
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
        system = HOST_SYSTEMS[self.choice(place, "os", table["os"], HOST_SYSTEMS)]
        if not re.fullmatch(system.floor, table["floor"]):
            raise self.error(
                place,
                f"floor = {table['floor']!r} is no platform tag of {system.name}",
                f"write it like {system.example!r}",
            )
        arch = self.choice(place, "arch", table["arch"], system.architectures)
        floor = PlatformTag.parse(table["floor"])
        if floor.arch and floor.platform != Platform.of(system.name, arch):
            raise self.error(place, f"floor = {table['floor']!r} is not for arch = {arch!r}", "change one of the two")
        return Runtime(
            name=self.name(place, name),
            os=system.name,
            arch=arch,
            runner=table["runner"],
            floor=table["floor"],
            pythons=self.pythons(place, table["pythons"]),
        )

    def pythons(self, place: str, tags: list[str]) -> tuple[CPython, ...]:
        pythons = tuple(self.python(place, tag) for tag in tags)
        if not pythons or len(set(pythons)) != len(pythons):
            raise self.error(place, "pythons is empty or names one twice", "list each CPython once")
        return pythons

    def python(self, place: str, tag: str) -> CPython:
        try:
            python = CPython.of_tag(tag)
        except ValueError as error:
            raise self.error(place, str(error), "write cp312, or cp314t for free-threaded") from None
        if python.release < (3, 10):
            raise self.error(place, f"{tag}: upstream's bindings need CPython 3.10 or newer", "remove it")
        return python

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
        for python in self.pythons(place, table["pythons"]) if "pythons" in table else runtime.pythons:
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
        files: dict[tuple[str, CPython, Platform], WheelTarget] = {}
        for wheel in wheels:
            if wheel.name in names:
                raise self.error(f"target {wheel.name}", "two rows make it", "remove one, or give one other pythons")
            names[wheel.name] = wheel
            # Everything that a wheel's file name is made of, except the version, which is one for the whole release.
            key = (wheel.distribution, wheel.python, wheel.runtime.tag.platform)
            if key in files:
                raise self.error(
                    f"targets {files[key].name} and {wheel.name}",
                    f"both would make {wheel.distribution}-…-{wheel.python}-… for {wheel.runtime.platform}",
                    "give one of the two LLVM configurations another distribution name",
                )
            files[key] = wheel
