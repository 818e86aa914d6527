"""Install the packages of a channel, one after another, by rattler, and import MLIR with each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.extras.conda.channel import REPODATA, read_repodata
from mlir_release.extras.conda.index import PROGRAM
from mlir_release.extras.conda.package import SUBDIRS
from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Where CPython, NumPy and the like come from.
CONDA_FORGE = "https://conda.anaconda.org/conda-forge"

#: What MLIR is tried with: it parses a type, in a process that sees nothing of this one's environment.
_PROGRAM = "import mlir.ir as ir\nwith ir.Context():\n    print(ir.Type.parse('memref<2x?xf32>'))"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Packages that were installed, and whose MLIR was imported."""

    channel: str
    subdir: str  #: conda's name of the platform
    packages: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"{len(self.packages)} packages of {self.channel} for {self.subdir} install, and import MLIR"


def check_channel(channel: Path, others: Sequence[str] = (CONDA_FORGE,)) -> Checked:
    """Install each package that a channel has for this platform into an environment of its own, and import MLIR.

    :param channel: ``releases`` or ``snapshots`` of :func:`~.channel.package_release`'s folder
    :param others: channels that have what the packages need
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``install-failed``, for the first package that can't be installed or imported
    :raises MachineError: ``tool-missing``
    """
    need("rattler")
    subdir = SUBDIRS.get(str(Platform.of_host()), "")
    try:
        records = read_repodata(channel / subdir / REPODATA)["packages.conda"]
        specs = {name: f"{record['name']} =={record['version']} {record['build']}" for name, record in records.items()}
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            "input-invalid",
            "this channel has no packages for this platform",
            where=str(channel / subdir),
            why=f"{type(error).__name__}: {error}",
            remedy="name the folder releases or snapshots that `mlir-release conda package TAG` wrote",
        ) from error
    for filename, spec in sorted(specs.items()):
        with console.step(f"install {spec}"), scratch_folder("conda-check") as scratch:
            channels, prefix = [channel.absolute().as_uri(), *others], scratch / "prefix"
            python = prefix / ("python.exe" if os.name == "nt" else "bin/python")
            steps: tuple[tuple[list[str | Path], str], ...] = (
                ([*PROGRAM, "install", spec, prefix, scratch / "cache", *channels], "can't be installed"),
                ([python, "-I", "-c", _PROGRAM], "is installed, but MLIR can't be imported"),
            )
            for command, failure in steps:
                done = capture(command)
                if not done.ok:
                    raise VerificationError(
                        "install-failed",
                        f"{filename} {failure}",
                        where=", ".join(channels),
                        why=(done.stdout + done.stderr).strip()[-3000:],
                        remedy="see the output; publish none of these packages before the check passes",
                    )
    return Checked(channel=str(channel), subdir=subdir, packages=tuple(sorted(specs)))
