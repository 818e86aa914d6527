"""Numbered releases on a package index: everything is checked before the first byte is uploaded.

Final ones go there, and candidates where ``pypi-candidates`` of ``targets.toml`` says so. A candidate's version is a
pre-release of PEP 440, which installers take only when they are asked to.

A file on an index can't be replaced, and its name is used up even when it is deleted. So the plan is made from the
published release and the index alone, and one wrong file refuses all of it. Files go up one by one. A repeated run
skips files that are there with the same digest, so it can be killed anywhere.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from mlir_release.console import console, format_bytes
from mlir_release.errors import ConflictError, ForgeError, NeedsPersonError, UsageError, VerificationError
from mlir_release.forge.files import matrix_at
from mlir_release.host.process import Captured, capture
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.release_tags import TRAILER_WHEEL_VERSION, NumberedTag, parse_numbered, parse_tag
from mlir_release.model.targets import TARGETS_FILE
from mlir_release.model.trailers import parse_trailers
from mlir_release.pinning.pinned import check_facts
from mlir_release.pinning.state import find_state
from mlir_release.pypi.project import PYPI_UPLOAD, IndexProject, read_project, simple_url
from mlir_release.release.signed import AS_DECLARED, read_published

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.forge.base import Forge
    from mlir_release.model.manifest import Manifest, WheelEntry
    from mlir_release.release.signed import SignedBy

#: The one distribution that goes to PyPI (docs/design.md, "Versions and tags").
DISTRIBUTION = "mlir"

#: PyPI's limits on a file and on a project, in bytes (docs.pypi.org/project-management/storage-limits).
FILE_LIMIT = 100 * 1024**2
PROJECT_LIMIT = 10 * 1024**3


@dataclass(frozen=True, kw_only=True)
class PypiUpload:
    """The files to upload, or that were uploaded. All of them were checked against the index."""

    tag: str
    version: str
    upload: tuple[WheelEntry, ...]
    there: tuple[WheelEntry, ...]  #: on the index already, with the same digest
    used: int | None  #: bytes of the project on the index before; None if the index does not tell
    url: str  #: the project's simple page
    dry_run: bool = False

    @property
    def size(self) -> int:
        """Bytes to upload."""
        return sum(wheel.size for wheel in self.upload)

    def text(self) -> str:
        """A line for each file, and the budget."""
        verb = "would upload" if self.dry_run else "uploaded"
        lines = [f"{self.tag} as {DISTRIBUTION} {self.version} on {self.url}"]
        lines += [f"  there already: {wheel.filename}" for wheel in self.there]
        lines += [f"  {verb}: {wheel.filename}, {format_bytes(wheel.size)}" for wheel in self.upload]
        if self.used is not None:
            lines.append(f"  budget: {format_bytes(self.used + self.size)} of {format_bytes(PROJECT_LIMIT)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.tag,
            "version": self.version,
            "url": self.url,
            "uploaded": [wheel.filename for wheel in self.upload],
            "there": [wheel.filename for wheel in self.there],
            "bytes": self.size,
            "project_bytes": self.used,
            "project_limit": PROJECT_LIMIT,
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, kw_only=True)
class CandidateStays:
    """A candidate that is not for PyPI, because nobody asked for candidates there. This is no failure."""

    tag: str

    def text(self) -> str:
        """For people: the reason, and the setting that changes it."""
        return (
            f"{self.tag} is a release candidate, and candidates do not go to PyPI: nothing was done\n"
            f"  to have the next ones there: pypi-candidates = true in [release] of {TARGETS_FILE}"
        )

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"tag": self.tag, "candidates": False, "uploaded": [], "there": []}


def publish_to_index(
    forge: Forge,
    tag: str,
    *,
    repository_url: str = PYPI_UPLOAD,
    index_url: str = "",
    owners: Collection[str] = (),
    signed_by: SignedBy = AS_DECLARED,
    dry_run: bool = False,
) -> PypiUpload | CandidateStays:
    """Put a published numbered release's wheels of :data:`DISTRIBUTION` on an index. Safe to repeat and to kill.

    A candidate goes there only if ``targets.toml`` at its tag says so.

    Credentials are twine's: ``TWINE_USERNAME`` and ``TWINE_PASSWORD``, or trusted publishing in a workflow.

    :param repository_url: the upload address
    :param index_url: the simple index that belongs to it; empty: derived
    :param owners: users or the organization that must own the project where the index tells owners
    :param signed_by: who must have signed the release
    :raises UsageError: ``release-unsuitable``, ``release-not-published``, ``option-invalid``
    :raises VerificationError: ``pypi-unsuitable``; ``signature-invalid``; or the tag is not of a pin commit
        (:func:`~mlir_release.pinning.pinned.check_facts`); nothing was uploaded
    :raises NeedsPersonError: ``pypi-name-foreign``
    :raises ForgeError: ``forge-refused``
    """
    _check_address(repository_url)
    if stays(forge, tag):
        return CandidateStays(tag=tag)
    index = index_url or simple_url(repository_url)
    with prepared(forge, tag, index=index, owners=owners, signed_by=signed_by) as (plan, paths):
        if not dry_run:
            for path, wheel in zip(paths, plan.upload, strict=True):
                with console.step(f"upload {path.name}, {format_bytes(wheel.size)}"):
                    _upload(path, wheel, repository_url, index)
        return replace(plan, dry_run=dry_run)


@contextmanager
def prepared(
    forge: Forge, tag: str, *, index: str, owners: Collection[str], signed_by: SignedBy
) -> Iterator[tuple[PypiUpload, list[Path]]]:
    """Check all of a release against an index; see :func:`publish_to_index`.

    Yields the plan, and within the block the files to upload, in the plan's order.

    :param index: the simple index
    """
    state = find_state(forge, tag)
    check_facts(forge.pin_facts(state.commit), state)  # that it is upstream's was asked before it was published
    trusted = read_published(forge, tag, signed_by, commit=state.commit)
    project = read_project(index, DISTRIBUTION)
    check_name(project, owners, ours=our_versions(forge))
    plan = make_plan(trusted.manifest, project)
    with scratch_folder("pypi") as folder:
        paths = [trusted.fetch_file(wheel, folder) for wheel in plan.upload]
        check_metadata(paths)
        yield plan, paths


def stays(forge: Forge, tag: str) -> bool:
    """Whether a tag is a candidate that nobody wants on PyPI. :raises UsageError: ``release-unsuitable``"""
    candidate = Version(numbered_tag(tag).version).is_prerelease
    return candidate and not matrix_at(forge, find_state(forge, tag).commit).release.pypi_candidates


# -- the files that may go there -----------------------------------------------------------------------------------


def numbered_tag(tag: str) -> NumberedTag:
    """Read the tag of a numbered release. :raises UsageError: ``release-unsuitable``"""
    parsed = parse_numbered(tag) if tag.startswith("llvm-") else None
    if parsed is None:
        raise UsageError(
            "release-unsuitable",
            f"{tag} does not go to PyPI",
            why="only numbered releases do: a project has 10 GB there, and snapshots have an index of their own",
            remedy="give the tag of one, for example llvm-22.1.8.01",
        )
    return parsed


def _check_address(repository_url: str) -> None:
    if "@" in urlsplit(repository_url).netloc:
        raise UsageError(
            "option-invalid",
            "the upload address has credentials in it",
            why="every process of the machine can read arguments, and logs keep them",
            remedy="give them in TWINE_USERNAME and TWINE_PASSWORD",
        )


def our_versions(forge: Forge) -> frozenset[str]:
    """The wheel versions that the repository's numbered tags allocated."""
    tags = [tag for tag in forge.tags() if isinstance(parse_tag(tag.name), NumberedTag)]
    return frozenset(parse_trailers(tag.message).get(TRAILER_WHEEL_VERSION, "") for tag in tags) - {""}


