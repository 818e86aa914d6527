"""The root of the command line: global options, the table of contents, and the exit codes of errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

from mlir_release import __version__
from mlir_release.ground import plugins
from mlir_release.ground.console import console
from mlir_release.ground.errors import ExitCode, MachineError, ReleaseError
from mlir_release.ground.foreign import visible
from mlir_release.ground.programs.surroundings import starting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.shell_completion import CompletionItem

#: The headings of ``--help``, in the order of a release's life, and the rooms whose commands are below them.
ROOMS = {"Release": "release", "Use": "use", "Build": "builder", "Operate": "operate", "Integrate": "integrate"}

#: The trunk's commands: name -> (heading, description). Each command is the object of its name in the module of its
#: name, in the room's folder ``commands``. The descriptions are here so that ``--help`` imports no command. Extras are
#: found by their entry points.
COMMANDS: dict[str, tuple[str, str]] = {
    "rehearsal": ("Release", "Run the whole main job on this machine, on real LLVM."),
    "forge": ("Release", "Set up a release repository: a local forge in a folder, or a checkout for GitHub."),
    "pin": ("Release", "Show, set or check the pinned llvm-project revision."),
    "tag": ("Release", "List the release tags, or show the next one."),
    "matrix": ("Release", "Show the build matrix, filtered, as a table or for GitHub Actions."),
    "snapshot": ("Release", "Bump the pin, allocate a snapshot tag, open the draft, start the build."),
    "attest": ("Release", "Sign the files of a release, in the workflow that may."),
    "publish": ("Release", "Upload wheels to a draft, verify and publish it."),
    "release": ("Release", "Start numbered releases; look at all; waive, abandon or yank."),
    "index": ("Release", "Generate the pages that pip and people read."),
    "pypi": ("Release", "Put a published final release on PyPI."),
    "mirror": ("Use", "Copy the published releases of one forge to another."),
    "install": ("Use", "Install the verified wheel of a release that fits an interpreter."),
    "bisect": ("Use", "Find the first release with which a command fails, or works again."),
    "verify": ("Use", "Check who made a file of a release, or all files of a release."),
    "sdk": ("Build", "Import or build an installed LLVM+MLIR tree."),
    "wheels": ("Build", "Build, inspect and test wheels of the MLIR Python bindings."),
    "doctor": ("Operate", "Check whether a release repository is set up; each problem with its remedy."),
    "integrate": ("Integrate", "Walk a downstream's LLVM forward; find the exact commits that break it."),
}

#: Commands and options of older toolkits, which somebody's workflow may still call: what does it now.
_GONE = {
    "number": "use `mlir-release release start --version VERSION`",
    "promote": "write `proven` and `required` into targets.toml, as `mlir-release doctor` says",
    "wheels build --target": "use `--orders`, with a row of `matrix --kind platforms`",
    "first-run": "run `python -m tools.first_run` in a checkout of the toolkit",
    "integrate simulate": "run `python -m benchmarks.simulate` in a checkout of the toolkit",
    **dict.fromkeys(
        (
            "integrate run --fix",
            *(f"integrate fix --{name}" for name in ("ahead", "auto", "save", "probe", "record-to", "take", "record")),
        ),
        "let your own job call a program between `fix --json` and `fix --continue` (docs/integrate.md)",
    ),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when that command is asked for (``--help`` stays fast)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The trunk's, in the order of the table of contents; then the extras'."""
        return [*COMMANDS, *(name for name in plugins.plugins(plugins.COMMANDS) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command. :raises MachineError: ``plugin-unusable``"""
        points = plugins.plugins(plugins.COMMANDS).get(cmd_name)
        if points is not None:
            extra = plugins.load(points, trunk=cmd_name in COMMANDS)
            if not isinstance(extra, click.Command):
                raise plugins.unusable(points[0], f"it is a {type(extra).__name__}, and no command of click's")
            return extra
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        room = ROOMS[COMMANDS[cmd_name][0]]
        command: click.Command = getattr(import_module(f"mlir_release.{room}.commands.{name}"), name)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As any group, which may print its help here. But click would end with 1 where nobody reads that."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError as error:
            raise _of_pipe(error) from error

    def invoke(self, ctx: click.Context) -> object:
        """As any group. But a pipe to another program that broke is an error: click would end without a word.

        What is unknown because it was removed is told with what replaces it.
        """
        try:
            with starting(""):  # unless the command is a ForeignCommand
                return super().invoke(ctx)
        except (click.NoSuchCommand, click.NoSuchOption) as error:
            name = error.command_name if isinstance(error, click.NoSuchCommand) else error.option_name
            words = [*(error.ctx.command_path.split()[1:] if error.ctx else ()), name]
            if now := _GONE.get(" ".join(words)):
                raise click.UsageError(f"`{' '.join(words)}` was removed: {now}.", ctx=error.ctx) from None
            raise
        except ModuleNotFoundError as error:
            from mlir_release.ground.programs.needs import missing_of

            if (lacking := missing_of(error, ctx.invoked_subcommand or "")) is not None:
                raise lacking from None
            raise
        except BrokenPipeError as error:
            raise _of_pipe(error) from error
        except OSError as error:
            from mlir_release.cli.options import of_place

            if (told := of_place(ctx, error)) is not None:
                raise told from None
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As any group. But click suggests only commands that are imported, and here they aren't yet."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The names in the table of contents, and the global options. click would import every command for this."""
        from click.shell_completion import CompletionItem

        names = {name: line for _, name, line in _contents() if name.startswith(incomplete)}
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=line) for name, line in names.items()), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of contents, by heading."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for heading, name, line in _contents():
            headings.setdefault(heading, []).append((name, line))
        for heading, rows in headings.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def _of_pipe(error: BrokenPipeError) -> BaseException:
    """The end of a command whose output nobody reads any more, or the error if another program's pipe broke."""
    try:
        sys.stdout.flush()  # what could not be written is still there
    except BrokenPipeError:
        return SystemExit(141)  # 128 and SIGPIPE
    return unexpected(error)


