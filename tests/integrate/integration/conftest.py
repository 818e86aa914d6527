"""Miniature worlds for the tests of integrates: built once a process, copied for each test."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.integrate.integration import miniature, pair
from tests.integrate.integration.pinned import fixture_repin, fixture_served  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mlir_release.integrate.walk.walk import Walk
    from tests.integrate.integration.miniature import World


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool, bool], World]:
    """Worlds that were built already, by carrier, patched, small; tests copy them."""
    return {}


@pytest.fixture
def make_world(
    templates: dict[tuple[str, bool, bool], World],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    def make(carrier: str = "submodule", *, patched: bool = False, small: bool = True) -> World:
        key = (carrier, patched, small)
        if key not in templates:
            folder = tmp_path_factory.mktemp("template") / "world"
            templates[key] = miniature.build(folder, carrier=carrier, patched=patched, small=small)
        world = miniature.copy(templates[key].root, tmp_path / "world")
        world.enter(monkeypatch)
        return world

    return make


@pytest.fixture
def plain(make_world: Any) -> World:
    """A small one in which nothing is carried."""
    made: World = make_world()
    return made


@pytest.fixture
def pinned(make_world: Any) -> World:
    """A small one whose pin is in a file."""
    made: World = make_world("pin-file")
    return made


@pytest.fixture
def world(make_world: Any) -> World:
    """A small one in which patches are carried."""
    made: World = make_world(patched=True)
    return made


@pytest.fixture
def use_pulls(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    return lambda pulls: monkeypatch.setattr("mlir_release.release.forge.open.open_pulls", lambda: pulls)


@pytest.fixture
def walk(world: World) -> Walk:
    """Of an integrate that has just been started."""
    return world.begin()


@pytest.fixture(scope="session")
def remotes() -> Iterator[str]:
    """Where worlds' remote repositories are served: on another machine, as it were, which nobody kills."""
    with miniature.serving() as address:
        yield address


@pytest.fixture(scope="session")
def stacks() -> dict[str, Path]:
    """Worlds with two upstreams that were built already, by how; tests copy them."""
    return {}


@pytest.fixture
def stack(
    stacks: dict[str, Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A function that makes one; see :func:`tests.integrate.integration.pair.build`."""

    def make(**how: Any) -> pair.Stack:
        if (key := repr(how)) not in stacks:
            stacks[key] = tmp_path_factory.mktemp("template") / "world"
            pair.build(stacks[key], **how)
        shutil.copytree(stacks[key], tmp_path / "world", symlinks=True)
        miniature.write_config(tmp_path / "world")
        world = pair.load(tmp_path / "world")
        world.enter(monkeypatch)
        return world

    return make


@pytest.fixture
def unpatched(make_world: Any) -> World:
    """A small one without patches, in which a failure is not retried."""
    made: World = make_world("pin-file")
    made.reconfigure("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n")
    return made
