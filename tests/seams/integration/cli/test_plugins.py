"""Somebody else's distribution adds a command, clashes, or is broken: wheels, installed by pip beside this toolkit."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[4]

HELLO = '''"""Greet whoever calls."""
import click

@click.command()
@click.argument("name")
def hello(name: str) -> None:
    """Greet NAME."""
    click.echo(f"hello {name}")
'''


class PluginEnvironment:
    """An environment that sees this toolkit with its extras, and what is installed into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        self.python = folder / "venv" / scripts / "python"
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.site = Path(
            subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        )
        here = [path for path in sys.path if path.endswith("site-packages")]
        (self.site / "toolkit.pth").write_text("\n".join([str(ROOT), *here, "import site"]) + "\n")

    def install(self, name: str, files: Mapping[str, str], points: str) -> None:
        """Make a wheel by hand and install it."""
        wheel = self.folder / f"{name}-1.0-py3-none-any.whl"
        info = f"{name}-1.0.dist-info"
        members = {
            **files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": points,
        }
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in members.items():
                archive.writestr(path, text)
            archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"]))
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q", "--no-index", "--no-deps"]
        subprocess.run([*pip, str(wheel)], check=True, capture_output=True)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-m", "mlir_release", *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def refuses(self, *words: str) -> str:
        """Check that a command ends with one error of a plug-in. Returns what it says."""
        done = self.run(*words)
        assert done.returncode == 3
        assert "error[plugin-unusable]" in done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> PluginEnvironment:
    made = PluginEnvironment(tmp_path_factory.mktemp("plugins"))
    made.install("hello", {"hello.py": HELLO}, "[mlir_release.commands]\nhello = hello:hello\n")
    same = "[mlir_release.commands]\npublish = imitator:hello\nrehearsal = imitator:hello\ntwice = imitator:hello\n"
    made.install("imitator", {"imitator.py": "raise SystemExit('imported')\n"}, same)
    points = "broken = broken:command\nstrange = hello:HELLO\nnumbered = json:dumps\ntwice = broken:command\n"
    broken = '"""Fail."""\nimport no_such_module\n'
    made.install("broken", {"broken.py": broken}, f"[mlir_release.commands]\n{points}")
    return made


def test_an_installed_distribution_adds_a_command(environment: PluginEnvironment) -> None:
    assert environment.run("hello", "world").stdout == "hello world\n"
    assert "Greet NAME." in environment.run("hello", "--help").stdout


def test_help_names_the_distribution_and_imports_no_plug_in(environment: PluginEnvironment) -> None:
    done = environment.run("--help")
    assert done.returncode == 0, done.stderr
    ours, theirs = done.stdout.partition("Extras:")[2].split("Extras of ", 1)
    assert "conda " in ours
    assert "hello" in theirs.partition("hello 1.0:\n")[2]
    assert "Greet whoever calls." in theirs
    assert "Fail." in theirs  # read, and not imported


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("publish", "the toolkit itself and imitator 1.0 have the same name"),
        ("twice", "broken 1.0 and imitator 1.0 have the same name"),
    ],
)
def test_a_clash_is_one_error_and_nobodys_command(environment: PluginEnvironment, command: str, said: str) -> None:
    told = environment.refuses(command, "x")
    assert said in told
    assert "uninstall" in told
    assert said in " ".join(environment.run("--help").stdout.split())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("broken", "No module named 'no_such_module'"),
        ("strange", "has no attribute 'HELLO'"),
        ("numbered", "it is a function, and no command of click's"),
    ],
)
def test_what_can_not_be_imported_or_is_no_command_is_one_error_and_other_commands_work(
    environment: PluginEnvironment, command: str, said: str
) -> None:
    assert said in environment.refuses(command)
    assert json.loads(environment.run("matrix", "--json", "-C", str(ROOT)).stdout)["rows"]


def test_a_hook_that_can_not_be_imported_is_an_error_of_the_command_that_has_it(tmp_path: Path) -> None:
    environment = PluginEnvironment(tmp_path)
    environment.install("hook", {"hook.py": "1 / 0\n"}, "[mlir_release.pages]\nmine = hook\n")
    told = environment.refuses("index", "--help")
    assert "mine of hook 1.0 can't be used" in told
    assert "ZeroDivisionError" in told
    assert environment.run("rehearsal", "--help").returncode == 0


def test_a_hook_adds_an_option_to_the_command(tmp_path: Path) -> None:
    environment = PluginEnvironment(tmp_path)
    code = "import click\noptions = (click.option('--colour', help='Of the links.'),)\n"
    environment.install("hook", {"hook.py": code}, "[mlir_release.pages]\nmine = hook\n")
    assert "--colour" in environment.run("index", "--help").stdout
