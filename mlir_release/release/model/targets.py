"""``targets.toml``: LLVM configurations x runtimes x suites, each described once and tied by target rows.

A row names an LLVM configuration, a runtime (a platform and its CPythons) and the suites that gate it;
:mod:`mlir_release.release.model.matrix` expands it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Annotated, Literal, Self, get_args

from msgspec import Meta, structs

from mlir_release.builder.model.orders import CodeGenerators, SdkOrder
from mlir_release.builder.model.regalloc_model import ModelPath
from mlir_release.builder.model.suites import SDK_SUITE, SMOKE, SOURCE_SUITE, SUITES
from mlir_release.ground.documents.decode import MalformedError, check_choice, doc, from_toml, one_of, text
from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.llvm_facts import COMPILERS
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, Makes, Project, find_project
from mlir_release.ground.plugins import PROJECTS, plugins
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import HOST_SYSTEMS, Platform, PlatformTag
from mlir_release.ground.python.requirements import Override, canonical
from mlir_release.release.model.canaries import CanaryTable, check_names
from mlir_release.release.model.release_settings import TARGETS_FILE, ReleaseConfig, SettingsTable, mistake
from mlir_release.release.model.release_tags import parse_tag

#: The suite that shows that the bindings work with what an override of a requirement allows.
OVERRIDES_NEED = "bindings"

#: Part of a target's name.
Name = Annotated[str, text("[a-z0-9]+(?:[-_][a-z0-9]+)*", "a name of lower-case letters, digits, - and _")]

#: The platform that needs no release as a proof: the toolkit's own tests run its whole path, elsewhere only parts.
PROVEN_BY_TESTS = Platform.of("linux", "x86_64")

Version = Annotated[str, text(r"\d+(?:\.\d+){0,3}", "a version like 14.2")]

#: Upstream's bindings need CPython 3.10.
PythonTag = Annotated[
    str, text("cp3[1-9][0-9]t?", "the tag of CPython 3.10 or newer, like cp312, or cp314t (free-threaded)")
]
PythonTags = Annotated[tuple[PythonTag, ...], Meta(min_length=1)]

Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
DAYS: tuple[str, ...] = get_args(Day)


class LlvmTable(SettingsTable, frozen=True):
    """An LLVM configuration: what is linked into the wheels, and the distribution that they are called."""

    distribution: Annotated[Name, doc("What pip calls the wheels.")]
    profile: Annotated[
        Name,
        doc(
            "What they contain, a choice of the project's. Those of mlir are core: no code generators; host: the "
            "execution engine and the host's; full: NVPTX and AMDGPU too; "
            'all: every one of the SDK\'s, so its runtimes need code-generators = "all"; sdk, sdk-tools, test-tools: '
            "the SDK itself: what builds need; the programs; FileCheck and the few others that lit's tests run; "
            "source: no wheel but the source distribution, which is built with an SDK."
        ),
    ]
    project: Annotated[Name, doc("The project of llvm-project that they are of.")] = DEFAULT_PROJECT
    cadence: Annotated[
        Literal["always", "weekly"], doc("weekly: the snapshots of one day (UTC) and every numbered release.")
    ] = "always"
    day: Annotated[Day, doc("The day of a weekly one.")] = "monday"
    abi3: Annotated[
        Literal["auto"] | bool,
        doc(
            "Whether one wheel for CPython's stable ABI is made in the place of one for each CPython from 3.12 on: "
            "auto: where the revision can, which LLVM can from 23 on; true: a revision that can't is an error."
        ),
    ] = "auto"
    regalloc_model: Annotated[
        ModelPath,
        doc("Folder of a learned eviction policy (mlgo embed) that is linked into the wheels and used by default."),
    ] = ""
    assertions: Annotated[
        bool,
        doc(
            "Whether LLVM's assertions are on, for those who develop dialects. Its runtimes' SDKs must have them, too."
        ),
    ] = False

    def __post_init__(self) -> None:
        check_choice("project", self.project, plugins(PROJECTS))
        check_choice("profile", self.profile, self.about.profiles)
        usual = {profile.distribution for profile in self.about.profiles.values()}
        if self.assertions and self.distribution in usual:
            problem = f"is {self.distribution!r}, as wheels without assertions are called"
            raise MalformedError("distribution", problem, f'write another name, like "{self.distribution}-asserts"')
        if self.cadence == "always" and self.day != "monday":
            raise MalformedError("day", "has no use: every snapshot has this configuration", 'write cadence = "weekly"')
        contents = self.about.profile(self.profile)
        if self.regalloc_model and (contents.code_generators is None or self.makes == "source"):
            problem = f"has no use with the profile {self.profile}, which links no register allocator"
            raise MalformedError("regalloc-model", problem, "remove it")
        if self.has_sdk and self.distribution != contents.distribution:
            problem = f"is {self.distribution!r}, but the wheels' own CMake files call it {contents.distribution}"
            raise MalformedError("distribution", problem, f'write "{contents.distribution}"')

    @property
    def about(self) -> Project:
        """The project."""
        return find_project(self.project)

    @property
    def makes(self) -> Makes:
        """The kind of files that are made."""
        return self.about.profile(self.profile).makes

    @property
    def has_sdk(self) -> bool:
        """Whether its wheels hold the SDK itself, and so are for every CPython."""
        return self.makes == "sdk"

    @property
    def own_suite(self) -> str | None:
        """The one suite of a wheel of an SDK or a source distribution; None of others."""
        return {"sdk": SDK_SUITE, "source": SOURCE_SUITE}.get(self.makes)


class ProjectTable(SettingsTable, frozen=True):
    """How a project takes part in releases."""

    gates: Annotated[
        bool,
        doc("Whether releases wait for its required targets; if not, they are experimental, whatever their rows say."),
    ] = True
    pypi: Annotated[
        tuple[Name, ...] | None,
        doc(
            "The distributions that numbered releases put on PyPI, under names there that are yours. Without it those "
            "that the project names, `mlir` for mlir; `[]`: none. Only in targets.toml."
        ),
    ] = None

    def __post_init__(self) -> None:
        _check_once("pypi", tuple(map(canonical, self.pypi or ())))


class RuntimeTable(SettingsTable, frozen=True):
    """A platform with the CPythons that wheels are made for there."""

    os: Annotated[str, one_of(HOST_SYSTEMS), doc("The operating system.")]
    arch: Annotated[str, doc("The architecture, in any usual spelling: x86_64, aarch64, arm64, amd64, …")]
    runner: Annotated[str, doc("Label of the GitHub runner.")]
    floor: Annotated[
        str, doc("The oldest platform that the wheels must install on: manylinux_2_28, macosx_13_0, win_amd64.")
    ]
    pythons: Annotated[PythonTags, doc("The CPythons that wheels are made for, each once.")]
    proven: Annotated[
        str,
        doc("Tag of a published release whose wheels were built and passed their tests on this runner; empty: none."),
    ] = ""
    compiler: Annotated[
        Mapping[str, Version],
        doc(
            f"The version, at least, of the runner's or the image's C++ compiler, by CMake's name of it: "
            f"{', '.join(COMPILERS)}. A revision that demands a newer one is not built there. Empty: not compared."
        ),
    ] = {}
    regalloc_model: Annotated[
        ModelPath,
        doc("Folder of a learned eviction policy (mlgo embed) that is compiled into the SDK, when LLVM is built."),
    ] = ""
    assertions: Annotated[
        bool, doc("Whether its SDK is built with LLVM's assertions on, which no packages of LLVM have.")
    ] = False
    code_generators: Annotated[
        CodeGenerators,
        doc("Those that its SDK has: usual: the host's, NVPTX and AMDGPU; all: all that upstream counts as stable."),
    ] = "usual"

    def __post_init__(self) -> None:
        for name in self.compiler:
            check_choice("compiler", name, COMPILERS)
        if self.regalloc_model and self.os == "windows":
            raise MalformedError("regalloc-model", "was never tried on Windows", "remove it")
        check_choice("os", self.os, HOST_SYSTEMS)
        system = HOST_SYSTEMS[self.os]
        if not re.fullmatch(system.floor, self.floor):
            problem = f"is {self.floor!r}, which is no platform tag of {system.name}"
            raise MalformedError("floor", problem, f"write it like {system.example!r}")
        check_choice("arch", self.arch, system.architectures)
        floor = PlatformTag.parse(self.floor)
        if floor.arch and floor.platform != Platform.of(self.os, self.arch):
            raise MalformedError("floor", f"is {self.floor!r}, which is not for arch = {self.arch!r}")
        if self.proven and parse_tag(self.proven) is None:
            raise MalformedError("proven", f"is {self.proven!r}, which is no tag of a release", "name a published one")
        _check_once("pythons", self.pythons)


class OverrideTable(SettingsTable, frozen=True):
    """What replaces upstream's caps of a requirement in the wheels' metadata; upstream's lower bounds stay."""

    specifier: Annotated[str, Meta(min_length=1), doc("The versions to allow instead, as PEP 440 writes them: <3.")]
    reason: Annotated[
        str, text(r"\S.*", "a reason on one line"), doc("Why upstream's cap can't be kept; release notes show it.")
    ]

    def __post_init__(self) -> None:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            SpecifierSet(self.specifier)
        except InvalidSpecifier:
            problem = f"is {self.specifier!r}, which is not a version specifier"
            raise MalformedError("specifier", problem, 'write it like "<3" or ">=2.1,!=2.4.0"') from None


