"""One documented command in an empty environment: what it should do, and what it did."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.storage.files import read_text
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.install_check import check_import, clean_environment, run_pip
from mlir_release.release.instructions.lockfiles import locks_all

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.instructions.install_snippets import Command, ProjectForm
    from mlir_release.release.model.manifest import Manifest, WheelEntry

#: Seconds for one of them: Poetry reads the metadata of every wheel that the page links.
LIMIT = 600

#: How much of a complaint is shown: PDM and Poetry end theirs with advice.
LINES = 3

#: What begins the names of variables that are settings of these tools, or an environment that is not this one.
_SETTINGS = ("UV_", "PDM_", "POETRY_", "VIRTUAL_ENV")


@dataclass(frozen=True, kw_only=True)
class ProbeStep:
    """One command with one CPython: what it should do and what it did."""

    command: Command | ProjectForm
    python: str  #: ``3.12.1``
    wanted: str  #: the wheel's file name; empty: the command must fail
    got: str  #: what arrived, or the end of the tool's complaint
    passed: bool
    seconds: float

    def text(self) -> str:
        """Two lines: what was typed, and what came of it."""
        verdict = "ok" if self.passed else "WRONG"
        outcome = f"{self.got} ({format_seconds(self.seconds)})"
        return f"{verdict}: CPython {self.python}: {self.command.text}\n      {outcome}"


def try_download(
    command: Command,
    python: Path,
    interpreter: Python,
    wheel: WheelEntry | None,
    older: Collection[str],
    downloads: Path,
    pip_options: Sequence[str],
) -> ProbeStep:
    """Run a command of pip's as a download.

    :param python: of the empty environment
    :param wheel: that has to arrive; None: the command has to fail
    :param older: wheels that may arrive instead
    """
    start = time.monotonic()
    options = ["--no-cache-dir", "--no-deps", "--dest", str(downloads), *pip_options]
    done = run_pip(python, "download", *options, *command.arguments)
    arrived = sorted(downloads.iterdir()) if downloads.is_dir() else []
    if done.returncode == 0 and arrived:
        got = ", ".join(path.name for path in arrived)
        if wheel is not None and got == wheel.filename and sha256_of(arrived[0]) != wheel.sha256:
            got += " with another digest than the manifest's"
    else:
        got = _complaint(done.stderr) if done.returncode else "nothing arrived, and pip did not complain"
    wanted = wheel.filename if wheel else got if got in older else ""
    right = got == wanted if wanted else done.returncode != 0 and not arrived
    return _done(command, interpreter, start, wanted, got, passed=right)


def install_whole(
    command: Command,
    python: Path,
    interpreter: Python,
    manifest: Manifest,
    wheel: WheelEntry,
    pip_options: Sequence[str],
) -> ProbeStep:
    """Really install, dependencies too if they can be had, and import."""
    start = time.monotonic()
    without = () if "--no-index" not in pip_options else ("--no-deps",)
    done = run_pip(python, "install", "--no-cache-dir", *without, *pip_options, *command.arguments)
    problem = _complaint(done.stderr) if done.returncode else ""
    if not problem:
        done = check_import(python, wheel, tag=manifest.tag, revision=manifest.revision, lenient=bool(without))
        problem = _complaint(done.stderr) if done.returncode else ""
    got = problem or f"installed; imported {', '.join(done.stdout.split())}"
    return _done(command, interpreter, start, wheel.filename, got, passed=not problem)


def try_lock_files(
    commands: Sequence[Command],
    distribution: str,
    python: Path,
    interpreter: Python,
    manifest: Manifest,
    wheel: WheelEntry | None,
    folder: Path,
    tools: Mapping[str, Path],
) -> list[ProbeStep]:
    """Install a release's lock file with each tool that reads it, into an empty environment of its own.

    No index is named, and the whole distribution is imported: its dependencies have to come from the lock, too.

    :param python: of an environment whose pip is tried
    :param wheel: None: the commands have to fail
    """
    if not locks_all(manifest, distribution):
        console.say("    pylock.toml is not tried: in older releases it lacks the dependencies")
        return []
    steps = []
    for command in commands:
        by_uv: Sequence[str | Path] | None = [tools["uv"], "pip"] if "uv" in tools else None
        program = by_uv if command.tool == "uv" else _lock_reader(python)
        if program is not None:
            steps.append(_install_lock(command, program, interpreter, manifest, wheel, folder / command.tool))
    return steps


def _lock_reader(python: Path) -> Sequence[str | Path] | None:
    """The words that begin a call of a pip that reads ``pylock.toml``; None, and a line about it, if it can't be had.

    CPython comes with an older one: then it is the toolkit's own, if that is new enough.
    """
    found = ""
    for executable in (python, Path(sys.executable)):
        match = re.match(r"pip (\d+)\.(\d+)", run_pip(executable, "--version").stdout)
        if match and (int(match[1]), int(match[2])) >= install_snippets.LOCK_READER:
            return [executable, "-m", "pip"]
        found = found or (match[0] if match else "no pip")
    oldest = ".".join(map(str, install_snippets.LOCK_READER))
    console.say(f"    pylock.toml is not tried with pip: {found} does not read it, {oldest} does")
    return None


def _install_lock(
    command: Command,
    program: Sequence[str | Path],
    interpreter: Python,
    manifest: Manifest,
    wheel: WheelEntry | None,
    folder: Path,
) -> ProbeStep:
    start = time.monotonic()
    python = venv.create(folder, interpreter.executable).python
    environment = {name: value for name, value in clean_environment().items() if not name.startswith(_SETTINGS)}
    if command.tool == "uv":
        words = [*program, "install", "--quiet", "--no-config", "--no-cache", "--python", python]
    else:
        words = [*program, "--python", python, "--disable-pip-version-check", "--no-input", "install", "--no-cache-dir"]
    done = capture([*words, *command.arguments], environment=environment, timeout=LIMIT)
    problem = "" if done.ok else _complaint(done.stderr)
    if done.ok and wheel is not None:
        done = check_import(python, wheel, tag=manifest.tag, revision=manifest.revision, lenient=False)
        problem = "" if done.ok else _complaint(done.stderr)
    wanted = wheel.filename if wheel is not None else ""
    got = problem or f"installed; imported {', '.join(done.stdout.split())}"
    return _done(command, interpreter, start, wanted, got, passed=bool(problem) == (wheel is None))


def lock_project(form: ProjectForm, program: Path, python: Python, wheel: WheelEntry, folder: Path) -> ProbeStep:
    """Lock an empty project in ``folder``: the wheel that fits ``python`` must be in the lock, with its digest."""
    start = time.monotonic()
    folder.mkdir(parents=True)
    head = f'[project]\nname = "probe"\nversion = "0"\nrequires-python = "=={python.short_version}.*"\n'
    (folder / "pyproject.toml").write_text(head + form.lines + "\n", encoding="utf-8")
    environment = {name: value for name, value in clean_environment().items() if not name.startswith(_SETTINGS)}
    caches = {f"{name}_CACHE_DIR": str(folder / "cache") for name in ("UV", "PDM", "POETRY")}
    chosen = {"UV_PYTHON": str(python.executable), "PDM_PYTHON": str(python.executable), "PDM_CHECK_UPDATE": "0"}
    path = {"PATH": os.pathsep.join((str(python.executable.parent), environment.get("PATH", "")))}  # Poetry looks there
    done = capture([program, "lock"], environment=environment | caches | chosen | path, cwd=folder, timeout=LIMIT)
    lock = folder / f"{form.tool}.lock"
    text = read_text(lock) if lock.is_file() else ""
    right = done.returncode == 0 and wheel.filename in text and wheel.sha256 in text
    if right:
        got = f"locked {wheel.filename}"
    elif done.returncode == 0:
        got = "a lock without that wheel"
    else:
        said = (done.stderr.strip() or done.stdout.strip() or done.ending).splitlines()
        got = " / ".join(line.strip() for line in said[-LINES:])
    return _done(form, python, start, wheel.filename, got, passed=right)


def _done(
    command: Command | ProjectForm, python: Python, start: float, wanted: str, got: str, *, passed: bool
) -> ProbeStep:
    seconds = time.monotonic() - start
    return ProbeStep(command=command, python=python.name, wanted=wanted, got=got, passed=passed, seconds=seconds)


def _complaint(stderr: str) -> str:
    """What pip says went wrong: its errors, else its last words."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no output"])[-1]
