"""Files that readers see whole or not at all."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import stat
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.disk import room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


def read_document(path: Path, *, limit: int | None = None) -> bytes:
    """The content of a file that is to be parsed. Of a larger one, so much that its parser refuses it.

    :param limit: bytes; default: those that :func:`~mlir_release.ground.documents.decode.parse_json` takes
    """
    from mlir_release.ground.documents.decode import DOCUMENT_LIMIT

    limit = DOCUMENT_LIMIT if limit is None else limit
    with open_regular(path) as file:
        return file.read(limit + 1)


@contextmanager
def mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    """The content of a file of any size, to search in: it is not read into memory. :raises OSError:"""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size == 0:  # the system maps no empty file
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def read_if_there(path: Path, *, limit: int | None = None) -> bytes | None:
    """As :func:`read_document`; None if there is no such file."""
    try:
        return read_document(path, limit=limit)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_text(path: Path, *, errors: str = "strict") -> str:
    """The content of a file as UTF-8 with any ends of lines. :raises OSError: also if it is too large to be parsed"""
    from mlir_release.ground.documents.decode import DOCUMENT_LIMIT

    with TextIOWrapper(open_regular(path), encoding="utf-8", errors=errors) as file:
        content = file.read(DOCUMENT_LIMIT)
        if file.read(1):
            raise OSError(errno.EFBIG, f"it has more than {DOCUMENT_LIMIT:,} characters", str(path))
    return content


def read_end(path: Path, size: int) -> bytes:
    """The last bytes of a file, at most ``size``. :raises OSError:"""
    with open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read(size)


def copy_regular(source: str | Path, target: str | Path) -> None:
    """As :func:`shutil.copyfile`, of regular files only. :raises OSError:"""
    with open_regular(Path(source)) as file, Path(target).open("wb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


def copy_alike(source: str | Path, target: str | Path) -> None:
    """As :func:`shutil.copy2`, of regular files only. :raises OSError:"""
    copy_regular(source, target)
    shutil.copystat(source, target)


def named_files(words: Iterable[str]) -> dict[str, str]:
    """The small files that the words of a command name, with their digests. Only the first hundred words count."""

    def is_small(path: Path) -> bool:
        try:
            return path.is_file() and path.stat().st_size < 10_000_000 and os.access(path, os.R_OK)
        except (OSError, ValueError):  # a word may be anything
            return False

    return {word: sha256_of(Path(word)) for word in islice(words, 100) if is_small(Path(word))}


def check_inside(folder: Path, path: Path) -> None:
    """Refuse to write or remove what is elsewhere than below ``folder``, also through a link in it.

    :raises UsageError: ``output-in-the-way``
    """
    parent = path.parent.resolve()
    if not parent.is_relative_to(folder.resolve()) or path.name in ("", "..", "."):
        raise UsageError(
            "output-in-the-way",
            f"a file that is not below {folder} would be written or removed",
            where=str(path),
            why=f"its folder is {parent}",
            remedy="remove the link, or find out who wrote that name; nothing there was changed",
        )


def remove_folder(folder: Path) -> None:
    """Remove a folder, also if files in it are read-only, as git's packs are, which Windows does not remove."""

    def make_writable(function: Callable[[str], object], path: str, _: object) -> None:
        Path(path).chmod(stat.S_IWRITE)
        function(path)

    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=make_writable)
    else:
        shutil.rmtree(folder, onerror=make_writable)


@contextmanager
def replacing(path: Path, *, scratch: Path | None = None) -> Iterator[Path]:
    """An empty temporary file to fill, which takes the place of ``path`` at the end of the block.

    Readers see the old file until then and the new one after. If the block raises, the temporary file is removed and
    ``path`` is unchanged. The new file is readable by all (mode 0644).

    :param scratch: folder of the same file system that the temporary file is made in; default: that of ``path``
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=scratch or path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _replace(source: Path, target: Path, *, system: str = sys.platform, patience: float = 10.0) -> None:
    """Rename ``source`` to ``target``. Windows refuses that while anyone, a virus scanner too, has ``target`` open."""
    end = time.monotonic() + patience
    while True:
        try:
            source.replace(target)
        except PermissionError:
            if system != "win32" or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def write_atomically(path: Path, content: bytes | str, *, scratch: Path | None = None, durable: bool = False) -> None:
    """Replace ``path`` by ``content`` (text as UTF-8); see :func:`replacing`.

    :param durable: the new content survives a power cut once this returns
    """
    data = content.encode() if isinstance(content, str) else content
    with replacing(path, scratch=scratch) as temporary, temporary.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)


def write_all(folder: Path, contents: Mapping[str, bytes | str]) -> None:
    """Write files (text as UTF-8) into a folder. None takes its place before all are on the disk.

    :raises MachineError: ``disk-full``, and then nothing has changed
    """
    remedy = "free some space and run this again; nothing was changed"
    with room(folder, purpose="for what is written there", remedy=remedy), ExitStack() as stack:
        for name, content in contents.items():
            temporary = stack.enter_context(replacing(folder / name))
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` survive a power cut; nothing on Windows, which cannot open a folder."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
