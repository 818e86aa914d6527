from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from packaging.version import Version

from mlir_release.builder.projects import clang
from mlir_release.builder.projects.mlir import PROJECT
from mlir_release.builder.wheels import build, jobserver
from mlir_release.builder.wheels.backends import BuildBackend, BuildJob, build_variables
from mlir_release.builder.wheels.build import BuiltWheel, build_addon, build_wheels, for_python
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.ground.programs.process import StepFailed, Usage
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.python.pythons import Python
from tests.builder.pretence import leave_free
from tests.prefix_factory import REVISION
from tests.refusals import refused
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.llvm.projects import Project

PYTHONS = [
    Python(cpython=CPython(3, minor), version=f"3.{minor}.1", executable=Path(f"/x/python3.{minor}"))
    for minor in (12, 11, 10)
]


@pytest.fixture
def request_(sdk: Sdk) -> WheelRequest:
    return WheelRequest(
        project=PROJECT,
        distribution="mlir",
        profile="host",
        version=Version("20261120.2"),
        tag="snapshot-20261120.02",
        target="mlir-linux-x86_64-cp312",
        revision=REVISION,
        sdk=sdk,
    )


@dataclass
class FakeBackend:
    """Builds small wheels; fails for the CPythons in ``fail`` with the line that they map to in the log.

    ``patience``: seconds that a build waits for another one to run beside it.
    """

    fail: dict[str, str] = field(default_factory=dict)
    untrue: bool = False
    jobs: list[BuildJob] = field(default_factory=list)
    running: int = 0
    most: int = 0
    patience: float = 0.0
    two: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    name: str = "fake"

    def check(self) -> None:
        pass

    def floor(self, wanted: str) -> str:
        return wanted

    def image_digest(self) -> str:
        return "image@sha256:0"

    def build(self, job: BuildJob) -> tuple[Path, Usage]:
        with self.lock:
            self.jobs.append(job)
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running == 2:
                self.two.set()
        self.two.wait(self.patience)
        time.sleep(0.05)
        with self.lock:
            self.running -= 1
        if job.python.tag in self.fail:
            job.log.write_text(f"compiling\n{self.fail[job.python.tag]}\n")
            raise StepFailed(["ninja"], 1, job.log)
        files = {"mlir/_x.cpython-39-x86_64-linux-gnu.so": b""} if self.untrue else {}
        return make_wheel(job.fresh("built"), python=job.python.tag, files=files), Usage(wall=1.0, cpu=2.0)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def build_all(backend: FakeBackend, request_: WheelRequest, pythons: list[Python], folder: Path) -> list[BuiltWheel]:
    return build_wheels(request_, pythons, output=folder / "out", cache=folder / "cache", backend=backend)


