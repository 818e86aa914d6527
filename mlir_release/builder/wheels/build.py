"""``wheels build``: one wheel a CPython, several side by side, by cibuildwheel or by pypa/build.

A wheel appears in the output folder complete and under its final name, or not at all. One CPython's failure does
not affect the others. Builds can be repeated and run at the same time: each has a folder and a lock.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from packaging.utils import parse_wheel_filename

from mlir_release.builder.model.suites import SMOKE
from mlir_release.builder.sdk.progress import NO_SPACE
from mlir_release.builder.testing.known_failures import Situation, listed, load
from mlir_release.builder.tools.build_tools import BUILD_TOOLS
from mlir_release.builder.tools.containers import find_engine, image_name, unusable, why_unusable
from mlir_release.builder.tools.ninja import Pace, read_course
from mlir_release.builder.wheels import jobserver
from mlir_release.builder.wheels.backends import Backend, BuildBackend, BuildJob
from mlir_release.builder.wheels.cibuildwheel import CibuildwheelBackend
from mlir_release.builder.wheels.port import wheels_of
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import fill_in, stage
from mlir_release.ground.console import console, format_bytes, format_seconds
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ReleaseError, UsageError, VerificationError
from mlir_release.ground.programs.needs import Needs
from mlir_release.ground.programs.process import StepFailed, tail, whole_log
from mlir_release.ground.python.cpython import STABLE_ABI, CPython, split_target
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.pythons import OLDEST, describe, too_old
from mlir_release.ground.storage.cache import build_folder, cache_directory, locked
from mlir_release.ground.storage.disk import disk_full
from mlir_release.ground.storage.files import copy_regular, replacing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.wheels.inspect import WheelReport
    from mlir_release.ground.python.pythons import Python

BackendName = Literal["auto", "cibuildwheel", "build"]

#: Purpose and remedy in the error about a full disk.
_PURPOSE = "to build wheels"
_MAKE_ROOM = "free some space, or put the cache elsewhere: MLIR_RELEASE_CACHE"


@dataclass(frozen=True, kw_only=True)
class BuiltWheel:
    """A wheel in the output folder, and what it took. ``cpu_seconds``: user and system time of all of its processes."""

    COLUMNS: ClassVar = ("wheel", ">size", ">wall", ">CPU")  #: of a table of :meth:`row`

    path: Path
    python: Python
    wall_seconds: float
    cpu_seconds: float
    log: Path

    def row(self) -> tuple[str, str, str, str]:
        """For people."""
        size = format_bytes(self.path.stat().st_size)
        return self.path.name, size, format_seconds(self.wall_seconds), format_seconds(self.cpu_seconds)

    def to_json(self) -> dict[str, object]:
        """For ``--json``: sizes in bytes."""
        return {
            "file": str(self.path),
            "size": self.path.stat().st_size,
            "wall_seconds": round(self.wall_seconds, 2),
            "cpu_seconds": round(self.cpu_seconds, 2),
        }


def build_wheels(
    request: WheelRequest,
    pythons: Sequence[Python],
    *,
    output: Path,
    backend: BackendName | Backend = "auto",
    jobs: int | None = None,
    cache: Path | None = None,
) -> list[BuiltWheel]:
    """Build the wheel of ``request`` for each of ``pythons``, in that order; one for all CPythons, with the first.

    :param pythons: for a wheel that is for all CPythons, the toolkit's own by default
    :param output: folder that the wheels are moved to when they are complete
    :param backend: ``auto`` takes cibuildwheel where it works, else ``build``, and warns; or an object
    :param jobs: cores to use; all by default
    :param cache: folder for environments, compiler caches and build trees; the user's cache by default
    :raises VerificationError: ``build-failed``: at least one failed; the others' wheels are in ``output``
    :raises MachineError: ``tool-missing``, ``disk-full``, ``machine-unsuitable``
    :raises UsageError: ``python-missing``
    """
    if request.any_python:
        pythons = pythons[:1] or [describe(Path(sys.executable))]
    if not pythons:
        raise UsageError("python-missing", "no CPython to build for was given", remedy="--python 3.12")
    major, minor = request.sdk.info.minimum_python.split(".")[:2]
    oldest = max(OLDEST, (int(major), int(minor)))
    for python in pythons:
        if python.order[:2] < oldest:
            whose = f"LLVM {request.sdk.info.llvm_version}'s bindings"
            raise too_old(f"{python.executable} ({python.version})", oldest, whose=whose)
    cache = (cache or cache_directory()).absolute()
    chosen = choose_backend(backend, request.sdk.info.platform, request.floor) if isinstance(backend, str) else backend
    chosen.check()
    request = replace(request, image=chosen.image_digest())
    concurrency = jobserver.machine_concurrency(len(pythons), jobs)
    cache.mkdir(parents=True, exist_ok=True)
    course, wheels = read_course(_course_file(request, cache)), wheels_of(request.project)
    one = course.seconds if course else wheels.course.seconds * concurrency.builds / concurrency.compilers
    Needs(
        purpose=_PURPOSE,
        disk=wheels.disk * concurrency.builds,
        memory=jobserver.BUILD_MEMORY + jobserver.COMPILER_MEMORY,
        seconds=one * math.ceil(len(pythons) / concurrency.builds),
        remedy=_MAKE_ROOM,
    ).check(cache)
    output.mkdir(parents=True, exist_ok=True)
    many = f"{len(pythons)} CPythons, {concurrency.builds} at once, {concurrency.compilers} compilers"
    with console.step(f"build {request.staged_name} {request.version} with {chosen.name} ({many})"):
        queue = iter(pythons)
        built: dict[str, BuiltWheel] = {}
        errors: dict[str, ReleaseError] = {}
        paces: dict[str, Pace] = {}  # of the builds that run

        def state() -> str:
            running = list(paces.items())
            for _, pace in running:
                pace.look()
            waiting = len(pythons) - len(built) - len(errors) - len(running)
            texts = [f"{tag} {pace.text()}" for tag, pace in running]
            return "building " + "; ".join([*texts, *([f"{waiting} to come"] if waiting else [])])

        with jobserver.compiler_slots(concurrency) as slots, ThreadPoolExecutor(max_workers=concurrency.builds) as pool:

            def work() -> None:
                for python in queue:
                    try:
                        built[python.tag] = _build_one(request, python, chosen, slots, output, cache, paces)
                    except ReleaseError as error:
                        console.say(f"    {python.tag}: failed: {error.what}")
                        errors[python.tag] = error
                    finally:
                        paces.pop(python.tag, None)
                slots.give_back()

            try:
                with console.waiting(state, every=30.0):
                    for worker in [pool.submit(work) for _ in range(concurrency.builds)]:
                        worker.result()
            finally:
                list(queue)  # Ctrl+C ends the builds that run, and no other begins
        if len(pythons) == 1 and errors:
            raise next(iter(errors.values()))
        if errors:
            raise VerificationError(
                "build-failed",
                f"{len(errors)} of {len(pythons)} wheels could not be built: {', '.join(errors)}",
                where=", ".join(error.where for error in errors.values() if error.where),
                why="\n".join(f"{tag}: {error.what}\n{error.why}" for tag, error in errors.items()),
                remedy="the others are complete; fix the cause, then build these again",
            )
        return [built[python.tag] for python in pythons]


def build_addon(
    sdk: Sdk,
    profile: str,
    python: Python,
    *,
    floor: str = "",
    stable_abi: bool = False,
    cache: Path | None = None,
    backend: BackendName | Backend = "build",
) -> Path:
    """The add-on: a wheel, never published, with the parts that upstream's tests need beyond the package's wheel.

    It depends on no release, so it is built once for an SDK, a profile, a CPython and a floor, and then reused. Newer
    CPythons reuse one for the stable ABI, too.

    :param floor: the oldest platform of the wheel that it is laid over; on macOS, compilers assume their own without
    :param stable_abi: that wheel is for the stable ABI: the two share nanobind's library, which is another one then
    """
    cache = (cache or cache_directory()).absolute()
    serves = (python.cpython,) if stable_abi else ()
    request = replace(WheelRequest.of_profile(profile, sdk=sdk), test_addon=True, floor=floor, serves=serves)
    abi = STABLE_ABI if stable_abi else python.tag
    output = cache / "addons" / f"{key(request)}-{project_digest(request)[:10]}-{abi}-{floor or 'here'}"
    for made in sorted(output.glob("*.whl")):
        tag = next(iter(parse_wheel_filename(made.name)[-1]))
        if CPython.of_tag(tag.interpreter) <= python.cpython:  # for the stable ABI: the oldest that it serves
            console.say(f"    reusing {made}")
            return made
    return build_wheels(request, [python], output=output, backend=backend, cache=cache)[0].path


def project_digest(request: WheelRequest) -> str:
    """The digest of a wheel project and of the code that fills it in: newer code takes no older wheel of a cache."""
    project = request.project.folder
    files = [path for path in (project / "wheel").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    code = [*sorted(Path(__file__).parent.glob("*.py")), *sorted(project.glob("*.py"))]
    return sha256_of(path.read_bytes() for path in (*sorted(files), *code))


def choose_backend(wanted: BackendName, platform: Platform, floor: str = "") -> Backend:
    """Choose a backend that works on this machine.

    :raises MachineError: ``machine-unsuitable``, if ``wanted`` is cibuildwheel
    """
    if wanted == "build":
        return BuildBackend()
    if platform.os != "linux":
        # cibuildwheel installs CPythons system-wide there, which is for build machines only.
        if wanted == "cibuildwheel" or os.environ.get("CI"):
            return CibuildwheelBackend(engine=None)
        return BuildBackend()
    engine = find_engine()
    image = image_name(platform.arch, floor)
    reason = why_unusable(engine, image)
    if reason is None:
        return CibuildwheelBackend(engine=engine, image=image)
    if wanted == "cibuildwheel":
        remedy = (
            "fix that, or use --backend build (in release jobs: the repository's variable MLIR_RELEASE_BACKEND), whose "
            "wheels run on this machine's glibc and newer"
        )
        raise unusable(image, reason, remedy=remedy)
    console.say(
        "note: no container can be run here, so wheels are built on this machine, and run on its glibc and newer "
        "(--backend cibuildwheel says why)"
    )
    return BuildBackend()


def key(request: WheelRequest) -> str:
    """Names what a build depends on beside the CPython: the SDK's content and the kind of wheel."""
    facts = [request.sdk.info.digest, request.profile, str(request.plain)]
    if request.regalloc is not None:
        facts.append(request.regalloc.about.key)
    return f"{request.staged_name}-{sha256_of(' '.join(facts))[:10]}"


