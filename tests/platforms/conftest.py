"""The runtimes that tests of platforms go through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.platforms.runtimes import RUNTIMES

if TYPE_CHECKING:
    from mlir_release.release.model.targets import Runtime


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return RUNTIMES[request.param]
