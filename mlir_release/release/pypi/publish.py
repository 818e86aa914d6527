"""Numbered releases on a package index: everything is checked before the first byte is uploaded.

``pypi`` in the ``[project.NAME]`` tables of ``targets.toml`` names the distributions that go there. Of the releases the
final ones do, and candidates where ``pypi-candidates`` says so. A candidate's version is a pre-release of PEP 440,
which installers take only when they are asked to.

A file on an index can't be replaced, and its name is used up even when it is deleted. So the plan is made from the
published release and the index alone, and one wrong file refuses all of it. Files go up one by one. A repeated run
skips files that are there with the same digest, so it can be killed anywhere.

In ``release.yml`` an upload is three jobs. The first verifies the files that PyPI lacks and writes them into a folder
(:func:`stage`). The second compares them with the digests that the first hands over, and uploads them; PyPI trusts that
job, so nothing of ours runs in it. The third looks for the files on PyPI (:func:`check`).
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name
from packaging.version import Version

from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import ConflictError, ForgeError, NeedsPersonError, UsageError, VerificationError
from mlir_release.ground.programs.process import Captured, capture
from mlir_release.ground.storage.files import copy_regular
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.files import matrix_at
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, read_published
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import TRAILER_WHEEL_VERSION, NumberedTag, parse_numbered, parse_tag
from mlir_release.release.pinning.pinned import check_facts
from mlir_release.release.pinning.state import find_state
from mlir_release.release.pypi.project import PYPI_UPLOAD, IndexProject, PypiUpload, make_plan, read_project, simple_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.manifest import WheelEntry

#: Seconds between two looks at an index that may still serve an old page.
PAUSES = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)


@dataclass(frozen=True, kw_only=True)
class Stays:
    """A release that is not for PyPI, because nobody asked for it there. This is no failure."""

    tag: str
    lacks: Literal["candidates", "distributions"]  #: what ``targets.toml`` does not ask for

    @property
    def why(self) -> str:
        """The reason, after the tag's name."""
        if self.lacks == "candidates":
            return "is a release candidate, and candidates do not go to PyPI"
        return "has no distribution that goes to PyPI"

    def text(self) -> str:
        """For people: the reason, and the setting that changes it."""
        setting = "pypi-candidates = true in [release]" if self.lacks == "candidates" else "pypi in a [project.NAME]"
        asked = f"to have the next ones there: {setting} of {TARGETS_FILE}"
        return f"{self.tag} {self.why}: nothing was done\n  {asked}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"tag": self.tag, self.lacks: False, "uploaded": [], "there": []}


@dataclass(frozen=True, kw_only=True)
class Destination:
    """The package index that a release goes to."""

    repository_url: str = PYPI_UPLOAD  #: the upload address
    index_url: str = ""  #: the simple index that belongs to it; empty: derived
    owners: Collection[str] = ()  #: users or the organization that must own the project where the index tells owners

    @property
    def simple(self) -> str:
        """The simple index."""
        return self.index_url or simple_url(self.repository_url)


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


def publish_to_index(
    forge: Forge, tag: str, to: Destination, *, signed_by: SignedBy = AS_DECLARED, dry_run: bool = False
) -> PypiUpload | Stays:
    """Put a published numbered release's wheels on an index. Safe to repeat and to kill.

    ``targets.toml`` at its tag says which distributions go there, and whether a candidate does.

    Credentials are twine's: ``TWINE_USERNAME`` and ``TWINE_PASSWORD``, or trusted publishing in a workflow.

    :param signed_by: who must have signed the release
    :raises UsageError: ``release-unsuitable``, ``release-not-published``, ``option-invalid``
    :raises VerificationError: ``pypi-unsuitable``; ``signature-invalid``; or the tag is not of a pin commit
        (:func:`~mlir_release.release.pinning.pinned.check_facts`); nothing was uploaded
    :raises NeedsPersonError: ``pypi-name-foreign``
    :raises ForgeError: ``forge-refused``
    """
    if "@" in urlsplit(to.repository_url).netloc:
        raise UsageError(
            "option-invalid",
            "the upload address has credentials in it",
            why="every process of the machine can read arguments, and logs keep them",
            remedy="give them in TWINE_USERNAME and TWINE_PASSWORD",
        )
    if stay := stays(forge, tag):
        return stay
    with prepared(forge, tag, to, signed_by) as (plan, paths):
        if not dry_run:
            for path, wheel in zip(paths, plan.upload, strict=True):
                with console.step(f"upload {path.name}, {format_bytes(wheel.size)}"):
                    _upload(path, wheel, to)
        return replace(plan, dry_run=dry_run)


