from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mlir_release.errors import ConflictError, ExitCode, UsageError

ROOT = Path(__file__).parents[2]


def test_an_error_says_what_where_why_and_what_to_do() -> None:
    error = UsageError("some-id", "It broke.", where="here", why="because", remedy="mend it")
    assert str(error) == "It broke.\n  where: here\n  why: because\n  to do: mend it"
    assert error.as_json() == {
        "error": "some-id", "what": "It broke.", "where": "here", "why": "because", "remedy": "mend it", "exit_code": 2,
    }  # fmt: skip


def test_empty_parts_are_left_out() -> None:
    assert str(ConflictError("x", "It moved.", remedy="again")) == "It moved.\n  to do: again"


def test_exit_codes_are_distinct_and_leave_gits_untestable_alone() -> None:
    assert int(ExitCode.UNTESTABLE) == 125
    assert len({int(code) for code in ExitCode}) == len(ExitCode)


def test_the_page_of_error_ids_is_true() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "list_errors.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
