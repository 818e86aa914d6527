"""The harness can fail: what is broken on purpose is found, and what is sound is left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click
import pytest

if sys.platform != "linux":
    pytest.skip("children are bounded as Linux can", allow_module_level=True)

from mlir_release.cli.app import app
from tests.fuzz.campaign import Finding, Workshop, judge
from tests.fuzz.commands import CASES, Case
from tests.fuzz.readers import READERS, Reader, attempt, run, seed_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# The tests have threads (of xdist's workers), which a child of fork has not, and does not need.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("fuzz") / "workshop")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Let ``pin show`` do something else."""

    def plant(function: Callable[[], Any]) -> None:
        monkeypatch.setattr("mlir_release.release.forge.checkout.read_pin", lambda repository: function())

    return plant


SHOW = Case("pin show -C in/checkout", ("in/checkout/llvm-project.version",))


def tried(workshop: Workshop) -> Finding | None:
    _, found = workshop.attempt(SHOW, random.Random(3))
    return found


# -- what is found ---------------------------------------------------------------------------------------------------


def fail() -> str:
    raise KeyError("planted")


def write_outside() -> str:
    with open("in/victim", "w") as file:  # noqa: PTH123
        file.write("x")
    return "0" * 40


def take_memory() -> str:
    return str(len(bytes(3 << 30)))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("function", "kind", "place"),
    [
        (fail, "traceback", "KeyError"),
        (take_memory, "traceback", "MemoryError"),
        (write_outside, "written", "in/victim"),
        (kill, "signal", "9"),
        (lambda: sys.exit(99), "code", "99"),
        (lambda: sys.exit(1), "traceback", ""),
    ],
)
def test_a_planted_bug_is_found(
    workshop: Workshop, planted: Any, function: Callable[[], Any], kind: str, place: str
) -> None:
    planted(function)
    found = tried(workshop)
    assert found is not None
    assert found.kind == kind
    assert place in found.place
    assert found.command.startswith("pin show")


def test_a_command_that_hangs_is_found(workshop: Workshop, planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(lambda: [time.monotonic() for _ in iter(int, 1)])
    monkeypatch.setattr(workshop, "seconds", 0.3)
    found = tried(workshop)
    assert found is not None
    assert found.kind == "hang"


def test_a_reader_that_raises_anything_else_is_found(workshop: Workshop, tmp_path: Path) -> None:
    def read(path: Path) -> object:
        return json.loads(path.read_bytes())["walks"]

    broken = Reader("planted", "in/walks.json", read)
    found = [end for _, end in run(broken, workshop.root, tmp_path, seed=1, numbers=range(40))]
    kinds = {judge(end, ()) for end in found}
    assert len(kinds) > 2
    assert {kind for kind, _ in filter(None, kinds)} == {"traceback"}
    assert attempt(broken, seed_of(broken, workshop.root)) is None


# -- what is tried ---------------------------------------------------------------------------------------------------


def leaves(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*words, name))


def test_every_command_is_tried() -> None:
    lines = {tuple(word for word in case.words if word not in ("-C", "mini/downstream", "in/bazel")) for case in CASES}
    assert [words for words in leaves(app, ()) if not any(line[: len(words)] == words for line in lines)] == []


def test_every_input_of_a_case_exists(workshop: Workshop) -> None:
    patterns = {place for case in CASES for place in case.inputs if not set("@#%") & set(place)}
    assert [pattern for pattern in sorted(patterns) if not list(workshop.root.glob(pattern))] == []


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_every_reader_reads_its_sound_file(workshop: Workshop, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workshop.root / "home"))
    reader.read(seed_of(reader, workshop.root))
