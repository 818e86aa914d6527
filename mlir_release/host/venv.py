"""Virtual environments: clean ones to test wheels in, cached ones to build wheels in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError
from mlir_release.model.platforms import executable_name

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
        """This process's environment variables, made to fit: its programs first, nothing from outside imported."""
        environment = {name: value for name, value in os.environ.items() if name not in _INTRUDERS}
        environment["PATH"] = f"{self.scripts}{os.pathsep}{environment.get('PATH', '')}"
        environment["VIRTUAL_ENV"] = str(self.root)
        environment["PYTHONNOUSERSITE"] = "1"
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        return environment | dict(extra or {})

    def site_packages(self) -> Path:
        """Where packages are installed."""
        code = "import sysconfig; print(sysconfig.get_path('platlib'))"
        done = subprocess.run([self.python, "-I", "-c", code], capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    def install(self, *arguments: str | Path) -> None:
        """``pip install`` into it. :raises MachineError: ``pip-failed``, with what pip said"""
        if not arguments:
            return
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet", "--no-input"]
        done = subprocess.run(
            [*map(str, command), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=self.variables({"PIP_DISABLE_PIP_VERSION_CHECK": "1"}),
        )
        if done.returncode != 0:
            raise MachineError(
                "pip-failed",
                f"pip could not install {' '.join(map(str, arguments))}",
                where=str(self.root),
                why=done.stderr.strip() or done.stdout.strip(),
                remedy="is there a network, or a folder of wheels in PIP_FIND_LINKS?",
            )


def create(root: Path, python: Path) -> VirtualEnvironment:
    """Make an empty virtual environment for the interpreter ``python``, in place of whatever stands at ``root``.

    :raises MachineError: ``venv-failed``
    """
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in _INTRUDERS}
    # Without pip: making one takes longer than everything else, and Debian's CPython cannot (no ensurepip).
    command = [str(python), "-I", "-m", "venv", "--without-pip", str(root)]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or getattr(error, "stdout", "") or str(error)
        raise MachineError(
            "venv-failed",
            f"{python} could not make a virtual environment",
            where=str(root),
            why=str(said).strip(),
            remedy="does the interpreter run, and has it its standard library (Debian: python3-venv)?",
        ) from error
    return VirtualEnvironment(root=root)


def cached(folder: Path, python: Path, requirements: Iterable[str]) -> VirtualEnvironment:
    """A virtual environment below ``folder`` with ``requirements`` installed, made once and used again.

    Its place depends on what is in it, so builds of different LLVMs can use theirs side by side. A lock lets two runs
    share one; a marker, written last, tells a complete one from one that was left half made.
    """
    from filelock import FileLock

    wanted = "\n".join([str(python), *requirements]) + "\n"
    root = folder / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    marker = root / ".requirements"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(root.with_name(root.name + ".lock")):
        environment = VirtualEnvironment(root=root)
        if marker.is_file() and environment.python.exists():
            return environment
        environment = create(root, python)
        environment.install(*requirements)
        marker.write_text(wanted, encoding="utf-8")
    return environment
