"""What is drawn of a real walk, and what is counted of past ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground import strategy as st
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.status import collect_stats
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration.in_process import invoke

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.integrate.integration.miniature import World


def test_a_walk_to_a_culprit_is_drawn_in_the_summary_and_counted(
    plain: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(plain.open())
    end = Walk(plain.open()).run(st.Adaptive())
    culprit = plain.affecting.index(end.bad) + 1
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    invoke(plain, "run", "--no-probes")
    text = summary.read_text()
    assert f"The walk: {culprit - 1} of {len(plain.affecting)} affecting commits of LLVM" in text
    page = CliRunner().invoke(app, ["integrate", "-C", str(plain.checkout), "page"], catch_exceptions=False)
    assert page.output.strip() in text
    line = text.split("```text\n")[1].splitlines()
    assert line[0][culprit - 1 : culprit + 1] == "oX"
    assert line[1].index("^") == culprit - 1
    data = json.loads(
        CliRunner()
        .invoke(app, ["integrate", "-C", str(plain.checkout), "page", "--json"], catch_exceptions=False)
        .output
    )
    assert [test["position"] for test in data["tests"] if test["verdict"] == "bad"][-1] == culprit
    assert data["culprits"] == [end.bad]
    assert f"\n- {culprit}: `{end.bad[:12]}` [mlir] Rename scale\n" in text
    Walk(plain.open()).next()  # a person goes to the culprit, to fix it
    stats = collect_stats(plain.open())
    assert list(stats.months.values()) == [{"commits": culprit, "breaks": 1}]
    assert stats.culprits == (end.bad,)
    assert stats.folders == {"mlir": 1}
    assert (stats.walks, stats.linear_tests) == (1, culprit + 1)
    assert stats.tests == sum(test["attempts"] for test in data["tests"])
    assert "2026-11" in stats.as_text()


def test_a_project_without_integrates_has_no_statistics(plain: World) -> None:
    assert collect_stats(plain.open()).as_text() == "no integrate is recorded in this branch's history"
