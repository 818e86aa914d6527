"""What a whole session shows: how much of GitHub's API was exercised, and held against its published description."""

from __future__ import annotations

from typing import Any

import pytest

from tests.github_server import server


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's operations to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["operations"] = sorted(server.HELD)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's operations."""
    server.HELD.update(getattr(node, "workeroutput", {}).get("operations", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the count."""
    if server.HELD:
        terminalreporter.write_line(
            f"{len(server.HELD)} of GitHub's operations exercised and held against its published description"
        )
