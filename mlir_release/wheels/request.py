"""What one wheel shall be: the promise that staging, building and testing keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.errors import UsageError

if TYPE_CHECKING:
    from packaging.version import Version

    from mlir_release.sdk.info import Sdk


@dataclass(frozen=True, kw_only=True)
class WheelRequest:
    """One wheel (or, for several CPythons, wheels that differ in nothing else)."""

    distribution: str  #: ``mlir``
    profile: Literal["core", "host", "full"]
    version: Version
    tag: str  #: release tag
    target: str  #: name of the target row, ``mlir-linux-x86_64-cp312``
    revision: str  #: llvm-project commit
    sdk: Sdk
    floor: str = (
        ""  #: oldest platform tag that the wheel must install on, ``manylinux_2_28_x86_64``; empty: this machine
    )
    test_addon: bool = False  #: build what upstream's tests need beyond the wheel instead; never published
    plain: bool = False  #: upstream's plain settings, to measure ours against

    def __post_init__(self) -> None:
        if self.revision != self.sdk.info.revision:
            raise UsageError(
                "sdk-wrong-revision",
                f"The SDK is of another revision than the wheel {self.distribution} {self.version}",
                where=str(self.sdk.root),
                why=f"the SDK was made from {self.sdk.info.revision}, the pin is {self.revision}",
                remedy="make an SDK of the pinned revision, or pin the SDK's",
            )

    @property
    def project_name(self) -> str:
        """Name of the distribution that the staged project builds."""
        return f"{self.distribution}-test-addon" if self.test_addon else self.distribution

    @property
    def code_generators(self) -> tuple[str, ...]:
        """LLVM's code generators that are linked."""
        native = self.sdk.info.native_code_generator
        return {"core": (), "host": (native,), "full": (native, "NVPTX", "AMDGPU")}[self.profile]
