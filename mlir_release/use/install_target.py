"""The environment that a release is installed into: which one it is, and whether it may be changed."""

from __future__ import annotations

import csv
import os
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.pythons import Python, describe, find_executable
from mlir_release.ground.python.requirements import canonical
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


Kind = Literal["a virtual environment", "a conda environment", "conda's base environment", "no environment"]

#: Runs in the environment, on CPython 3.10 or newer, with ``-S``: no line of a ``.pth`` file there may run. So it finds
#: the prefix as the module ``site`` would.
_QUERY = """
import json, os, pathlib, site, sys
folder = os.path.dirname(os.path.abspath(sys.executable))
places = [os.path.join(each, "pyvenv.cfg") for each in (folder, os.path.dirname(folder))]
mark, system = next(filter(os.path.isfile, places), None), True
if mark is not None:
    sys.prefix = sys.exec_prefix = os.path.dirname(folder)
    with open(mark, encoding="utf-8", errors="replace") as file:
        said = [[word.strip().lower() for word in line.split("=", 1)] for line in file]
    system = next((value[0] == "true" for key, *value in said if value and key == "include-system-site-packages"), True)
import sysconfig
paths = sysconfig.get_paths()
if os.path.realpath(paths["platlib"]) == os.path.realpath(paths["purelib"]):
    paths["platlib"] = paths["purelib"]
conda = pathlib.Path(sys.prefix, "conda-meta")
further = site.getsitepackages([sys.base_prefix]) if system else []
print(json.dumps({
  "prefix": sys.prefix,
  "venv": sys.prefix != sys.base_prefix,
  "conda": conda.is_dir(), "base": os.path.isdir(os.path.join(sys.prefix, "condabin")),
  "managed": os.path.isfile(os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED")),
  "writable": os.access(paths["platlib"], os.W_OK),
  "places": {
    **{key: paths[key] for key in ("purelib", "platlib", "scripts", "data")},
    "headers": os.path.join(paths["data"], "include", "site", "python%d.%d" % sys.version_info[:2]),
  },
  "further": [each for each in further if os.path.isdir(each)],
  "user_site": site.getusersitepackages() if mark is None else None,
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
    places: dict[str, str]  #: of the wheel specification's schemes: ``platlib``, …
    owners: dict[str, dict[str, str]]  #: distributions that have files in each package, with their versions
    user_site: Path | None  #: the folder of the user's own packages, if Python looks there first
    in_conda: dict[str, str]  #: conda's packages, with their versions

    def text(self) -> str:
        """``/home/ada/.venv (CPython 3.12.1, a virtual environment)``."""
        return f"{self.prefix} (CPython {self.interpreter.name}, {self.kind})"

    @property
    def own_sites(self) -> list[Path]:
        """The folders that packages are installed into, one or two."""
        return [Path(place) for place in dict.fromkeys((self.places["purelib"], self.places["platlib"]))]

    def check_alone(
        self, wanted: str, package: str, conda_packages: Sequence[str] = (), *, also: Collection[str] = ()
    ) -> None:
        """Refuse to put a Python package beside another distribution that has it.

        An older version of the same is replaced.

        :param wanted: the distribution
        :param conda_packages: conda's that have the package, too: their RECORD may be missing
        :param also: distributions that may have it, canonical
        :raises VerificationError: ``install-failed``; nothing was changed
        """
        owners = self.owners.get(package, {}) | {
            name: version for name, version in self.in_conda.items() if name in conda_packages
        }
        others = {
            name: version for name, version in owners.items() if canonical(name) not in {*also, canonical(wanted)}
        }
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
    done = capture([python, "-I", "-S", "-c", _QUERY], timeout=60)
    if not done.ok:
        raise UsageError(
            "python-missing",
            "the interpreter can't say what is installed in its environment",
            where=str(python),
            why=done.complaint,
            remedy=_REMEDY,
        )
    facts = parse_json(done.stdout)
    kind: Kind = "no environment"
    if facts["venv"]:
        kind = "a virtual environment"
    elif facts["conda"]:
        kind = "conda's base environment" if facts["base"] else "a conda environment"
    allowed = os.environ.get("PIP_BREAK_SYSTEM_PACKAGES", "0").lower() not in ("", "0", "no", "off", "false")
    where, why = f"{python} (CPython {interpreter.name})", ""
    if wanted is None and kind not in ("a virtual environment", "a conda environment"):
        refusal = f"nothing says where to install: the python of PATH is that of {kind}"
    elif facts["managed"] and not facts["venv"] and not allowed:
        refusal = "the system manages this Python, and pip must not change it"
        why = "it has the mark of PEP 668, EXTERNALLY-MANAGED"
    elif not facts["writable"]:
        refusal, where = "you can't write into the environment of this Python", facts["prefix"]
    else:
        refusal = ""
    if refusal:
        raise UsageError("option-invalid", refusal, where=where, why=why, remedy=_REMEDY)
    sites = dict.fromkeys((facts["places"]["purelib"], facts["places"]["platlib"], *facts["further"]))
    # The environment's own pip, or the toolkit's: uv makes environments without one.
    pip: list[str | Path] = [python, "-I", "-m", "pip"]
    if not any(Path(site, "pip", "__init__.py").is_file() for site in sites):
        if find_spec("pip") is None:
            raise MachineError(
                "tool-missing",
                "there is no pip, neither in the environment nor beside this toolkit",
                where=str(python),
                remedy=f"{python} -m ensurepip; or, with uv: uv pip install --python {python} pip",
            )
        pip = [sys.executable, "-I", "-m", "pip", "--python", python]
    owners: dict[str, dict[str, str]] = {}
    for site in map(Path, sites):
        for path in site.glob("*.dist-info"):
            name, _, version = path.stem.partition("-")
            for file in recorded(path):  # none without a RECORD, which what conda-forge made may lack
                if site in file.parent.parents:
                    owners.setdefault(file.relative_to(site).parts[0], {})[canonical(name)] = version
    return InstallTarget(
        python=python,
        interpreter=interpreter,
        prefix=facts["prefix"],
        kind=kind,
        pip=(*pip, "--disable-pip-version-check", "--no-input"),
        places=facts["places"],
        owners=owners,
        user_site=Path(facts["user_site"]) if facts["user_site"] else None,
        in_conda=dict(facts["in_conda"]),
    )


def recorded(description: Path) -> list[Path]:
    """The files that the RECORD of an installed distribution lists; none if it can't be read."""
    from installer.records import InvalidRecordEntry, parse_record_file

    try:
        lines = read_document(description / "RECORD").decode(errors="surrogateescape").splitlines()
        return [Path(os.path.normpath(description.parent / path)) for path, _, _ in parse_record_file(lines)]
    except (OSError, ValueError, csv.Error, InvalidRecordEntry):
        return []
