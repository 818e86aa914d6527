"""What tests share that disturb a whole job on the loopback GitHub."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.python import venv
from tests.release.integration.github_job import Undisturbed
from tests.release_stage import make_stage
from tests.serving import main_index
from tests.sigstore.services import serve_sigstore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.release_stage import Stage
    from tests.sigstore.services import Services


@pytest.fixture(scope="module")
def sigstore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with serve_sigstore(tmp_path_factory.mktemp("sigstore")) as services:
        yield services


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, sigstore: Services) -> Undisturbed:
    return Undisturbed.run(tmp_path_factory.mktemp("undisturbed"), sigstore)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this machine's own pip."""
    return venv.create(tmp_path_factory.mktemp("environment") / "environment", Path(sys.executable), pip=True).python


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The simple index that plays PyPI: somebody else's mlir 0.0.1 lies on it."""
    with main_index(tmp_path_factory.mktemp("pypi")) as url:
        yield url


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A forge with a tag and its empty draft; many files have one of their own."""
    return make_stage(tmp_path)
