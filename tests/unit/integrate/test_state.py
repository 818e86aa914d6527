"""What is read of the trailers of an integrate branch, which anybody may have written; what a verdict depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.integrate.config import SmokeTable
from mlir_release.integrate.state import T_BREAKS, T_COMMITS, T_VERDICT, count_of, setting_of, totals

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "9" * 5000, "٣"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert count_of({T_COMMITS: text}, T_COMMITS) is None


def test_the_totals_of_a_branch_leave_out_what_is_no_number() -> None:
    commits = [
        ("1" * 40, "Start", {}),
        ("2" * 40, "Advance", {T_COMMITS: "3", T_VERDICT: "good"}),
        ("3" * 40, "Advance", {T_COMMITS: "1", T_VERDICT: "bad"}),
        ("4" * 40, "Squashed", {T_COMMITS: "5", T_BREAKS: "2"}),
        ("5" * 40, "By hand", {T_COMMITS: "several", T_BREAKS: "9" * 5000}),
    ]
    assert totals(commits) == (9, 3)


def test_the_configured_command_is_the_same_question_on_a_command_line(tmp_path: Path) -> None:
    script = tmp_path / "smoke.sh"
    script.write_text("true\n")
    smoke = SmokeTable(command=f"{script} --fast")
    assert setting_of(smoke, (str(script), "--fast")) == setting_of(smoke)
    assert setting_of(smoke, (str(script),)) != setting_of(smoke)


def test_another_command_depends_on_the_files_outside_that_it_names(tmp_path: Path) -> None:
    smoke, script = SmokeTable(command="./smoke.sh"), tmp_path / "test.sh"
    command = (str(script), "smoke.sh", "\0", "x" * 5000)
    found = set()
    for content in (None, "true\n", "false\n"):
        if content is not None:
            script.write_text(content)
        found.add(setting_of(smoke, command))
    assert len(found) == 3
    script.write_text("true\n")
    assert setting_of(smoke, command) in found
    for unreadable in (tmp_path, tmp_path / "nothing"):
        assert setting_of(smoke, (str(unreadable),)) != setting_of(smoke)
