"""Channels of a release's wheels as conda packages, one for each kind of release; and their index among the pages.

The archives are made by rattler-build's library, and their index by rattler's. The pages have the index alone: its
``base_url`` (CEP 15) says where the packages are. A channel is checked by installing its packages, one after another.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mlir_release.extras.conda.index import PROGRAM, index
from mlir_release.extras.conda.package import LICENSE, PACKAGES, SUBDIRS, no_wheel, packages
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import PlainName, convert, parse_json
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.platforms import Platform
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.files import check_inside, read_document, read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.index.site import FOLDERS, Channel
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.latest import read_release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge

#: The folder of a kind's channel on the site, and the index of each platform in it.
CHANNEL, REPODATA = "conda", "repodata.json"


class _PackageRecord(Struct, frozen=True):
    name: PlainName
    version: PlainName
    build: PlainName = ""


class _Repodata(Struct, frozen=True):
    info: dict[str, Any]
    packages: dict[str, _PackageRecord] = msgspec.field(name="packages.conda")


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """Packages that were written."""

    tag: str
    version: str
    channel: str  #: the folder
    packages: tuple[tuple[str, str, str], ...]  #: platform, package and wheel
    left_out: tuple[str, ...]  #: wheels that no package can be made of

    def text(self) -> str:
        """For people."""
        what = f"{self.channel} has {len(self.packages)} packages of {self.tag}, version {self.version}"
        return what + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")


def package_release(forge: Forge, tag: str, folder: Path, signed_by: SignedBy = AS_DECLARED) -> Packaged:
    """Make conda packages of the wheels of a published release, and add them to a channel below ``folder``.

    The channel is ``snapshots`` or ``releases``, and can be served as it is. The same wheels give the same bytes.

    :raises UsageError: ``release-not-published``, ``release-unsuitable``, ``input-invalid``
    :raises VerificationError: ``signature-invalid``, ``file-damaged``, ``release-tampered``, ``wheel-unsuitable``
    :raises MachineError: ``tool-missing``
    """
    need("rattler", "rattler_build")
    from rattler_build import assemble_package

    trusted = read_release(forge, tag, signed_by)
    manifest = trusted.manifest
    tag = manifest.tag
    made, left_out = packages(manifest)
    if not made:
        raise no_wheel(manifest, " or ".join(PACKAGES))
    channel = folder / FOLDERS[manifest.kind]
    # Two at once would each index what the other has half written.
    with locked(folder / f".{channel.name}.lock", waiting="another process adds packages to this channel"):
        for package in made:
            with (
                console.step(f"package {package.wheel.filename} for {package.subdir}"),
                scratch_folder("conda") as scratch,
            ):
                wheel = trusted.fetch_file(package.wheel, scratch)
                root = scratch / "root"
                licenses = _unpack(wheel, root)
                archive = assemble_package(
                    package.name,
                    package.version,
                    package.subdir,
                    package.build,
                    scratch,
                    files_dir=root,
                    homepage="https://mlir.llvm.org/",
                    license=LICENSE,
                    license_files=licenses,
                    summary=f"Python bindings of MLIR {manifest.llvm_version}".strip(),
                    depends=package.depends,
                    constrains=package.constrains,
                    noarch="python",
                    timestamp=manifest.created,
                    detect_prefix=False,  # wheels have no absolute paths
                ).path
                content, place = archive.read_bytes(), channel / package.subdir
                if read_if_there(place / archive.name, limit=len(content)) not in (None, content):
                    (place / REPODATA).unlink(missing_ok=True)  # else it keeps its old entry of a known file
                write_atomically(place / archive.name, content)
        index(channel)
    return Packaged(
        tag=tag,
        version=manifest.version,
        channel=str(channel),
        packages=tuple((package.subdir, package.filename, package.wheel.filename) for package in made),
        left_out=left_out,
    )


def _unpack(wheel: Path, root: Path) -> list[Path]:
    """Install a wheel below ``root`` as ``noarch: python`` has it; returns its licences."""
    import installer
    from installer.destinations import SchemeDictionaryDestination
    from installer.exceptions import InstallerError
    from installer.sources import WheelFile

    site = root / "site-packages"
    schemes = {"purelib": str(site), "platlib": str(site)}  # wheels of the bindings have nothing else
    destination = SchemeDictionaryDestination(schemes, interpreter="python", script_kind="posix")
    try:
        with open_zip(wheel) as archive:
            installer.install(WheelFile(archive), destination, {"INSTALLER": b"conda\n"})
    except (InstallerError, ArchiveError) as error:
        raise VerificationError(
            "wheel-unsuitable",
            f"{wheel.name} can't be made a conda package",
            where=str(wheel),
            why=f"{type(error).__name__}: {error}",
            remedy="only wheels of the bindings can: they install modules, and no scripts or data",
        ) from error
    return sorted(path for path in site.glob("*.dist-info/licenses/**/*") if path.is_file())


def serve_channels(folder: Path, url: str | None, channels: Sequence[Channel], site: Path) -> None:
    """Write the index of the channels in ``folder`` into the pages, without the packages.

    Packages of unpublished and yanked releases and of candidates are left out: conda would choose them unasked.

    :param folder: of :func:`package_release`; the packages themselves need not be there
    :param url: where the packages are; ``{folder}`` in it stands for ``releases/linux-64`` and the like, without it all
        are in one place. None: in ``folder``
    :raises UsageError: ``input-invalid``
    """
    url = url or f"{folder.absolute().as_uri()}/{{folder}}"
    found = {}
    for path in sorted(folder.glob(f"*/*/{REPODATA}")):
        try:
            found[path] = read_repodata(path)
        except (OSError, ValueError) as error:
            raise _invalid(path, str(error)) from error
    if not found:
        raise _invalid(folder, f"it has no {REPODATA} of a platform")
    stale = set(site.glob(f"*/{CHANNEL}/*/{REPODATA}"))
    for channel in channels:
        offered: set[str] = set()
        for release in channel.offered:
            yanked = {link.wheel.filename for link in release.links if link.yanked is not None}
            made, _ = packages(release.manifest)
            offered |= {package.filename for package in made if package.wheel.filename not in yanked}
        for path, repodata in found.items():
            kind, subdir = path.parts[-3:-1]
            if kind == channel.folder:
                place = url.replace("{folder}", f"{kind}/{subdir}").rstrip("/") + "/"
                records = {name: row for name, row in repodata["packages.conda"].items() if name in offered}
                info = {**repodata["info"], "base_url": place}  # CEP 15
                chosen = {**repodata, "info": info, "packages.conda": records, "repodata_version": 2}
                content = json.dumps(chosen, indent=1, sort_keys=True) + "\n"
                target = site / kind / CHANNEL / subdir / REPODATA
                check_inside(site, target)
                write_atomically(target, content)
                stale.discard(target)
    for path in stale:
        check_inside(site, path)
        path.unlink()


def read_repodata(path: Path) -> dict[str, Any]:
    """The index of a folder of conda packages. :raises MalformedError: :raises OSError:"""
    data: dict[str, Any] = parse_json(read_document(path))
    convert(data, _Repodata)
    return data


def offered_packages(site: Path, channels: Sequence[Channel]) -> Mapping[str, tuple[str, ...]]:
    """The channels in the folder of a site: a release's tag -> the names of the packages that they have of it."""
    found: dict[str, tuple[str, ...]] = {}
    for channel in channels:
        names: dict[str, set[str]] = {}
        for path in site.glob(f"{channel.folder}/{CHANNEL}/*/{REPODATA}"):
            for record in read_repodata(path)["packages.conda"].values():
                names.setdefault(record["version"], set()).add(record["name"])
        versions = {release.tag: release.manifest.version for release in channel.offered}
        found |= {tag: tuple(sorted(names[version])) for tag, version in versions.items() if version in names}
    return found


