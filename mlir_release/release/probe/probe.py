"""The clean-environment check: the documented commands, run with nothing but the pages, in empty environments.

pip downloads and installs; pip and uv install the lock file, dependencies included; uv, PDM and Poetry lock a project
that names the release's page.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.python import venv
from mlir_release.ground.python.pythons import describe
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.index.generate import read_known
from mlir_release.release.index.observe import observe
from mlir_release.release.index.pages import Pages
from mlir_release.release.index.site import FOLDERS, Channel
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.install_check import best_wheel
from mlir_release.release.instructions.lockfiles import pylock_name, requirements_name
from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.probe.probe_steps import ProbeStep, install_whole, lock_project, try_download, try_lock_files
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.instructions.install_snippets import Command
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.model.release_tags import Kind


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
    pip_options, tools = room.pip_options, room.tools
    room.patience.begin()
    for interpreter in map(describe, room.pythons):
        with console.step(f"in a clean environment with CPython {interpreter.name}"), scratch_folder("clean") as folder:
            python = venv.create(folder / "environment", interpreter.executable, pip=True).python
            fitting = {name: best_wheel(mine, interpreter) for name, mine in wheels.items()}
            mine: dict[int, ProbeStep] = {}
            while True:
                for number, command in enumerate(tried):
                    if number not in mine or not mine[number].passed:
                        shutil.rmtree(downloads := folder / str(number), ignore_errors=True)
                        allowed = older if command.label in ("newest", "page", "index") else ()
                        wheel = fitting[command.distribution or manifest.heads[0]]
                        mine[number] = try_download(
                            command, python, interpreter, wheel, allowed, downloads, pip_options
                        )
                if all(step.passed for step in mine.values()) or not room.patience.again():
                    break
                console.say("    not yet as it should be: trying again what failed, as caches may serve old pages")
            steps += mine.values()
            for name, wheel in fitting.items():
                first = next(command for command in tried if command.distribution in ("", name))
                if wheel is not None and all(step.passed for step in steps):
                    steps.append(install_whole(first, python, interpreter, manifest, wheel, pip_options))
                locks = install_snippets.locked(page + pylock_name(manifest, name))
                place = folder / name
                steps += try_lock_files(locks, name, python, interpreter, manifest, wheel, place / "locks", tools)
                if wheel is not None:
                    steps += [
                        lock_project(form, tools[form.tool], interpreter, wheel, place / "projects" / form.tool)
                        for form in install_snippets.projects(page, name, manifest.version, manifest.project_of(name))
                        if form.tool in tools
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
