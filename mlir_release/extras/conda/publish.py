"""Send a release's conda packages to a channel of prefix.dev, by trusted publishing: without a stored secret.

The library asks GitHub for the job's identity, and prefix.dev for a token of some minutes
(https://prefix.dev/docs/prefix/channels).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from mlir_release.extras.conda.channel import REPODATA, package_release, read_repodata
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, UsageError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.storage.download import receive
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge

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
    :raises VerificationError: ``release-tampered``: the channel has others of the same version
    :raises MachineError: ``network-failed``
    """
    from mlir_release.release.model.release_tags import SnapshotTag, parse_tag

    need("rattler_build")
    from rattler_build import RattlerBuildError, upload_package_to_prefix

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
        with console.step(f"upload what {address} lacks of {len(made.packages)} packages"):
            try:
                files = [file for path in sorted(scratch.glob(f"*/*/{REPODATA}")) for file in _lacking(path, address)]
                for file in files:  # one by one: at a package that is there, the library leaves out those after it
                    upload_package_to_prefix([file], server, name, skip_existing=True)
            except (RattlerBuildError, OSError, ValueError, RuntimeError) as error:
                raise MachineError(
                    "network-failed",
                    "the channel did not take the packages",
                    where=address,
                    why=str(error),
                    remedy="create the channel, and in its settings the trusted publisher: this repository, conda.yml, "
                    "and the environment conda; then run this again: it uploads what the channel lacks",
                ) from error
    return Sent(tag=made.tag, channel=address, packages=tuple(row[1] for row in made.packages))


def _lacking(index: Path, address: str) -> list[str]:
    """The packages beside an index that a channel has not yet.

    :raises VerificationError: ``release-tampered``: it has others of the same version, or other bytes of the same name
    """
    import requests

    place, mine = f"{address}/{index.parent.name}/{REPODATA}", read_repodata(index)["packages.conda"]
    theirs, listed = {}, index.with_name("listed.json")
    try:
        if mine:
            with listed.open("wb") as output:
                receive(place, output)
            data = read_repodata(listed)
            theirs = {**data.get("packages", {}), **data["packages.conda"]}
    except requests.HTTPError as error:
        if error.response is None or error.response.status_code != HTTPStatus.NOT_FOUND:
            raise  # else the channel has no such index yet
    versions = {(record["name"], record["version"]) for record in mine.values()}
    why = [
        f"{name} has the sha256 {record.get('sha256')}, and not {mine[name]['sha256']}"
        if name in mine
        else f"the release has no {name}"
        for name, record in sorted(theirs.items())
        if (name in mine and record.get("sha256") != mine[name]["sha256"])
        or (name not in mine and (record.get("name"), record.get("version")) in versions)
    ]
    if why:
        raise VerificationError(
            "release-tampered",
            "the channel has other packages of this version",
            where=place,
            why="; ".join(why),
            remedy="find out who uploaded them: another release of rattler-build makes other bytes; delete them there, "
            "then run this again; nothing was uploaded",
        )
    return [str(index.with_name(name)) for name in sorted(mine.keys() - theirs.keys())]
