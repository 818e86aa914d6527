"""The clean-environment check: the documented commands, run with nothing but the pages, in empty environments.

pip downloads and installs; pip and uv install the lock file, dependencies included; uv, PDM and Poetry lock a project
that names the release's page.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import Python, describe
from mlir_release.ground.storage.files import read_text
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.index.generate import read_known
from mlir_release.release.index.observe import observe
from mlir_release.release.index.pages import Pages
from mlir_release.release.index.site import FOLDERS, Channel
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.install_check import best_wheel, check_import, clean_environment, run_pip
from mlir_release.release.instructions.lockfiles import locks_all, pylock_name, requirements_name
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.instructions.install_snippets import Command, ProjectForm
    from mlir_release.release.model.manifest import Manifest, WheelEntry
    from mlir_release.release.model.release_tags import Kind

#: Seconds for one of them: Poetry reads the metadata of every wheel that the page links.
LIMIT = 600

#: How much of a complaint is shown: PDM and Poetry end theirs with advice.
LINES = 3

#: What begins the names of variables that are settings of these tools, or an environment that is not this one.
_SETTINGS = ("UV_", "PDM_", "POETRY_", "VIRTUAL_ENV")

_IMPORTED = "installed; imported "


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


@dataclass(frozen=True, kw_only=True)
class ProbeOutcome:
    """All that was tried."""

    tag: str
    steps: tuple[ProbeStep, ...]

    @property
    def installed(self) -> tuple[ProbeStep, ...]:
        """The steps in which a wheel arrived, as it should."""
        return tuple(step for step in self.steps if step.passed and step.wanted)

    @property
    def refused(self) -> tuple[ProbeStep, ...]:
        """The steps in which pip failed, as it should."""
        return tuple(step for step in self.steps if step.passed and not step.wanted)

    def text(self) -> str:
        """A line a step."""
        return "\n".join([f"{self.tag}, in a clean environment:", *(f"  {step.text()}" for step in self.steps)])


@dataclass(kw_only=True)
class Patience:
    """How long what fails is tried again: GitHub's cache may serve old pages for ten minutes after a change."""

    seconds: float = 0.0  #: from the first command on
    pause: float = 30.0  #: seconds between two tries
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _end: float | None = None

    def begin(self) -> None:
        """The first command is about to run."""
        self._end = self.clock() + self.seconds

    def again(self) -> bool:
        """Wait; False, at once, if the time is over."""
        left = (self._end or 0.0) - self.clock()
        if left <= 0:
            return False
        self.sleep(min(self.pause, left))
        return True


@dataclass(frozen=True, kw_only=True)
class CleanRoom:
    """What commands are tried with."""

    pythons: Sequence[Path]
    #: Given to every command (``--index-url …``, ``--no-index``); pip's own settings hold otherwise, but no variables.
    pip_options: Sequence[str] = ()
    tools: Mapping[str, Path] = field(default_factory=dict)  #: of the forms for projects; one without its is not tried
    patience: Patience = field(default_factory=Patience)  #: for how long what does something else is tried again