def _contents() -> Iterator[tuple[str, str, str]]:
    """Heading, name and description of every command. No command is imported."""
    for name, (heading, line) in COMMANDS.items():
        yield heading, name, line
    for name, points in plugins.plugins(plugins.COMMANDS).items():
        for point in points:
            clash = plugins.clash(points, trunk=name in COMMANDS)
            line = f"Can't be used: {clash}." if clash else plugins.summary(point)
            yield "Extras" if point.is_ours else f"Extras of {point.distribution}", name, line


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="mlir-release")
@click.option("-q", "--quiet", is_flag=True, help="No progress; only results, warnings and errors.")
def app(quiet: bool) -> None:
    """Ship wheels of the MLIR Python bindings.

    \b
    A first look:     mlir-release rehearsal
    What comes next:  mlir-release tag next --forge build/rehearsal/forge
    A wheel:          mlir-release wheels inspect FILE

    Every command can be run again after a crash. Exit codes: 0 done, 2 usage, 3 environment, 4 conflict,
    5 forge, 6 verification, 7 needs a person.

    \b
    Completion in bash (for zsh and fish: zsh_source, fish_source):
      eval "$(_MLIR_RELEASE_COMPLETE=bash_source mlir-release)"
    """
    console.quiet = quiet


def main(command: Callable[..., object] = app, name: str = "mlir-release") -> None:
    """Entry point of ``mlir-release``: every failure becomes one message and an exit code, never a traceback.

    :param command: the repository's own tools that are commands end so, too
    """
    # A pipe on Windows has the ANSI code page else, which lacks our characters. Everybody takes UTF-8.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = int(ExitCode.ENVIRONMENT)
    try:
        code = _run(command, name)
    except SystemExit as ended:  # also where nobody reads an error
        code = ended.code if isinstance(ended.code, int) else int(ExitCode.INTERNAL)
    except OSError:  # our messages go to a full disk: nothing can be said
        pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # Python would try again at its end, and complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _run(command: Callable[..., object], name: str) -> int:
    try:
        # Without click's standalone mode, a command's Context.exit(code) comes back as the return value.
        code = command(prog_name=name, standalone_mode=False)
        return code if isinstance(code, int) else int(ExitCode.OK)
    except ReleaseError as error:
        failure = error
    except click.ClickException as error:
        message = StringIO()
        error.show(message)
        console.usage(message.getvalue())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        console.say("interrupted; run the same command again to resume")
        return 130
    except Exception as error:
        failure = unexpected(error)
    console.error(failure)
    return int(failure.exit_code)


def unexpected(error: Exception) -> ReleaseError:
    """What a person is told of an exception that no command expected. The traceback is kept in a file."""
    import tempfile
    import traceback

    trace = visible("".join(traceback.format_exception(error)))
    said = traceback.format_exception_only(error)[-1].strip()[:500]
    if os.environ.get("MLIR_RELEASE_TRACEBACK"):
        console.usage(trace)
    if isinstance(error, OSError):
        return MachineError(
            "system-refused",
            f"the system refused something: {error.strerror or said}",
            where=" and ".join(str(name) for name in (error.filename, error.filename2) if name is not None),
        )
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="mlir-release-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(trace)
            where = file.name
    except OSError:
        where = ""
    if isinstance(error, MemoryError | RecursionError | UnicodeError) or "embedded null" in said:
        return MachineError(
            "input-unusable",
            f"this machine can't process an input: {said}",
            where=where,
            why="a file or an answer is too large, too deeply nested, or not text",
        )
    return ReleaseError(
        "internal-error",
        f"a bug of mlir-release: {said}",
        where=where,
        remedy="report it with the command and that file; MLIR_RELEASE_TRACEBACK=1 shows the traceback here",
    )
