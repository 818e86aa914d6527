"""Find the CPythons of this machine: those on the PATH, those of pyenv and uv, those that are named by a path."""

from __future__ import annotations

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.programs.process import capture, installed_program
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import executable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.tags import Tag

#: Upstream's bindings need it (mlir/python/requirements.txt and nanobind, LLVM 19 to 22).
OLDEST = (3, 10)

#: A version with its third number, ``3.12.1`` or ``3.14.0t``.
_EXACT = re.compile(r"(?P<minor>(?:python)?3\.\d+)\.(?P<micro>\d+)(?P<threads>t?)")

_PROBE = """
import json, os, platform, sys, sysconfig
print(json.dumps({
  "implementation": platform.python_implementation(),
  "version": list(sys.version_info[:3]), "final": sys.version_info.releaselevel == "final",
  "threads": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
  "headers": os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h")),
  "base": sys._base_executable if sys.prefix != sys.base_prefix else None,
}))
"""


@dataclass(frozen=True, kw_only=True)
class Python:
    """An interpreter.

    :param version: ``3.12.1``
    :param headers: has ``Python.h``, so that extension modules can be built
    """

    cpython: CPython
    version: str
    executable: Path
    headers: bool = True

    @property
    def tag(self) -> str:
        """As in wheels: ``cp312``, ``cp313t``."""
        return self.cpython.tag

    @property
    def short_version(self) -> str:
        """``3.12``."""
        return self.cpython.marker

    @property
    def name(self) -> str:
        """For people: ``3.12.1``, ``3.14.0t``."""
        return self.version + ("t" if self.cpython.free_threaded else "")

    @cached_property
    def _ranks(self) -> dict[Tag, int]:
        """The wheel tags that its pip accepts on this machine, each with its place in pip's order, the best first."""
        from packaging.tags import compatible_tags, cpython_tags, platform_tags

        release, platforms = self.cpython.release, list(platform_tags())
        own = cpython_tags(release, [self.tag], platforms)
        return {tag: rank for rank, tag in enumerate(chain(own, compatible_tags(release, self.tag, platforms)))}

    def wheel_rank(self, filename: str) -> int | None:
        """The place of a wheel in the order of its pip's preference on this machine: 0 is best, None does not fit."""
        from packaging.utils import parse_wheel_filename

        return min((self._ranks[tag] for tag in parse_wheel_filename(filename)[3] if tag in self._ranks), default=None)

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts by version."""
        return tuple(int(part) for part in self.version.split("."))


def describe(executable: Path) -> Python:
    """Describe an interpreter; for a virtual environment's, the one that it was made with.

    :raises UsageError: ``python-missing``
    """
    found = _probe(executable, follow=True)
    if isinstance(found, str):
        missing = not executable.exists()
        raise UsageError(
            "python-missing",
            f"there is no working CPython at {executable}",
            where=str(executable),
            why="there is no such file" if missing else found,
            remedy="give the path of an interpreter, or a version such as 3.12",
        )
    return found


def find_pythons(wanted: Sequence[str] = ()) -> list[Python]:
    """The CPythons asked for, in that order, or, if none are, all suitable ones of this machine, newest first.

    :param wanted: versions (``3.12``, ``cp312``, ``3.13t``) or paths of interpreters
    :raises UsageError: ``python-missing``
    :raises MachineError: ``no-python``
    """
    if wanted:
        chosen = list({python.cpython: python for python in map(_one, wanted)}.values())
        for python in chosen:
            if not python.headers:
                raise MachineError(
                    "no-python",
                    f"CPython {python.version} has no headers, so nothing can be compiled for it",
                    where=str(python.executable),
                    remedy=f"install them (Debian: apt install python{python.short_version}-dev)",
                )
        return chosen
    found = [python for python in installed() if python.headers and python.cpython.release >= OLDEST]
    if not found:
        raise MachineError(
            "no-python",
            f"there is no CPython {_dotted(OLDEST)} or newer with its headers on this machine",
            why=f"found: {_listing(installed())}",
        )
    return found


def find_executable(wanted: str) -> Path:
    """The interpreter that someone names, itself: a program of PATH, a path, or a version (``3.12``, ``cp312``).

    Unlike :func:`find_pythons`, it may be a virtual environment's; of a version, the active one's comes first.

    :raises UsageError: ``python-missing``
    """
    program = shutil.which(wanted)
    if program is not None:
        return Path(program).absolute()
    if os.sep in wanted or Path(wanted).is_file():
        return Path(wanted).absolute()
    version = _version(wanted)
    active = shutil.which("python")
    if version is not None and active is not None and "shims" not in Path(active).parts:
        found = _probe(Path(active), follow=True)
        if isinstance(found, Python) and _is_of(found, version):
            return Path(active).absolute()
    return _one(wanted).executable


def installed() -> list[Python]:
    """The final CPythons of this machine, the newest of each minor version, newest first; those with headers win."""
    best: dict[CPython, Python] = {}
    for python in _everything():
        known = best.get(python.cpython)
        if known is None or (python.headers, python.order) > (known.headers, known.order):
            best[python.cpython] = python
    return sorted(best.values(), key=lambda python: (python.order, python.cpython), reverse=True)


def _everything() -> list[Python]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        probed = pool.map(_probe, dict.fromkeys(_candidates()))
        return [python for python in probed if isinstance(python, Python)]


def _version(text: str) -> tuple[CPython, int | None] | None:
    """The minor version that a text spells, and its third number, if it has one; None if it is something else."""
    exact = _EXACT.fullmatch(text)
    try:
        wanted = CPython.parse(exact["minor"] + exact["threads"] if exact else text)
    except ValueError:
        return None
    return wanted, int(exact["micro"]) if exact else None


def _is_of(python: Python, version: tuple[CPython, int | None]) -> bool:
    return python.cpython == version[0] and version[1] in (None, python.order[2])


def _one(text: str) -> Python:
    version = _version(text)
    if version is None:
        if os.sep not in text and not Path(text).is_file():
            raise UsageError(
                "python-missing",
                f"{text!r} is neither a CPython version nor the path of an interpreter",
                remedy="write it like 3.12, cp312, 3.13t or /usr/bin/python3.12",
            )
        python = describe(Path(text).absolute())
        if python.cpython.release < OLDEST:
            raise too_old(f"{python.executable} ({python.version})", OLDEST)
        return python
    if version[0].release < OLDEST:
        raise too_old(version[0].tag, OLDEST)
    fitting = [python for python in _everything() if _is_of(python, version)]
    if fitting:
        return max(fitting, key=lambda python: (python.headers, python.order))
    raise UsageError(
        "python-missing",
        f"there is no CPython {text} on this machine",
        why=f"found: {_listing(installed())}",
        remedy="install it (for example with pyenv), or choose one of those",
    )


def too_old(what: str, oldest: tuple[int, int], *, whose: str = "MLIR's bindings") -> UsageError:
    """The error for an interpreter below the ``oldest`` that something (``whose``) can use."""
    return UsageError(
        "python-missing",
        f"{what} is too old: {whose} need CPython {_dotted(oldest)} or newer",
        remedy=f"choose a newer one; found: {_listing(p for p in installed() if p.cpython.release >= oldest)}",
    )


def _listing(pythons: Iterable[Python]) -> str:
    return ", ".join(python.name for python in pythons) or "none"


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _candidates() -> Iterator[Path]:
    """Interpreters to ask: the running one's base, pyenv's, uv's, the PATH's. pyenv's shims are no interpreters."""
    yield Path(getattr(sys, "_base_executable", sys.executable))
    managed = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    if uv := installed_program("uv"):
        managed += map(Path, capture([uv, "--no-config", "python", "dir"], timeout=30).stdout.splitlines())
    for folder in managed:
        yield from sorted(folder.glob("*/python.exe" if sys.platform == "win32" else "*/bin/python"))
    name = re.compile(rf"python(3(\.\d+t?)?)?{re.escape(executable_name(''))}")
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        if entry and "shims" not in Path(entry).parts:
            yield from sorted(path for path in Path(entry).glob("python*") if name.fullmatch(path.name))


def _probe(executable: Path, *, follow: bool = False) -> Python | str:
    """Query an interpreter; the reason as text if it is not usable.

    :param follow: ask a virtual environment's base interpreter instead of refusing the environment's
    """
    answer = capture([executable, "-I", "-S", "-c", _PROBE], timeout=30)
    try:
        facts = parse_json(answer.stdout) if answer.ok else None
    except ValueError as error:
        return str(error)
    if facts is None:
        return answer.complaint
    if facts["implementation"] != "CPython":
        return f"it is {facts['implementation']}, not CPython"
    if facts["base"]:
        return _probe(Path(facts["base"])) if follow else "it belongs to a virtual environment"
    if not facts["final"]:
        return "it is a pre-release"
    version = facts["version"]
    return Python(
        cpython=CPython(version[0], version[1], facts["threads"]),
        version=".".join(map(str, version)),
        executable=executable,
        headers=facts["headers"],
    )
