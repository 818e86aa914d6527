"""What holds for all tests: which of them a person runs before each commit, and that each starts as a process does."""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["tests.costs", "tests.github_server.counts"]

ROOT = Path(__file__).parent.parent
#: The tests that ``make test`` leaves to ``make test-rest``, with the reasons.
REST = Path(__file__).with_name("rest.toml")
#: Names the tests that notice faults, which ``make test`` keeps.
MUTANTS = Path(__file__).with_name("mutants") / "table.toml"

# How long an example takes says something of the machine and its other work, not of what is tested.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that starts something in the background makes it ignore interrupts, and so would all that is tested here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest reads the markers, and xdist the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what ``make test`` leaves out; in parallel processes, keep a file's tests, which share things, together."""
    groups, mutants = (_tables(*where) for where in ((REST, "group"), (MUTANTS, "mutant")))
    rest, main = _beginnings(groups, "tests"), _beginnings(groups, "except") + _beginnings(mutants, "tests")
    for item in items:
        if f"{item.nodeid}::".startswith(rest) and not f"{item.nodeid}::".startswith(main):
            item.add_marker(pytest.mark.rest)
        if config.getoption("loadgroup", False) and item.get_closest_marker("spread") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """Take what was imported and collected out of the collector's sight, which would look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Put it back: extension modules complain of what they hold when Python ends."""
    gc.unfreeze()


def _tables(path: Path, name: str) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = tomllib.loads(path.read_text(encoding="utf-8"))[name]
    return found


def _beginnings(groups: list[dict[str, list[str]]], key: str) -> tuple[str, ...]:
    """With what the ids of the tests begin that a key of the groups lists: folders, files, or tests."""
    return tuple(f"{name}{end}" for group in groups for name in group.get(key, []) for end in ("::", "[", "/"))


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> None:
    """What a command before has switched on is off: commands that tests call share this process."""
    if module := sys.modules.get("mlir_release.ground.console"):
        vars(module.console).update(vars(module.Console()))
    if module := sys.modules.get("mlir_release.ground.programs.surroundings"):
        module._named.clear()
    os.environ.pop("COLUMNS", None)  # pytest-xdist gives its workers the width of the terminal


class Pauses(list[float]):
    """The seconds that a test's own thread would have slept, and what happens during each pause."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Nothing sleeps but the threads that earlier tests have left in this process."""
    asked, sleep = Pauses(), time.sleep

    def pause(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            asked.append(seconds)
            asked.meanwhile()
        else:
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", pause)
    return asked


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that makes Python say something else of this machine: ``pretend(machine="arm64")``."""

    def say(**answers: object) -> None:
        for name, answer in answers.items():
            monkeypatch.setattr(platform, name, lambda answer=answer: answer)

    return say


#: A sample by default; everything where slow tests are asked for.
EXHAUSTIVE = pytest.param(True, id="exhaustive", marks=[pytest.mark.slow, pytest.mark.spread])


@pytest.fixture(params=[pytest.param(False, id="sample"), EXHAUSTIVE])
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Whether every point is tried, not only a sample."""
    return bool(request.param)
