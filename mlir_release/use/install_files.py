"""The files of verified wheels in an environment: all of them, byte for byte, and no others where they are imported.

A wheel of the same version may be there with other bytes, and what was killed leaves parts. So nothing that is there is
believed. The wheels are unpacked beside the installed files, and whatever differs is replaced. What Python would import
in their place or among them is removed, compiled files too: Python runs these without a look at their source.
The toolkit does all that itself, and no program of the environment runs meanwhile.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.wheels.inspect import corrupt
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.python.requirements import canonical
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.disk import room
from mlir_release.ground.storage.files import read_text, remove_folder
from mlir_release.use.install_target import InstallTarget, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence


#: How the names of what describes a distribution end.
_DESCRIPTIONS = (".dist-info", ".egg-info", ".egg-link")

#: What pip puts before the name of something that it is about to remove, in place of as many letters.
_PIP_S = "-~.=%0123456789"

#: Python runs lines of these at each start, pip's too.
_AT_START = (".pth", ".start")

_PRIVATE = ".mlir-release"


def put_wheels(target: InstallTarget, wheels: Sequence[Path], *, first: Callable[[], None] = lambda: None) -> None:
    """Make an environment have what verified wheels have, in place of any other build of theirs. Safe to kill.

    :param first: installs what they depend on; nothing was changed yet, but files that Python runs at each start
    :raises VerificationError: ``install-failed``, and nothing was changed; ``file-damaged``
    :raises MachineError: ``disk-full``
    """
    site = Path(target.places["platlib"])
    site.mkdir(parents=True, exist_ok=True)
    remedy = "make room and run this again"
    with (
        locked(site / f"{_PRIVATE}.lock", waiting=f"another process installs into {target.prefix}"),
        room(site, purpose="for the wheels", remedy=remedy),
        _unpacked(target, wheels) as files,
    ):
        names = {canonical(wheel.name.partition("-")[0]) for wheel in wheels}
        place = _Place(target, names, files)
        place.check()
        place.clean(lambda path: path.suffix in _AT_START)
        first()
        place.clean(lambda _: True)
        for path, unpacked in files.items():
            if path.is_symlink() or not path.is_file() or not _same(unpacked, path):
                _remove(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(unpacked, path)


def repair(target: InstallTarget, names: Collection[str]) -> None:
    """Forget the distributions that a killed pip left in parts: pip then installs them again.

    It writes ``INSTALLER`` and then a ``RECORD`` that lists it last, and renames what it replaces until then.

    :param names: canonical
    """
    for site in target.own_sites:
        for path in _described(site, names):
            files, installer = recorded(path), _text(path / "INSTALLER").strip()
            tops = {file.relative_to(site).parts[0] for file in files if site in file.parents}
            stashed = [
                each for each in _entries(site) if any(each.name != top and _is_of(each.name, top) for top in tops)
            ]
            unfinished = not installer or (installer == "pip" and path / "INSTALLER" not in files)
            missing = stashed and not all(os.path.lexists(file) for file in files if file.suffix != ".pyc")
            for each in stashed:
                _remove(each)
            if path.name.startswith("~") or unfinished or missing:
                _remove(path)


class _Place:
    """What an environment has in the place of wheels.

    :param names: their distributions, canonical
    :param files: where each of their files belongs, and where it is now
    """

    def __init__(self, target: InstallTarget, names: Collection[str], files: dict[Path, Path]) -> None:
        self.target, self.names, self.files = target, names, files
        self.folders = {folder for path in files for folder in path.parents}
        tops = {path.relative_to(site).parts[0] for site in target.own_sites for path in files if site in path.parents}
        self.packages = {top for top in tops if not top.endswith(_DESCRIPTIONS)}
        self.modules = {top.partition(".")[0] for top in self.packages}

    def check(self) -> None:
        """Refuse to take what is somebody else's. :raises VerificationError: ``install-failed``"""
        for name in sorted(self.names):
            for package in sorted(self.packages):
                self.target.check_alone(name, package, also=self.names)
        for path in (path for site in self.target.own_sites for path in _described(site, self.names)):
            if _text(path / "INSTALLER").strip() == "conda":
                raise VerificationError(
                    "install-failed",
                    f"conda installed {path.stem.replace('-', ' ')}, and another build would overwrite its files",
                    where=str(path),
                    why="conda goes on believing that its own files are there; nothing was changed",
                    remedy=f"remove it first (conda remove {path.stem.partition('-')[0]}), or use another environment",
                )
        user = self.target.user_site
        for path in self._named_alike(user) if user is not None else ():
            raise VerificationError(
                "install-failed",
                f"{path} would be imported instead of what is installed",
                where=self.target.prefix,
                why="Python looks into the packages of the user first; nothing was changed",
                remedy="remove it (python -m pip uninstall), or use a virtual environment",
            )

    def clean(self, wanted: Callable[[Path], bool]) -> None:
        """Remove what is there of other builds, and what would be imported among or instead of the wheels' files."""
        base = Path(os.path.commonpath(self.target.places.values()))
        for site in self.target.own_sites:
            descriptions = _described(site, self.names)
            listed = (file for description in descriptions for file in recorded(description))
            for path in filter(os.path.lexists, listed):  # a RECORD may have what no path can be
                inside = path.parent.resolve().is_relative_to(base.resolve())
                if wanted(path) and inside and path not in self.files and not self._is_others(path):
                    _remove(path, folders=False)
            for path in [*descriptions, *self._named_alike(site), *self._named_alike(site / "__pycache__")]:
                for stray in self._strays(path):
                    if wanted(stray):
                        _remove(stray)

    def _named_alike(self, folder: Path) -> list[Path]:
        """What is imported by the wheels' names, or was until pip was killed."""
        return [
            path
            for path in _entries(folder)
            if path.name.partition(".")[0] in self.modules
            or any(_is_of(path.name, package) for package in self.packages)
        ]

    def _strays(self, path: Path) -> Iterator[Path]:
        """What the wheels don't have there."""
        if path in self.folders and path.is_dir() and not path.is_symlink():
            for inner in _entries(path):
                yield from self._strays(inner)
        elif path not in self.files:
            yield path

    def _is_others(self, path: Path) -> bool:
        """Whether another distribution has files in the package of a file."""
        for site in self.target.own_sites:
            if site in path.parents:
                owners = self.target.owners.get(path.relative_to(site).parts[0], ())
                return not {canonical(owner) for owner in owners} <= set(self.names)
        return False


