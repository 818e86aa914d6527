"""Wheels without files, for names of others that clients of a distribution require: ``clang`` beside ``llvm-libclang``.

PyPI's distributions of these names would overwrite what is installed. pip asks for none of them once something of that
name is installed, in LLVM's version. Only the requirements and lock files of the pages name these wheels, by URL: on an
index, they would hide the real ones.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.wheels.archive import Identity, Member, write_wheel
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.llvm.projects import known_profile
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.model.manifest import LockedPackage, LockedWheel, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Their folder on the pages, which has no list of them.
FOLDER = "beside"


def stand_ins(manifest: Manifest, distribution: str) -> Mapping[str, bytes]:
    """Those beside a distribution of a release, by their file names; toolkits of all versions write the same bytes."""
    wheel = next(wheel for wheel in manifest.wheels if wheel.distribution == distribution)
    profile = known_profile(wheel.project, wheel.profile)
    version = re.match(r"\d+(\.\d+)*", manifest.llvm_version)
    return _made(profile.stands_for, version[0], distribution) if profile is not None and version is not None else {}


@cache
def _made(names: tuple[str, ...], version: str, distribution: str) -> Mapping[str, bytes]:
    found = {}
    with scratch_folder("stand-ins") as folder:
        for name in names:
            one = Identity(distribution=name, version=version, platform="any", generator="mlir-release")
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Its files are {distribution}'s\n"
            metadata = Member(name=f"{one.dist_info}/METADATA", content=text)
            path = write_wheel(one, [metadata], output=Path(folder), epoch=0, compressed=False)
            found[path.name] = path.read_bytes()
    return found


def beside(manifest: Manifest, distribution: str, site: str) -> tuple[LockedPackage, ...]:
    """The same as packages of a lock.

    :param site: URL of the pages, with a slash at the end
    """
    return tuple(
        LockedPackage(
            name=filename.split("-")[0],
            version=filename.split("-")[1],
            wheels=(LockedWheel(url=f"{site}{FOLDER}/{filename}", sha256=sha256_of(content), size=len(content)),),
        )
        for filename, content in stand_ins(manifest, distribution).items()
    )
