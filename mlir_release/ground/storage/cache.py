"""Where downloads and intermediate results are kept between runs."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from mlir_release.ground.console import console

if TYPE_CHECKING:
    from collections.abc import Iterator

PathLike = TypeVar("PathLike", bound=PurePath)


def cache_directory() -> Path:
    """The folder for everything that can be fetched or made again: ``$MLIR_RELEASE_CACHE``, else the user's cache."""
    override = os.environ.get("MLIR_RELEASE_CACHE")
    if override:
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("mlir-release", appauthor=False)


def build_folder(cache: PathLike, system: str) -> PathLike:
    """The folder that builds have theirs in: the cache; on Windows a short one on the cache's drive, because
    Microsoft's compiler and linker accept no path of more than 260 characters.

    :param system: a name in :data:`~mlir_release.ground.python.platforms.SYSTEMS`
    """
    return type(cache)(cache.anchor, "mlir") if system == "windows" else cache


@contextmanager
def locked(path: Path, *, waiting: str = "") -> Iterator[None]:
    """Hold ``path`` as a lock among processes, so that what two of them need is fetched once. The lock ends
    with the process that holds it.

    :param waiting: what to say while another process holds it
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=not waiting)
    except Timeout:
        console.say(f"    {waiting}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
