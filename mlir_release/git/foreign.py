"""Git in a bare repository that others may have written, without the configuration and the hooks that are in it.

A repository's configuration can name programs that git starts, and addresses that it contacts. Git can't ignore it. So
git works in a repository of ours, with our configuration and only the objects and refs of the other. Git refuses
folders of other users because of their configuration (``safe.directory``); here such a folder can be read.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlir_release.git.repository import Git
from mlir_release.host.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CONFIGURATION = "[core]\n\trepositoryformatversion = {}\n\tbare = true\n\tfsync = committed,reference\n"
_REFTABLE = "[extensions]\n\trefStorage = reftable\n"


@contextmanager
def foreign(repository: Path) -> Iterator[Git]:
    """Git for the objects and refs of a bare repository, which receives whatever this git writes.

    :raises OSError: if the repository, or a folder of its refs, can't be read
    """
    for _ in os.walk(repository / "refs", onerror=_raised):  # git takes one that it can't read for an empty one
        pass
    with scratch_folder("repository") as ours:
        for name in ("objects", "refs", "packed-refs"):
            (ours / name).symlink_to(repository / name)
        tables = (repository / "reftable").is_dir()
        if tables:
            (ours / "reftable").symlink_to(repository / "reftable")
        (ours / "HEAD").write_bytes((repository / "HEAD").read_bytes())
        configuration = _CONFIGURATION.format(int(tables)) + (_REFTABLE if tables else "")
        (ours / "config").write_text(configuration, encoding="utf-8")
        yield Git(ours)


def _raised(error: OSError) -> None:
    raise error