class TargetRow(SettingsTable, frozen=True):
    """A row of the matrix: one wheel for every CPython, and the suites that gate it."""

    llvm: Annotated[Name, doc("The LLVM configuration: NAME of a table [llvm.NAME].")]
    suites: Annotated[
        tuple[Annotated[str, one_of(SUITES)], ...],
        doc(
            "The test suites of the wheels. All but `performance` and `beside` gate them. "
            "Wheels of bindings need `smoke`."
        ),
    ]
    required: Annotated[bool, doc("Whether a release waits for it; else it is experimental.")]
    runtime: Annotated[Name | None, doc("The runtime: NAME of a table [runtime.NAME].")] = None
    runtimes: Annotated[
        Annotated[tuple[Name, ...], Meta(min_length=1)] | None,
        doc("Several runtimes in its place: the row stands for one row on each."),
    ] = None
    pythons: Annotated[PythonTags | None, doc("Other CPythons than the runtime's.")] = None
    tags: Annotated[tuple[Name, ...], doc("Words that filters (--only) can ask for.")] = ()

    def __post_init__(self) -> None:
        for number, suite in enumerate(self.suites):
            check_choice(f"suites[{number}]", suite, SUITES)
        if self.runtimes is None and self.runtime is None:
            hint = 'write runtime = "NAME", or runtimes = ["NAME", "NAME"] for one row on each'
            raise MalformedError("runtime", "is missing", hint)
        if self.runtimes is not None and self.runtime is not None:
            raise MalformedError("runtimes", "stands beside runtime, and a row has one of the two", "remove one")
        _check_once("runtimes", self.all_runtimes)
        _check_once("pythons", self.pythons or ())

    @property
    def all_runtimes(self) -> tuple[str, ...]:
        """The names of its runtimes, in the row's order."""
        return self.runtimes or ((self.runtime,) if self.runtime is not None else ())


