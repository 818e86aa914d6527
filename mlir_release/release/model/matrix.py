"""The build matrix: every wheel and every run of a suite, expanded from ``targets.toml`` or a release line's file.

A row of the file expands to one :class:`~mlir_release.release.model.wheel_target.WheelTarget` for every CPython and to
the test targets of its suites.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.builder.model.orders import NOTICE
from mlir_release.builder.model.suites import suites_of_python
from mlir_release.ground.documents.decode import alternatives
from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, all_projects
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.requirements import canonical
from mlir_release.release.model.filters import TAG, compile_filter
from mlir_release.release.model.release_settings import TARGETS_FILE, ReleaseConfig, mistake
from mlir_release.release.model.release_tags import NumberedTag, ReleaseTag, line_file
from mlir_release.release.model.targets import DAYS, Configuration, LineTargets, Runtime, TargetRow, Targets
from mlir_release.release.model.wheel_target import TestTarget, WheelTarget, join, merge_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mlir_release.builder.model.names import WheelKey
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.ground.python.platforms import Platform
    from mlir_release.ground.python.requirements import Override
    from mlir_release.release.model.canaries import CanaryTable


@dataclass(frozen=True)
class Excluded:
    """A wheel that ``targets.toml`` asks for and that a revision can't be made into."""

    wheel: WheelTarget
    reason: str  #: ``LLVM 22.1.8 needs CPython 3.10 or newer``
    claimed: bool = False  #: only the tag says so, which nobody signs; nothing else has confirmed it

    @property
    def name(self) -> str:
        """The target's."""
        return self.wheel.name

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The build matrix: all wheels, in the file's order. ``excluded``: those that are no targets of a revision."""

    release: ReleaseConfig
    wheels: tuple[WheelTarget, ...]
    excluded: tuple[Excluded, ...] = ()
    overrides: tuple[Override, ...] = ()  #: of upstream's requirements
    canaries: tuple[CanaryTable, ...] = ()  #: other projects that are tried with each release
    on_pypi: tuple[str, ...] = ()  #: distributions that numbered releases put there, normalized; of ``targets.toml``
    file: str = TARGETS_FILE  #: that the wheels are described in
    main: str = DEFAULT_PROJECT  #: the distribution that people get who name none

    @classmethod
    def parse(cls, text: str, *, where: str = TARGETS_FILE) -> Matrix:
        """Parse ``targets.toml``. :raises UsageError: for the first mistake, with the table and key it is in."""
        targets = Targets.parse(text, where=where)
        return replace(
            cls._of(targets, targets.release, where=where, file=TARGETS_FILE),
            on_pypi=() if targets.release.base else targets.on_pypi,
        )

    def of_line(self, line: str, text: str, *, where: str) -> Matrix:
        """The matrix of a release line: the targets of its own file, and this one's ``[release]``.

        So a line decides what is built of it, and nothing about upstream, branches, signatures or PyPI.

        :param text: of the line's file
        :raises UsageError: for the first mistake, with the table and key it is in
        """
        file = line_file(line)
        targets = LineTargets.parse(text, where=where, file=file)
        for name, project in targets.project.items():
            if project.pypi is not None:
                remedy = f"remove it: {TARGETS_FILE} says what goes to PyPI"
                raise mistake(f"project.{name}", "pypi has no use here", remedy, where=where, file=file)
        return replace(self._of(targets, self.release, where=where, file=file), on_pypi=self.on_pypi)

    @classmethod
    def _of(cls, targets: LineTargets, release: ReleaseConfig, *, where: str, file: str) -> Matrix:
        if release.base:
            _check_names(targets, where, file)
        wheels = [wheel for row in targets.target for wheel in expand(targets, row, notice=release.notice)]
        _check_unique(wheels, where, file)
        first = next((table.distribution for table in targets.llvm.values()), None)
        return cls(
            release=release,
            wheels=tuple(wheels),
            overrides=targets.overrides,
            main=targets.main,
            canaries=tuple(structs.replace(each, distribution=each.distribution or first) for each in targets.canary),
            file=file,
        )

    @cached_property
    def tests(self) -> tuple[TestTarget, ...]:
        """The test targets of all wheels; one that gates several wheels is listed once, required if any of them is."""
        return merge_tests(test for wheel in self.wheels for test in wheel.tests)

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """The runtimes in use, each once: one SDK is made for each."""
        return tuple({wheel.runtime.name: wheel.runtime for wheel in self.wheels}.values())

    def wheel(self, name: str) -> WheelTarget:
        """The wheel target called ``name``. :raises UsageError:"""
        for wheel in self.wheels:
            if wheel.name == name:
                return wheel
            if any(member.name == name for member in wheel.abi3_members):
                raise UsageError(
                    "option-invalid",
                    f"{name} has no wheel of its own",
                    why=f"{wheel.name} serves its CPython, too: it is for the stable ABI",
                    remedy=f"name {wheel.name}",
                )
        for row in self.excluded:
            if row.name == name:
                raise UsageError(
                    "option-invalid",
                    f"{name} is no target of this release",
                    why=row.reason,
                    remedy="choose another target; mlir-release matrix shows those that there are",
                )
        raise unknown_target(name, (wheel.name for wheel in self.wheels))

    def runtime(self, platform: Platform, name: str | None = None) -> Runtime:
        """The first runtime for ``platform``, of that name if one is given. :raises UsageError: ``option-invalid``"""
        for runtime in self.runtimes:
            if runtime.platform == platform and name in (None, runtime.name):
                return runtime
        raise UsageError(
            "option-invalid",
            f"no runtime of the matrix is for {platform}"
            if name is None
            else f"the matrix has no runtime {name} for {platform}",
            where=self.file,
            why="its runtimes are: " + ", ".join(f"{runtime.name} ({runtime.platform})" for runtime in self.runtimes),
            remedy="run this on a machine of one of these platforms",
        )

    def for_platform(self, platform: Platform, *, configuration: str, runtime: str | None = None) -> Matrix:
        """The wheels of an LLVM configuration that one SDK serves: those of the first runtime for ``platform``.

        :param runtime: this one instead of the first
        :raises UsageError: ``option-invalid``
        """
        fitting = [
            wheel
            for wheel in self.wheels
            if wheel.configuration.name == configuration
            and wheel.runtime.platform == platform
            and runtime in {None, wheel.runtime.name, wheel.runtime.table}
        ]
        if not fitting:
            raise UsageError(
                "option-invalid",
                f"no target has the LLVM configuration {configuration} and "
                + (f"the runtime {runtime}, for {platform}" if runtime else f"a runtime for {platform}"),
                where=self.file,
                why="; ".join(map(str, self.excluded)),
                remedy="mlir-release matrix shows all targets",
            )
        first = fitting[0].runtime
        return replace(self, wheels=tuple(wheel for wheel in fitting if wheel.runtime == first))

    def excluding(self, reason_of: Callable[[WheelTarget], str], *, claimed: bool = False) -> Matrix:
        """The matrix without the wheels for which there is a reason (a sentence; empty: none)."""
        found = [(wheel, reason_of(wheel)) for wheel in self.wheels]
        return replace(
            self,
            wheels=tuple(wheel for wheel, reason in found if not reason),
            excluded=(*self.excluded, *(Excluded(wheel, reason, claimed) for wheel, reason in found if reason)),
        )

    def of_revision(self, facts: LlvmFacts | None) -> Matrix:
        """The matrix of one llvm-project revision, without projects that it lacks, CPythons that its bindings do not
        support, and runtimes whose compilers its build does not accept.

        :param facts: None: not known, and nothing is excluded
        """
        if facts is None:
            return self
        oldest = CPython.parse(facts.minimum_python)

        def reason_of(wheel: WheelTarget) -> str:
            project = wheel.configuration.about
            if project.name in facts.lacks:
                return f"LLVM {facts.version} has no {project.needs}, which {project.title} are made of"
            if wheel.python is not None and wheel.python.release < oldest.release:
                return f"LLVM {facts.version} needs CPython {oldest.version} or newer"
            return compiler_too_old(wheel.runtime, facts)

        return self.excluding(reason_of)

    def drop_unresolvable(self, reasons: Mapping[str, str]) -> Matrix:
        """The matrix without the places (:attr:`WheelTarget.platform_python`) for which a tag gives a reason."""
        return self.excluding(lambda wheel: reasons.get(wheel.platform_python, ""), claimed=True)

    def with_abi3(self, facts: LlvmFacts | None) -> Matrix:
        """The matrix with one wheel for the stable ABI in the place of several, where a revision and the file allow it.

        All rows of an LLVM configuration on a runtime are taken together: two such wheels would compete for users.

        :param facts: None: not known, and nothing is shared
        :raises UsageError: ``revision-unsuitable``
        """
        if facts is None:
            return self

        def may_share(each: Configuration) -> bool:
            if each.abi3 is True and not facts.has_stable_abi and each.about.has_stable_abi:
                raise UsageError(
                    "revision-unsuitable",
                    f"LLVM {facts.version}'s bindings can't be built for CPython's stable ABI",
                    where=f"{self.file}, [llvm.{each.name}]",
                    why="abi3 = true asks for it; upstream has it from LLVM 23 on",
                    remedy='write abi3 = "auto", which takes it where a revision can, or choose another revision',
                )
            return each.abi3 is not False and facts.has_stable_abi and each.about.has_stable_abi

        return self.merge_abi3(may_share)

    def merge_abi3(self, may_share: Callable[[Configuration], bool]) -> Matrix:
        """The matrix with one wheel for the stable ABI in the place of several of the configurations that may share."""
        wheels: dict[str, WheelTarget] = {}
        for wheel in self.wheels:
            shares = wheel.python is not None and wheel.python.has_stable_abi and may_share(wheel.configuration)
            place = f"{wheel.configuration.name}-{wheel.runtime.name}" if shares else wheel.name
            wheels[place] = join(wheels[place], wheel) if place in wheels else wheel
        return replace(self, wheels=tuple(wheels.values()))

    def only(self, text: str) -> Matrix:
        """The matrix with only the targets that the filter ``text`` accepts. :raises UsageError: if it accepts none.

        Of a wheel that serves several CPythons, those remain that are accepted.
        """
        known: dict[str, set[str]] = {}
        for wheel in (*self.wheels, *(row.wheel for row in self.excluded)):
            for member in wheel.members:
                for key, found in member.facts(wheel).items():
                    known.setdefault(key, set()).update(found)
        known.setdefault(TAG, set()).update({"required", "experimental"})
        predicate = compile_filter(text, known)
        chosen = self._where(lambda wheel, member: predicate(member.facts(wheel)))
        if not chosen.wheels and not chosen.excluded:
            raise UsageError(
                "option-invalid",
                f"no target fits the filter {text!r}",
                remedy="mlir-release matrix shows all targets",
            )
        return chosen

    def for_tag(self, tag: ReleaseTag) -> Matrix:
        """The matrix of one release: weekly configurations only in snapshots of their day and in numbered releases."""
        if isinstance(tag, NumberedTag):
            return self
        day = DAYS[tag.date.weekday()]
        return self._where(lambda wheel, _: wheel.configuration.cadence == "always" or wheel.configuration.day == day)

    def naming_sdk_wheels(self, tag: ReleaseTag) -> Matrix:
        """The matrix whose wheels know whether the release ``tag`` makes ``mlir-sdk`` of the SDK they are built with.

        It does where that configuration is due, on the same runtime: each runtime has an SDK of its own.
        """
        have = {wheel.runtime.name for wheel in self.for_tag(tag).wheels if wheel.profile == "sdk"}
        wheels = (
            replace(wheel, sdk_wheel=wheel.runtime.name in have and not wheel.configuration.has_sdk)
            for wheel in self.wheels
        )
        return replace(self, wheels=tuple(wheels))

    def _where(self, accept: Callable[[WheelTarget, WheelTarget], bool]) -> Matrix:
        """With only what is accepted: a wheel, and of a wheel that serves several CPythons, the target of one."""
        narrowed = (
            (wheel, tuple(member for member in wheel.members if accept(wheel, member))) for wheel in self.wheels
        )
        return replace(
            self,
            wheels=tuple(
                replace(wheel, abi3_members=members, required=any(member.required for member in members))
                if wheel.abi3_members
                else wheel
                for wheel, members in narrowed
                if members
            ),
            excluded=tuple(row for row in self.excluded if accept(row.wheel, row.wheel)),
        )


