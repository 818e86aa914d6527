"""What testing a wheel takes, from the wheel alone: its CPython, the test-only add-on, the reports' names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.host.pythons import Python, find_pythons
from mlir_release.model.cpython import split_target
from mlir_release.testing.test import test_wheel
from mlir_release.wheels.inspect import WheelReport, inspect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.sdk.info import Sdk
    from mlir_release.testing.report import TestRun


def run_suites(
    wheel: Path | None,
    *,
    sdk: Sdk,
    suites: Sequence[str],
    workdir: Path,
    python: str | None = None,
    addon: Path | None = None,
    target: str = "",
) -> list[TestRun]:
    """Run each suite on a wheel (or, for suites that need none, on the SDK): one report each.

    :param python: version or path; by default the CPython of this machine that the wheel is for
    :param addon: wheel of the test-only parts; by default built from the SDK where a suite wants it
    :param target: the report's name, for one suite; by default made of the suite and the wheel's own target
    """
    report = inspect(wheel) if wheel is not None else None
    interpreter = find_interpreter(report, python)
    found = []
    for suite in suites:
        name = target or _test_name(suite, report, sdk)
        folder = workdir / name
        extra = None
        if suite == "bindings" and report is not None:
            extra = addon or _build_addon(report, sdk, interpreter)
        found.append(
            test_wheel(
                wheel,
                sdk=sdk,
                python=interpreter.executable,
                suites=[suite],
                workdir=folder,
                target=name,
                addon=extra,
            )
        )
    return found


def find_interpreter(report: WheelReport | None, wanted: str | None) -> Python:
    """The CPython to test with. :raises UsageError: ``python-missing`` if the wheel's is not on this machine"""
    if wanted is not None:
        return find_pythons([wanted])[0]
    if report is None:
        return find_pythons()[0]
    return find_pythons([report.tags[0].split("-")[1]])[0]  # the ABI tag tells cp313t from cp313


def _test_name(suite: str, report: WheelReport | None, sdk: Sdk) -> str:
    about = str(report.release["target"]) if report is not None and report.release else f"mlir-{sdk.info.platform}"
    from mlir_release.model.targets import SUITES

    return f"{suite}-{about if SUITES[suite] == 'python' else split_target(about)[0]}"


def _build_addon(report: WheelReport, sdk: Sdk, python: Python) -> Path:
    from packaging.version import Version

    from mlir_release.wheels.build import build_addon
    from mlir_release.wheels.request import WheelRequest

    release = report.release or {}
    request = WheelRequest(
        distribution=report.distribution,
        profile=release.get("profile", "host"),
        version=Version(report.version),
        tag=release.get("tag", "local"),
        target=release.get("target", ""),
        revision=sdk.info.revision,
        sdk=sdk,
    )
    return build_addon(request, python)
