"""What exhaustive tests try: a sample by default, everything where slow tests are asked for."""

from __future__ import annotations

import pytest

EXHAUSTIVE = pytest.param(True, id="exhaustive", marks=[pytest.mark.slow, pytest.mark.spread])


@pytest.fixture(params=[pytest.param(False, id="sample"), EXHAUSTIVE])
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Whether every point is tried, not only a sample."""
    return bool(request.param)
