"""The wheel of a release that fits an interpreter: found, verified (digest and provenance), installed with pip."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from packaging.utils import canonicalize_name

from mlir_release.console import console, format_bytes
from mlir_release.errors import UsageError, VerificationError
from mlir_release.forge.files import read_yanks
from mlir_release.host.process import Captured, capture
from mlir_release.host.pythons import describe
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.release_tags import SnapshotTag, parse_tag
from mlir_release.model.yanks import yank_reason
from mlir_release.release.install_check import best_wheel, check_import
from mlir_release.release.remote import fetch_manifest, fetch_published_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.base import Forge, Release
    from mlir_release.host.pythons import Python
    from mlir_release.model.manifest import Manifest, WheelEntry
    from mlir_release.model.yanks import Yank

#: Instead of a tag: the newest published snapshot that nobody yanked.
LATEST = "latest"

#: Whether a wheel's provenance must verify: ``auto`` is ``require`` for releases on GitHub, which attests its builds.
Provenance = Literal["auto", "require", "skip"]


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was installed (or, with ``dry_run``, would be)."""

    tag: str
    revision: str  #: llvm-project commit
    version: str  #: of the wheel
    filename: str
    python: str  #: path of the interpreter
    provenance: bool  #: it was verified
    cmake_dir: str = ""  #: CMake packages of the release's SDK; empty where none is published
    dry_run: bool = False

    def text(self) -> str:
        """For people."""
        verb = "would install" if self.dry_run else "installed"
        checked = "digest and provenance" if self.provenance else "digest"
        return f"{verb} {self.filename} of {self.tag} ({self.revision[:12]}) for {self.python}; {checked} verified"

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
    provenance: Provenance = "auto",
    branch: str = "main",
    pip_options: Sequence[str] = (),
    dry_run: bool = False,
) -> Installed:
    """Install a published release's wheel of ``distribution`` into ``python``'s environment.

    Dependencies come from pip's usual index; the wheel itself only ever from the release.

    :param tag: a snapshot's or numbered release's, or :data:`LATEST`
    :param python: None: the ``python`` of PATH
    :param branch: where ``yanked.toml`` is
    :param pip_options: for ``pip install``: an index, ``--no-deps``
    :param dry_run: verify only
    :raises UsageError: ``install-tag-invalid``, ``install-release-missing``, ``python-missing``
    :raises VerificationError: ``install-no-wheel``, ``asset-corrupt``, ``release-not-its-manifest``,
        ``provenance-unverified``, ``install-failed``, ``import-failed``
    :raises MachineError: ``gh-missing``
    """
    python = _executable(python)
    interpreter = describe(python)
    with scratch_folder("install") as folder:
        release = _find(forge, tag, read_yanks(forge, branch))
        manifest = fetch_manifest(forge, release, folder)
        wheel = choose(manifest, interpreter, distribution)
        with console.step(f"fetch {wheel.filename}, {format_bytes(wheel.size)}"):
            path = fetch_published_wheel(forge, release, wheel, folder)
        verified = _provenance(forge, path, provenance)
        if not dry_run:
            with console.step(f"install {wheel.filename}"):
                _install(python, path, manifest, pip_options)
    return Installed(
        tag=manifest.tag,
        revision=manifest.revision,
        version=manifest.version,
        filename=wheel.filename,
        python=str(python),
        provenance=verified,
        dry_run=dry_run,
    )


def _executable(python: Path | None) -> Path:
    """The interpreter that was named, by path or as a command of PATH; None: ``python``, else the running one."""
    found = shutil.which(python or "python")
    return Path(found) if found else python or Path(sys.executable)


def choose(manifest: Manifest, python: Python, distribution: str) -> WheelEntry:
    """The wheel of ``distribution`` that pip would take for ``python`` on this machine.

    :raises VerificationError: ``install-no-wheel``
    """
    name = canonicalize_name(distribution)
    best = best_wheel((wheel for wheel in manifest.wheels if canonicalize_name(wheel.distribution) == name), python)
    if best is not None:
        return best
    raise VerificationError(
        "install-no-wheel",
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
            "install-release-missing",
            "no snapshot is published",
            where=forge.description,
            remedy="name the tag of a numbered release",
        )
    if parse_tag(tag) is None:
        raise UsageError(
            "install-tag-invalid",
            f"{tag!r} is not the tag of a release",
            remedy=f"give one like snapshot-20261120.01 or llvm-22.1.8.01, or {LATEST}",
        )
    found = forge.published(tag)
    if found is None:
        raise UsageError(
            "install-release-missing",
            f"{tag} is not published",
            where=forge.description,
            remedy="check the tag and the repository; a private repository needs a token in GITHUB_TOKEN",
        )
    reason = yank_reason(yanks, tag)
    if reason is not None:
        console.warn(f"{tag} is yanked: {reason}")
    return found


# -- provenance --------------------------------------------------------------------------------------------------------


def _provenance(forge: Forge, path: Path, wanted: Provenance) -> bool:
    """Verify who built the file. Returns whether that was done."""
    services = forge.services
    if wanted == "skip" or (wanted == "auto" and services is None):
        return False
    if services is None:
        raise UsageError(
            "provenance-not-on-github",
            "only releases on GitHub have provenance",
            where=forge.description,
            remedy="leave --provenance out for this repository",
        )
    with console.step(f"verify the provenance of {path.name}"):
        services.verify_provenance(path)
    return True


# -- pip -----------------------------------------------------------------------------------------------------------


def _install(python: Path, path: Path, manifest: Manifest, options: Sequence[str]) -> None:
    # The caller's surroundings say which index the dependencies come from, so pip sees all of the environment.
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", *options, str(path)]
    done = capture(command)
    if not done.ok:
        raise _failed("install-failed", f"pip does not install {path.name}", python, done)
    done = check_import(python, tag=manifest.tag, revision=manifest.revision, lenient="--no-deps" in options)
    if done.returncode != 0:
        raise _failed("import-failed", f"{path.name} is installed, but can't be imported", python, done)


def _failed(id: str, what: str, python: Path, done: Captured) -> VerificationError:
    return VerificationError(
        id,
        what,
        where=str(python),
        why=(done.stdout + done.stderr).strip()[-3000:],
        remedy="see the output; another package called mlir in that environment, or an environment that the system "
        "manages, can be the reason: use a virtual environment",
    )
