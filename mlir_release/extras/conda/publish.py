"""Send a release's conda packages to a channel of prefix.dev, by trusted publishing: without a stored secret.

The library asks GitHub for the job's identity, and prefix.dev for a token of some minutes
(https://prefix.dev/docs/prefix/channels).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import MachineError, UsageError, VerificationError
from mlir_release.extras.conda.channel import package_release
from mlir_release.host.needs import need_extra
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.digests import sha256_of
from mlir_release.release.signed import AS_DECLARED, SignedBy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping
    from pathlib import Path

    from rattler import RepoDataRecord

    from mlir_release.extras.conda.channel import Packaged
    from mlir_release.forge.base import Forge

PREFIX_DEV = "https://prefix.dev"

#: To conda, ``20261120.1`` is newer than ``22.1.8``.
_SNAPSHOTS = "-snapshots"


@dataclass(frozen=True, kw_only=True)
class Sent:
    """Packages that a channel has now."""

    tag: str
    channel: str  #: its address
    packages: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"{self.channel} has {len(self.packages)} packages of {self.tag}"


def publish_packages(
    forge: Forge, tag: str, channel: str, *, server: str = PREFIX_DEV, signed_by: SignedBy = AS_DECLARED
) -> Sent:
    """Make the packages of a published release, and upload those that the channel lacks.

    They are made here, of wheels that are verified here. The same wheels give the same bytes, and a job that ran
    foreign code could have replaced another job's packages.

    :param channel: of numbered releases; snapshots go to the one with ``-snapshots`` after its name
    :raises UsageError: ``option-invalid``; as :func:`~.channel.package_release`
    :raises VerificationError: ``tampered``: the channel has other bytes under a package's name
    :raises MachineError: ``network-failed``
    """
    from mlir_release.model.release_tags import SnapshotTag, parse_tag

    need_extra("conda", "rattler_build", to="uploads conda packages")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", channel):
        raise UsageError(
            "option-invalid",
            f"{channel!r} is no name of a channel",
            remedy="give its name alone: mlir for https://prefix.dev/mlir",
        )
    name = channel + (_SNAPSHOTS if isinstance(parse_tag(tag), SnapshotTag) else "")
    address = f"{server.rstrip('/')}/{name}"
    with scratch_folder("conda-publish") as scratch:
        made = package_release(forge, tag, scratch, signed_by)
        there = _digests(address, made, scratch / "repodata")
        files = [str(path) for path in sorted(scratch.glob("*/*/*.conda")) if not _is_there(path, there, address)]
        with console.step(f"upload {len(files)} packages to {address}"):
            _upload(files, server, name, address)
    return Sent(tag=made.tag, channel=address, packages=tuple(row[1] for row in made.packages))


def _digests(address: str, made: Packaged, cache: Path) -> dict[str, str]:
    """What a channel says that it has of some packages: file name -> SHA-256 in hex."""
    import rattler

    subdirs = [rattler.Subdir(subdir) for subdir in sorted({row[0] for row in made.packages})]
    names = sorted({filename.rsplit("-", 2)[0] for _, filename, _ in made.packages})
    try:
        answer = rattler.Gateway(cache_dir=cache).query([address], subdirs, names, recursive=False)
        found = asyncio.run(_wait(answer))
    except Exception as error:  # rattler has a type for each of its own
        raise MachineError(
            "network-failed",
            "the channel can't be read",
            where=address,
            why=f"{type(error).__name__}: {error}",
            remedy="see whether its address is right, and run this again; nothing was uploaded",
        ) from error
    return {row.file_name: (row.sha256 or b"").hex() for rows in found for row in rows}


async def _wait(answer: Awaitable[Iterable[Iterable[RepoDataRecord]]]) -> Iterable[Iterable[RepoDataRecord]]:
    return await answer


def _is_there(path: Path, there: Mapping[str, str], address: str) -> bool:
    """Whether a channel has a package. :raises VerificationError: ``tampered``: with other bytes"""
    known, digest = there.get(path.name), sha256_of(path)
    if known not in (None, digest):
        raise VerificationError(
            "tampered",
            f"the channel has other bytes under the name {path.name}",
            where=address,
            why=f"there {known or 'without a sha256'}, of the release's wheel {digest}",
            remedy="find out who uploaded it, and delete it there; then run this again; nothing was uploaded",
        )
    return known is not None


def _upload(files: list[str], server: str, name: str, address: str) -> None:
    from rattler_build import RattlerBuildError, upload_package_to_prefix

    try:
        for file in files:  # one by one: at a package that is there, the library leaves out those after it
            upload_package_to_prefix([file], server, name, skip_existing=True)
    except (RattlerBuildError, OSError, ValueError, RuntimeError) as error:
        raise MachineError(
            "network-failed",
            "the channel did not take the packages",
            where=address,
            why=str(error),
            remedy="create the channel, and in its settings the trusted publisher: this repository, conda.yml, and the "
            "environment conda; then run this again: it uploads what the channel lacks",
        ) from error