@dataclass(frozen=True)
class CleanEnvironment:
    """An empty environment, in which the commands of a release are tried.

    :param interpreter: the CPython that it was made with
    :param python: its own
    """

    room: CleanRoom
    manifest: Manifest
    interpreter: Python
    python: Path

    def download(
        self, command: Command, wheel: WheelEntry | None, older: Collection[str], downloads: Path
    ) -> ProbeStep:
        """Run a command of pip's as a download.

        :param wheel: that has to arrive; None: the command has to fail
        :param older: wheels that may arrive instead
        """
        start = time.monotonic()
        options = ["--no-cache-dir", "--no-deps", "--dest", str(downloads), *self.room.pip_options]
        done = run_pip(self.python, "download", *options, *command.arguments)
        arrived = sorted(downloads.iterdir()) if downloads.is_dir() else []
        if done.returncode == 0 and arrived:
            got = ", ".join(path.name for path in arrived)
            if wheel is not None and got == wheel.filename and sha256_of(arrived[0]) != wheel.sha256:
                got += " with another digest than the manifest's"
        else:
            got = _complaint(done.stderr) if done.returncode else "nothing arrived, and pip did not complain"
        wanted = wheel.filename if wheel else got if got in older else ""
        right = got == wanted if wanted else done.returncode != 0 and not arrived
        return self._done(command, start, wanted, got, passed=right)

    def install(self, command: Command, wheel: WheelEntry) -> ProbeStep:
        """Really install, dependencies too if they can be had, and import."""
        start, options = time.monotonic(), self.room.pip_options
        without = () if "--no-index" not in options else ("--no-deps",)
        done = run_pip(self.python, "install", "--no-cache-dir", *without, *options, *command.arguments)
        problem = _complaint(done.stderr) if done.returncode else ""
        got = problem or self._imported(self.python, wheel, lenient=bool(without))
        return self._done(command, start, wheel.filename, got, passed=got.startswith(_IMPORTED))

    def install_locks(
        self, commands: Sequence[Command], distribution: str, wheel: WheelEntry | None, folder: Path
    ) -> list[ProbeStep]:
        """Install a release's lock file with each tool that reads it, into an empty environment of its own.

        No index is named, and the whole distribution is imported: its dependencies have to come from the lock, too.

        :param wheel: None: the commands have to fail
        """
        if not locks_all(self.manifest, distribution):
            console.say("    pylock.toml is not tried: in older releases it lacks the dependencies")
            return []
        steps, uv = [], self.room.tools.get("uv")
        for command in commands:
            by_uv: Sequence[str | Path] | None = [uv, "pip"] if uv is not None else None
            program = by_uv if command.tool == "uv" else _lock_reader(self.python)
            if program is not None:
                steps.append(self._install_lock(command, program, wheel, folder / command.tool))
        return steps

    def _install_lock(
        self, command: Command, program: Sequence[str | Path], wheel: WheelEntry | None, folder: Path
    ) -> ProbeStep:
        start = time.monotonic()
        python = venv.create(folder, self.interpreter.executable).python
        if command.tool == "uv":
            words = [*program, "install", "--quiet", "--no-config", "--no-cache", "--python", python]
        else:
            options = ("--disable-pip-version-check", "--no-input", "install", "--no-cache-dir")
            words = [*program, "--python", python, *options]
        done = capture([*words, *command.arguments], environment=_without_settings(), timeout=LIMIT)
        got = _IMPORTED if done.ok else _complaint(done.stderr)
        if done.ok and wheel is not None:
            got = self._imported(python, wheel, lenient=False)
        wanted = wheel.filename if wheel is not None else ""
        return self._done(command, start, wanted, got, passed=got.startswith(_IMPORTED) == (wheel is not None))

    def lock_project(self, form: ProjectForm, wheel: WheelEntry, folder: Path) -> ProbeStep:
        """Lock an empty project in ``folder``: the wheel that fits must be in the lock, with its digest."""
        start, python = time.monotonic(), self.interpreter
        folder.mkdir(parents=True)
        head = f'[project]\nname = "probe"\nversion = "0"\nrequires-python = "=={python.short_version}.*"\n'
        (folder / "pyproject.toml").write_text(head + form.lines + "\n", encoding="utf-8")
        environment = _without_settings()
        environment |= {f"{name}_CACHE_DIR": str(folder / "cache") for name in ("UV", "PDM", "POETRY")}
        environment |= {f"{name}_PYTHON": str(python.executable) for name in ("UV", "PDM")} | {"PDM_CHECK_UPDATE": "0"}
        # Poetry looks there.
        environment["PATH"] = os.pathsep.join((str(python.executable.parent), environment.get("PATH", "")))
        done = capture([self.room.tools[form.tool], "lock"], environment=environment, cwd=folder, timeout=LIMIT)
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
        return self._done(form, start, wheel.filename, got, passed=right)

    def _imported(self, python: Path, wheel: WheelEntry, *, lenient: bool) -> str:
        """What was imported, or why nothing was."""
        manifest = self.manifest
        done = check_import(python, wheel, tag=manifest.tag, revision=manifest.revision, lenient=lenient)
        return _complaint(done.stderr) if done.returncode else _IMPORTED + ", ".join(done.stdout.split())

    def _done(self, command: Command | ProjectForm, start: float, wanted: str, got: str, *, passed: bool) -> ProbeStep:
        seconds, python = time.monotonic() - start, self.interpreter.name
        return ProbeStep(command=command, python=python, wanted=wanted, got=got, passed=passed, seconds=seconds)


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


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in clean_environment().items() if not name.startswith(_SETTINGS)}


