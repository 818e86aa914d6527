"""What a whole session shows: how much of GitHub's API was exercised, and held against its published description."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from mlir_release.ground.console import console
from mlir_release.ground.python import venv
from tests.github_server import server
from tests.invented import believe_invented_revisions
from tests.serving import main_index

if TYPE_CHECKING:
    from collections.abc import Iterator


believe_invented_revisions()

# How long an example takes says something of the machine and its other work, not of what is tested.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that starts something in the background makes it ignore interrupts, and so would all that is tested here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In parallel processes, keep the tests of a file together, which share what is slow to make, but for some."""
    if config.getoption("loadgroup", False):
        for item in items:
            if item.get_closest_marker("spread") is None:
                item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> None:
    """What a command before has switched on is off: commands that tests call share this process."""
    console.json_mode = False


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's operations to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {"held": sorted(server.HELD), "not held": sorted(server.NOT_HELD)}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take a worker's operations."""
    output = getattr(node, "workeroutput", {})
    server.HELD.update(output.get("held", []))
    server.NOT_HELD.update(output.get("not held", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts."""
    for reason in sorted(server.NOT_HELD):
        terminalreporter.write_line(f"NOT HELD AGAINST WHAT GITHUB PUBLISHES: {reason}", yellow=True)
    if server.HELD:
        terminalreporter.write_line(
            f"{len(server.HELD)} of the {len(server.OFFERED)} operations of the GitHub on loopback exercised by the "
            "toolkit and held against what GitHub publishes"
        )
        if terminalreporter.config.get_verbosity() > 0:
            missing = sorted(server.OFFERED - server.HELD)
            terminalreporter.write_line(f"not exercised: {', '.join(missing) or 'none'}")


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
