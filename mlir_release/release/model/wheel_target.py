"""The targets of the build matrix: a wheel, or a source distribution, and a run of a suite that gates it.

Their names are derived from the words of ``targets.toml`` only, so they are stable as long as what they name is
the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from mlir_release.builder.model.names import SOURCE_PREFIX, SOURCE_SUFFIX, WheelKey
from mlir_release.builder.model.orders import LOCAL_TAG, LOCAL_VERSION, NOTICE, TestOrder, WheelOrder
from mlir_release.builder.model.suites import gates, needs_wheel
from mlir_release.ground.python.cpython import ANY_PYTHON, STABLE_ABI, CPython
from mlir_release.ground.python.platforms import PlatformTag, common_arch
from mlir_release.release.model.filters import ARCH, TAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.ground.python.requirements import Override
    from mlir_release.release.model.targets import Configuration, Runtime


@dataclass(frozen=True, kw_only=True)
class WheelTarget:
    """One wheel of a release.

    :param python: what it is built with; None for what is for every CPython: a wheel of an SDK, a source distribution,
        and wheels of projects whose wheels hold no extension modules
    :param tested_by: of the last kind: the CPythons that its tests run with
    :param abi3_members: of a wheel for the stable ABI: the targets of single CPythons in whose place it is
    """

    configuration: Configuration
    runtime: Runtime
    python: CPython | None
    required: bool
    suites: tuple[str, ...]
    tags: frozenset[str] = field(default_factory=frozenset)
    overrides: tuple[Override, ...] = ()  #: of upstream's requirements; the same for all wheels of a release
    notice: str = NOTICE  #: a line of the wheel's description; the same for all wheels of a release
    abi3_members: tuple[WheelTarget, ...] = ()
    tested_by: tuple[CPython, ...] = ()
    sdk_wheel: bool = False  #: whether the same release makes ``mlir-sdk`` of the SDK that it is built with

    @property
    def name(self) -> str:
        """``mlir-linux-x86_64-cp312``, ``mlir-linux-x86_64-cp312-abi3``, or ``mlir-sdk-linux-x86_64-py3``."""
        name = f"{self.configuration.name}-{self.platform_python}"
        return f"{name}-{STABLE_ABI}" if self.abi3_members else name

    @property
    def members(self) -> tuple[WheelTarget, ...]:
        """A target for each CPython that it is for: itself, unless it serves several."""
        return self.abi3_members or (self,)

    @property
    def pythons(self) -> tuple[CPython, ...]:
        """The CPythons that it is made for; none if it has nothing to do with any."""
        return tuple(member.python for member in self.members if member.python is not None)

    @property
    def interpreter(self) -> str:
        """The interpreter tag of its file's name: ``cp312``, ``py3``."""
        return self.python.tag if self.python is not None else ANY_PYTHON

    @property
    def platform_python(self) -> str:
        """Where it is installed: ``linux-x86_64-cp312``."""
        return f"{self.runtime.table}-{self.interpreter}"

    @property
    def distribution(self) -> str:
        """What pip calls it."""
        return self.configuration.distribution

    @property
    def profile(self) -> str:
        """What it contains."""
        return self.configuration.profile

    @property
    def is_source(self) -> bool:
        """Whether it is no wheel but a source distribution."""
        return self.configuration.makes == "source"

    def order(self, *, tag: str = LOCAL_TAG, version: str = LOCAL_VERSION, revision: str = "") -> WheelOrder:
        """What makes it for the release ``tag``, whose wheels have this version; by default, for no release."""
        return WheelOrder(
            tag=tag,
            version=version,
            revision=revision,
            target=self.name,
            runtime=self.runtime.name,
            distribution=self.distribution,
            project=self.configuration.project,
            profile=self.profile,
            floor="" if self.is_source else str(self.runtime.tag),
            python=self.python.tag if self.python else "",
            serves=tuple(python.tag for python in self.pythons) if self.abi3_members else (),
            assertions=self.runtime.assertions,
            regalloc_model=self.configuration.regalloc_model,
            sdk_wheel=self.sdk_wheel,
            overrides=self.overrides,
            notice=self.notice,
        )

    @property
    def slot(self) -> WheelKey:
        """What its file's name will say that it is for."""
        if self.is_source:
            return WheelKey.of_source(self.distribution)
        return WheelKey(
            distribution=canonicalize_name(self.distribution),
            python=self.interpreter,
            platform=self.runtime.tag.platform,
            stable_abi=bool(self.abi3_members),
        )

    def makes(self, filename: str, version: str) -> bool:
        """Whether its file can be called so in a release of that version: its name, and all of its tags."""
        begin = f"{canonicalize_name(self.distribution).replace('-', '_')}-{version}"
        if self.is_source:
            return filename == f"{SOURCE_PREFIX}{begin}{SOURCE_SUFFIX}"
        abi = STABLE_ABI if self.abi3_members else self.interpreter if self.python is not None else "none"
        begin += f"-{self.interpreter.removesuffix('t')}-{abi}-"
        if not (filename.startswith(begin) and filename.endswith(".whl")):
            return False
        tags = filename.removeprefix(begin).removesuffix(".whl").split(".")
        return all(PlatformTag.parse(tag).platform == self.runtime.tag.platform for tag in tags)

    @property
    def tests(self) -> tuple[TestTarget, ...]:
        """The test targets of this wheel, by suite and CPython; others may share some (:attr:`Matrix.tests`)."""
        return merge_tests(
            TestTarget(
                suite=suite,
                configuration=self.configuration,
                runtime=self.runtime,
                python=python if needs_wheel(suite) else None,
                required=member.required and gates(suite),
                wheels=(self.name,),
            )
            for member in self.members
            for suite in member.suites
            for python in member.tested_by or (member.python,)
        )

    def facts(self, wheel: WheelTarget) -> dict[str, frozenset[str]]:
        """What filters see. ``wheel``: itself, or the one that serves its CPython, too."""
        return {
            "name": frozenset({self.name, wheel.name}),
            "llvm": frozenset({self.configuration.name}),
            "distribution": frozenset({self.distribution}),
            "profile": frozenset({self.profile}),
            "project": frozenset({self.configuration.project}),
            "runtime": frozenset({self.runtime.name, self.runtime.table}),
            "os": frozenset({self.runtime.os}),
            ARCH: frozenset({common_arch(self.runtime.arch)}),
            "python": frozenset({self.interpreter}),
            "suite": frozenset(self.suites),
            TAG: self.tags | {"required" if self.required else "experimental", self.configuration.cadence},
        }


