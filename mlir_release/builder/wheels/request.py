"""The specification of a wheel, which staging, building and testing follow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from mlir_release.builder.model.orders import LOCAL_TAG, LOCAL_VERSION, NOTICE, WheelOrder
from mlir_release.builder.sdk.regalloc_model import ModelFolder
from mlir_release.ground.llvm.projects import Project, find_project
from mlir_release.ground.python.cpython import CPython

if TYPE_CHECKING:
    from mlir_release.builder.model.regalloc_model import RegallocModel
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.llvm.projects import Profile
    from mlir_release.ground.python.requirements import Override


@dataclass(frozen=True, kw_only=True)
class WheelRequest:
    """One wheel (or, for several CPythons, wheels that differ in nothing else)."""

    project: Project
    distribution: str  #: ``mlir``
    profile: str
    version: Version
    tag: str  #: release tag
    target: str  #: name of the target row, ``mlir-linux-x86_64-cp312``
    revision: str  #: llvm-project commit
    sdk: Sdk
    image: str = ""  #: the container image that it is built in, by its digest; empty: none
    floor: str = ""  #: oldest platform that the wheel must install on: ``manylinux_2_28_x86_64``; empty: this machine
    test_addon: bool = False  #: build what upstream's tests need beyond the wheel instead; never published
    plain: bool = False  #: with upstream's default settings, as a baseline for measurements
    overrides: tuple[Override, ...] = ()  #: they replace upstream's caps of requirements
    notice: str = NOTICE  #: a line of its description; empty: no such line
    serves: tuple[CPython, ...] = ()  #: of a wheel for the stable ABI: the CPythons that it is for, the oldest first
    regalloc: ModelFolder | None = None  #: a model of the register allocator to link; None: the SDK's
    sdk_wheel: bool = False  #: whether the same release makes a wheel of this SDK

    @classmethod
    def of_order(cls, order: WheelOrder, sdk: Sdk, repository: Path = Path()) -> WheelRequest:
        """The request of an order: of a target of ``targets.toml``.

        :param repository: the folder that paths of ``targets.toml`` are relative to
        :raises UsageError: ``sdk-mismatch``
        """
        if order.assertions != sdk.info.assertions:
            raise sdk.unfit(
                f"the SDK is not the one of the runtime {order.runtime}",
                why=f"the SDK's configuration is {sdk.info.configuration}, and assertions in targets.toml is "
                f"{str(order.assertions).lower()} for that runtime",
                remedy="take that runtime's SDK; sdk build --configuration release+asserts makes one with assertions",
            )
        return cls(
            project=find_project(order.project),
            distribution=order.distribution,
            profile=order.profile,
            version=Version(order.version),
            tag=order.tag,
            target=order.target,
            revision=order.revision or sdk.info.revision,
            sdk=sdk,
            floor=order.floor,
            overrides=order.overrides,
            notice=order.notice,
            serves=tuple(map(CPython.of_tag, order.serves)),
            regalloc=ModelFolder.load(repository / order.regalloc_model) if order.regalloc_model else None,
            sdk_wheel=order.sdk_wheel,
        )

    @classmethod
    def of_profile(cls, profile: str, *, sdk: Sdk, version: str = LOCAL_VERSION) -> WheelRequest:
        """A local build without a ``targets.toml``, so with upstream's requirements as they are.

        :raises UsageError: ``option-invalid``: the SDK's project has no such profile
        """
        project = find_project(sdk.info.project)
        distribution = project.profile(profile).distribution
        return cls(
            project=project,
            distribution=distribution,
            profile=profile,
            version=Version(version),
            tag=LOCAL_TAG,
            target=f"{distribution}-{sdk.info.platform}",
            revision=sdk.info.revision,
            sdk=sdk,
        )

    def __post_init__(self) -> None:
        if self.regalloc is not None:
            self.regalloc.check(self.sdk.root / "source")
            if self.tag != LOCAL_TAG:
                self.regalloc.check_better()
        if self.project.name != self.sdk.info.project:
            raise self.sdk.unfit(
                f"the SDK is of the project {self.sdk.info.project}, and {self.distribution} is of {self.project.name}",
                remedy=f"take an SDK that was made for {self.project.name}",
            )
        mixed = self.sdk.info.source_version
        if mixed and self.tag != LOCAL_TAG:
            raise self.sdk.unfit(
                f"the SDK has the libraries of LLVM {self.sdk.info.llvm_version} and the sources of {mixed}",
                why=f"{self.tag} is a release of one revision; such an SDK (--other-patch) serves tests only",
                remedy="make an SDK with the sources of the installed version, or one from source",
            )
        named = {name for profile in self.project.profiles.values() for name in profile.code_generators or ()}
        usual = {self.sdk.info.native_code_generator, *named}
        if self.contents.code_generators == ("all",) and usual.issuperset(self.sdk.info.code_generators):
            raise self.sdk.unfit(
                f"the SDK has only the usual code generators, and {self.distribution} is to have all",
                why=f"it has {', '.join(self.sdk.info.code_generators)}",
                remedy='take the SDK of a runtime with code-generators = "all" in targets.toml',
            )
        if self.revision != self.sdk.info.revision:
            raise self.sdk.unfit(
                f"the SDK is of another revision than the wheel {self.distribution} {self.version}",
                why=f"the SDK was made from {self.sdk.info.revision}, the pin is {self.revision}",
                remedy="make an SDK of the pinned revision, or pin the SDK's",
            )

    @property
    def contents(self) -> Profile:
        """The profile."""
        return self.project.profile(self.profile)

    @property
    def is_packed(self) -> bool:
        """Whether :func:`mlir_release.builder.wheels.source.pack` writes it: nothing is compiled for it."""
        return self.contents.makes in ("sdk", "source")

    @property
    def any_python(self) -> bool:
        """Whether one CPython builds it for all of them."""
        return self.contents.makes == "any-python"

    @property
    def is_source(self) -> bool:
        """Whether it is no wheel but the source distribution."""
        return self.contents.makes == "source"

    @property
    def regalloc_model(self) -> RegallocModel | None:
        """The model that the wheel compiles with."""
        if self.contents.code_generators is None:
            return None
        return self.regalloc.about.model if self.regalloc else self.sdk.info.regalloc_model

    @property
    def staged_name(self) -> str:
        """Name of the distribution that the staged project builds."""
        return f"{self.distribution}-test-addon" if self.test_addon else self.distribution

    @property
    def code_generators(self) -> tuple[str, ...]:
        """LLVM's code generators that are linked."""
        info = self.sdk.info
        return self.contents.linked(info.native_code_generator, info.code_generators)
