"""What rattler does, in a process of its own: ``python -m mlir_release.extras.conda.index TASK ARGUMENT …``.

That process must not end as others do: rattler's threads are not joined, and crash a third of the interpreters that
they outlive (pyo3-async-runtimes, issue 40: "PyGILState_Release: thread state must be current").
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.process import capture

#: Before TASK and its arguments.
PROGRAM = (sys.executable, "-m", "mlir_release.extras.conda.index")


def index(folder: Path) -> None:
    """Write ``repodata.json`` of each platform below ``folder``. :raises UsageError: ``input-invalid``"""
    done = capture([*PROGRAM, "index", folder], ours=True)
    if not done.ok:
        raise UsageError(
            "input-invalid",
            "rattler can't index this folder of conda packages",
            where=str(folder),
            why=done.stdout.strip() or done.complaint,
            remedy="remove what is no whole package from it, or name an empty folder",
        )


async def _index(folder: str) -> None:
    from rattler.index import index_fs

    await index_fs(Path(folder), write_zst=False, write_shards=False)


async def _install(spec: str, prefix: str, cache: str, *channels: str) -> None:
    import rattler

    records = await rattler.solve(
        channels,
        [spec],
        gateway=rattler.Gateway(cache_dir=Path(cache, "repodata")),
        platforms=[rattler.Subdir.current(), "noarch"],
        virtual_packages=rattler.VirtualPackage.detect(),
    )
    await rattler.install(records, Path(prefix), cache_dir=Path(cache, "packages"), show_progress=False)


if __name__ == "__main__":
    task, *arguments = sys.argv[1:]
    tasks: dict[str, Any] = {"index": _index, "install": _install}
    code = 0
    try:
        asyncio.run(tasks[task](*arguments))
    except Exception as error:  # whatever it raises; the exit code says it
        print(f"{type(error).__name__}: {error}")  # on stdout: stderr has the trace of a thread that panicked
        code = 1
    sys.stdout.flush()
    os._exit(code)