def compiler_too_old(runtime: Runtime, facts: LlvmFacts) -> str:
    """Why a revision can't be compiled on a runtime; empty if it can, or nothing is known of one of both."""
    unmet = facts.unmet(runtime.compiler)
    return f"LLVM {facts.version} needs {' and '.join(unmet)} as on {runtime.name}" if unmet else ""


def expand(targets: LineTargets, row: TargetRow, *, notice: str = NOTICE) -> list[WheelTarget]:
    """The wheels of a row of a file."""
    return [wheel for name in row.all_runtimes for wheel in expand_on(targets, row, name, notice=notice)]


def expand_on(targets: LineTargets, row: TargetRow, name: str, *, notice: str = NOTICE) -> list[WheelTarget]:
    """The wheels of a row of a file on one of the row's runtimes, by its name."""
    configuration = targets.configurations[row.llvm]
    runtime = Runtime.of(name, targets.runtime[name], configuration.project)
    named = runtime.pythons if row.pythons is None else tuple(map(CPython.of_tag, row.pythons))
    pythons: Iterable[CPython | None] = named if configuration.makes == "each-python" else (None,)
    table = targets.project.get(configuration.project)
    return [
        WheelTarget(
            configuration=configuration,
            runtime=runtime,
            python=python,
            required=row.required and (table is None or table.gates),
            suites=suites_of_python(row.suites, newest=python is None or python == max(named)),
            tested_by=(min(named), max(named)) if configuration.makes == "any-python" else (),
            tags=frozenset(row.tags),
            overrides=targets.overrides if configuration.about.has_requirements else (),
            notice=notice,
        )
        for python in pythons
    ]


