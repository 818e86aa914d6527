"""Canaries: the tests of other projects, run as they are with the wheels of a published release.

Their code is foreign. It gets an environment, a checkout and a temporary folder of its own, no secrets, and a bound for
its time and its output. Everything before a project's own tests, from git to pip, can only make a canary *broken*,
which says nothing about the release.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.model.sdk_wheel_info import SDK_TOOLS, TEST_TOOLS
from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.documents.decode import alternatives
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.foreign import code, link, markdown, table, visible
from mlir_release.ground.git.remotes import try_fetch
from mlir_release.ground.git.repository import Git
from mlir_release.ground.job_names import canary_job
from mlir_release.ground.programs.process import LONGEST
from mlir_release.ground.python.platforms import executable_name
from mlir_release.ground.python.pythons import describe, find_executable
from mlir_release.ground.python.venv import create
from mlir_release.ground.storage.files import read_end
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.instructions.install_check import best_wheel
from mlir_release.release.model.release_index import CanaryResult
from mlir_release.use.bounded import run_bounded
from mlir_release.use.install import choose

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.ground.python.venv import VirtualEnvironment
    from mlir_release.release.judging.signed import TrustedRelease
    from mlir_release.release.model.canaries import CanaryTable
    from mlir_release.release.model.matrix import Matrix

#: Bytes that a canary may print. The largest of ours prints 200,000.
LOG_LIMIT = 16_000_000

#: Characters of a canary's last line that its result has.
_SAID = 200

#: Bytes at the end of a log in which the last line is looked for.
_TAIL = 4_000


class BrokenError(Exception):
    """A canary can't be tried; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The canaries that were run with a release; with ``dry_run``, that would be."""

    tag: str
    results: tuple[CanaryResult, ...]
    planned: tuple[CanaryTable, ...] = ()

    @property
    def worst(self) -> str:
        """``failed`` if any did, else ``broken`` if any is, else ``passed``."""
        found = {each.status for each in self.results}
        return next((status for status in ("failed", "broken") if status in found), "passed")

    def text(self) -> str:
        """A line each, and of planned ones their commands."""
        lines = [
            f"{each.name}: {each.status} with {self.tag} ({format_seconds(each.seconds)})"
            + (f": {each.said}" if each.said else "")
            for each in self.results
        ]
        for canary in self.planned:
            lines.append(f"{canary.name}: {canary.repository} at {canary.ref}, CPython {canary.cpython.version}")
            lines += [f"    {command}" for command in (*canary.prepare, *canary.commands)]
        return "\n".join(lines) or f"the matrix of {self.tag} has no [[canary]]"

    def to_json(self) -> dict[str, object]:
        """For ``--json`` and ``--output``."""
        return {"tag": self.tag, "results": self.results, "planned": [canary.name for canary in self.planned]}

    def markdown(self) -> str:
        """For a step summary."""
        rows = [
            [link(code(each.name), each.url), each.status, format_seconds(each.seconds), markdown(each.said)]
            for each in self.results
        ]
        return f"### Canaries of {markdown(self.tag)}\n\n{table(['canary', 'result', '>time', 'last line'], rows)}"


def chosen(matrix: Matrix, only: Sequence[str]) -> tuple[CanaryTable, ...]:
    """The matrix's canaries of these names; without a name all. :raises UsageError: ``option-invalid``"""
    known = {canary.name: canary for canary in matrix.canaries}
    for name in only:
        if name not in known:
            raise UsageError(
                "option-invalid",
                f"{matrix.file} has no canary {name!r}",
                why=alternatives(name, known) if known else f"{matrix.file} has no [[canary]]",
                remedy="name one of its canaries",
            )
    return tuple(known[name] for name in (only or known))


def jobs(canaries: Sequence[CanaryTable], tag: str) -> list[dict[str, str]]:
    """The rows of GitHub's matrix. ``minutes``: what the job may take, its preparation included."""
    return [
        {
            "name": canary.name,
            "job": canary_job(canary.name, tag),
            "python": canary.cpython.version,
            "minutes": str(min(canary.timeout + round(LONGEST / 60) + 30, 350)),
        }
        for canary in canaries
    ]


def try_canaries(
    trusted: TrustedRelease, canaries: Sequence[CanaryTable], *, sdk: Path | None = None, logs: Path | None = None
) -> Tried:
    """Run canaries one after the other, each in places of its own.

    :param sdk: an SDK of the same LLVM, for the programs that canaries need and the release has no wheel of
    :param logs: keeps the log of each, as ``<name>.log``
    """
    results = []
    for canary in canaries:
        with console.step(f"try {canary.name}"):
            result = _try(trusted, canary, sdk, logs)
        console.say(f"    {result.status}: {result.said}")
        results.append(result)
    return Tried(tag=trusted.manifest.tag, results=tuple(results))


