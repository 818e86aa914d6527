"""An upload to PyPI in three jobs. The first verifies the files that PyPI lacks and writes them into a folder.

The second compares them with the digests that the first hands over, and uploads them; PyPI trusts that job, so nothing
of ours runs in it (``release.yml``). The third looks for the files on PyPI.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.storage.files import copy_regular
from mlir_release.release.judging.signed import AS_DECLARED
from mlir_release.release.pypi.project import PYPI_UPLOAD, simple_url
from mlir_release.release.pypi.publish import Stays, prepared, stays

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy

#: Seconds between two looks at an index that may still serve an old page.
PAUSES = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """The files of a release that an index lacks, in a folder."""

    tag: str
    files: tuple[str, ...]
    digests: tuple[str, ...]  #: a line for each file, as ``sha256sum`` prints it
    folder: str
    size: int  #: bytes

    def text(self) -> str:
        """A line, and one for each file."""
        lines = [f"{self.tag}: {len(self.files)} files, {format_bytes(self.size)}, for PyPI in {self.folder}"]
        return "\n".join([*lines, *(f"  {name}" for name in self.files)])

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"tag": self.tag, "files": self.files, "folder": self.folder, "bytes": self.size}


@dataclass(frozen=True, kw_only=True)
class OnIndex:
    """A release all of whose files are on the index, with their digests."""

    tag: str
    files: tuple[str, ...]
    urls: tuple[str, ...]  #: the projects' simple pages

    def text(self) -> str:
        """A line, and one for each file."""
        return "\n".join([f"{self.tag} is complete on {', '.join(self.urls)}", *(f"  {name}" for name in self.files)])


def stage(
    forge: Forge,
    tag: str,
    folder: Path,
    *,
    repository_url: str = PYPI_UPLOAD,
    index_url: str = "",
    owners: Collection[str] = (),
    signed_by: SignedBy = AS_DECLARED,
) -> Staged | Stays:
    """Verify a release as :func:`~.publish.publish_to_index` does, and write missing files into ``folder``."""
    if stay := stays(forge, tag):
        return stay
    index = index_url or simple_url(repository_url)
    with prepared(forge, tag, index=index, owners=owners, signed_by=signed_by) as (plan, paths):
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            copy_regular(path, folder / path.name)
    return Staged(
        tag=tag,
        files=tuple(path.name for path in paths),
        digests=tuple(f"{wheel.sha256}  {wheel.filename}" for wheel in plan.upload),
        folder=str(folder),
        size=plan.size,
    )


def check(
    forge: Forge,
    tag: str,
    *,
    repository_url: str = PYPI_UPLOAD,
    index_url: str = "",
    owners: Collection[str] = (),
    signed_by: SignedBy = AS_DECLARED,
    pause: Callable[[float], None] = time.sleep,
) -> OnIndex | Stays:
    """Make sure that the index has every file of a release with its digest; its pages may lag behind for some minutes.

    :raises VerificationError: ``pypi-unsuitable``, and what :func:`~.publish.make_plan` raises
    """
    if stay := stays(forge, tag):
        return stay
    index = index_url or simple_url(repository_url)
    for seconds in (*PAUSES, 0.0):
        with prepared(forge, tag, index=index, owners=owners, signed_by=signed_by) as (plan, _):
            if not plan.upload:
                return OnIndex(tag=tag, files=tuple(wheel.filename for wheel in plan.there), urls=plan.urls)
        if seconds:
            console.say(f"    {len(plan.upload)} files are not listed yet; looking again in {seconds:g} s")
            pause(seconds)
    raise VerificationError(
        "pypi-unsuitable",
        f"PyPI lacks files of {tag}",
        where=", ".join(plan.urls),
        why=", ".join(wheel.filename for wheel in plan.upload),
        remedy="see why they were not uploaded, then re-run the failed jobs: what is there already is kept",
    )
