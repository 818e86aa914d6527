"""Install the packages of a channel, one after another, and import MLIR with each.

``python -m mlir_release.extras.conda.check SPEC PREFIX CACHE CHANNEL …`` installs one, by rattler. It is a program of
its own for the reason that :mod:`~mlir_release.extras.conda.index` has.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.extras.conda.channel import REPODATA, read_repodata
from mlir_release.extras.conda.package import SUBDIRS
from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

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
            _try(spec, scratch, [channel.absolute().as_uri(), *others], filename)
    return Checked(channel=str(channel), subdir=subdir, packages=tuple(sorted(specs)))


def _try(spec: str, scratch: Path, channels: Sequence[str], filename: str) -> None:
    prefix = scratch / "prefix"
    python = prefix / ("python.exe" if os.name == "nt" else "bin/python")
    steps: tuple[tuple[list[str | Path], str], ...] = (
        ([sys.executable, "-m", __name__, spec, prefix, scratch / "cache", *channels], "can't be installed"),
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


def _main(spec: str, prefix: Path, cache: Path, channels: Sequence[str]) -> int:
    import rattler

    async def run() -> None:
        records = await rattler.solve(
            channels,
            [spec],
            gateway=rattler.Gateway(cache_dir=cache / "repodata"),
            platforms=[rattler.Subdir.current(), "noarch"],
            virtual_packages=rattler.VirtualPackage.detect(),
        )
        await rattler.install(records, prefix, cache_dir=cache / "packages", show_progress=False)

    try:
        asyncio.run(run())
    except Exception as error:  # whatever it raises; the exit code says it
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    code = _main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    sys.stdout.flush()
    os._exit(code)