@dataclass(frozen=True, kw_only=True)
class TestTarget:
    """One run of a suite. ``python`` is None for suites that run once a platform, and for wheels of an SDK."""

    __test__ = False  # not a pytest class, whatever its name

    suite: str
    configuration: Configuration
    runtime: Runtime
    python: CPython | None
    required: bool
    wheels: tuple[str, ...]  #: names of the wheel targets that it tests

    @property
    def name(self) -> str:
        """Suite, LLVM configuration, runtime: a failure's name tells where to look."""
        python = self.python.tag if self.python is not None else ANY_PYTHON
        parts = [self.suite, self.configuration.name, self.runtime.table]
        return "-".join([*parts, python] if self.needs_wheel else parts)

    @property
    def needs_wheel(self) -> bool:
        """Whether it runs on a wheel; else on the SDK's tools."""
        return needs_wheel(self.suite)

    @property
    def order(self) -> TestOrder:
        """What runs it."""
        return TestOrder(
            name=self.name,
            suite=self.suite,
            python=self.python.tag if self.python else "",
            wheel=self.wheels[0] if self.needs_wheel else "",
        )

    @property
    def gates(self) -> bool:
        """Whether its wheels must pass it."""
        return gates(self.suite)


def join(wheel: WheelTarget, other: WheelTarget) -> WheelTarget:
    """One wheel for the stable ABI in the place of two, built with the older CPython."""
    members = tuple(sorted((*wheel.members, *other.members), key=lambda member: member.pythons))
    return WheelTarget(
        configuration=wheel.configuration,
        runtime=wheel.runtime,
        python=members[0].python,
        required=any(member.required for member in members),
        suites=tuple(dict.fromkeys(suite for member in members for suite in member.suites)),
        tags=frozenset().union(*(member.tags for member in members)),
        overrides=wheel.overrides,
        notice=wheel.notice,
        abi3_members=members,
    )


def merge_tests(tests: Iterable[TestTarget]) -> tuple[TestTarget, ...]:
    """Test targets, each name once: required if any of that name is, and for the wheels of all."""
    found: dict[str, TestTarget] = {}
    for test in tests:
        if known := found.get(test.name):
            wheels = tuple(dict.fromkeys((*known.wheels, *test.wheels)))
            test = replace(test, required=test.required or known.required, wheels=wheels)
        found[test.name] = test
    return tuple(found.values())


def common_target(targets: Sequence[WheelTarget]) -> WheelTarget:
    """The target that speaks for all of a configuration and runtime: the one that serves several CPythons, if any."""
    return next((target for target in targets if target.abi3_members), targets[0])
