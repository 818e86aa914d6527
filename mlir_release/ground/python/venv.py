"""Virtual environments: clean ones to test wheels in, cached ones to build wheels in."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.programs.surroundings import foreign_environment, withheld
from mlir_release.ground.python.locked import Chosen, choose
from mlir_release.ground.python.platforms import executable_name
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


#: Variables that would make an interpreter import something else than what its environment holds.
_INTRUDERS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


@dataclass(frozen=True, kw_only=True)
class VirtualEnvironment:
    """A virtual environment at ``root``. It has no pip of its own: the toolkit's pip installs into it."""

    root: Path

    @property
    def scripts(self) -> Path:
        """Folder of its programs."""
        return self.root / ("Scripts" if sys.platform == "win32" else "bin")

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.scripts / executable_name("python")

    def variables(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """This process's environment variables, made to fit: its programs first, nothing from outside imported.

        Only harmless ones: what is in it is foreign code.
        """
        environment = {name: value for name, value in foreign_environment().items() if name not in _INTRUDERS}
        environment["PATH"] = f"{self.scripts}{os.pathsep}{environment.get('PATH', '')}"
        environment["VIRTUAL_ENV"] = str(self.root)
        environment["PYTHONNOUSERSITE"] = "1"
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        return environment | dict(extra or {})

    def site_packages(self) -> Path:
        """Where packages are installed. :raises MachineError: ``no-python``"""
        answer = capture([self.python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"])
        if not answer.ok:
            raise MachineError(
                "no-python",
                "the interpreter of a virtual environment does not work",
                where=str(self.python),
                why=answer.complaint,
                remedy="delete the environment and run this again",
            )
        return Path(answer.stdout.strip())

    def installed(self) -> dict[str, str]:
        """The versions of what is installed in it, by canonical name. :raises MachineError: ``no-python``"""
        from importlib.metadata import distributions

        from packaging.utils import canonicalize_name

        found = distributions(path=[str(self.site_packages())])
        return {canonicalize_name(distribution.name): distribution.version for distribution in found}

    def install(self, *arguments: str | Path) -> None:
        """``pip install`` into it. :raises MachineError: ``network-failed``, with pip's message"""
        if not arguments:
            return
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-input"]
        done = capture([*pip, *arguments], environment=self.variables({"PIP_DISABLE_PIP_VERSION_CHECK": "1"}))
        if not done.ok:
            raise pip_failed(f"install {' '.join(map(str, arguments))}", where=self.root, why=done.complaint)

    def install_locked(self, chosen: Chosen) -> None:
        """Install what the lock has, by hash and from wheels only; then what it lacks, which is named.

        :raises MachineError: ``network-failed``
        """
        if chosen.pins:
            with scratch_folder("locked") as folder:
                file = folder / "requirements.txt"
                file.write_text("\n".join(chosen.lines) + "\n", encoding="utf-8")
                self.install("--require-hashes", "--no-deps", "--only-binary=:all:", "-r", file)
        if chosen.unlocked:
            console.say(f"    not locked by hash: {', '.join(chosen.unlocked)}")
            self.install(*chosen.unlocked)


def pip_failed(action: str, *, where: Path, why: str) -> MachineError:
    """The error for packages that can't be had. ``action`` continues "pip could not …"."""
    return MachineError(
        "network-failed",
        f"pip could not {action}",
        where=str(where),
        why=why,
        remedy=f"check the network, or name a folder of wheels in PIP_FIND_LINKS{withheld()}",
    )


def create(root: Path, python: Path, *, pip: bool = False) -> VirtualEnvironment:
    """Make an empty virtual environment for the interpreter ``python``, in place of whatever is at ``root``.

    :param pip: with a pip of its own, as users have it. Without one it is made in a fraction of the time, and on
        Debian's CPython without python3-venv, too (it has no ensurepip).
    :raises MachineError: ``no-python``
    """
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in foreign_environment().items() if name not in _INTRUDERS}
    options = () if pip else ("--without-pip",)
    made = capture([python, "-I", "-m", "venv", *options, root], environment=environment)
    if not made.ok:
        raise MachineError(
            "no-python",
            f"{python} could not make a virtual environment",
            where=str(root),
            why=made.complaint,
            remedy="check that the interpreter runs and has its venv module (Debian: apt install python3-venv), or "
            "name another CPython",
        )
    return VirtualEnvironment(root=root)


def cached(folder: Path, python: Path, requirements: Iterable[str]) -> VirtualEnvironment:
    """A virtual environment below ``folder`` with ``requirements`` installed, made once and used again.

    What the lock of builds has of them is installed by hash (:mod:`mlir_release.ground.python.locked`).
    Its path depends on its content, so builds of different LLVMs can use theirs side by side. A lock lets two runs
    share one; a marker, written last, tells a complete environment from an unfinished one.
    """
    chosen = choose(requirements)
    wanted = "\n".join([str(python), *chosen.lines, *chosen.unlocked]) + "\n"
    root = folder / sha256_of(wanted)[:16]
    marker = root / ".requirements"
    with locked(root.with_name(root.name + ".lock")):
        environment = VirtualEnvironment(root=root)
        if marker.is_file() and environment.python.exists():
            return environment
        environment = create(root, python)
        environment.install_locked(chosen)
        marker.write_text(wanted, encoding="utf-8")
    return environment