def check_name(project: IndexProject, owners: Collection[str], *, ours: Collection[str]) -> None:
    """Refuse a name that belongs to someone else. Where the index does not tell its owners, its versions must be ours.

    :raises NeedsPersonError: ``pypi-name-foreign``
    """
    why = ""
    if project.owners is not None:
        if project.owners.isdisjoint(owners):
            why = (
                f"its owners are {', '.join(sorted(project.owners)) or 'nobody'}; "
                f"expected {' or '.join(sorted(owners)) or 'none: no owner was named'}"
            )
    elif unknown := project.versions - set(ours):
        why = f"there are versions that no tag of ours made: {', '.join(sorted(unknown))}"
    if why:
        raise NeedsPersonError(
            "pypi-name-foreign",
            f"the project {project.name} is not ours",
            where=project.url,
            why=why,
            remedy="have the name transferred (PEP 541), then name its owner with --owner or MLIR_RELEASE_PYPI_OWNER; "
            "nothing was uploaded",
        )


def make_plan(manifest: Manifest, project: IndexProject) -> PypiUpload:
    """Decide which wheels to upload. Pure.

    :raises UsageError: ``release-unsuitable``
    :raises VerificationError: ``pypi-unsuitable``
    """
    wheels = [wheel for wheel in manifest.wheels if canonicalize_name(wheel.distribution) == DISTRIBUTION]
    if not wheels:
        raise UsageError(
            "release-unsuitable",
            f"{manifest.tag} has no wheel of {DISTRIBUTION}",
            why="its wheels: " + (", ".join(wheel.filename for wheel in manifest.wheels) or "none"),
            remedy="nothing is to be done for this release",
        )
    _check_version(manifest)
    upload, there = [], []
    for wheel in wheels:
        _check_size(wheel)
        known = project.files.get(wheel.filename)
        if known is None:
            upload.append(wheel)
        elif known.sha256 == wheel.sha256:
            there.append(wheel)
        else:
            raise VerificationError(
                "pypi-unsuitable",
                f"the index has other bytes under the name {wheel.filename}",
                where=project.url,
                why=f"there {known.sha256 or 'without a sha256'}, in the release {wheel.sha256}",
                remedy="find out who uploaded it; number another release (it becomes a .post); nothing was uploaded",
            )
    plan = PypiUpload(
        tag=manifest.tag,
        version=manifest.version,
        upload=tuple(upload),
        there=tuple(there),
        used=project.size,
        url=project.url,
    )
    if plan.upload and plan.used is not None and plan.used + plan.size > PROJECT_LIMIT:
        raise VerificationError(
            "pypi-unsuitable",
            f"{manifest.tag} does not fit into the project's storage",
            where=project.url,
            why=f"{format_bytes(plan.used)} are used and {format_bytes(plan.size)} would be added, "
            f"of {format_bytes(PROJECT_LIMIT)}",
            remedy="ask PyPI for more (https://docs.pypi.org/project-management/storage-limits), or delete old "
            "releases there; nothing was uploaded",
        )
    return plan


