"""LLVM releases. A checkout, apt or git decides about one; the catalogue is a hint, and need not have it.

A version alone is enough to find packages and sources. Which llvm-project commit it is can be told by a checkout, by
the catalogue and by upstream's tags. A source archive cannot tell: where nothing else is at hand, the commit is unknown
and stays empty.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from pathlib import Path

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.llvm_version import upstream_tag
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.storage.files import read_document

CATALOGUE = Path(__file__).with_name("catalogue.toml")


@dataclass(frozen=True, kw_only=True)
class LlvmRelease:
    """A version of LLVM, or one commit of llvm-project. What is not known is empty."""

    version: str = ""  #: ``22.1.8``
    commit: str = ""  #: llvm-project's, 40 hex digits
    epoch: int = 0  #: that commit's time, in seconds since 1970
    sha256: str = ""  #: of Debian's source archive

    def __str__(self) -> str:
        return f"LLVM {self.version}" if self.version else f"llvm-project {self.commit[:12]}"

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts releases by version."""
        return tuple(int(part) for part in self.version.split("."))


def read_catalogue(path: Path = CATALOGUE) -> tuple[LlvmRelease, ...]:
    """The releases in the catalogue, oldest first."""
    data = parse_toml(read_document(path))
    releases = []
    for entry in data["release"]:
        midnight = datetime.combine(entry.pop("date"), time(), tzinfo=UTC)
        # The release's day serves as its time: the commit itself need not be asked.
        releases.append(LlvmRelease(epoch=int(midnight.timestamp()), **entry))
    return tuple(releases)


def release_at(commit: str) -> LlvmRelease:
    """The catalogue's release at a commit, else the commit alone."""
    return next((release for release in read_catalogue() if release.commit == commit), LlvmRelease(commit=commit))


def find_release(version: str, *, source: Path | None = None, upstream: str = "") -> LlvmRelease:
    """A version with its commit and time, as far as they are known, from the first place that tells the commit.

    :param source: its source tree; a git checkout tells
    :param upstream: URL of llvm-project; its tags tell, where it can be reached. Empty: it is not asked
    """
    known = next((release for release in read_catalogue() if release.version == version), LlvmRelease(version=version))
    if source is not None and (source / ".git").exists():
        git = Git(source)
        commit, epoch = git.text("log", "-1", "--format=%H %ct").split()
        return known if known.commit == commit else LlvmRelease(version=version, commit=commit, epoch=int(epoch))
    if known.commit or not upstream:
        return known
    try:
        tagged = Upstream(upstream).resolve(upstream_tag(version))
    except ReleaseError:  # no such tag, or out of reach
        return known
    return replace(known, commit=tagged.sha, epoch=tagged.epoch)


def identify_revision(
    version: str,
    revision: str | None = None,
    source_epoch: int | None = None,
    *,
    source: Path | None = None,
    upstream: str = "",
) -> LlvmRelease:
    """The release of an LLVM, with its commit and time, for a person who may have named them.

    :param version: of the LLVM
    :param revision: its commit; default: that of :func:`find_release`
    :param source_epoch: that commit's time; default: the catalogue's or upstream's
    :raises UsageError: ``option-invalid``
    """
    found = find_release(version, source=source, upstream=upstream)
    if revision is not None and revision != found.commit:
        found = replace(release_at(revision), version=version)
    if not found.commit:
        raise UsageError(
            "option-invalid",
            f"the llvm-project commit of LLVM {version} is not known",
            why="the catalogue does not have this version, upstream's tags can't be read, and no checkout was given",
            remedy="give it with --revision, or give a git checkout of llvm-project with --source",
        )
    if source_epoch is not None:
        return replace(found, epoch=source_epoch)
    if not found.epoch and upstream:
        with suppress(ReleaseError):
            found = replace(found, epoch=Upstream(upstream).resolve(found.commit).epoch)
    if found.epoch:
        return found
    raise UsageError(
        "option-invalid",
        f"the time of commit {found.commit} is not known",
        why="it becomes SOURCE_DATE_EPOCH of the wheels; the catalogue has it for releases only, and upstream can't be "
        "asked",
        remedy="give it with --source-epoch (git log -1 --format=%ct)",
    )