def _complaint(stderr: str) -> str:
    """What pip says went wrong: its errors, else its last words."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no output"])[-1]


def find_tools(names: Iterable[str]) -> dict[str, Path]:
    """The programs of PATH. :raises MachineError: ``tool-missing``"""
    found = {name: shutil.which(name) for name in names}
    missing = [name for name, program in found.items() if program is None]
    if missing:
        raise MachineError(
            "tool-missing",
            f"not on PATH: {', '.join(missing)}",
            remedy=f"pipx install {' '.join(missing)}, or leave out --installer",
        )
    return {name: Path(program) for name, program in found.items() if program is not None}


def documented(manifest: Manifest, base_url: str, *, own: Iterable[Command] = (), newest: bool = True) -> list[Command]:
    """The commands that the pages at ``base_url`` give for the first distribution of each of a release's projects.

    :param own: what the release's own page on the forge shows (``install_snippets.own_commands``)
    :param newest: also those that name no version, which lead to the newest release
    """
    pages, folder = Pages(base_url=base_url), FOLDERS[manifest.kind]
    here = f"{folder}/{manifest.tag}"
    found: list[Command] = []
    for name in manifest.heads:
        pinned, latest = (requirements_name(manifest, name, tag=tag) for tag in (manifest.tag, ""))
        mine = [
            install_snippets.pinned(f"{pages.url}{here}/{pinned}"),
            install_snippets.exact(pages.where(here), name, manifest.version),
        ]
        if newest:
            mine += [
                install_snippets.newest(f"{pages.url}{folder}/latest/{latest}"),
                install_snippets.by_page(pages.where(f"{folder}/latest"), manifest.kind, name),
                install_snippets.by_index(f"{pages.url}{folder}/simple/", manifest.kind, name),
            ]
        found += [replace(command, distribution=name) for command in mine]
    return [*found, *own]


def probe_published(
    forge: Forge,
    output: Path,
    tag: str,
    room: CleanRoom,
    *,
    base_url: str,
    branch: str,
) -> ProbeOutcome:
    """:func:`probe` of a release that the pages in ``output`` show.

    :raises UsageError: ``release-not-published``; :raises VerificationError: ``tests-failed``
    """
    with scratch_folder("probe") as scratch:
        known = read_known(forge, output, base_url, scratch)
        published, _ = observe(Ledger(forge, whole=not known), known, scratch, signed_by=SignedBy(branch=branch))
    kind: Kind = "numbered" if tag.startswith("llvm-") else "snapshot"
    channel = Channel.of(kind, published)
    release = channel.by_tag.get(tag)
    if release is None:
        raise UsageError("release-not-published", f"no published release is called {tag}", where=forge.description)
    return probe(
        release.manifest,
        base_url,
        room,
        own=install_snippets.own_commands(forge, release.manifest),
        newest=release in channel.offered[:1],
        older=[link.wheel.filename for other in channel.offered[1:] for link in other.links],
    )


def probe(
    manifest: Manifest,
    base_url: str,
    room: CleanRoom,
    *,
    own: Iterable[Command] = (),
    newest: bool = True,
    older: Collection[str] = (),
) -> ProbeOutcome:
    """Run every documented command as someone who has only the pages would.

    With a CPython that a wheel fits, that very wheel must arrive, with the manifest's digest, and the first command's
    is then installed and imported; with any other, pip must fail and not fall back to something else of that name.

    :param newest: the release is the newest of its kind that is not yanked (and no release candidate), so that the
        commands that name no version must lead to it
    :param own: see :func:`documented`
    :param older: wheels of older releases, which pip may rightly choose where this release has none that fits
    :raises VerificationError: ``tests-failed``, with every command that did something else
    """
    if not room.pythons:
        raise UsageError("option-invalid", "name at least one CPython to probe with", remedy="--python PATH")
    tried = documented(manifest, base_url, own=own, newest=newest)
    page = f"{Pages(base_url=base_url).url}{FOLDERS[manifest.kind]}/{manifest.tag}/"
    wheels = {name: [wheel for wheel in manifest.wheels if wheel.distribution == name] for name in manifest.heads}
    steps: list[ProbeStep] = []
    room.patience.begin()
    for interpreter in map(describe, room.pythons):
        with console.step(f"in a clean environment with CPython {interpreter.name}"), scratch_folder("clean") as folder:
            python = venv.create(folder / "environment", interpreter.executable, pip=True).python
            clean = CleanEnvironment(room, manifest, interpreter, python)
            fitting = {name: best_wheel(mine, interpreter) for name, mine in wheels.items()}
            mine: dict[int, ProbeStep] = {}
            while True:
                for number, command in enumerate(tried):
                    if number not in mine or not mine[number].passed:
                        shutil.rmtree(downloads := folder / str(number), ignore_errors=True)
                        allowed = older if command.label in ("newest", "page", "index") else ()
                        wheel = fitting[command.distribution or manifest.heads[0]]
                        mine[number] = clean.download(command, wheel, allowed, downloads)
                if all(step.passed for step in mine.values()) or not room.patience.again():
                    break
                console.say("    not yet as it should be: trying again what failed, as caches may serve old pages")
            steps += mine.values()
            for name, wheel in fitting.items():
                first = next(command for command in tried if command.distribution in ("", name))
                if wheel is not None and all(step.passed for step in steps):
                    steps.append(clean.install(first, wheel))
                locks = install_snippets.locked(page + pylock_name(manifest, name))
                place = folder / name
                steps += clean.install_locks(locks, name, wheel, place / "locks")
                if wheel is not None:
                    steps += [
                        clean.lock_project(form, wheel, place / "projects" / form.tool)
                        for form in install_snippets.projects(page, name, manifest.version, manifest.project_of(name))
                        if form.tool in room.tools
                    ]
    outcome = ProbeOutcome(tag=manifest.tag, steps=tuple(steps))
    wrong = [step.text() for step in steps if not step.passed]
    if wrong:
        raise VerificationError(
            "tests-failed",
            f"{len(wrong)} of {len(steps)} documented commands do not do what they should",
            where=base_url,
            why="\n    ".join(["", *wrong]),
            remedy="regenerate the pages (mlir-release index); if they were deployed just now, wait for the host's "
            "cache and probe again; if the release itself is wrong, yank it",
        )
    return outcome
