"""Advances that write several files, and run a command for another one, are killed anywhere and end the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.integrate.deliver.branch import start
from tests.integrate.integration import miniature
from tests.integrate.integration.killing import HERE, NEEDS_COMPILER
from tests.kill import kill_everywhere

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

pytestmark = NEEDS_COMPILER

TABLES = r"""pin-file = "deps.txt"
pattern = '^lib=(\w+)'
refresh = {command = "sh refresh.sh", files = ["locks/*"]}

[[upstream.also]]
file = "copy.txt"
pattern = '^(\w+)'

[[upstream.also]]
file = "deps.txt"
pattern = '^dated=(.*)'
value = "date"
"""

FILES = {
    "deps.txt": "lib=PIN\ndated=2020-01-01\n",
    "copy.txt": "PIN\n",
    "locks/a.lock": "",
    "refresh.sh": "cut -d= -f2 deps.txt | head -n1 > locks/a.lock.new && mv locks/a.lock.new locks/a.lock\n",
}


def prepare(folder: Path) -> None:
    folder.rmdir()
    world = miniature.build(folder, carrier="pin-file", patched=False, small=True)
    pin = world.open().pin()
    config = world.checkout / "integrate.toml"
    text = config.read_text().replace('pin-file = "llvm-project.version"\n', "")
    config.write_text(text.replace('name = "LLVM"\n', f'name = "LLVM"\n{TABLES}'))
    for path, content in FILES.items():
        (world.checkout / path).parent.mkdir(exist_ok=True)
        (world.checkout / path).write_text(content.replace("PIN", pin))
    world.git("add", "-A")
    env = miniature.dated() | world.environment()
    miniature.git(world.checkout, "commit", "-q", "-m", "Pin otherwise", env=env | {"PATH": "/usr/bin:/bin"})
    world.git("push", "-q")
    start(world.open())


def observe(folder: Path) -> object:
    world = miniature.load(folder)
    files = {path: (world.checkout / path).read_text() for path in FILES}
    assert files["locks/a.lock"] == f"{world.affecting[1]}\n" == files["copy.txt"]
    return world.git("for-each-ref", "refs/heads"), world.git("status", "--porcelain", "--branch"), files


def test_advances_that_write_several_files_and_run_a_command_end_the_same(
    tmp_path: Path, remotes: str, exhaustive: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "MLIR_RELEASE_CACHE"):
        monkeypatch.setenv(name, miniature.World(tmp_path / "template", {}, []).environment()[name])
    for commands in (True, False):
        work = tmp_path if commands else tmp_path / "inside"
        work.mkdir(exist_ok=True)
        if not commands:
            for name, value in miniature.World(work / "template", {}, []).environment().items():
                monkeypatch.setenv(name, value)
        killing = kill_everywhere(
            f"{HERE}:two_advances",
            prepare=prepare,
            place=lambda folder: miniature.write_config(folder, remotes),
            observe=observe,
            work=work,
            commands=commands,
            sample=None if exhaustive else 4,
        )
        with capsys.disabled():
            print(f"\n{'between' if commands else 'inside of'} commands: {killing}")
        assert killing.tried >= 2
