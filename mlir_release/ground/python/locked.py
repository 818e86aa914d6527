"""The lock of what wheels are built and tested with: tools, and the binding libraries that upstream may ask for.

``tools/lock_builds.py`` writes it (``builds.txt``), with hashes, for all platforms and CPythons. A revision may ask for
something that it lacks. That is installed without a hash, and the log names it: it is as foreign as the rest of the
revision, and runs where that does.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.python.requirements import applicable, canonical
from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.ground.python.cpython import CPython
    from mlir_release.ground.python.platforms import Platform

LOCK = Path(__file__).with_name("builds.txt")

_ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\\n]+?))? \\\n(?P<rest>(?:    .+\n)+)", re.MULTILINE
)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_VIA = re.compile(r"#\s+(?:via\s+)?([\w.-]+)(?:\s|$)")


@dataclass(frozen=True, kw_only=True)
class LockedPin:
    """A version of a distribution, with the digests of its files."""

    name: str  #: canonical
    version: str
    marker: str  #: PEP 508; empty: everywhere
    hashes: tuple[str, ...]
    parents: frozenset[str]  #: canonical names of what requires it

    @property
    def requirement(self) -> str:
        """PEP 508, as the lock has it."""
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")

    @property
    def hash_options(self) -> tuple[str, ...]:
        """For a line of pip's requirements file."""
        return tuple(f"--hash={digest}" for digest in self.hashes)

    @property
    def line(self) -> str:
        """For a requirements file of pip's."""
        return " ".join([self.requirement, *self.hash_options])


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What requirements become."""

    pins: tuple[LockedPin, ...]  #: everything that is locked, dependencies too
    unlocked: tuple[str, ...]  #: requirements that the lock does not have

    @property
    def lines(self) -> tuple[str, ...]:
        """Of a requirements file, which leaves nothing to be resolved."""
        return tuple(pin.line for pin in self.pins)

    def on(self, python: CPython, platform: Platform) -> tuple[LockedPin, ...]:
        """Those whose markers hold there: pip evaluates markers only for the interpreter that it runs with."""
        return tuple(pin for pin in self.pins if applicable([pin.requirement], python, platform))


@functools.cache
def read_lock(path: Path = LOCK) -> tuple[LockedPin, ...]:
    """All pins; of the binding libraries, several versions of each, the newest first."""
    found = []
    for match in _ENTRY.finditer(read_text(path)):
        names = _VIA.findall(match["rest"])
        found.append(
            LockedPin(
                name=canonical(match["name"]),
                version=match["version"],
                marker=match["marker"] or "",
                hashes=tuple(_HASH.findall(match["rest"])),
                parents=frozenset(canonical(name) for name in names if name != "via"),
            )
        )
    return tuple(found)


def choose(requirements: Iterable[str]) -> Chosen:
    """The pins that requirements lead to, those of their dependencies included.

    A requirement takes the newest version that it admits; versions for different markers are taken together.
    """
    from packaging.requirements import Requirement

    pins, unlocked = read_lock(), []
    chosen: list[LockedPin] = []
    for wanted in map(Requirement, requirements):
        fitting = [
            pin
            for pin in pins
            if pin.name == canonical(wanted.name) and wanted.specifier.contains(pin.version, prereleases=True)
        ]
        if not fitting:
            unlocked.append(str(wanted))
        chosen += [pin for pin in fitting if pin.marker] or fitting[:1]
    while more := [pin for pin in pins if pin not in chosen and pin.parents & {parent.name for parent in chosen}]:
        chosen += more
    return Chosen(pins=tuple(dict.fromkeys(chosen)), unlocked=tuple(unlocked))
