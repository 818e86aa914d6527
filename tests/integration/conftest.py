"""What exhaustive tests try, and what installers are run with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.host import venv
from tests.serving import main_index

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A sample by default; everything where slow tests are asked for.
EXHAUSTIVE = pytest.param(True, id="exhaustive", marks=[pytest.mark.slow, pytest.mark.spread])


@pytest.fixture(params=[pytest.param(False, id="sample"), EXHAUSTIVE])
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Whether every point is tried, not only a sample."""
    return bool(request.param)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this machine's own pip."""
    return venv.create(tmp_path_factory.mktemp("environment") / "environment", Path(sys.executable), pip=True).python


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The simple index that plays PyPI: somebody else's mlir 0.0.1 lies on it."""
    with main_index(tmp_path_factory.mktemp("pypi")) as url:
        yield url
