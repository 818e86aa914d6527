"""A command starts foreign programs only if it declares that it does, as docs/permissions.md lists them."""

from __future__ import annotations

import ast
import sys
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from mlir_release.cli.app import LazyGroup, app
from mlir_release.cli.options import ForeignCommand
from mlir_release.ground.programs import process
from mlir_release.ground.programs.surroundings import starting
from tests.seams.unit.cli.test_app import commands

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(process.__file__).parents[2]
PROGRAM = [sys.executable, "-c", "open('started', 'w')"]


def _runs(program: list[str]) -> None:
    with process.running(program):
        pass


def _guards(program: list[str]) -> None:
    with process.guarded(program, errors=Path("errors")):
        pass


#: Each way to start a program, but for git's.
WAYS: dict[str, Callable[[list[str]], object]] = {
    "capture": process.capture,
    "run_logged": lambda program: process.run_logged(program, log=Path("log")),
    "running": _runs,
    "guarded": _guards,
}

#: Who may start what in any command: programs of our lock that run nothing of others, and git.
OURS = {
    "operate/doctor/actions.py",  # zizmor
    "extras/conda/index.py",  # a module of ours, in a process of its own
    "ground/python/resolver.py",  # uv and pip, from wheels alone
    "release/pypi/publish.py",  # twine
    "builder/wheels/platform_tags.py",  # auditwheel and abi3audit, which read a wheel
}


COMMANDS = {" ".join(path): command for path, command in commands(app) if not isinstance(command, click.Group)}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_starts_a_program_that_is_not_declared(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with starting(""), pytest.raises(RuntimeError, match="does not declare that it starts foreign programs"):
        WAYS[way](PROGRAM)
    assert list(tmp_path.iterdir()) == []


def test_every_way_asks_but_for_git() -> None:
    tree = ast.parse(Path(process.__file__).read_text(encoding="utf-8"))
    starts: dict[str, bool] = {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        called = [ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)]
        if {"subprocess.run", "subprocess.Popen"} & {*called}:
            starts[function.name] = "refuse_undeclared" in called
    assert starts.pop("run_bytes") is False
    assert starts == {"run_logged": True, "capture": True, "running": True, "guarded": True}


def test_only_these_modules_start_what_needs_no_declaration() -> None:
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    del texts["ground/programs/process.py"]
    assert {name for name, text in texts.items() if "ours=True" in text or '"ours": True' in text} == OURS
    assert {name for name, text in texts.items() if "run_bytes" in text} == {"ground/git/repository.py"}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_starts_programs_only_as_it_declares(name: str) -> None:
    """Of every command, with a body that starts one, without options, and with each that decides."""
    command, ran = copy(COMMANDS[name]), []

    def body(*_: Any, **__: Any) -> None:
        ran.append(process.capture([sys.executable, "-c", ""]).ok)

    command.callback = body
    deciding = [*command.only_with, *command.unless] if isinstance(command, ForeignCommand) else []
    for option in ("", *deciding):
        context = click.Context(command)
        context.params = {str(each.name): option in each.opts for each in command.params}
        declared = isinstance(command, ForeignCommand) and command.started([option]) != ""
        with starting(""):
            if declared:
                command.invoke(context)
            else:
                with pytest.raises(RuntimeError, match="does not declare"):
                    command.invoke(context)
        assert ran == [True] * declared
        ran.clear()


class OneMore(LazyGroup):
    """The command line with a command that declares nothing."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return click.Command("more", callback=lambda: process.capture(PROGRAM))


def test_a_command_that_starts_one_undeclared_ends_with_an_error() -> None:
    """By the command line, whose group declares nothing for any command."""
    done = CliRunner().invoke(OneMore(app.name, callback=app.callback, params=app.params), ["more"])
    assert isinstance(done.exception, RuntimeError)
    assert process.capture([sys.executable, "-c", ""]).ok  # a program that uses the library is in no command


def test_a_command_that_calls_a_declared_one_has_not_declared_it() -> None:
    @click.command(cls=ForeignCommand, starts="a program")
    def declared() -> None:
        process.capture([sys.executable, "-c", ""])

    @click.command()
    @click.pass_context
    def undeclared(ctx: click.Context) -> None:
        ctx.invoke(declared)

    with starting(""), pytest.raises(RuntimeError):
        undeclared.main([], standalone_mode=False)
    with starting(""):
        declared.main([], standalone_mode=False)