@contextmanager
def _unpacked(target: InstallTarget, wheels: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """The files of wheels, with the scripts and the RECORD that they get there: where each belongs, and where it is.

    :raises VerificationError: ``file-damaged``
    """
    from installer import install
    from installer.destinations import SchemeDictionaryDestination
    from installer.exceptions import InstallerError
    from installer.sources import WheelFile
    from installer.utils import get_launcher_kind

    base, folder = Path(os.path.commonpath(target.places.values())), Path(target.places["platlib"], _PRIVATE)
    _remove(folder)
    try:
        for wheel in wheels:
            name = wheel.name.partition("-")[0]
            places = {**target.places, "headers": f"{target.places['headers']}/{name}"}
            destination = SchemeDictionaryDestination(
                {scheme: str(folder / Path(place).relative_to(base)) for scheme, place in places.items()},
                interpreter=str(target.python),
                script_kind=get_launcher_kind(),
            )
            try:
                with open_zip(wheel) as archive:
                    install(WheelFile(archive), destination, {"INSTALLER": b"mlir-release\n", "REQUESTED": b""})
            except (InstallerError, ArchiveError, KeyError, ValueError, RecursionError) as error:
                raise corrupt(wheel, str(error) or type(error).__name__) from error
        yield {base / path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    finally:
        _remove(folder)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _described(site: Path, names: Collection[str]) -> list[Path]:
    """What describes builds of distributions with these canonical names, whole or not."""
    found = [path for path in _entries(site) if path.name.endswith(_DESCRIPTIONS)]
    stems = {path: canonical(path.name.rpartition(".")[0].partition("-")[0]) for path in found}
    return [path for path, stem in stems.items() if any(_is_of(stem, name) for name in names)]


def _is_of(found: str, name: str) -> bool:
    """Whether an entry has a name, or the one that pip gives it before it removes it: ``~lir``."""
    cut = found.startswith("~") and len(found) == len(name) and name.endswith(found.lstrip(_PIP_S))
    return cut or found == name


def _same(one: Path, other: Path) -> bool:
    executable = (path.stat().st_mode & 0o111 for path in (one, other))
    return len(set(executable)) == 1 and filecmp.cmp(one, other, shallow=False)


def _text(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


def _remove(path: Path, *, folders: bool = True) -> None:
    """Remove what is there, if anything is; of a link only the link."""
    if path.is_dir() and not path.is_symlink():
        if folders:
            remove_folder(path)
    else:
        path.unlink(missing_ok=True)
