"""A row of snapshots, made once: most bisects only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bisect_stage import Bench, make_forge

if TYPE_CHECKING:
    from pathlib import Path

#: As many snapshots as most tests have.
COUNT = 9


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of their forge."""
    root = tmp_path_factory.mktemp("bisect") / "forge"
    make_forge(root, COUNT)
    return root


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the environments are that most tests share. A test's answers are its own, as its folder is."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bench(snapshots: Path, cache: Path, tmp_path: Path) -> Bench:
    """Where a test's bisects run."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Bench(snapshots, folder, {"MLIR_RELEASE_CACHE": str(cache)})


@pytest.fixture
def here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The bench, with this process in it."""
    monkeypatch.chdir(bench.folder)
    for name, value in bench.variables.items():
        monkeypatch.setenv(name, value)
    return bench