def test_a_wheel_for_each_cpython_in_the_order_asked_for(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path
) -> None:
    built = build_all(backend, request_, PYTHONS, tmp_path)
    assert [wheel.python.tag for wheel in built] == ["cp312", "cp311", "cp310"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(wheel.path.name for wheel in built)
    assert {wheel.cpu_seconds for wheel in built} == {2.0}
    assert all(wheel.wall_seconds > 0 for wheel in built)


def test_each_project_is_staged_for_its_cpython(request_: WheelRequest, backend: FakeBackend, tmp_path: Path) -> None:
    build_all(backend, request_, PYTHONS[:2], tmp_path)
    targets = {
        job.python.tag: json.loads((job.project / "mlir" / "_release.json").read_text())["target"]
        for job in backend.jobs
    }
    assert targets == {"cp312": "mlir-linux-x86_64-cp312", "cp311": "mlir-linux-x86_64-cp311"}
    free = Python(cpython=CPython(3, 13, True), version="3.13.0", executable=Path())
    assert for_python(request_, free).target.endswith("-cp313t")


@pytest.mark.parametrize(("version", "known"), [("22.1.8", ("context_left_entered",)), ("23.1.1", ())])
def test_the_test_of_a_build_is_told_what_is_known_to_fail(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path, version: str, known: tuple[str, ...]
) -> None:
    """It runs before the suites, whose results are judged: where nothing told it, no wheel of LLVM 22 was built."""
    info = msgspec.structs.replace(request_.sdk.info, llvm_version=version)
    build_all(backend, replace(request_, sdk=replace(request_.sdk, info=info)), PYTHONS[:1], tmp_path)
    assert [job.known for job in backend.jobs] == [known]


@pytest.mark.parametrize("project", [PROJECT, clang.PROJECT], ids=lambda project: project.name)
def test_a_smoke_test_ends_well_if_what_fails_is_known(project: Project) -> None:
    """Python without its site-packages has no bindings: the checks fail."""
    command: list[str | Path] = [sys.executable, "-I", "-S", project.smoke, next(iter(project.profiles)), "{}"]
    for known, code in (((), 1), (("import",), 1), (("*",), 0)):
        done = subprocess.run([*command, *known], capture_output=True, text=True, check=False)
        first, *_, last = map(json.loads, done.stdout.splitlines())
        assert (done.returncode, first["ok"], last["name"]) == (code, False, "end"), done.stderr


def test_side_by_side_within_the_plan(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = jobserver.Concurrency(builds=2, compilers=4)
    monkeypatch.setattr(jobserver, "machine_concurrency", lambda count, jobs: two)
    backend.patience = 60
    build_all(backend, request_, PYTHONS, tmp_path)
    assert backend.most == 2
    assert all("--jobserver-auth" in job.slots["MAKEFLAGS"] for job in backend.jobs)


@pytest.mark.skipif(sys.platform == "win32", reason="a console's interrupt is another thing there")
def test_after_ctrl_c_no_other_build_begins(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(wanted: str) -> str:
        if not backend.jobs:
            time.sleep(0.3)  # until the main thread waits for this one
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.2)
        return wanted

    one = jobserver.Concurrency(builds=1, compilers=1)
    monkeypatch.setattr(jobserver, "machine_concurrency", lambda count, jobs: one)
    monkeypatch.setattr(backend, "floor", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_all(backend, request_, PYTHONS, tmp_path)
    assert len(backend.jobs) == 1


def test_one_failure_costs_no_other_wheel(request_: WheelRequest, backend: FakeBackend, tmp_path: Path) -> None:
    backend.fail = {"cp311": "error: no matching function"}
    error = refused(lambda: build_all(backend, request_, PYTHONS, tmp_path), "build-failed", "cp311")
    assert "no matching function" in error.why
    complete = sorted(path.name.split("-")[2] for path in (tmp_path / "out").iterdir())
    assert complete == ["cp310", "cp312"]


def test_a_single_failure_is_shown_as_itself_with_the_end_of_its_log(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path
) -> None:
    backend.fail = {"cp312": "error: it is broken"}
    error = refused(lambda: build_all(backend, request_, PYTHONS[:1], tmp_path), "build-failed")
    assert error.why.endswith("error: it is broken")
    assert Path(error.where).read_text().startswith("compiling")


@pytest.mark.parametrize(
    "line",
    [
        "fatal error: error writing to x.o: No space left on device",
        "OSError: [Errno 28] ENOSPC",
        "There is not enough space on the disk.",
    ],
)
def test_a_disk_that_becomes_full_is_told_apart(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path, line: str
) -> None:
    backend.fail = {"cp312": line}
    refused(lambda: build_all(backend, request_, PYTHONS[:1], tmp_path), "disk-full")


def test_no_disk_space_is_found_before_anything_is_built(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_free(100_000_000, monkeypatch)
    said = "not enough disk space to build wheels"
    error = refused(lambda: build_all(backend, request_, PYTHONS, tmp_path), "disk-full", said)
    assert "100.0 MB are free" in error.why
    assert backend.jobs == []


def test_what_is_not_true_does_not_leave_the_build(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path
) -> None:
    backend.untrue = True
    error = refused(lambda: build_all(backend, request_, PYTHONS[:1], tmp_path), "wheel-unsuitable")
    assert "_x.cpython-39" in error.why
    assert list((tmp_path / "out").iterdir()) == []


def test_again_and_again(request_: WheelRequest, backend: FakeBackend, tmp_path: Path) -> None:
    for _ in range(2):
        (wheel,) = build_all(backend, request_, PYTHONS[:1], tmp_path)
    assert list((tmp_path / "out").iterdir()) == [wheel.path]
    assert backend.jobs[0].project == backend.jobs[1].project  # the same place, so that compiler caches hit


def test_two_runs_at_once_take_turns(request_: WheelRequest, backend: FakeBackend, tmp_path: Path) -> None:
    def run() -> None:
        build_all(backend, request_, PYTHONS[:1], tmp_path)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(backend.jobs) == 3
    assert backend.most == 1


def test_different_wheels_have_different_places(request_: WheelRequest) -> None:
    requests = (request_, replace(request_, plain=True), replace(request_, test_addon=True))
    assert len({build.key(request) for request in requests}) == 3


def test_an_addon_is_built_once_for_all_releases(sdk: Sdk, backend: FakeBackend, tmp_path: Path) -> None:
    first = build_addon(sdk, "host", PYTHONS[0], cache=tmp_path, backend=backend)
    assert build_addon(sdk, "host", PYTHONS[0], cache=tmp_path, backend=backend) == first
    assert len(backend.jobs) == 1
    assert backend.jobs[0].addon
    others = [
        build_addon(sdk, "core", PYTHONS[0], cache=tmp_path, backend=backend),
        build_addon(sdk, "host", PYTHONS[1], cache=tmp_path, backend=backend),
    ]
    assert len({first, *others}) == len(backend.jobs) == 3


def test_an_addon_for_the_stable_abi_serves_newer_cpythons(sdk: Sdk, backend: FakeBackend, tmp_path: Path) -> None:
    new, old = (replace(PYTHONS[0], cpython=CPython(3, minor)) for minor in (14, 12))
    of_new = build_addon(sdk, "host", new, stable_abi=True, cache=tmp_path, backend=backend)
    of_old = build_addon(sdk, "host", old, stable_abi=True, cache=tmp_path, backend=backend)
    assert of_new != of_old
    assert build_addon(sdk, "host", new, stable_abi=True, cache=tmp_path, backend=backend) == of_old
    assert [job.python for job in backend.jobs] == [new, old]
    assert build_addon(sdk, "host", old, cache=tmp_path, backend=backend) not in (of_new, of_old)


def test_an_addon_is_for_the_oldest_platform_of_its_wheel(sdk: Sdk, backend: FakeBackend, tmp_path: Path) -> None:
    """The compilers of a new macOS would otherwise make it for that macOS only."""
    old = build_addon(sdk, "host", PYTHONS[0], floor="macosx_13_0_arm64", cache=tmp_path, backend=backend)
    assert backend.jobs[0].floor == "macosx_13_0_arm64"
    assert build_variables(backend.jobs[0])["MACOSX_DEPLOYMENT_TARGET"] == "13.0"
    assert build_addon(sdk, "host", PYTHONS[0], cache=tmp_path, backend=backend) != old


def test_newer_code_builds_its_own_addon(
    sdk: Sdk, request_: WheelRequest, backend: FakeBackend, tmp_path: Path
) -> None:
    first = build_addon(sdk, "host", PYTHONS[0], cache=tmp_path, backend=backend)
    folder = shutil.copytree(PROJECT.folder, tmp_path / "mlir")
    (folder / "wheel" / "CMakeLists.txt").write_text("# changed")
    changed = replace(PROJECT, folder=folder)
    older, newer = (build.project_digest(replace(request_, project=project))[:10] for project in (PROJECT, changed))
    assert older in first.parent.name
    assert older != newer


@pytest.mark.parametrize(
    ("pythons", "said"),
    [
        ([], "no CPython to build for was given"),
        ([replace(PYTHONS[0], cpython=CPython(3, 9), version="3.9.18")], "LLVM 22.1.8's bindings need CPython"),
    ],
)
def test_no_cpython_and_one_that_is_too_old(
    request_: WheelRequest, backend: FakeBackend, tmp_path: Path, pythons: list[Python], said: str
) -> None:
    refused(lambda: build_all(backend, request_, pythons, tmp_path), "python-missing", said)


def test_no_compiler(request_: WheelRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    output = tmp_path / "out"
    refused(lambda: build_wheels(request_, PYTHONS, output=output, backend="build", cache=tmp_path), "tool-missing")
    assert not output.exists()


def test_without_an_engine_the_plain_way_is_taken_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CIBW_CONTAINER_ENGINE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(build.choose_backend("auto", Platform("linux", "x86_64")), BuildBackend)
    said = capsys.readouterr().err
    assert said.startswith("note: no container can be run here, so wheels are built on this machine")
    error = refused(lambda: build.choose_backend("cibuildwheel", Platform("linux", "x86_64")), "machine-unsuitable")
    assert "no container engine is installed" in error.why
    assert "MLIR_RELEASE_BACKEND" in error.remedy


def test_with_an_engine_that_works_cibuildwheel_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIBW_CONTAINER_ENGINE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "podman").write_text("#!/bin/sh\n")
    (tmp_path / "podman").chmod(0o755)
    assert build.choose_backend("auto", Platform("linux", "x86_64")).name == "cibuildwheel"
    assert build.choose_backend("build", Platform("linux", "x86_64")).name == "build"


def test_a_macs_own_cpythons_are_left_alone_but_on_build_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert build.choose_backend("auto", Platform("macos", "arm64")).name == "build"
    monkeypatch.setenv("CI", "true")
    assert build.choose_backend("auto", Platform("macos", "arm64")).name == "cibuildwheel"