def _try(trusted: TrustedRelease, canary: CanaryTable, sdk: Path | None, logs: Path | None) -> CanaryResult:
    start, commit = time.monotonic(), ""
    with scratch_folder("canary") as folder:
        log = folder / f"{canary.name}.log"
        try:
            commit = _check_out(canary, folder / "checkout")
            environment = _install(trusted, canary, folder)
            tools = _programs(trusted, canary, environment, sdk, folder / "tools")
            failed = _run(canary, folder, log, environment.variables(_variables(environment, tools, folder)))
            status, said = ("failed", failed) if failed else ("passed", _last_line(log))
        except BrokenError as error:
            status, said = "broken", str(error)
        except (ReleaseError, OSError) as error:
            why = error.why if isinstance(error, ReleaseError) else ""
            status, said = "broken", f"{error.what if isinstance(error, ReleaseError) else error}: {why}"
        if log.is_file():
            console.fold(canary.name, log.read_text(encoding="utf-8", errors="replace").splitlines()[-2000:])
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(log, logs / log.name)
    return CanaryResult(
        name=canary.name,
        status=status,  # type: ignore[arg-type]  # mypy widens the literals
        commit=commit,
        seconds=round(time.monotonic() - start),
        said=_line(said),
    )


def _check_out(canary: CanaryTable, folder: Path) -> str:
    """A fresh checkout of the ref alone, without submodules, and without hooks or filters of others; its commit."""
    folder.mkdir()
    git = Git(folder)
    git.run("init", "--quiet", "--template=")
    fetched, said = try_fetch(git, canary.repository, canary.ref, "--depth=1")
    if not fetched:
        raise BrokenError(f"{canary.repository} has no {canary.ref}, or can't be read: {said.strip()}")
    git.run("-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", "FETCH_HEAD")
    commit = git.resolve("HEAD") or ""
    if canary.commit not in ("", commit):
        raise BrokenError(f"{canary.repository} gave {commit} instead of {canary.commit}")
    return commit


def _install(trusted: TrustedRelease, canary: CanaryTable, folder: Path) -> VirtualEnvironment:
    """An environment with the release's wheel, whose digest and signature were checked, and the requirements."""
    python = find_executable(canary.cpython.version)
    wheel = choose(trusted.manifest, describe(python), canary.distribution or trusted.manifest.main)
    path = trusted.fetch_file(wheel, folder)
    words = {word for command in (*canary.prepare, *canary.commands) for word in shlex.split(command)}
    environment = create(folder / "environment", python, pip="pip" in words)  # making one takes seconds
    environment.install(path, *canary.requirements)
    return environment


def _programs(
    trusted: TrustedRelease, canary: CanaryTable, environment: VirtualEnvironment, sdk: Path | None, folder: Path
) -> Path:
    """A folder with the programs that the canary needs: of the release's wheel of them, or of an SDK."""
    folder.mkdir()
    if not canary.needs:
        return folder
    places = [sdk / "bin"] if sdk is not None else []
    python = describe(find_executable(canary.cpython.version))
    for distribution in (TEST_TOOLS, SDK_TOOLS):
        wheel = best_wheel((each for each in trusted.manifest.wheels if each.distribution == distribution), python)
        if wheel is not None:
            environment.install("--no-deps", trusted.fetch_file(wheel, folder.parent))
            places.insert(0, environment.scripts)
            break
    for name in map(executable_name, canary.needs):
        found = next((place / name for place in places if (place / name).is_file()), None)
        if found is None:
            raise BrokenError(
                f"it needs {name}, and neither a wheel {SDK_TOOLS} of {trusted.manifest.tag} nor an SDK (--sdk) has it"
            )
        (folder / name).symlink_to(found.absolute())  # programs of an SDK find their libraries by their true place
    return folder


def _variables(environment: VirtualEnvironment, tools: Path, folder: Path) -> dict[str, str]:
    """What the canary sees beside harmless variables: the programs first, and a temporary folder that goes with it."""
    temporary = folder / "tmp"
    temporary.mkdir()
    path = environment.variables()["PATH"]
    places = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary))
    return {"PATH": f"{tools}{os.pathsep}{path}", **places}


def _run(canary: CanaryTable, folder: Path, log: Path, variables: dict[str, str]) -> str:
    """Run what prepares the canary, then its tests. Empty if they have passed, else how they failed."""
    deadline = time.monotonic() + 60 * canary.timeout
    for number, command in enumerate((*canary.prepare, *canary.commands)):
        with log.open("a", encoding="utf-8") as file:
            file.write(f"+ {command}\n")
        words = shlex.split(command)
        # The program is looked up where the canary's own are, and not where the toolkit's are.
        program = shutil.which(words[0], path=variables["PATH"]) or words[0]
        ending = run_bounded(
            [program, *words[1:]],
            log=log,
            seconds=max(1.0, deadline - time.monotonic()),
            limit=LOG_LIMIT,
            environment=variables,
            cwd=folder / "checkout",
        )
        if ending and number < len(canary.prepare):
            raise BrokenError(f"{command}: {ending}: {_last_line(log)}")
        if ending:
            return f"{command}: {ending}: {_last_line(log)}"
    return ""


def _last_line(log: Path) -> str:
    """The last line of a log that tells what passed or failed, as test runners end; else the last of its output."""
    lines = read_end(log, _TAIL).decode(errors="replace").splitlines()[::-1]
    words = [line for line in lines if any(map(str.isalnum, line)) and not line.startswith("+ ")]
    return next((line for line in words if re.search(r"\b(?:pass|fail)", line, re.IGNORECASE)), "".join(words[:1]))


def _line(text: str) -> str:
    """Text of others on one line, without what would control a terminal, and as short as a result takes."""
    return " ".join(visible(text).split())[:_SAID]