def _check_version(manifest: Manifest) -> None:
    version = Version(manifest.version)  # that of each of its files, else it were no manifest
    base = parse_numbered(manifest.tag).version
    same = (version.release, version.pre) == (Version(base).release, Version(base).pre)
    if version.local or version.is_devrelease or not same:
        raise VerificationError(
            "pypi-unsuitable",
            f"the version of {manifest.tag} is not one for PyPI",
            where=manifest.tag,
            why=f"it is {version}; a release of {base} is {base} or {base}.post<n>, without a local part",
            remedy="number another release: mlir-release release start; nothing was uploaded",
        )


def _check_size(wheel: WheelEntry) -> None:
    if wheel.size > FILE_LIMIT:
        raise VerificationError(
            "pypi-unsuitable",
            f"{wheel.filename} is larger than the index takes",
            where=wheel.target,
            why=f"{format_bytes(wheel.size)} of at most {format_bytes(FILE_LIMIT)}",
            remedy="ask PyPI for more (https://docs.pypi.org/project-management/storage-limits), or link less into "
            "the wheel; nothing was uploaded",
        )


def check_metadata(paths: Sequence[Path]) -> None:
    """``twine check --strict`` on each wheel. :raises VerificationError: ``pypi-unsuitable``"""
    for path in paths:
        done = _twine("check", "--strict", str(path))
        if done.returncode != 0:
            raise VerificationError(
                "pypi-unsuitable",
                f"twine check refuses {path.name}",
                where=path.name,
                why=_said(done),
                remedy="fix the wheel's metadata and number another release; nothing was uploaded",
            )


# -- twine -----------------------------------------------------------------------------------------------------------


def _upload(path: Path, wheel: WheelEntry, repository_url: str, index_url: str) -> None:
    """Upload one file, unless another run was faster with the same bytes."""
    done = _twine(
        "upload", "--non-interactive", "--disable-progress-bar", "--repository-url", repository_url, str(path)
    )
    if done.returncode == 0:
        return
    known = read_project(index_url, DISTRIBUTION).files.get(path.name)
    if known is not None and known.sha256 == wheel.sha256:
        return
    if known is not None:
        raise ConflictError(
            "lost-race",
            f"someone uploaded other bytes as {path.name} meanwhile",
            where=index_url,
            why=f"there {known.sha256 or 'without a sha256'}, in the release {wheel.sha256}",
            remedy="find out who; number another release (it becomes a .post)",
        )
    raise ForgeError(
        "forge-refused",
        f"{path.name} was not uploaded",
        where=repository_url,
        why=_said(done),
        remedy="check the credentials (a trusted publisher of this workflow and environment, or TWINE_USERNAME and "
        "TWINE_PASSWORD), then run this again: what is uploaded stays uploaded",
    )


def _twine(*arguments: str) -> Captured:
    # Its credentials are in the environment, never among the arguments, which every process can read.
    command = [sys.executable, "-m", "twine", "--no-color", *arguments]
    environment = {**os.environ, "COLUMNS": "1000"}
    return capture(command, environment=environment)


def _said(done: Captured, environ: Mapping[str, str] = os.environ) -> str:
    """The end of twine's output, without secrets."""
    text = re.sub(r"\s+\n", "\n", done.stdout + done.stderr).strip()
    for name in ("TWINE_PASSWORD", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
        if environ.get(name):
            text = text.replace(environ[name], "***")
    return text[-2000:]
