"""An environment for each release's wheel: made once by uv, and used again by every later bisect.

All releases are tried with the same versions of everything else, as far as their requirements allow: a change of
NumPy's must not pass for one of LLVM's.
"""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import Captured, capture
from mlir_release.ground.python.requirements import canonical
from mlir_release.ground.python.resolver import find_uv
from mlir_release.ground.python.venv import VirtualEnvironment, create
from mlir_release.ground.storage.cache import cache_directory, locked
from mlir_release.ground.storage.disk import disk_full, room
from mlir_release.ground.storage.files import read_text, remove_folder
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.use.install_files import put_wheels
from mlir_release.use.install_target import find_target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.ground.python.pythons import Python
    from mlir_release.release.judging.signed import TrustedRelease
    from mlir_release.release.model.manifest import WheelEntry

#: Seconds after which a wheel or an environment that nobody has used is removed.
_KEPT = 7 * 86400.0

_REMEDY = "make room and run again; what was recorded before is kept"


#: uv's words for a file of requirements that is wrong.
_UNREADABLE = re.compile(r"(?i)\b(?:could ?n[o']t|failed to|error) pars|file not found|no such file")


class UnresolvableError(Exception):
    """uv finds no set of packages for a wheel together with what the person wants beside it."""


@dataclass
class Candidate:
    """A release, and its wheel for this interpreter. ``downloaded``: the bytes of it that had to be."""

    release: TrustedRelease
    wheel: WheelEntry
    downloaded: int = 0

    @property
    def place(self) -> Path:
        """The folder that the wheel is kept in."""
        return cache_directory() / "bisect" / "wheels" / self.wheel.sha256[:24]

    def fetch(self) -> Path:
        """The verified wheel.

        :raises VerificationError: ``file-damaged``, ``release-tampered``, ``signature-invalid``
        """
        if not (self.place / self.wheel.filename).exists():
            self.downloaded = self.wheel.size
        self.place.mkdir(parents=True, exist_ok=True)
        os.utime(self.place)
        return self.release.fetch_file(self.wheel, self.place)

    @property
    def constraints(self) -> str:
        """For uv: the release's other distributions are only ever the release's, and no index's."""
        names = {canonical(name) for name in self.release.manifest.distributions} - {canonical(self.wheel.distribution)}
        return "".join(f"{name}<0.dev0\n" for name in sorted(names))


@dataclass(frozen=True)
class Environments:
    """Where wheels are tried.

    :param requirements: what is wanted beside a wheel, PEP 508, or paths
    :param files: of requirements
    """

    python: Python
    requirements: Sequence[str] = ()
    files: Sequence[Path] = ()

    @cached_property
    def wanted(self) -> tuple[str, ...]:
        """What is wanted beside a wheel, as text that an environment is known by."""
        return (*self.requirements, *(read_text(file, errors="replace") for file in self.files))

    @cached_property
    def _uv(self) -> tuple[str, list[str], dict[str, str]]:
        return find_uv("makes the environments that releases are tried in")

    def resolve(self, candidate: Candidate, others: Sequence[str]) -> tuple[str, ...]:
        """The versions of everything but a wheel, ``numpy==2.4.6``, that it can be tried with.

        :param others: requirements of other releases, which the versions fulfil, too, if any do
        :raises UnresolvableError: nothing fits
        :raises MachineError: ``network-failed``, ``tool-missing``
        """
        if not (candidate.wheel.requires_dist or self.wanted):
            return ()
        path = candidate.fetch()
        with scratch_folder("bisect") as folder:
            constraints = folder / "constraints.txt"
            constraints.write_text(candidate.constraints, encoding="utf-8")
            words = ("compile", "--no-header", "--no-annotate", f"--python={self.python.executable}", "-c", constraints)
            for also in (others, ()):
                lines = "".join(f"{line}\n" for line in (path, *self.requirements, *also))
                done = self._run(*words, "-", *self.files, text=lines)
                if done.ok:
                    return tuple(line for line in done.stdout.splitlines() if "==" in line)
                if done.returncode != 1:
                    break
        raise _failed(done, "resolve", candidate)

    def provide(self, candidate: Candidate, packages: Sequence[str]) -> VirtualEnvironment:
        """The environment of a release's wheel.

        :param packages: the versions of everything else, as far as they fit
        :raises UnresolvableError: nothing fits
        :raises MachineError: ``network-failed``, ``disk-full``, ``tool-missing``, ``no-python``
        :raises VerificationError: see :meth:`Candidate.fetch`
        """
        wheel, tag = candidate.wheel, candidate.release.manifest.tag
        folder = candidate.place.parent.with_name("environments")
        known_by = [wheel.sha256, self.python.name, str(self.python.executable), *self.wanted, "", *packages]
        environment = VirtualEnvironment(root=folder / sha256_of("\n".join(known_by))[:24])
        marker = environment.root / ".complete"
        with locked(environment.root.with_suffix(".lock"), waiting=f"another process makes the environment of {tag}"):
            if marker.is_file() and environment.python.exists():
                os.utime(marker)
                self._put(environment, candidate)
                return environment
            for old in [*folder.glob("*/"), *candidate.place.parent.glob("*/")]:
                end = old / ".complete"
                if time.time() - (end if end.is_file() else old).stat().st_mtime > _KEPT:
                    remove_folder(old)
            with (
                console.step(f"install {wheel.filename}, {format_bytes(wheel.size)}"),
                room(folder, purpose="for a wheel", remedy=_REMEDY),
            ):
                path = candidate.fetch()
                create(environment.root, self.python.executable)
                constraints = environment.root / "constraints.txt"
                constraints.write_text(candidate.constraints, encoding="utf-8")
                files = (word for file in self.files for word in ("-r", file))
                steps: list[tuple[str | Path, ...]] = [("-c", constraints, path, *self.requirements, *files)]
                if packages:
                    steps.insert(0, ("--no-deps", *packages))
                for words in steps:
                    install = (f"--python={environment.python}", *words)
                    # If uv's cache has all that is needed, no index is asked for anything.
                    if not self._run("install", "--offline", *install).ok:
                        done = self._run("install", *install)
                        if not done.ok:
                            raise _failed(done, "install", candidate)
                self._put(environment, candidate)
                marker.touch()
        return environment

    def _put(self, environment: VirtualEnvironment, candidate: Candidate) -> None:
        """Neither uv's cache nor an environment of an earlier bisect need have what the wheel has."""
        path = candidate.place / candidate.wheel.filename
        kept = path.is_file() and sha256_of(path) == candidate.wheel.sha256
        put_wheels(find_target(environment.python), [path if kept else candidate.fetch()])

    def _run(self, verb: str, *words: str | Path, text: str | None = None) -> Captured:
        uv, options, variables = self._uv
        command = [uv, "pip", verb, "--quiet", *options, *words]
        return capture(command, environment=variables, text=text)


def _failed(done: Captured, verb: str, candidate: Candidate) -> Exception:
    """uv ends with 1 where an index has answered."""
    if os.strerror(errno.ENOSPC) in done.complaint:
        return disk_full(candidate.place, purpose="for a wheel", why=done.complaint, remedy=_REMEDY)
    if done.returncode == 1 or _UNREADABLE.search(done.complaint):
        return UnresolvableError(done.complaint)
    return MachineError(
        "network-failed",
        f"uv could not {verb} what {candidate.wheel.filename} needs",
        why=done.complaint,
        remedy="check the network and the index that pip is configured with (pip config list), then run the same "
        "command again: it resumes",
    )