def for_python(request: WheelRequest, python: Python) -> WheelRequest:
    """The request with its target named for the CPython, if it is for one: ``mlir-linux-x86_64-cp312``.

    For the stable ABI (``…-cp312-abi3``) only where that is asked for, and this is the oldest CPython that it serves.
    """
    if request.any_python:
        return request
    name = f"{split_target(request.target)[0]}-{python.tag}"
    if request.serves and python.tag == request.serves[0].tag:
        return replace(request, target=f"{name}-{STABLE_ABI}")
    return replace(request, target=name, serves=())


def _course_file(request: WheelRequest, cache: Path) -> Path:
    """Where the course of the last build is kept. All CPythons share it: their builds have the same steps."""
    return build_folder(cache, Platform.of_host().os) / "builds" / f"{key(request)}.course.json"


def _build_one(
    request: WheelRequest,
    python: Python,
    backend: Backend,
    slots: jobserver.Slots,
    output: Path,
    cache: Path,
    paces: dict[str, Pace],
) -> BuiltWheel:
    from mlir_release.builder.wheels.inspect import inspect

    workdir = build_folder(cache, Platform.of_host().os) / "builds" / f"{key(request)}-{python.tag}"
    workdir.mkdir(parents=True, exist_ok=True)
    log = workdir / "build.log"
    with locked(workdir.with_suffix(".lock")):
        start = time.monotonic()
        log.unlink(missing_ok=True)
        first = wheels_of(request.project).course
        paces[python.tag] = pace = Pace(log, memory=_course_file(request, cache), first=first)
        staged = replace(for_python(request, python), floor=backend.floor(request.floor))
        filled = fill_in(staged)
        situation = Situation.of(request.sdk.info, python=python.short_version, profile=request.profile)
        job = BuildJob(
            sdk=request.sdk,
            python=python,
            project=stage(staged, workdir / "project"),
            smoke=request.project.smoke,
            known=tuple(name for _, name in listed(SMOKE, situation, load(request.project.known_failures))),
            requirements=(*BUILD_TOOLS, *filled["build-system"]["requires"]),
            dependencies=tuple(filled["project"]["dependencies"]),
            profile=request.profile,
            workdir=workdir,
            cache=cache,
            log=log,
            slots=slots.environment,
            addon=request.test_addon,
            floor=request.floor,
        )
        try:
            wheel, usage = backend.build(job)
        except StepFailed as error:
            end = tail(error.log)
            if NO_SPACE.search(tail(error.log, 200)):  # the machine's fault, not the build's
                why = f"it became full while building for {python.tag}\n{end}"
                raise disk_full(workdir, purpose=_PURPOSE, why=why, remedy=_MAKE_ROOM) from error
            raise VerificationError(
                "build-failed",
                f"the wheel for {python.tag} could not be built: {error}",
                where=str(error.log),
                why=end,
                remedy=f"the last lines are above; {whole_log(error.log)}",
            ) from error
        if not request.test_addon:
            check_report(inspect(wheel))
        path = output / wheel.name
        with replacing(path) as temporary:  # in one step, whatever file systems lie between
            copy_regular(wheel, temporary)
        for folder in ("tree", "built", "tagged"):
            shutil.rmtree(workdir / folder, ignore_errors=True)
        wall = time.monotonic() - start
        pace.look()
        pace.remember()
    built = BuiltWheel(path=path, python=python, wall_seconds=wall, cpu_seconds=usage.cpu, log=log)
    name, size, took, cpu = built.row()
    console.say(f"    {python.tag}: {name}, {size}, in {took}, CPU {cpu}")
    return built


def check_report(report: WheelReport) -> None:
    """Refuse a built wheel whose metadata or libraries are wrong. :raises VerificationError: ``wheel-unsuitable``"""
    if report.problems or report.external:
        raise VerificationError(
            "wheel-unsuitable",
            f"{report.filename} does not match its metadata",
            where=str(report.path),
            why="\n".join(problem.message for problem in report.problems) or f"it needs {', '.join(report.external)}",
            remedy="mlir-release wheels inspect shows all of it; the project's link settings or the SDK are wrong",
        )
