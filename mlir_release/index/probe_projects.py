"""The clean-environment check of the forms for projects: uv, PDM and Poetry lock what the page shows."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError
from mlir_release.host.process import capture
from mlir_release.index.probe_outcome import ProbeStep
from mlir_release.release.install_check import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mlir_release.host.pythons import Python
    from mlir_release.model.manifest import WheelEntry
    from mlir_release.release.install_snippets import Project

#: Seconds for one of them: Poetry reads the metadata of every wheel that the page links.
LIMIT = 600

#: How much of a complaint is shown: PDM and Poetry end theirs with advice.
LINES = 3

#: What begins the names of variables that are settings of these tools, or an environment that is not this one.
_SETTINGS = ("UV_", "PDM_", "POETRY_", "VIRTUAL_ENV")


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


def try_projects(
    forms: Sequence[Project], tools: Mapping[str, Path], python: Python, wheel: WheelEntry, folder: Path
) -> Iterator[ProbeStep]:
    """Lock an empty project with each form: the wheel that fits ``python`` must be in the lock, with its digest.

    :param tools: the programs by the names of the forms; a form without one is not tried
    :param folder: for projects and caches; must be empty
    """
    for form in forms:
        if form.tool in tools:
            yield _lock(form, tools[form.tool], python, wheel, folder / form.tool)


def _lock(form: Project, program: Path, python: Python, wheel: WheelEntry, folder: Path) -> ProbeStep:
    start = time.monotonic()
    folder.mkdir(parents=True)
    head = f'[project]\nname = "probe"\nversion = "0"\nrequires-python = "=={python.short_version}.*"\n'
    (folder / "pyproject.toml").write_text(head + form.lines + "\n", encoding="utf-8")
    environment = {name: value for name, value in clean_environment().items() if not name.startswith(_SETTINGS)}
    caches = {f"{name}_CACHE_DIR": str(folder / "cache") for name in ("UV", "PDM", "POETRY")}
    chosen = {"UV_PYTHON": str(python.executable), "PDM_PYTHON": str(python.executable), "PDM_CHECK_UPDATE": "0"}
    path = {"PATH": os.pathsep.join((str(python.executable.parent), environment.get("PATH", "")))}  # Poetry looks there
    done = capture([program, "lock"], environment=environment | caches | chosen | path, cwd=folder, timeout=LIMIT)
    lock = folder / f"{form.tool}.lock"
    text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
    right = done.returncode == 0 and wheel.filename in text and wheel.sha256 in text
    if right:
        got = f"locked {wheel.filename}"
    elif done.returncode == 0:
        got = "a lock without that wheel"
    else:
        said = (done.stderr.strip() or done.stdout.strip() or done.ending).splitlines()
        got = " / ".join(line.strip() for line in said[-LINES:])
    return ProbeStep(
        command=form,
        python=python.name,
        wanted=wheel.filename,
        got=got,
        passed=right,
        seconds=time.monotonic() - start,
    )
