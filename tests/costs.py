"""What the tests cost: the slowest, and the processor's seconds by room, at the end of every run.

A test's seconds are those of its own process and of the processes that it waited for, with what its fixtures took: a
fixture that several tests share counts for the first of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: The processor's seconds of each test, by its id.
SECONDS: dict[str, float] = {}
SLOWEST = 10
PROPERTY = "seconds of the processor"
_started: dict[str, float] = {}


def _used() -> float:
    return sum(os.times()[:4])


def pytest_runtest_logstart(nodeid: str) -> None:
    """Begin a test's account."""
    _started[nodeid] = _used()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Close a test's account, in the report that another process may read."""
    report = yield
    if report.when == "teardown":
        report.user_properties.append((PROPERTY, _used() - _started.get(item.nodeid, 0.0)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take a test's seconds."""
    SECONDS.update((report.nodeid, float(str(value))) for name, value in report.user_properties if name == PROPERTY)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest tests, and the rooms."""
    if len(SECONDS) <= SLOWEST:
        return
    rooms: dict[str, list[float]] = defaultdict(list)
    for test, seconds in SECONDS.items():
        rooms[test.split("/")[1]].append(seconds)
    terminalreporter.section("seconds of the processor")
    for test in sorted(SECONDS, key=SECONDS.__getitem__, reverse=True)[:SLOWEST]:
        terminalreporter.write_line(f"{SECONDS[test]:8.1f}  {test}")
    for room, spent in sorted(rooms.items(), key=lambda row: -sum(row[1])):
        terminalreporter.write_line(f"{sum(spent):8.1f}  tests/{room}: {len(spent)} tests")
    terminalreporter.write_line(f"{sum(SECONDS.values()):8.1f}  in all")
