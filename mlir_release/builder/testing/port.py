"""What a project does in this room: the dict ``SUITES`` of its module ``for_testing``, with a :class:`Suite` by name.

The names are those of :attr:`~mlir_release.ground.llvm.projects.Project.suites`; what each is run once for,
:data:`mlir_release.builder.model.suites.SUITES` says. ``smoke`` need not be among them: every project has a smoke test.
If it is, it is what is run once that has passed, in the same environment.
Tests that are known to fail are listed in ``known_failures.toml`` (:mod:`mlir_release.builder.testing.known_failures`).

``tests/smoke.py PROFILE [EXPECTED [KNOWN…]]`` runs in the interpreter under test, even the oldest CPython that there
are wheels for. For each of its checks it prints a line of JSON: ``{"name": …, "ok": …, "message": …, "seconds": …}``;
the last has the name ``end``. ``EXPECTED`` is JSON, too: what ``_release.json`` of the package must say. Its exit code
is 1 if a check failed that is none of ``KNOWN``, names or shell patterns: cibuildwheel sees nothing else of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.testing.known_failures import Situation
from mlir_release.ground.python import venv
from mlir_release.ground.python.venv import VirtualEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mlir_release.builder.model.wheel_info import WheelInfo
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.testing.report import TestResult
    from mlir_release.ground.llvm.projects import Project

#: Seconds. No test takes a minute; a hang must not stop a release for hours.
TIMEOUT = 120.0

#: Folder of the environment that has the test-only parts, too.
_WITH_ADDON = "environment-with-addon"


@dataclass(frozen=True, kw_only=True)
class SuiteSubject:
    """A wheel installed in an environment, with the SDK that it was built from; or the SDK alone."""

    project: Project
    sdk: Sdk
    workdir: Path
    environment: VirtualEnvironment | None = None
    wheel: Path | None = None  #: the file that is tested: a wheel, or a source distribution
    python: Path | None = None  #: the interpreter that the environment was made with
    python_version: str = ""
    release: WheelInfo | None = None  #: the release that the wheel belongs to
    addon: Path | None = None  #: wheel of the test-only parts (:func:`mlir_release.builder.wheels.build.build_addon`)

    @property
    def profile(self) -> str:
        """The wheel's (``host``, ``sdk``, …); empty where no wheel is tested."""
        return self.release.profile if self.release else ""

    def installed(self) -> dict[str, str]:
        """The versions of the packages that the tests ran with, by canonical name; empty without a wheel."""
        with_addon = VirtualEnvironment(root=self.workdir / _WITH_ADDON)
        environment = with_addon if self.addon and with_addon.root.exists() else self.environment
        return environment.installed() if environment else {}

    def with_addon(self) -> VirtualEnvironment:
        """Another environment with the wheel, and the add-on laid over it."""
        assert self.wheel is not None
        assert self.python is not None
        assert self.addon is not None
        environment = venv.create(self.workdir / _WITH_ADDON, self.python)
        environment.install(self.wheel)
        # One for the stable ABI says that it is for the CPython that built it, and serves newer ones all the same.
        environment.install("--no-deps", "--ignore-requires-python", self.addon)
        return environment

    def situation(self) -> Situation:
        """As the known failures tell situations apart."""
        return Situation.of(self.sdk.info, python=self.python_version, profile=self.profile)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A suite of a project.

    :param run: runs it on a wheel that is installed in an empty environment; or, where the suite is of a platform, on
        the SDK; a failing test is a result, not an error. Known failures are judged afterwards
    :param parts: of the SDK that it uses; its description is always there
    :param addon: whether it needs the add-on that :attr:`~mlir_release.builder.wheels.port.ProjectWheels.has_addon`
        tells of
    """

    run: Callable[[SuiteSubject], Sequence[TestResult]]
    parts: tuple[str, ...] = ()
    addon: bool = False
