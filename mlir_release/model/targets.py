"""``targets.toml``: LLVM configurations x runtimes x suites, each described once and tied by target rows.

A row names an LLVM configuration, a runtime (a platform and its CPythons) and the suites that gate it;
:mod:`mlir_release.model.matrix` expands it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mlir_release.model.platforms import Platform, PlatformTag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.model.cpython import CPython

#: Path of the matrix in a release repository.
TARGETS_FILE = "targets.toml"

Profile = Literal["host", "core", "full"]
Scope = Literal["python", "platform"]

#: The distribution that each profile makes by default.
DISTRIBUTIONS: Mapping[Profile, str] = {"host": "mlir", "core": "mlir-core", "full": "mlir-full"}

#: The suites there are (mlir_release.testing.suites runs them), and what each is run once for.
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
    arch: str  #: in any spelling
    runner: str  #: GitHub runner label
    floor: str  #: the oldest platform that the wheels must install on: a platform tag without its architecture
    pythons: tuple[CPython, ...]

    @property
    def platform(self) -> Platform:
        """To compare it with SDKs and hosts, however either spells it."""
        return Platform.of(self.os, self.arch)

    @property
    def tag(self) -> PlatformTag:
        """The platform tag of its wheels: ``manylinux_2_28_x86_64``, ``macosx_13_0_arm64``, ``win_amd64``."""
        return replace(PlatformTag.parse(self.floor), arch=self.platform.tag_arch)
