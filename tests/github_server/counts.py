"""What a whole session shows: how much of GitHub's API was exercised, and held against its published description.

And a fixture for tests whose GitHub fails, or lists late.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Operations that were exercised and held; reasons why something was not held; operations that were not exercised.
_counts: dict[str, set[str]] = {"held": set(), "not held": set(), "offered": set()}


def _take(counts: Mapping[str, Any]) -> None:
    for name, found in _counts.items():
        found.update(counts.get(name, ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Take the operations of this process, and hand a worker's to the process that reports."""
    if server := sys.modules.get("tests.github_server.server"):
        _take({"held": server.HELD, "not held": server.NOT_HELD, "offered": server.OFFERED})
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {name: sorted(found) for name, found in _counts.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's operations."""
    _take(getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts."""
    held, not_held, offered = _counts.values()
    for reason in sorted(not_held):
        terminalreporter.write_line(f"NOT HELD AGAINST WHAT GITHUB PUBLISHES: {reason}", yellow=True)
    if held:
        terminalreporter.write_line(
            f"{len(held)} of the {len(offered)} operations of the GitHub on loopback exercised by the "
            "toolkit and held against what GitHub publishes"
        )
        if terminalreporter.config.get_verbosity() > 0:
            terminalreporter.write_line(f"not exercised: {', '.join(sorted(offered - held)) or 'none'}")


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolkit asks a GitHub on loopback again at once."""
    from mlir_release.release.forge.github import client, runs

    monkeypatch.setattr(client, "FIRST_WAIT", 0.0)
    for module in (client, runs):
        monkeypatch.setattr(module, "PAUSES", (0.0,) * 4)