def _check_projects(tables: Mapping[str, ProjectTable], configurations: Mapping[str, LlvmTable]) -> None:
    """Each table is of a project, and each distribution of one project alone: users could not tell two apart."""
    owners: dict[str, str] = {}
    for name, project in tables.items():
        check_choice(f"project.{name}", name, plugins(PROJECTS))
        mine = {table.distribution: table for table in configurations.values() if table.project == name}
        for number, distribution in enumerate(project.pypi or ()):
            check_choice(f"project.{name}.pypi[{number}]", distribution, mine)
            if mine[distribution].assertions:
                problem = f"is {distribution!r}, whose wheels have LLVM's assertions"
                raise MalformedError(f"project.{name}.pypi[{number}]", problem, "remove it: it is for developers")
    for name, table in configurations.items():
        owner = owners.setdefault(canonical(table.distribution), table.project)
        if owner != table.project:
            problem = f"is {table.distribution!r}, as wheels of the project {owner} are called"
            raise MalformedError(f"llvm.{name}.distribution", problem, "give the wheels of each project another name")


def _check_once(key: str, words: tuple[str, ...]) -> None:
    for word in words:
        if words.count(word) > 1:
            raise MalformedError(key, f"names one twice: {word}", "list each once")


class LineTargets(SettingsTable, frozen=True, tag_field="schema", tag=1):
    """The build matrix of one release line of LLVM: what ``targets.toml`` has, without its ``[release]``."""

    llvm: Mapping[Name, LlvmTable]
    runtime: Mapping[Name, RuntimeTable]
    target: tuple[TargetRow, ...]
    project: Annotated[Mapping[Name, ProjectTable], doc("Projects of llvm-project whose wheels are released.")] = {}
    requires: Annotated[
        Mapping[Name, OverrideTable],
        doc("Upstream's requirements whose caps are replaced, by the distribution's name."),
    ] = {}
    canary: Annotated[
        tuple[CanaryTable, ...], doc("Other projects whose tests are run with the wheels of each release.")
    ] = ()

    def __post_init__(self) -> None:
        # Jobs find artifacts by patterns like ``wheel-*-RUNTIME-*``, which must not find those of another runtime.
        for one, other in permutations(self.runtime, 2):
            if f"-{one}-" in f"-{other}-":
                problem = f"contains {one}, so jobs of {one} would take its artifacts for their own"
                raise MalformedError(f"runtime.{other}", problem, f"join the words with _, as in {one}_asserts")
        _check_projects(self.project, self.llvm)
        check_names(self.canary)
        for number, canary in enumerate(self.canary):
            names = {table.distribution for table in self.llvm.values()}
            if canary.distribution is not None:
                check_choice(f"canary[{number}].distribution", canary.distribution, names)
        for number, row in enumerate(self.target):
            check_choice(f"target[{number}].llvm", row.llvm, self.llvm)
            contents = self.llvm[row.llvm].about.profile(self.llvm[row.llvm].profile)
            for index, runtime in enumerate(row.all_runtimes):
                place = f"target[{number}].{'runtime' if row.runtimes is None else f'runtimes[{index}]'}"
                check_choice(place, runtime, self.runtime)
                if self.llvm[row.llvm].assertions != self.runtime[runtime].assertions:
                    has = "assertions" if self.runtime[runtime].assertions else "no assertions"
                    problem = f"is {runtime!r}, whose SDK has {has}, unlike llvm.{row.llvm}"
                    raise MalformedError(place, problem, "set assertions = true in both, or in none")
                if contents.code_generators == ("all",) and self.runtime[runtime].code_generators != "all":
                    problem = f"is {runtime!r}, whose SDK lacks most code generators, which llvm.{row.llvm} links"
                    remedy = 'name a runtime of its own with code-generators = "all"'
                    raise MalformedError(place, problem, remedy)
                here = self.runtime[runtime]
                proven = here.proven or Platform.of(here.os, here.arch) == PROVEN_BY_TESTS
                if row.required and not proven:
                    problem = f"is true, but no release has proven that wheels can be made on {runtime}"
                    remedy = "set it to false; mlir-release doctor says when a release has them"
                    raise MalformedError(f"target[{number}].required", problem, remedy)
            project = self.llvm[row.llvm].about
            for index, suite in enumerate(row.suites):
                check_choice(f"target[{number}].suites[{index}]", suite, project.suites)
            if own := self.llvm[row.llvm].own_suite:
                if row.pythons is not None:
                    problem = "has no use: one file serves all CPythons"
                    raise MalformedError(f"target[{number}].pythons", problem, "remove it")
                if row.suites != (own,):
                    problem = f"are {', '.join(map(repr, row.suites)) or 'none'}; such a row has one"
                    raise MalformedError(f"target[{number}].suites", problem, f'write ["{own}"]')
                continue
            if foreign := [suite for suite in row.suites if suite in (SDK_SUITE, SOURCE_SUITE)]:
                problem = f"has {foreign[0]!r}, which tests no wheels of bindings"
                raise MalformedError(f"target[{number}].suites", problem, f"remove {foreign[0]!r}")
            if SMOKE not in row.suites:
                problem = f"lacks {SMOKE!r}, without which nothing shows that its wheels can be imported at all"
                raise MalformedError(f"target[{number}].suites", problem, f"add {SMOKE!r}: it takes 15 seconds a wheel")
            if self.requires and project.has_requirements and OVERRIDES_NEED not in row.suites:
                problem = f"lacks {OVERRIDES_NEED!r}, which must pass with the versions that [requires] allows"
                raise MalformedError(f"target[{number}].suites", problem, f"add {OVERRIDES_NEED!r}, or drop [requires]")

    @classmethod
    def parse(cls, content: str, *, where: str, file: str = TARGETS_FILE) -> Self:
        """Read the file. :raises UsageError: for the first mistake, with the table and key it is in"""
        try:
            return from_toml(content, cls)
        except MalformedError as error:
            if not error.path:  # nothing in it is wrong: it is no TOML, or too much of it
                raise UsageError("config-invalid", f"{file} is not valid TOML", where=where, why=str(error)) from None
            table, _, key = error.path.rpartition(".")
            remedy = error.hint or (f"add {key} = …" if error.problem == "is missing" else f"correct {key}")
            if error.path == "release":  # of a line
                remedy = f"remove it: all releases have the [release] of {TARGETS_FILE}"
            raise mistake(_place(table), f"{key} {error.problem}", remedy, where=where, file=file) from None

    @property
    def configurations(self) -> dict[str, Configuration]:
        """The LLVM configurations by name."""
        return {name: Configuration(name=name, **structs.asdict(table)) for name, table in self.llvm.items()}

    @property
    def on_pypi(self) -> tuple[str, ...]:
        """The distributions that numbered releases put on PyPI, normalized."""
        names: dict[str, None] = {}
        for table in self.llvm.values():
            named = self.project.get(table.project, ProjectTable()).pypi
            wanted = table.about.pypi if named is None else named
            if canonical(table.distribution) in map(canonical, wanted):
                names[canonical(table.distribution)] = None
        return tuple(names)

    @property
    def main(self) -> str:
        """The distribution that people get who name none: of the first table's project, the one that is called like it.

        If none is, it is the first table's. Wheels of an SDK count only where there are no others.
        """
        tables = [table for table in self.llvm.values() if table.own_suite is None] or list(self.llvm.values())
        mine = [table.distribution for table in tables if table.project == tables[0].project]
        return next((name for name in mine if name == tables[0].project), mine[0] if mine else DEFAULT_PROJECT)

    @property
    def overrides(self) -> tuple[Override, ...]:
        """The rows of ``[requires]``."""
        return tuple(
            Override(name=canonical(name), specifier=table.specifier, reason=table.reason)
            for name, table in self.requires.items()
        )


