"""The environment that a release is installed into: which one it is, and whether it may be changed."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlir_release.errors import MachineError, UsageError, VerificationError
from mlir_release.host.process import capture
from mlir_release.host.pythons import describe, find_executable
from mlir_release.model.decode import parse_json
from mlir_release.model.requirements import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.host.pythons import Python

Kind = Literal["a virtual environment", "a conda environment", "conda's base environment", "no environment"]

#: Runs in the environment, on CPython 3.10 or newer. conda-forge's package of the bindings may have no ``RECORD``.
_QUERY = """
import importlib.metadata, importlib.util, json, os, pathlib, sys, sysconfig
owners, conda = {}, pathlib.Path(sys.prefix, "conda-meta")
for each in importlib.metadata.distributions():
    for package in {line.partition("/")[0] for line in (each.read_text("RECORD") or "").splitlines() if "/" in line}:
        owners.setdefault(package, {})[each.metadata["Name"]] = each.version
print(json.dumps({
  "prefix": sys.prefix,
  "venv": sys.prefix != sys.base_prefix,
  "conda": conda.is_dir(), "base": os.path.isdir(os.path.join(sys.prefix, "condabin")),
  "managed": os.path.isfile(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")),
  "writable": os.access(sysconfig.get_path("platlib"), os.W_OK),
  "pip": importlib.util.find_spec("pip") is not None,
  "owners": owners,
  "in_conda": [path.stem.rsplit("-", 2)[:2] for path in conda.glob("*.json")],
}))
"""

_REMEDY = (
    "make an environment and name it: python3 -m venv .venv, then --python .venv/bin/python "
    "(on Windows .venv\\Scripts\\python); or activate one first"
)


@dataclass(frozen=True, kw_only=True)
class InstallTarget:
    """An environment that may be changed."""

    python: Path  #: its own interpreter
    interpreter: Python  #: the CPython of that
    prefix: str
    kind: Kind
    pip: tuple[str | Path, ...]  #: the words that begin a call of a pip that installs there
    owners: dict[str, dict[str, str]]  #: distributions that have files in each package, with their versions
    in_conda: dict[str, str]  #: conda's packages, with their versions

    def text(self) -> str:
        """``/home/ada/.venv (CPython 3.12.1, a virtual environment)``."""
        return f"{self.prefix} (CPython {self.interpreter.name}, {self.kind})"

    def check_alone(self, wanted: str, package: str, conda_packages: Sequence[str] = ()) -> None:
        """Refuse to put a Python package beside another distribution that has it.

        An older version of the same is replaced.

        :param wanted: the distribution
        :param conda_packages: conda's that have the package, too: their RECORD may be missing
        :raises VerificationError: ``install-failed``; nothing was changed
        """
        owners = self.owners.get(package, {}) | {
            name: version for name, version in self.in_conda.items() if name in conda_packages
        }
        others = {name: version for name, version in owners.items() if canonical(name) != canonical(wanted)}
        if others:
            named = " and ".join(f"{name} {version}" for name, version in others.items())
            raise VerificationError(
                "install-failed",
                f"{named} is in this environment, and {wanted} would overwrite its files",
                where=self.prefix,
                why=f"both are imported as {package}, and a mixture of two builds fails in ways that are hard to "
                "understand; nothing was changed",
                remedy=f"uninstall it first ({self.python} -m pip uninstall {' '.join(others)}), or use another "
                "environment",
            )


def find_target(wanted: str | Path | None) -> InstallTarget:
    """The environment of an interpreter, if it may be changed. Nothing is asked of the person.

    Without a name, it is that of the ``python`` of PATH, and has to be a virtual or a conda environment: whoever names
    none may not know that they change the system's Python.

    :param wanted: a version, a path or a command of PATH; None: not said
    :raises UsageError: ``python-missing``, ``option-invalid``
    :raises MachineError: ``tool-missing``
    """
    if wanted is None:
        python = Path(shutil.which("python") or shutil.which("python3") or sys.executable).absolute()
    else:
        python = find_executable(str(wanted))
    interpreter = describe(python)
    done = capture([python, "-I", "-c", _QUERY], timeout=60)
    if not done.ok:
        raise UsageError(
            "python-missing",
            "the interpreter can't say what is installed in its environment",
            where=str(python),
            why=done.complaint,
            remedy=_REMEDY,
        )
    facts = parse_json(done.stdout)
    kind = _kind(facts)
    if wanted is None and kind not in ("a virtual environment", "a conda environment"):
        raise UsageError(
            "option-invalid",
            f"nothing says where to install: the python of PATH is that of {kind}",
            where=f"{python} (CPython {interpreter.name})",
            remedy=_REMEDY,
        )
    allowed = os.environ.get("PIP_BREAK_SYSTEM_PACKAGES", "0").lower() not in ("", "0", "no", "off", "false")
    if facts["managed"] and not facts["venv"] and not allowed:
        raise UsageError(
            "option-invalid",
            "the system manages this Python, and pip must not change it",
            where=f"{python} (CPython {interpreter.name})",
            why="it has the mark of PEP 668, EXTERNALLY-MANAGED",
            remedy=_REMEDY,
        )
    if not facts["writable"]:
        raise UsageError(
            "option-invalid",
            "you can't write into the environment of this Python",
            where=facts["prefix"],
            remedy=_REMEDY,
        )
    return InstallTarget(
        python=python,
        interpreter=interpreter,
        prefix=facts["prefix"],
        kind=kind,
        pip=_pip(python, own=facts["pip"]),
        owners=facts["owners"],
        in_conda=dict(facts["in_conda"]),
    )


def _kind(facts: dict[str, bool]) -> Kind:
    if facts["venv"]:
        return "a virtual environment"
    if facts["conda"]:
        return "conda's base environment" if facts["base"] else "a conda environment"
    return "no environment"


def _pip(python: Path, *, own: bool) -> tuple[str | Path, ...]:
    """The environment's own pip, or the toolkit's: uv makes environments without one."""
    options = ("--disable-pip-version-check", "--no-input")
    if own:
        return (python, "-m", "pip", *options)
    if find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", "--python", python, *options)
    raise MachineError(
        "tool-missing",
        "there is no pip, neither in the environment nor beside this toolkit",
        where=str(python),
        remedy=f"{python} -m ensurepip; or, with uv: uv pip install --python {python} pip",
    )
