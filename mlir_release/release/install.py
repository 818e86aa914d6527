"""The wheel of a release that fits an interpreter: found, verified (digest and provenance), installed with pip."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from mlir_release.console import console, format_bytes
from mlir_release.errors import UsageError, VerificationError
from mlir_release.forge.files import read_yanks
from mlir_release.host.process import Captured, capture
from mlir_release.host.pythons import describe
from mlir_release.host.surroundings import INDEXES, foreign_environment
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.release_tags import SnapshotTag, parse_tag
from mlir_release.model.sdk_wheel_info import SDK, SDK_TOOLS
from mlir_release.model.yanks import yank_reason
from mlir_release.release.install_check import best_wheel, check_import
from mlir_release.release.latest import follow_pointer
from mlir_release.release.release_assets import need_published
from mlir_release.release.signed import AS_DECLARED, SignedBy, read_trusted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.base import Forge, Release
    from mlir_release.host.pythons import Python
    from mlir_release.model.manifest import Manifest, WheelEntry
    from mlir_release.model.yanks import Yank

#: Instead of a tag: the newest published snapshot that nobody yanked.
LATEST = "latest"


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was installed (or, with ``dry_run``, would be)."""

    tag: str
    revision: str  #: llvm-project commit
    version: str  #: of the wheel
    filename: str
    python: str  #: path of the interpreter
    provenance: bool  #: who built it was verified
    signer: str = ""  #: the workflow that signed it, where that was verified
    self_named: bool = False  #: only the release itself says that this repository's signature counts
    sdk: tuple[str, ...] = ()  #: the files of the SDK's wheels, where those were asked for
    cmake_dir: str = ""  #: of the SDK, with ``MLIRConfig.cmake``; empty if it was not installed
    dry_run: bool = False

    def text(self) -> str:
        """For people."""
        verb = "would install" if self.dry_run else "installed"
        files = ", ".join((self.filename, *self.sdk))
        line = f"{verb} {files} of {self.tag} ({self.revision[:12]}) for {self.python}"
        if not self.provenance:
            return f"{line}; digest verified; not signed, or not checked who signed it"
        said = ", as only the release itself says" if self.self_named else ""
        return f"{line}; digest and provenance verified\n  signed by {self.signer}{said}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``; the keys are the action's outputs, too."""
        fields = asdict(self)
        fields["cmake-dir"] = fields.pop("cmake_dir")
        return fields


def install(
    forge: Forge,
    tag: str,
    *,
    python: Path | None = None,
    distribution: str = "mlir",
    sdk: bool = False,
    signed_by: SignedBy = AS_DECLARED,
    pip_options: Sequence[str] = (),
    dry_run: bool = False,
) -> Installed:
    """Install a published release's wheel of ``distribution`` into ``python``'s environment.

    Dependencies come from pip's usual index; the release's wheels only ever from the release.

    :param tag: a snapshot's or numbered release's, or :data:`LATEST`
    :param python: a path or a command of PATH; None: the ``python`` of PATH, else the running one
    :param sdk: install the wheels of the release's SDK, too
    :param signed_by: its branch also holds ``yanked.toml``
    :param pip_options: for ``pip install``: an index, ``--no-deps``
    :param dry_run: verify only
    :raises UsageError: ``option-invalid``, ``release-not-published``, ``python-missing``
    :raises VerificationError: ``no-fitting-wheel``, ``file-damaged``, ``release-tampered``, ``signature-invalid``,
        ``latest-stale``, ``install-failed``
    """
    found = shutil.which(python or "python")
    python = Path(found) if found else python or Path(sys.executable)
    interpreter = describe(python)
    with scratch_folder("install") as folder:
        yanks = read_yanks(forge, signed_by.branch)
        release = _find(forge, tag, yanks)
        with console.step(f"check who made {release.tag}"):
            trusted = read_trusted(forge, release, signed_by)
            if tag == LATEST:
                trusted = follow_pointer(forge, trusted, yanks, signed_by)
        manifest = trusted.manifest
        names = (distribution, *((SDK, SDK_TOOLS) if sdk else ()))
        wheels = [choose(manifest, interpreter, name) for name in names]
        paths = []
        for wheel in wheels:
            with console.step(f"fetch {wheel.filename}, {format_bytes(wheel.size)}"):
                paths.append(trusted.fetch_file(wheel, folder))
        if not dry_run:
            with console.step(f"install {', '.join(wheel.filename for wheel in wheels)}"):
                _install(python, paths, manifest, pip_options)
    return Installed(
        tag=manifest.tag,
        revision=manifest.revision,
        version=manifest.version,
        filename=wheels[0].filename,
        python=str(python),
        provenance=trusted.signer is not None,
        signer=trusted.signer.workflow if trusted.signer is not None else "",
        self_named=trusted.self_named,
        sdk=tuple(wheel.filename for wheel in wheels[1:]),
        cmake_dir=_cmake_dir(python) if sdk and not dry_run else "",
        dry_run=dry_run,
    )


