"""Git in a bare repository that others may have written, without the configuration and the hooks that are in it.

A repository's configuration can name programs that git starts, and addresses that it contacts. Git can't ignore it. So
git works in a repository of ours, with our configuration and only the objects and refs of the other. Git refuses
folders of other users because of their configuration (``safe.directory``); here such a folder can be read.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git, check_ordinary
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CONFIGURATION = "[core]\n\trepositoryformatversion = {}\n\tbare = true\n\tfsync = committed,reference\n"
_REFTABLE = "[extensions]\n\trefStorage = reftable\n"


@contextmanager
def foreign(repository: Path) -> Iterator[Git]:
    """Git for the objects and refs of a bare repository, which receives whatever this git writes.

    :raises OSError: if the repository, or a folder in it, can't be read, or git would wait for a file in it
    """
    check_ordinary(repository)
    with scratch_folder("repository") as ours:
        for name in ("objects", "refs", "packed-refs"):
            (ours / name).symlink_to(repository / name)
        tables = (repository / "reftable").is_dir()
        if tables:
            (ours / "reftable").symlink_to(repository / "reftable")
        (ours / "HEAD").write_bytes(read_document(repository / "HEAD", limit=1000))
        configuration = _CONFIGURATION.format(int(tables)) + (_REFTABLE if tables else "")
        (ours / "config").write_text(configuration, encoding="utf-8")
        yield Git(ours)
