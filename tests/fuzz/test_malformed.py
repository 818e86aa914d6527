"""No malformed input ends a command or a reader in a traceback, a hang, or a file outside the output folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("children are bounded as Linux can", allow_module_level=True)

from tests.fuzz import campaign

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("commands", 150),
        ("readers", 450),
        pytest.param("commands", 3_000, marks=pytest.mark.slow),
        pytest.param("readers", 30_000, marks=pytest.mark.slow),
    ],
)
def test_malformed_input_is_refused(tmp_path: Path, kind: str, number: int) -> None:
    report = campaign.run(kind, tmp_path, campaign.Plan(seed=31, number=number), jobs=2)
    assert report.tries >= number
    assert not report.findings, report.text()
