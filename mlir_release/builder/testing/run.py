"""``wheels test``: install a wheel in an empty environment, and run test suites on it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.model.names import SOURCE_SUFFIX
from mlir_release.builder.model.suites import CORE_MINUTES, SOURCE_SUITE, SUITES, Scope, needs_wheel
from mlir_release.builder.testing.known_failures import judge, load
from mlir_release.builder.testing.port import TIMEOUT, Suite, SuiteSubject
from mlir_release.builder.testing.report import TestOutcome, TestResult, TestRun, cut_short, read_lines
from mlir_release.builder.wheels.build import build_addon
from mlir_release.builder.wheels.inspect import WheelReport, inspect
from mlir_release.builder.wheels.platform_tags import platforms_of
from mlir_release.builder.wheels.source import read_members, release_info
from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.llvm.projects import Project, find_project
from mlir_release.ground.programs.needs import Needs
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.python.cpython import ANY_PYTHON, split_target
from mlir_release.ground.python.pythons import Python, find_pythons
from mlir_release.ground.python.requirements import required_names
from mlir_release.ground.storage.files import copy_regular
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.builder.model.wheel_info import WheelInfo
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.llvm.projects import Makes


#: A suite's largest needs, in bytes: two environments with wheels and the tests' output; memory for one test.
_DISK, _MEMORY = 700_000_000, 500_000_000


def run_suites(
    wheel: Path | None,
    *,
    sdk: Sdk,
    workdir: Path,
    suites: Sequence[str] = (),
    python: str | None = None,
    addon: Path | None = None,
    target: str = "",
) -> list[TestRun]:
    """Run each suite on a wheel (or, for suites that need none, on the SDK), or on a source
    distribution. A failing test is a result, not an error.

    :param workdir: folder for environments, logs and leftovers of failed tests, one a suite
    :param suites: by default all that test a wheel, or, without one, all that test an SDK
    :param python: version or path; by default the CPython of this machine that the wheel is for
    :param addon: wheel of the test-only parts for ``bindings``; by default built from the SDK
    :param target: the report's name, for one suite; by default made of the suite and the wheel's own target
    :raises UsageError: ``option-invalid``, ``input-missing``, ``input-invalid``, ``python-missing``
    :raises VerificationError: ``file-damaged``, ``wheel-unsuitable``
    :raises MachineError: what :mod:`mlir_release.ground.python.venv` and :mod:`mlir_release.builder.testing.lit` raise
    """
    project = find_project(sdk.info.project)
    if wheel is not None and wheel.name.endswith(SOURCE_SUFFIX):
        _choose(suites, project, "source", wheel)
        return [_run_source(wheel, project, sdk=sdk, workdir=workdir, python=python, target=target)]
    report = inspect(wheel, ask_auditwheel=False) if wheel is not None else None  # its build has asked
    if report is not None:
        _check_origin(report.filename, report.release, sdk)
    scope: Scope = "platform" if report is None else "sdk" if _makes(project, report) == "sdk" else "python"
    chosen, about = _choose(suites, project, scope, wheel), suites_of(project)
    for suite in chosen:
        sdk.require(*about[suite].parts, purpose=f"the suite {suite}")
    interpreter = find_interpreter(report, python)
    _check_machine(chosen, workdir)
    found = []
    for suite in chosen:
        name = target or _test_name(suite, report, project, interpreter, sdk)
        subject = SuiteSubject(project=project, sdk=sdk, workdir=_folder(workdir, name))
        if report is not None and needs_wheel(suite):
            subject = install(report, subject, interpreter)
        if report is not None and about[suite].addon:
            floor = platforms_of(report.tags)[0]  # the oldest machine that the wheel is for
            profile = subject.profile or next(iter(project.profiles))
            addon = addon or build_addon(sdk, profile, interpreter, floor=floor, stable_abi=report.stable_abi)
            subject = replace(subject, addon=addon)
        tested = (report.filename, report.sha256, report.requires_dist) if report else (None, None, ())
        found.append(_run(suite, subject, name, *tested))
    return found


def _run_source(path: Path, project: Project, *, sdk: Sdk, workdir: Path, python: str | None, target: str) -> TestRun:
    """Run the one suite of source distributions."""
    _, content = read_members(path)
    release, interpreter = release_info(path, content), find_interpreter(None, python)
    _check_origin(path.name, release, sdk)
    sdk.require(*suites_of(project)[SOURCE_SUITE].parts, purpose=f"the suite {SOURCE_SUITE}")
    name = target or f"{SOURCE_SUITE}-{release.target}"
    _check_machine([SOURCE_SUITE], workdir)
    subject = SuiteSubject(
        project=project,
        sdk=sdk,
        workdir=_folder(workdir, name),
        wheel=path.absolute(),
        python=interpreter.executable,
        python_version=interpreter.short_version,
        release=release,
    )
    return _run(SOURCE_SUITE, subject, name, path.name, sha256_of(path), ())


def _check_machine(suites: Sequence[str], workdir: Path) -> None:
    """Make the folder, and check that the machine can run the suites, one after another."""
    workdir.mkdir(parents=True, exist_ok=True)
    seconds = 60 * sum(CORE_MINUTES[suite] for suite in suites) / (os.cpu_count() or 1)
    Needs(purpose="to run the tests", disk=_DISK * len(suites), memory=_MEMORY, seconds=seconds).check(workdir)


def _folder(workdir: Path, name: str) -> Path:
    folder = (workdir / name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _choose(suites: Sequence[str], project: Project, scope: Scope, file: Path | None) -> list[str]:
    """The suites to run on a file; by default all that test what it is."""
    usual = [suite for suite in project.suites if SUITES[suite] == scope]
    chosen = list(suites) or usual
    unknown = [suite for suite in chosen if suite not in project.suites]
    if unknown or not chosen:
        which = ", ".join(unknown) or f"for {file.name if file else 'an SDK'}"
        raise UsageError(
            "option-invalid",
            f"{project.name} has no test suite {which}",
            remedy=f"suites: {', '.join(project.suites)}",
        )
    if file is None and (needing := [suite for suite in chosen if needs_wheel(suite)]):
        raise UsageError("option-invalid", f"{needing[0]} tests a wheel, and none is given", remedy="give a wheel")
    fits = {"python": {"python", "newest", "platform"}, "sdk": {"sdk", "platform"}}.get(scope, {scope})
    if file is not None and (foreign := [suite for suite in chosen if SUITES[suite] not in fits]):
        raise UsageError(
            "option-invalid",
            f"the suite {foreign[0]} does not test {file.name}",
            where=str(file),
            remedy=f"for this file: {', '.join(usual) or 'none'}",
        )
    return chosen


def _makes(project: Project, wheel: WheelReport) -> Makes:
    """The kind of a wheel: by its profile or, if it belongs to no release, by its name."""
    if wheel.release is not None:
        return project.profile(wheel.release.profile).makes
    named = {profile.distribution: profile.makes for profile in project.profiles.values() if profile.makes != "source"}
    return named.get(wheel.distribution, "each-python")


def _run(
    suite: str, subject: SuiteSubject, name: str, file: str | None, sha256: str | None, requires: Sequence[str]
) -> TestRun:
    """Run a suite, and compare its results with the known failures.

    :param name: of the test target
    :param file: the tested file's name; None if no file is tested
    :param requires: the file's requirements, whose installed versions the run records
    """
    with console.step(f"test suite {suite}" + (f" on {file}" if file else "")):
        start = time.monotonic()
        known = load(subject.project.known_failures)
        results = judge(suites_of(subject.project)[suite].run(subject), suite, subject.situation(), known)
        installed = subject.installed()
        run = TestRun(
            target=name,
            suite=suite,
            wheel=file,
            wheel_sha256=sha256,
            results=results,
            seconds=time.monotonic() - start,
            installed={name: installed[name] for name in required_names(requires) if name in installed},
        )
        counts = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in run.counts.items() if count)
        console.say(f"    {suite}: {counts}")
    return run


class _SmokeLine(Struct, frozen=True):
    """A line of the smoke test's."""

    name: str
    ok: bool
    message: str
    seconds: float