class Targets(LineTargets, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The build matrix of a release repository: LLVM configurations x runtimes x suites."""

    release: ReleaseConfig


def _place(table: str) -> str:
    """A table's path as the file writes it: ``[[target]] number 1`` for ``target[0]``."""
    match = re.fullmatch(r"(\w+)\[(\d+)\]", table)
    return f"[[{match[1]}]] number {int(match[2]) + 1}" if match else table or "the top level"


class Configuration(LlvmTable, frozen=True, kw_only=True):
    """An LLVM configuration, with its name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A platform with the CPythons that wheels of one project are made for there.

    Each has an SDK, and jobs, of its own.
    """

    name: str  #: that of its table, or ``linux-x86_64_clang``: for another project than the default one
    os: str
    arch: str  #: in any spelling
    runner: str  #: GitHub runner label
    floor: str  #: the oldest platform that the wheels must install on: a platform tag without its architecture
    pythons: tuple[CPython, ...]
    proven: str = ""  #: tag of a release that was built there; empty: none was
    compiler: Mapping[str, str] = field(default_factory=dict, hash=False)  #: least version, by CMake's name of it
    regalloc_model: str = ""  #: folder of the repository: the model that its SDK is compiled with
    assertions: bool = False  #: whether its SDK is built with LLVM's assertions on
    code_generators: CodeGenerators = "usual"  #: those that its SDK has
    project: str = DEFAULT_PROJECT

    @classmethod
    def of(cls, name: str, table: RuntimeTable, project: str = DEFAULT_PROJECT) -> Runtime:
        """The runtime that a table describes, for a project."""
        pythons = tuple(map(CPython.of_tag, table.pythons))
        own = name if project == DEFAULT_PROJECT else f"{name}_{project}"
        return cls(**{**structs.asdict(table), "name": own, "project": project, "pythons": pythons})

    def order(self, config: ReleaseConfig, revision: str) -> SdkOrder:
        """What makes its SDK of a revision, in the release whose configuration this is."""
        return SdkOrder(
            revision=revision,
            upstream=config.upstream,
            floor=self.floor,
            assertions=self.assertions,
            code_generators=self.code_generators,
            regalloc_model=self.regalloc_model,
            project=self.project,
        )

    @property
    def table(self) -> str:
        """The name of its table, by which targets are named: ``linux-x86_64``."""
        return self.name if self.project == DEFAULT_PROJECT else self.name.removesuffix(f"_{self.project}")

    @property
    def platform(self) -> Platform:
        """To compare it with SDKs and hosts, however either spells it."""
        return Platform.of(self.os, self.arch)

    @property
    def tag(self) -> PlatformTag:
        """The platform tag of its wheels: ``manylinux_2_28_x86_64``, ``macosx_13_0_arm64``, ``win_amd64``."""
        return replace(PlatformTag.parse(self.floor), arch=self.platform.tag_arch)
