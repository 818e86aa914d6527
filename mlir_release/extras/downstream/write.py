"""Write the kit for a published release, whose manifest is checked before it is believed: all of it, or nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError, UsageError
from mlir_release.extras.downstream.kit import PYPROJECT, make_kit
from mlir_release.extras.downstream.pin import Kind, make_pin
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.pinning.state import find_state
from mlir_release.release.check import need_its_tag
from mlir_release.release.release_assets import need_published
from mlir_release.release.signed import AS_DECLARED, SignedBy, read_trusted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.forge.base import Forge


@dataclass(frozen=True, kw_only=True)
class WrittenKit:
    """What was written."""

    directory: str
    tag: str
    pin: str  #: as the files spell it
    written: tuple[str, ...]  #: paths below the directory
    to_add: str  #: what a pyproject.toml that was there needs; empty if it was written

    def text(self) -> str:
        """For people."""
        lines = [f"{self.directory}: pinned to {self.tag}", *(f"  {path}" for path in self.written)]
        if self.to_add:
            lines += [f"{PYPROJECT} is there and was not changed. Add what it lacks of this:", "", self.to_add]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


def write_kit(
    forge: Forge,
    directory: Path,
    *,
    tag: str,
    kind: Kind,
    name: str = "",
    site: str = "",
    smoke: str = "",
    signed_by: SignedBy = AS_DECLARED,
    dry_run: bool = False,
) -> WrittenKit:
    """Write the files that pin ``tag`` into ``directory``, which is made if need be. No file is replaced.

    :param name: of the Python package; empty: the folder's name
    :param site: URL of the pages; empty: those of the release repository on GitHub Pages
    :param smoke: as of :func:`mlir_release.extras.downstream.kit.make_kit`
    :raises UsageError: ``release-not-published``, ``option-invalid``
    :raises NeedsPersonError: ``tag-foreign``
    :raises VerificationError: ``signature-invalid``, ``file-damaged``
    :raises MachineError: ``system-refused``
    """
    release = need_published(forge, tag)
    with scratch_folder("downstream") as scratch:
        manifest = read_trusted(forge, release, scratch, signed_by).manifest
    facts = None
    if kind == "bundle":
        state = find_state(forge, tag)
        need_its_tag(forge, manifest, revision=state.revision, version=state.wheel_version)
        facts = state.facts
    home = forge.services.address if forge.services is not None else manifest.repository
    pin = make_pin(
        manifest,
        name=name or directory.resolve().name,
        kind=kind,
        site=site,
        repository=home,
        facts=facts,
    )
    if smoke and not pin.repository_name:
        raise UsageError(
            "needs-github",
            f"{tag} is on no GitHub, where the integrate's workflow would be called",
            remedy="leave out --smoke, or name the release repository with --forge github:OWNER/NAME",
        )
    files = dict(make_kit(pin, smoke=smoke))
    to_add = files.pop(PYPROJECT) if (directory / PYPROJECT).is_file() else ""
    _refuse_existing(directory, files)
    if not dry_run:
        _write_all(directory, files)
    return WrittenKit(directory=str(directory), tag=tag, pin=pin.text, written=tuple(files), to_add=to_add)


def _refuse_existing(directory: Path, files: Mapping[str, str]) -> None:
    """:raises UsageError: ``output-in-the-way``, naming all of them"""
    there = [path for path in files if (directory / path).exists() or (directory / path).is_symlink()]
    if there:
        raise UsageError(
            "output-in-the-way",
            f"{len(there)} of the files are there already: {', '.join(there)}",
            where=str(directory),
            why="nothing is overwritten, and nothing was written",
            remedy="write the kit into an empty folder and merge by hand, or move these files away",
        )


def _write_all(directory: Path, files: Mapping[str, str]) -> None:
    """Write every file, or none: what was written is removed again if one can't be. :raises MachineError:"""
    made: list[Path] = []
    try:
        for path, text in files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as file:
                made.append(target)
                file.write(text)
    except OSError as error:
        for target in made:
            target.unlink(missing_ok=True)
        raise MachineError(
            "system-refused",
            "the files can't be written, and none of them was kept",
            where=str(error.filename or directory),
            why=str(error),
            remedy="make room, or correct the folder's permissions, and run this again",
        ) from error
