"""The command line as a person meets it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mlir_release.cli.app import COMMANDS, app
from mlir_release.ground.errors import ReleaseError
from tests.wheel_factory import VERSION, make_wheel

ROOT = Path(__file__).parents[4]


def run(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlir_release", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_help_is_a_table_of_contents_and_imports_no_command() -> None:
    code = (
        "import sys; from mlir_release.cli.app import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "heavy = {'rich', 'msgspec', 'jinja2', 'packaging.version', 'cibuildwheel', 'auditwheel'}\n"
        "heavy.add('mlir_release.release.commands.release')\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


def test_no_module_of_a_command_imports_a_slow_library() -> None:
    code = (
        "import click, sys; from mlir_release.cli.app import COMMANDS, app\n"
        "assert all(app.get_command(click.Context(app), name) for name in COMMANDS)\n"
        "slow = {'rich', 'jinja2', 'packaging', 'msgspec', 'github', 'requests', 'yaml', 'subprocess'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("number 22.1.8", "mlir-release release start --version VERSION"),
        ("promote windows-x64 -n", "targets.toml"),
        ("first-run clean", "python -m tools.first_run"),
        ("integrate simulate --seeds 3", "python -m benchmarks.simulate"),
        ("integrate run --fix", "between `fix --json` and `fix --continue`"),
        ("integrate fix --take fix.json", "between `fix --json` and `fix --continue`"),
    ],
)
def test_a_command_that_was_removed_is_answered_with_what_replaces_it(words: str, now: str) -> None:
    done = run(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "was removed" in done.stderr
    assert now in done.stderr


LONG, ALMOST = "n" * 300, "n" * 253


@pytest.mark.parametrize(
    "words",
    [
        ("apidocs", LONG, "-o", "x"), ("apidocs", "WHEEL", "-o", LONG), ("bisect", "-r", LONG, "--", "true"),
        ("conda", "check", LONG), ("integrate", "-C", LONG, "status"), ("integrate", "report", "--log", LONG),
        ("matrix", "-C", LONG), ("mlgo", "report", LONG), ("pin", "show", "-C", LONG), ("pin", "set", "x", "-C", LONG),
        ("rehearsal", "--workspace", LONG), ("sdk", "import", LONG, "-o", "x"), ("sdk", "pack", LONG, "-o", "x"),
        ("sdk", "show", LONG), ("sdk", "unpack", LONG, "-o", "x"), ("sets", "show", LONG), ("sets", "show", ALMOST),
        ("tag", "list", "--forge", f"local:{LONG}"), ("verify", LONG), ("verify", "x", "--bundle", LONG),
        ("wheels", "build", "--sdk", LONG), ("wheels", "inspect", LONG), ("wheels", "inspect", "w\0.whl"),
        ("release", "diff", "a", "b", "--markdown", LONG), ("release", "reverts", "--clone", LONG),
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG").replace(ALMOST, "ALMOST").replace("\0", "NUL"),
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_told_with_its_option(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "WHEEL").write_bytes(b"")
    option = words[max(at for at, word in enumerate(words) if "nn" in word or "\0" in word) - 1]
    done = CliRunner().invoke(app, words, standalone_mode=False)
    error = done.exception
    assert isinstance(error, ReleaseError | click.UsageError), error
    said = f"{error.what} {error.why}" if isinstance(error, ReleaseError) else error.format_message()
    assert error.exit_code == 2
    assert "too long" in said or "null" in said or "does not exist" in said, said
    if option.startswith("-"):
        assert option in said


def test_a_place_that_turns_out_to_be_a_file_or_a_folder_is_told_with_its_option(tmp_path: Path) -> None:
    from mlir_release.cli.options import noted, of_place

    context = click.Context(app)
    for name, found, errno_ in (
        ("out", "out/a/b", errno.ENOTDIR), ("out", "out", errno.EISDIR), ("out", ".out.part", errno.EACCES),
    ):  # fmt: skip
        noted(context, click.Option(["--output"]), tmp_path / name)
        error = of_place(context, OSError(errno_, os.strerror(errno_), str(tmp_path / found)))
        assert error is not None
        assert (error.id, error.what, error.why) == ("option-invalid", "'--output' can't be used", os.strerror(errno_))
    assert of_place(context, OSError(errno.ENOSPC, "full", str(tmp_path / "out" / "a"))) is None
    assert of_place(context, OSError(errno.EACCES, "no", str(tmp_path / "elsewhere"))) is None


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, group)]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None, name
            found += commands(command, (*path, name))
    return found


each_command = pytest.mark.parametrize(
    ("path", "command"), commands(app), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)


@each_command
def test_every_command_explains_itself(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help, path
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, (path, parameter.name)


def mistyped(word: str) -> str:
    """A word whose last two letters were swapped, or that lacks the last one if they are the same."""
    start, last, end = word[:-2], word[-2], word[-1]
    return f"{start}{last}" if last == end else f"{start}{end}{last}"


@each_command
def test_every_mistyped_command_and_option_is_answered_with_a_suggestion(
    path: tuple[str, ...], command: click.Command
) -> None:
    context = click.Context(command, info_name=" ".join(path))
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    for name in names:
        with pytest.raises(click.NoSuchCommand) as unknown:
            command.resolve_command(context, [mistyped(name)])  # type: ignore[attr-defined]
        assert name in (unknown.value.possibilities or ()), mistyped(name)
    for option in (option for parameter in command.params for option in parameter.opts if option.startswith("--")):
        with pytest.raises(click.NoSuchOption) as missing:
            command.make_context("x", [mistyped(option)], **app.context_settings)
        assert option in (missing.value.possibilities or ()), mistyped(option)


def test_a_suggestion_is_printed() -> None:
    done = run("relase")
    assert done.returncode == 2
    assert "Did you mean 'release'?" in done.stderr
    assert "Did you mean" not in run("no-such-command").stderr


def complete(words: str) -> tuple[list[str], set[str]]:
    """What a shell is told for words of which the last is incomplete, and which modules were imported for it."""
    code = (
        "import sys; from mlir_release.cli.app import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    asked = {
        "_MLIR_RELEASE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"mlir-release {words}",
        "COMP_CWORD": str(len(f"x {words}x".split()) - 1),
        "MLIR_RELEASE_FORGE": "local:no-such-folder",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()], set(done.stderr.split())


def test_completion_imports_only_the_command_that_is_typed_and_asks_no_forge() -> None:
    names, modules = complete("")
    assert names[: len(COMMANDS)] == list(COMMANDS)
    assert "mlgo" in names  # an extra's
    assert {name for name in modules if name.startswith(("mlir_release.cli", "mlir_release.extras"))} <= {
        "mlir_release.cli",
        "mlir_release.cli.app",
    }
    names, modules = complete("release show --")
    assert {"--forge", "--json"} <= set(names)
    names, modules = complete("release show --forge github:owner/name --js")
    assert names == ["--json"]
    assert not {name for name in modules if name.startswith(("mlir_release.release.forge.", "github"))} - {
        "mlir_release.release.forge.open"
    }
    assert not {"rich", "jinja2", "packaging", "requests"} & modules


def test_exit_codes_and_json_errors(tmp_path: Path) -> None:
    done = run("pin", "show", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == "pin-invalid"
    assert "error[pin-invalid]" in done.stderr


def test_a_wheel_with_problems_ends_with_the_verification_code(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={f"mlir-{VERSION}.dist-info/WHEEL": b"Tag: a-b\n"})
    done = run("wheels", "inspect", str(wheel))
    assert done.returncode == 6, done.stderr
    assert "problem[" in done.stdout
    wheel.write_bytes(b"no archive")
    assert run("wheels", "inspect", str(wheel)).returncode == 6
    assert run("wheels", "inspect", str(tmp_path / "none.whl")).returncode == 2