def stage(
    forge: Forge, tag: str, to: Destination, folder: Path, *, signed_by: SignedBy = AS_DECLARED
) -> Staged | Stays:
    """Verify a release as :func:`publish_to_index` does, and write missing files into ``folder``."""
    if stay := stays(forge, tag):
        return stay
    with prepared(forge, tag, to, signed_by) as (plan, paths):
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
    to: Destination,
    *,
    signed_by: SignedBy = AS_DECLARED,
    pause: Callable[[float], None] | None = time.sleep,
) -> OnIndex | Stays:
    """Make sure that the index has every file of a release with its digest; its pages may lag behind for some minutes.

    :param pause: waits until the index is asked again; None: it is asked once
    :raises VerificationError: ``pypi-unsuitable``, and what :func:`.make_plan` raises
    """
    if stay := stays(forge, tag):
        return stay
    for seconds in (*(PAUSES if pause is not None else ()), 0.0):
        with prepared(forge, tag, to, signed_by) as (plan, _):
            if not plan.upload:
                return OnIndex(tag=tag, files=tuple(wheel.filename for wheel in plan.there), urls=plan.urls)
        if seconds and pause is not None:
            console.say(f"    {len(plan.upload)} files are not listed yet; looking again in {seconds:g} s")
            pause(seconds)
    raise VerificationError(
        "pypi-unsuitable",
        f"PyPI lacks files of {tag}",
        where=", ".join(plan.urls),
        why=", ".join(wheel.filename for wheel in plan.upload),
        remedy="see why they were not uploaded, then re-run the failed jobs: what is there already is kept"
        if pause is not None
        else "upload them; the index may show them some minutes later, so then run this again",
    )


@contextmanager
def prepared(
    forge: Forge, tag: str, to: Destination, signed_by: SignedBy
) -> Iterator[tuple[PypiUpload, Sequence[Path]]]:
    """Check all of a release against an index; see :func:`publish_to_index`.

    Yields the plan, and within the block the files to upload, in the plan's order.
    """
    state = find_state(forge, tag)
    check_facts(forge.pin_facts(state.commit), state)  # that it is upstream's was asked before it was published
    trusted = read_published(forge, tag, signed_by, commit=state.commit)
    manifest, ours = trusted.manifest, our_versions(forge)
    if manifest.stack is not None:
        raise VerificationError(
            "pypi-unsuitable",
            f"{tag} carries patches that upstream does not have, and so never goes to PyPI",
            where=tag,
            why=f"it is upstream's {manifest.stack.text()}",
            remedy="install it from the release repository; nothing was uploaded",
        )
    wanted = matrix_at(forge, state.commit).on_pypi
    has = {canonicalize_name(wheel.distribution) for wheel in manifest.wheels}
    # Without any of them the first one's plan says that there is none.
    index = to.simple
    projects = [read_project(index, name) for name in wanted if name in has] or [read_project(index, wanted[0])]
    for project in projects:
        check_name(project, to.owners, ours=ours)
    plans = tuple(make_plan(manifest, project) for project in projects)
    plan = PypiUpload(tag=tag, version=manifest.version, plans=plans)
    with scratch_folder("pypi") as folder:
        paths = [trusted.fetch_file(wheel, folder) for wheel in plan.upload]
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
        yield plan, paths


def stays(forge: Forge, tag: str) -> Stays | None:
    """Why nobody wants a tag's release on PyPI; None if it goes there. :raises UsageError: ``release-unsuitable``"""
    candidate = Version(numbered_tag(tag).version).is_prerelease
    matrix = matrix_at(forge, find_state(forge, tag).commit)
    if not matrix.on_pypi:
        return Stays(tag=tag, lacks="distributions")
    return Stays(tag=tag, lacks="candidates") if candidate and not matrix.release.pypi_candidates else None


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


# -- twine -----------------------------------------------------------------------------------------------------------


def _upload(path: Path, wheel: WheelEntry, to: Destination) -> None:
    """Upload one file, unless another run was faster with the same bytes."""
    done = _twine(
        "upload", "--non-interactive", "--disable-progress-bar", "--repository-url", to.repository_url, str(path)
    )
    if done.returncode == 0:
        return
    known = read_project(to.simple, canonicalize_name(wheel.distribution)).files.get(path.name)
    if known is not None and known.sha256 == wheel.sha256:
        return
    if known is not None:
        raise ConflictError(
            "lost-race",
            f"someone uploaded other bytes as {path.name} meanwhile",
            where=to.simple,
            why=f"there {known.sha256 or 'without a sha256'}, in the release {wheel.sha256}",
            remedy="find out who; number another release (it becomes a .post)",
        )
    raise ForgeError(
        "forge-refused",
        f"{path.name} was not uploaded",
        where=to.repository_url,
        why=_said(done),
        remedy="check the credentials (a trusted publisher of this workflow and environment, or TWINE_USERNAME and "
        "TWINE_PASSWORD), then run this again: what is uploaded stays uploaded",
    )


def _twine(*arguments: str) -> Captured:
    # Its credentials are in the environment, never among the arguments, which every process can read.
    command = [sys.executable, "-m", "twine", "--no-color", *arguments]
    environment = {**os.environ, "COLUMNS": "1000"}
    return capture(command, environment=environment, ours=True)


def _said(done: Captured, environ: Mapping[str, str] = os.environ) -> str:
    """The end of twine's output, without secrets."""
    text = "\n".join(filter(None, map(str.rstrip, (done.stdout + done.stderr).splitlines())))
    for name in ("TWINE_PASSWORD", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
        if environ.get(name):
            text = text.replace(environ[name], "***")
    return text[-2000:]