def suites_of(project: Project) -> dict[str, Suite]:
    """The suites by name. :raises MachineError: ``plugin-unusable``: the project's module can't be used"""
    own = project.room("testing", "SUITES", dict)
    more: Suite = own.get("smoke", Suite(run=lambda _: []))

    def smoke(subject: SuiteSubject) -> list[TestResult]:
        results = _first_steps(subject)
        known = load(subject.project.known_failures)
        judged = judge(results, "smoke", subject.situation(), known)[: len(results)]
        return [*results, *(more.run(subject) if all(result.outcome.good for result in judged) else ())]

    return {**own, "smoke": replace(more, run=smoke)}


def _first_steps(subject: SuiteSubject) -> list[TestResult]:
    assert subject.environment is not None
    info = subject.sdk.info
    expected = {"revision": info.revision, "llvm_version": info.llvm_version}
    if subject.release is not None:
        expected |= {"tag": subject.release.tag, "target": subject.release.target}
    profile = subject.profile or next(iter(subject.project.profiles))
    command: list[str | Path] = [subject.environment.python, "-I", subject.project.smoke, profile, json.dumps(expected)]
    environment = subject.environment.variables()
    done = capture(command, environment=environment, cwd=subject.workdir, timeout=TIMEOUT * 2)
    lines = read_lines(done.stdout, _SmokeLine)
    results = [
        TestResult(
            name=line.name,
            outcome=TestOutcome.PASS if line.ok else TestOutcome.FAIL,
            seconds=line.seconds,
            message=line.message,
        )
        for line in lines
        if line.name != "end"
    ]
    if not lines or lines[-1].name != "end":
        results.append(cut_short(lines, done))
    return results