def choose(manifest: Manifest, python: Python, distribution: str) -> WheelEntry:
    """The wheel of ``distribution`` that pip would take for ``python`` on this machine.

    :raises VerificationError: ``no-fitting-wheel``
    """
    name = canonicalize_name(distribution)
    best = best_wheel((wheel for wheel in manifest.wheels if canonicalize_name(wheel.distribution) == name), python)
    if best is not None:
        return best
    raise VerificationError(
        "no-fitting-wheel",
        f"{manifest.tag} has no wheel of {distribution} for CPython {python.name} on this machine",
        where=str(python.executable),
        why="it has: " + (", ".join(sorted(wheel.target for wheel in manifest.wheels)) or "none"),
        remedy="use another CPython, another platform or another tag",
    )


# -- the release -----------------------------------------------------------------------------------------------------


def _find(forge: Forge, tag: str, yanks: Sequence[Yank]) -> Release:
    if tag == LATEST:
        for release in forge.published_newest_first():
            if isinstance(parse_tag(release.tag), SnapshotTag) and yank_reason(yanks, release.tag) is None:
                return release
        raise UsageError(
            "release-not-published",
            "no snapshot is published",
            where=forge.description,
            remedy="name the tag of a numbered release",
        )
    if parse_tag(tag) is None:
        raise UsageError(
            "option-invalid",
            f"{tag!r} is not the tag of a release",
            remedy=f"give one like snapshot-20261120.01 or llvm-22.1.8.01, or {LATEST}",
        )
    found = need_published(forge, tag)
    reason = yank_reason(yanks, tag)
    if reason is not None:
        console.warn(f"{tag} is yanked: {reason}")
    return found


# -- pip -----------------------------------------------------------------------------------------------------------


def _install(python: Path, paths: Sequence[Path], manifest: Manifest, options: Sequence[str]) -> None:
    # The caller's surroundings say which index the dependencies come from, and who may read it.
    environment = foreign_environment(named=INDEXES)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install")
    done = capture([*pip, *options, *paths], environment=environment)
    if not done.ok:
        raise _failed(f"pip does not install {', '.join(path.name for path in paths)}", python, done)
    done = check_import(python, tag=manifest.tag, revision=manifest.revision, lenient="--no-deps" in options)
    if done.returncode != 0:
        raise _failed(f"{paths[0].name} is installed, but can't be imported", python, done)


def _cmake_dir(python: Path) -> str:
    """Where the installed ``mlir-sdk`` has ``MLIRConfig.cmake``. :raises VerificationError: ``install-failed``"""
    done = capture([python, "-m", "mlir_sdk", "--cmakedir"])
    if not done.ok:
        raise _failed("mlir-sdk is installed, but can't be imported", python, done)
    return done.stdout.strip()


def _failed(what: str, python: Path, done: Captured) -> VerificationError:
    return VerificationError(
        "install-failed",
        what,
        where=str(python),
        why=(done.stdout + done.stderr).strip()[-3000:],
        remedy="see the output; another package called mlir in that environment, or an environment that the system "
        "manages, can be the reason: use a virtual environment",
    )
