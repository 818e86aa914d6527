"""The index of a folder of conda packages, by rattler: ``python -m mlir_release.extras.conda.index FOLDER``.

A program of its own because it must not end as others do: rattler's threads are not joined, and crash a third of the
interpreters that they outlive (pyo3-async-runtimes, issue 40: "PyGILState_Release: thread state must be current").
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.process import capture


def index(folder: Path) -> None:
    """Write ``repodata.json`` of each platform below ``folder``. :raises UsageError: ``input-invalid``"""
    done = capture([sys.executable, "-m", "mlir_release.extras.conda.index", folder], ours=True)
    if not done.ok:
        raise UsageError(
            "input-invalid",
            "rattler can't index this folder of conda packages",
            where=str(folder),
            why=done.stdout.strip() or done.complaint,
            remedy="remove what is no whole package from it, or name an empty folder",
        )


def _main(folder: Path) -> int:
    from rattler.index import index_fs

    try:
        asyncio.run(index_fs(folder, write_zst=False, write_shards=False))
    except Exception as error:  # whatever it raises; the exit code says it
        print(f"{type(error).__name__}: {error}")  # on stdout: stderr has the trace of a thread that panicked
        return 1
    return 0


if __name__ == "__main__":
    code = _main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(code)
