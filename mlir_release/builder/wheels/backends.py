"""Build one wheel from a staged project: the job that both backends take, and the backend without a container."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mlir_release.builder.tools.build_tools import compiler_launchers
from mlir_release.builder.tools.compiler import find_compiler
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.programs.process import StepFailed, Usage, run_logged
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.python import venv
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.storage.files import copy_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.cross import Cross
    from mlir_release.ground.python.pythons import Python

#: Tells auditwheel (6.3 and later) to give the tag that the binaries qualify for, and to make the smallest file.
REPAIR = ("repair", "--plat", "auto", "--only-plat", "--zip-compression-level", "9")

#: In the cache: libraries that builds for several CPythons share (``link_once.py`` of the wheel project).
LINKS = "links"


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One wheel to build."""

    sdk: Sdk
    python: Python
    project: Path  #: the staged project
    smoke: Path  #: the smoke test of the wheel
    known: tuple[str, ...] = ()  #: names or patterns of its checks that are known to fail
    profile: str
    workdir: Path  #: folder of this build, emptied before it; the same path each time, so that compiler caches hit
    cache: Path  #: folder that builds share, with environments and the compiler cache
    log: Path  #: where all output goes
    requirements: tuple[str, ...] = ()  #: the project's build requirements, and the build tools
    dependencies: tuple[str, ...] = ()  #: the wheel's requirements where it is installed
    slots: Mapping[str, str] = field(default_factory=dict)  #: environment variables that share out the machine's cores
    addon: bool = False  #: the test-only add-on leans on a wheel's libraries, is used on this machine, and needs no tag
    floor: str = ""  #: the oldest platform that the wheel is for (``macosx_13_0``); empty: this machine

    def fresh(self, name: str) -> Path:
        """An empty folder in ``workdir``."""
        folder = self.workdir / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


class Backend(Protocol):
    """A way to build wheels."""

    @property
    def name(self) -> str:
        """Its name on the command line: ``build`` or ``cibuildwheel``."""

    def check(self) -> None:
        """Make sure that the machine has what is needed. :raises MachineError: if it does not"""

    def floor(self, wanted: str) -> str:
        """The oldest platform tag that wheels built this way can have, if possible ``wanted``."""

    def image_digest(self) -> str:
        """The container image that it builds in, by its digest; empty: it builds on this machine.

        :raises MachineError: ``machine-unsuitable``
        """

    def build(self, job: BuildJob) -> tuple[Path, Usage]:
        """Build one wheel; return it, with a correct platform tag, and what it took.

        :raises mlir_release.ground.programs.process.StepFailed: a step failed
        """


@dataclass(frozen=True, kw_only=True)
class BuildBackend:
    """pypa/build on this machine, in a cached environment a CPython.

    :param cross: to build for another platform
    :param run: runs the program that builds
    """

    cross: Cross | None = None
    name: str = "build"
    run: Callable[..., Usage] = run_logged

    def check(self) -> None:
        if self.cross is not None:
            self.cross.check()
        else:
            find_compiler()

    def floor(self, wanted: str) -> str:
        """This machine's, as code that is compiled against its glibc runs on no older one.

        The glibc of a cross compiler is not known before: its wheels may use nothing that is newer than wanted.
        """
        if self.cross is not None:
            return wanted
        here = PlatformTag.of_host()
        return str(here) if here.glibc else wanted

    def image_digest(self) -> str:
        return ""

    def build(self, job: BuildJob) -> tuple[Path, Usage]:
        environment = venv.cached(job.cache / "environments", job.python.executable, job.requirements)
        built = job.fresh("built")
        variables = build_variables(job) | (self.cross.variables(job.python, job.fresh("cross")) if self.cross else {})
        usage = self.run(
            [
                environment.python,
                *("-m", "build", "--wheel", "--no-isolation", "--outdir", built),
                f"-Cbuild-dir={job.fresh('tree')}",
                job.project,
            ],
            log=job.log,
            environment=environment.variables(variables),
            cwd=job.workdir,
        )
        wheel = next(built.glob("*.whl"))
        if job.sdk.info.platform.os != "linux" or job.addon:
            return wheel, usage
        wheel, tagging = retag(wheel, job)
        return wheel, usage + tagging


def build_variables(job: BuildJob) -> dict[str, str]:
    """Environment variables of a build on this machine."""
    variables = {
        "MLIR_RELEASE_SDK": str(job.sdk.root),
        "MLIR_RELEASE_LINKS": str(job.cache / LINKS),
        "SOURCE_DATE_EPOCH": str(job.sdk.info.source_epoch),
        "PYTHONHASHSEED": "0",
        **job.slots,
    }
    if macos := PlatformTag.parse(job.floor).macos:
        variables["MACOSX_DEPLOYMENT_TARGET"] = "{}.{}".format(*macos)
    if job.sdk.info.platform.os == "windows":
        variables["CMAKE_GENERATOR"] = "Ninja"  # scikit-build-core takes Visual Studio's, which has folders of its own
    launchers = compiler_launchers()
    if any(Path(launcher).name.startswith("ccache") for launcher in launchers.values()):
        variables["CCACHE_DIR"] = os.environ.get("CCACHE_DIR", str(job.cache / "ccache"))
    return variables | launchers


def retag(wheel: Path, job: BuildJob) -> tuple[Path, Usage]:
    """Give a ``linux_…`` wheel the platform tag that its binaries qualify for, by ``auditwheel repair``.

    Nothing is vendored: a wheel that needs a library from outside is refused. The check of the
    finished wheel finds what auditwheel overlooks.

    :raises VerificationError: ``wheel-unsuitable``
    """
    folder = job.fresh("tagged")
    environment = foreign_environment() | {"SOURCE_DATE_EPOCH": str(job.sdk.info.source_epoch)}
    repair = (*REPAIR, "--patcher", "none", "--wheel-dir", folder, wheel)
    try:
        usage = run_logged([sys.executable, "-m", "auditwheel", *repair], log=job.log, environment=environment)
    except StepFailed:
        from mlir_release.builder.wheels.inspect import inspect

        report = inspect(wheel)
        if report.external:
            raise VerificationError(
                "wheel-unsuitable",
                f"{wheel.name} needs libraries that it does not contain",
                where=str(wheel),
                why=f"needed: {', '.join(report.external)}",
                remedy="link them statically: what does the SDK's CMake package export?",
            ) from None
        # Its glibc alone may keep it from auditwheel's policies. No policy says which distributions between the newest
        # one and this machine have everything that the wheel needs, so it is for those like this machine, and newer.
        qualified, here = PlatformTag.parse(report.true_platform_tag), PlatformTag.of_host()
        if qualified.glibc is None or here.glibc is None:
            raise
        tag = replace(here, version=max(qualified.glibc, here.glibc))
        copy_regular(wheel, folder / wheel.name)
        tags = ("tags", "--remove", "--platform-tag", str(tag), folder / wheel.name)
        usage = run_logged([sys.executable, "-m", "wheel", *tags], log=job.log, environment=environment)
    return next(folder.glob("*.whl")), usage