def install(wheel: WheelReport, subject: SuiteSubject, python: Python) -> SuiteSubject:
    """Install the wheel, and what it requires, into an empty environment for ``python``.

    First by its name and version, from a folder that has nothing else, as pip does for those who use an index: its file
    name, tags and metadata must agree. Publication relies on this.
    """
    environment = venv.create(subject.workdir / "environment", python.executable)
    with scratch_folder("install") as folder:
        copy_regular(wheel.path, folder / wheel.filename)
        exact = f"{wheel.distribution}=={wheel.version}"
        environment.install("--no-index", "--no-deps", "--find-links", folder, exact)
    environment.install(wheel.path)
    return replace(
        subject,
        environment=environment,
        wheel=wheel.path,
        python=python.executable,
        python_version=python.short_version,
        release=wheel.release,
    )


def find_interpreter(report: WheelReport | None, wanted: str | None) -> Python:
    """The CPython to test with. :raises UsageError: ``python-missing`` if the wheel's is not on this machine"""
    if wanted is not None:
        return find_pythons([wanted])[0]
    if report is None:
        return find_pythons()[0]
    interpreter, abi, _ = report.tags[0].split("-", 2)
    if interpreter == ANY_PYTHON:
        return find_pythons()[0]
    return find_pythons([interpreter if report.stable_abi else abi])[0]  # the ABI tag tells cp313t from cp313


def _check_origin(filename: str, release: WheelInfo | None, sdk: Sdk) -> None:
    """The tests must be of the project and the revision that the file was built from."""
    if release is None:
        return
    for fact, theirs, ours in (
        ("project", release.project, sdk.info.project),
        ("revision", release.revision, sdk.info.revision),
    ):
        if theirs != ours:
            raise VerificationError(
                "wheel-unsuitable",
                f"{filename} was not built from an SDK of this {fact}",
                where=str(sdk.root),
                why=f"the wheel is of the {fact} {theirs}, the SDK of {ours}",
                remedy=f"give the SDK of the wheel's {fact}",
            )


def _test_name(suite: str, report: WheelReport | None, project: Project, python: Python, sdk: Sdk) -> str:
    about = report.release.target if report is not None and report.release else f"{project.name}-{sdk.info.platform}"
    without, own = split_target(about.removesuffix(f"-{ANY_PYTHON}"))
    if report is None or not needs_wheel(suite):
        return f"{suite}-{without}"
    for_several = (report.stable_abi and own is not None) or _makes(project, report) == "any-python"
    return f"{suite}-{without}-{python.tag}" if for_several else f"{suite}-{about}"