def _check_names(targets: LineTargets, where: str, file: str) -> None:
    """Refuse upstream's names, and PyPI, for wheels with carried patches. :raises UsageError:

    The wheels of an SDK keep their names, which their own CMake files have, and no index of ours shares.
    """
    usual = {canonical(each.distribution) for about in all_projects() for each in about.profiles.values()}
    for name, table in targets.llvm.items():
        if not table.has_sdk and canonical(table.distribution).removesuffix("-asserts") in usual:
            problem = (
                f"distribution is {table.distribution!r}, as upstream's wheels are called: base says that these differ"
            )
            raise mistake(
                f"llvm.{name}",
                problem,
                f'write a name of your own, like "acme-{table.distribution}"',
                where=where,
                file=file,
            )
    for name, project in targets.project.items():
        if project.pypi:
            problem = "pypi has no use: wheels with carried patches never go to PyPI, as base says that these are"
            raise mistake(f"project.{name}", problem, "remove it", where=where, file=file)


def _check_unique(wheels: Iterable[WheelTarget], where: str, file: str) -> None:
    """Refuse two wheels of one name, or of one file name. :raises UsageError:"""
    names: dict[str, WheelTarget] = {}
    files: dict[WheelKey, WheelTarget] = {}
    for wheel in wheels:
        if wheel.name in names:
            raise mistake(
                f"target {wheel.name}",
                "two rows make it",
                "remove one, or give one other pythons",
                where=where,
                file=file,
            )
        names[wheel.name] = wheel
        # Everything that a file name is made of, except the version, which is one for the whole release.
        key = wheel.slot
        if key in files:
            raise mistake(
                f"targets {files[key].name} and {wheel.name}",
                f"both would make {key}",
                "give one of the two LLVM configurations another distribution name",
                where=where,
                file=file,
            )
        files[key] = wheel


def unknown_target(name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that no target of ``known`` has."""
    return UsageError("option-invalid", f"there is no target called {name!r}", remedy=alternatives(name, known))
