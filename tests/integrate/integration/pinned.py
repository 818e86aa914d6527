"""Worlds whose downstream pins its upstream in other files than one of its own, and a server on this machine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.integrate.integration import miniature
from tests.loopback import Loopback, Quiet
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlir_release.ground.errors import ReleaseError
    from tests.integrate.integration.miniature import World

BAZEL = "third_party/workspace.bzl"
PATTERN = '^  LIB_COMMIT = "([0-9a-f]+)"'


@pytest.fixture(name="repin")
def fixture_repin(make_world: Any) -> Callable[..., World]:
    """Makes a world whose downstream pins the upstream in other files, with other tables about that."""

    def make(tables: str, files: dict[str, bytes | str], *, also: str = "", tag: str = "") -> World:
        world: World = make_world(carrier="pin-file")
        base = (world.checkout / "llvm-project.version").read_text().strip()
        if tag:
            miniature.git(world.root / "upstream.git", "tag", tag, base)
        (world.checkout / "llvm-project.version").unlink()
        config = world.checkout / "integrate.toml"
        text = config.read_text().replace('pin-file = "llvm-project.version"\n', also)
        config.write_text(text.replace('name = "LLVM"\n', f'name = "LLVM"\n{tables}\n'))
        for path, content in files.items():
            file = world.checkout / path
            file.parent.mkdir(exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            file.write_bytes(data.replace(b"BASE", base.encode()).replace(b"SHORT", base[:9].encode()))
        world.git("add", "-A")
        world.git("commit", "-q", "-m", "Pin otherwise")
        world.git("push", "-q")
        return world

    return make


def table(path: str, pattern: str, **more: str) -> str:
    rows = [f'pin-file = "{path}"', f"pattern = '{pattern}'", *(f'{key} = "{value}"' for key, value in more.items())]
    return "\n".join(rows)


def also(path: str, pattern: str, **more: str) -> str:
    rows = ["[[upstream.also]]", f'file = "{path}"', f"pattern = '{pattern}'"]
    return "\n".join([*rows, *(f'{key} = "{value}"' for key, value in more.items()), ""])


def shown(world: World, path: str, revision: str = "HEAD") -> bytes:
    return subprocess.run(
        ["git", "-C", str(world.checkout), "cat-file", "blob", f"{revision}:{path}"], check=True, capture_output=True
    ).stdout


def error_of(action: Callable[[], object], *said: str, id: str = "pin-invalid") -> ReleaseError:
    error = refused(action, id)
    for words in said:
        assert words in str(error), error
    return error


class Served:
    """A server on this machine: what it answers, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []
        self.find: Callable[[str], bytes | None] = self.answers.get
        self.url = ""


@pytest.fixture(name="served")
def fixture_served() -> Iterator[Served]:
    served = Served()

    class Handler(Quiet):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            if self.path in served.redirects:
                self.answer(302, headers={"Location": served.redirects[self.path]})
                return
            content = served.find(self.path)
            self.answer(404 if content is None else 200, content or b"")

    with Loopback(Handler) as server:
        served.url = server.url
        yield served