def _invalid(where: Path, why: str) -> UsageError:
    return UsageError(
        "input-invalid",
        "this is not a folder of conda channels",
        where=str(where),
        why=why,
        remedy="name the folder that `mlir-release conda package TAG` wrote",
    )


#: Where CPython, NumPy and the like come from.
CONDA_FORGE = "https://conda.anaconda.org/conda-forge"

#: What MLIR is tried with: it parses a type, in a process that sees nothing of this one's environment.
_TRIAL = "import mlir.ir as ir\nwith ir.Context():\n    print(ir.Type.parse('memref<2x?xf32>'))"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Packages that were installed, and whose MLIR was imported."""

    channel: str
    subdir: str  #: conda's name of the platform
    packages: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"{len(self.packages)} packages of {self.channel} for {self.subdir} install, and import MLIR"


def check_channel(channel: Path, others: Sequence[str] = (CONDA_FORGE,)) -> Checked:
    """Install each package that a channel has for this platform into an environment of its own, and import MLIR.

    :param channel: ``releases`` or ``snapshots`` of :func:`package_release`'s folder
    :param others: channels that have what the packages need
    :raises UsageError: ``input-invalid``
    :raises VerificationError: ``install-failed``, for the first package that can't be installed or imported
    :raises MachineError: ``tool-missing``
    """
    need("rattler")
    subdir = SUBDIRS.get(str(Platform.of_host()), "")
    try:
        records = read_repodata(channel / subdir / REPODATA)["packages.conda"]
        specs = {name: f"{record['name']} =={record['version']} {record['build']}" for name, record in records.items()}
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            "input-invalid",
            "this channel has no packages for this platform",
            where=str(channel / subdir),
            why=f"{type(error).__name__}: {error}",
            remedy="name the folder releases or snapshots that `mlir-release conda package TAG` wrote",
        ) from error
    for filename, spec in sorted(specs.items()):
        with console.step(f"install {spec}"), scratch_folder("conda-check") as scratch:
            channels, prefix = [channel.absolute().as_uri(), *others], scratch / "prefix"
            python = prefix / ("python.exe" if os.name == "nt" else "bin/python")
            steps: tuple[tuple[list[str | Path], str], ...] = (
                ([*PROGRAM, "install", spec, prefix, scratch / "cache", *channels], "can't be installed"),
                ([python, "-I", "-c", _TRIAL], "is installed, but MLIR can't be imported"),
            )
            for command, failure in steps:
                done = capture(command)
                if not done.ok:
                    raise VerificationError(
                        "install-failed",
                        f"{filename} {failure}",
                        where=", ".join(channels),
                        why=(done.stdout + done.stderr).strip()[-3000:],
                        remedy="see the output; publish none of these packages before the check passes",
                    )
    return Checked(channel=str(channel), subdir=subdir, packages=tuple(sorted(specs)))
