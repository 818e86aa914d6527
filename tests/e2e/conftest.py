"""The real thing, made once for all end-to-end tests: the rehearsal, on the newest LLVM that this machine can have."""

from __future__ import annotations

import pickle
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.provision import available_releases, provide_sdk, source_of
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.storage.cache import cache_directory, locked
from mlir_release.release.rehearsal.run import Options, rehearse
from mlir_release.release.rehearsal.world import choose, make_upstream
from tests.podman import image as podman

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.rehearsal.report import RehearsalReport

HERE = Path(__file__).parent


#: The longest first, so that two processes end at about the same time.
LONGEST = ("test_workflows", "test_rehearsal", "test_sdk_build")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("e2e")
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def _installed_once(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """Let all jobs of all runs share one installation of this checkout, also those of another test process."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSTALLED", str((base if worker_id == "master" else base.parent) / "installed"))
        yield


@dataclass(frozen=True)
class Rehearsed:
    """A finished rehearsal."""

    options: Options
    report: RehearsalReport

    @property
    def wheel(self) -> Path:
        (wheel,) = (self.options.workspace / "dist" / self.report.tag).glob("*.whl")
        return wheel


@pytest.fixture(scope="session")
def chosen() -> tuple[LlvmRelease, list[Python]]:
    """What a rehearsal chooses here."""
    return choose(available_releases(cache=cache_directory()))


@pytest.fixture(scope="session")
def release(chosen: tuple[LlvmRelease, list[Python]]) -> LlvmRelease:
    return chosen[0]


@pytest.fixture(scope="session")
def rehearsed(
    chosen: tuple[LlvmRelease, list[Python]], tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Rehearsed:
    """One rehearsal for all test processes: the first one makes it, the others wait. Tests only read it."""
    if not (shutil.which("c++") or shutil.which("g++")):
        pytest.fail("no C++ compiler: run make setup-tests")
    base = tmp_path_factory.getbasetemp()
    workspace = (base if worker_id == "master" else base.parent) / "rehearsal"
    kept = workspace.with_suffix(".pickle")
    with locked(workspace.with_suffix(".lock")):
        if not kept.is_file():
            options = Options(workspace=workspace, pythons=(str(chosen[1][0].executable),))
            kept.write_bytes(pickle.dumps(Rehearsed(options, rehearse(options))))
    found: Rehearsed = pickle.loads(kept.read_bytes())
    return found


@pytest.fixture(scope="session")
def sdk(release: LlvmRelease, tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    """The SDK that the rehearsal uses: same revision, same key, so it is made once."""
    folder = tmp_path_factory.mktemp("upstream") / "upstream.git"
    make_upstream(folder, release, {"mlir": source_of(release, cache=cache_directory())})
    revision = Upstream(str(folder)).resolve("head")
    return provide_sdk(release, revision, cache=cache_directory())


@pytest.fixture(scope="session")
def contained(chosen: tuple[LlvmRelease, list[Python]]) -> Python:
    """The CPython in the container: of the version that the rehearsal takes, where that can be copied."""
    if not (movable := podman.movable()):
        pytest.skip(f"containers are not tested here: {podman.unusable()}")
    return next((python for python in movable if python.tag == chosen[1][0].tag), movable[0])


@pytest.fixture(scope="session")
def container(contained: Python) -> podman.Image:
    """The image that stands for manylinux's, and a podman that can run it."""
    if reason := podman.unusable():
        # Loud on purpose: without these tests nothing shows that the production way works.
        sys.stderr.write(f"\n*** containers ARE NOT TESTED here: {reason} ***\n")
        pytest.skip(f"containers are not tested here: {reason}")
    image = podman.prepare(cache_directory(), [contained])
    probe = image.run(["podman", "run", "--rm", podman.NAME, "true"])
    if probe.returncode != 0:
        sys.stderr.write(f"\n*** containers ARE NOT TESTED here: podman cannot run: {probe.stderr} ***\n")
        pytest.skip(f"containers are not tested here: podman cannot run a container: {probe.stderr}")
    return image
