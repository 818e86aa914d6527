"""``wheels test``: install a wheel as a stranger would, and run test suites on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import UsageError, VerificationError
from mlir_release.host import venv
from mlir_release.testing import suites as suite_functions
from mlir_release.testing.report import SuiteReport, TestRun
from mlir_release.wheels.inspect import WheelReport, inspect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.sdk.info import Sdk

#: The order in which suites run: smoke comes before anything is added to the environment.
ORDER = ("smoke", "bindings", "regression")


def test_wheel(
    path: Path | None,
    *,
    sdk: Sdk,
    python: Path,
    suites: Sequence[str],
    workdir: Path,
    target: str = "",  # noqa: PT028  it is no pytest function
    addon: Path | None = None,  # noqa: PT028
) -> TestRun:
    """Run ``suites`` and return their report. A failing test is a result, not an error.

    :param path: the wheel; may be ``None`` for suites that test the SDK (``regression``)
    :param python: the interpreter to test with; must be one that the wheel is for
    :param workdir: folder for the environment, logs and leftovers of failed tests
    :param target: the test target's name in the report; made up from the wheel's own target if empty
    :param addon: wheel of test-only parts for the ``bindings`` suite, from ``build_addon``; without it, the tests that
        need upstream's test dialect count as unsupported
    :raises UsageError: ``suite-unknown``, ``suite-needs-wheel``, ``wheel-missing``, ``not-a-wheel``
    :raises VerificationError: ``wheel-corrupt``, ``wheel-revision-mismatch``
    :raises MachineError: what :mod:`mlir_release.host.venv` and :mod:`mlir_release.testing.lit` raise
    """
    chosen = [suite for suite in ORDER if suite in suites]
    if unknown := [suite for suite in suites if suite not in ORDER]:
        raise UsageError(
            "suite-unknown", f"there is no test suite {', '.join(unknown)}", remedy=f"suites: {', '.join(ORDER)}"
        )
    needing = [suite for suite in chosen if suite in suite_functions.NEED_WHEEL]
    if needing and path is None:
        raise UsageError("suite-needs-wheel", f"{needing[0]} tests a wheel, and none is given", remedy="give a wheel")
    workdir = workdir.absolute()
    workdir.mkdir(parents=True, exist_ok=True)
    wheel = inspect(path) if path is not None else None
    subject = suite_functions.Subject(sdk=sdk, workdir=workdir, addon=addon)
    if wheel is not None and needing:
        _check_revision(wheel, sdk)
        subject = install(wheel, subject, python)
    reports: list[SuiteReport] = []
    for suite in chosen:
        with console.step(f"test suite {suite}" + (f" on {wheel.filename}" if wheel else "")):
            report = suite_functions.SUITES[suite](subject)
            suite_functions.announce(report)
        reports.append(report)
    return TestRun(
        target=target or _target(chosen, wheel, sdk),
        wheel=wheel.filename if wheel else None,
        wheel_sha256=wheel.sha256 if wheel else None,
        suites=tuple(reports),
    )


test_wheel.__test__ = False  # type: ignore[attr-defined]  # not a pytest function, whatever its name


def install(wheel: WheelReport, subject: suite_functions.Subject, python: Path) -> suite_functions.Subject:
    """Install the wheel, and what it requires, into an empty environment for ``python``."""
    from dataclasses import replace

    from mlir_release.host.pythons import describe

    found = describe(python)
    environment = venv.create(subject.workdir / "environment", python)
    environment.install(wheel.path)
    return replace(
        subject,
        environment=environment,
        wheel=wheel.path,
        python=python,
        python_version=found.short_version,
        release=wheel.release,
    )


def _check_revision(wheel: WheelReport, sdk: Sdk) -> None:
    """The tests must be of the revision that the wheel was built from."""
    revision = wheel.release.get("revision") if wheel.release else None
    if revision is not None and revision != sdk.info.revision:
        raise VerificationError(
            "wheel-revision-mismatch",
            f"{wheel.filename} was not built from this SDK's revision",
            where=str(sdk.root),
            why=f"the wheel says {revision}, the SDK {sdk.info.revision}",
            remedy="give the SDK of the wheel's revision",
        )


def _target(suites: Sequence[str], wheel: WheelReport | None, sdk: Sdk) -> str:
    about = str(wheel.release["target"]) if wheel and wheel.release else f"mlir-{sdk.info.platform}"
    return f"{'+'.join(suites)}-{about}"
