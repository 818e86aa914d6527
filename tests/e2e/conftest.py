"""The real thing, made once for all end-to-end tests: the rehearsal, on the newest LLVM that this machine can have."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.cache import cache_directory
from mlir_release.rehearsal.run import Options, rehearse
from mlir_release.rehearsal.stage import choose_pythons, make_upstream
from mlir_release.revision import Upstream
from mlir_release.sdk.provision import available_release, provide_sdk

if TYPE_CHECKING:
    from mlir_release.rehearsal.report import Report
    from mlir_release.sdk.model import Sdk
    from mlir_release.sdk.source import KnownRelease

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("e2e")


@dataclass(frozen=True)
class Rehearsed:
    """A finished rehearsal."""

    options: Options
    report: Report

    @property
    def wheel(self) -> Path:
        (wheel,) = (self.options.workspace / "dist" / self.report.tag).glob("*.whl")
        return wheel


@pytest.fixture(scope="session")
def release() -> KnownRelease:
    return available_release(cache=cache_directory())


@pytest.fixture(scope="session")
def rehearsed(release: KnownRelease, tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    if not (shutil.which("c++") or shutil.which("g++")):
        pytest.fail("no C++ compiler: run make setup-tests")
    python = choose_pythons((), release)[0]
    options = Options(workspace=tmp_path_factory.mktemp("rehearsal"), pythons=(str(python.executable),))
    return Rehearsed(options, rehearse(options))


@pytest.fixture(scope="session")
def sdk(release: KnownRelease, tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    """The SDK that the rehearsal uses: same revision, same key, so it is made once."""
    folder = tmp_path_factory.mktemp("upstream") / "upstream.git"
    make_upstream(folder, release)
    revision = Upstream(str(folder)).resolve("head")
    return provide_sdk(release, revision=revision.sha, source_epoch=revision.epoch, cache=cache_directory())
