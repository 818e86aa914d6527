"""Sources of llvm-project at one revision: from a folder, the cache, git, or Debian's source package.

The cache holds one tree a revision, either whole (for building LLVM) or only what an SDK carries (``mlir/``, ``cmake/``
and a few files: a tenth of the size). A tree appears there by one rename, so it is always complete.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import MachineError, ReleaseError, UsageError
from mlir_release.git.repository import Git, GitError
from mlir_release.host.cache import locked
from mlir_release.host.process import capture
from mlir_release.sdk.debian import DebianPackages
from mlir_release.sdk.upstream import KEPT_SOURCES, UpstreamSource, read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

CATALOGUE = Path(__file__).with_name("catalogue.toml")


@dataclass(frozen=True, kw_only=True)
class KnownRelease:
    """A release in the catalogue. ``sha256`` of Debian's source archive is empty where it is not known."""

    version: str
    commit: str
    date: date
    sha256: str = ""

    @property
    def epoch(self) -> int:
        """The release's day in seconds since 1970, for where the commit itself can't be asked."""
        return int(datetime.combine(self.date, time(), tzinfo=UTC).timestamp())


def read_catalogue(path: Path = CATALOGUE) -> tuple[KnownRelease, ...]:
    """The releases in the catalogue, oldest first."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(KnownRelease(**entry) for entry in data["release"])


def _release_at(commit: str) -> KnownRelease | None:
    return next((release for release in read_catalogue() if release.commit == commit), None)


def fetch_source(
    revision: str,
    *,
    cache: Path,
    directory: Path | None = None,
    upstream: str = "",
    whole: bool = False,
) -> UpstreamSource:
    """The source tree of ``revision``: from a given folder, the cache, git or Debian, whichever has it first.

    :param revision: 40 hex digits
    :param directory: a tree of this revision; used as it is
    :param upstream: URL that git can fetch from; empty: don't try
    :param whole: all of llvm-project, for building LLVM itself
    :raises UsageError: if ``directory`` is no llvm-project tree
    :raises MachineError: if the sources are nowhere to be had, with the reason for each place
    """
    if directory is not None:
        return read_source(directory)
    sources = cache / "sources"
    tree = sources / (revision if whole else f"{revision}-mlir")
    for found in (tree, sources / revision):
        if found.is_dir():
            return read_source(found)
    places: list[tuple[str, Callable[[Path], None]]] = []
    if upstream:
        places.append((f"git ({upstream})", lambda into: _from_git(revision, upstream, into, whole=whole)))
    if known := _release_at(revision):
        places.append(("Debian's source package", lambda into: _from_debian(known, cache, into, whole=whole)))
    with locked(sources / ".lock"):
        if not tree.is_dir():
            _first_that_answers(revision, places, tree)
    return read_source(tree)


def _first_that_answers(revision: str, places: Sequence[tuple[str, Callable[[Path], None]]], tree: Path) -> None:
    staging = tree.with_name(f"{tree.name}.tmp")
    refusals = []
    for name, fetch in places:
        shutil.rmtree(staging, ignore_errors=True)  # of another place, or of a run that was killed
        staging.mkdir(parents=True)
        try:
            with console.step(f"fetch the sources of llvm-project {revision[:12]} from {name}"):
                fetch(staging)
            read_source(staging)
        except (ReleaseError, OSError) as error:
            refusals.append(f"{name}: {_first_line(error)}")
            continue
        staging.rename(tree)
        return
    shutil.rmtree(staging, ignore_errors=True)
    raise MachineError(
        "source-unavailable",
        f"the sources of llvm-project {revision} are not available",
        where=str(tree),
        why="; ".join(refusals) or "no upstream is configured, and the catalogue does not know this commit",
        remedy="give a checkout of that commit with --source, or make the upstream reachable",
    )


def _first_line(error: Exception) -> str:
    why = error.why if isinstance(error, ReleaseError) else ""
    lines = (why or str(error)).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


def _from_git(revision: str, upstream: str, into: Path, *, whole: bool) -> None:
    """Fetch one commit without its history, and of it only the folders that are wanted."""
    git = Git(into)
    git.run("init", "--quiet")
    # A server that accepts the connection and then sends nothing must not block us for ever.
    limits = {"GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "30"}
    try:
        git.run("remote", "add", "origin", upstream)
        if not whole:
            git.run("config", "core.sparseCheckout", "true")
            patterns = "".join(f"/{name}\n" for name in KEPT_SOURCES)
            (into / ".git" / "info").mkdir(exist_ok=True)
            (into / ".git" / "info" / "sparse-checkout").write_text(patterns, encoding="utf-8")
        with console.waiting(f"fetching llvm-project {revision[:12]} with git"):
            filters = [] if whole else ["--filter=blob:none"]
            git.run("fetch", "--quiet", "--depth=1", "--no-tags", *filters, "origin", revision, env=limits)
            git.run("checkout", "--quiet", "--detach", "FETCH_HEAD", env=limits)
    except GitError as error:
        raise MachineError(
            "source-git-failed",
            "git could not fetch the sources",
            where=upstream,
            why=error.why,
            remedy="check the network, or give the sources with --source",
        ) from error
    shutil.rmtree(into / ".git")


def _from_debian(release: KnownRelease, cache: Path, into: Path, *, whole: bool) -> None:
    """Unpack the archive of Debian's source package, which is upstream's own tree."""
    if not DebianPackages.available():
        raise MachineError("apt-missing", "this machine has no apt", remedy="give the sources with --source")
    archive = DebianPackages(cache).source_archive(release.version, sha256=release.sha256)
    top = archive.name.removesuffix(".orig.tar.xz")
    members = [top] if whole else [f"{top}/{name}" for name in KEPT_SOURCES]
    command = ["tar", "--extract", "--xz", f"--file={archive}", f"--directory={into}", "--strip-components=1"]
    # A release may lack some of the wanted files; whether the tree is usable is checked afterwards.
    with console.waiting(f"unpacking {archive.name}"):
        done = capture([*command, *members])
    if not done.ok and "Not found in archive" not in done.stderr:
        raise MachineError(
            "source-unpack-failed",
            f"{archive.name} can't be unpacked",
            where=str(into),
            why="\n".join(done.complaint.splitlines()[-3:]),
            remedy="check the free disk space, and that xz is installed",
        )


def choose_release(versions: Sequence[str]) -> KnownRelease:
    """The newest release of the catalogue among ``versions``. :raises UsageError: if none of them is known"""
    known = {release.version: release for release in read_catalogue()}
    for version in sorted(versions, key=lambda text: [int(part) for part in text.split(".")], reverse=True):
        if version in known:
            return known[version]
    raise UsageError(
        "llvm-not-in-catalogue",
        f"none of the LLVM versions at hand is in the catalogue: {', '.join(versions) or 'none at all'}",
        where=str(CATALOGUE),
        why="their llvm-project commits are not known",
        remedy=f"add the version with its commit there, or use one of: {', '.join(known)}",
    )


def identify_revision(version: str, revision: str | None = None, source_epoch: int | None = None) -> tuple[str, int]:
    """The llvm-project commit of an LLVM, and its time in seconds since 1970.

    :param version: of the LLVM; decides, by the catalogue, if ``revision`` is not given
    :param source_epoch: by default the catalogue's date of the commit
    :raises UsageError: ``llvm-not-in-catalogue``, ``source-epoch-missing``
    """
    if revision is None:
        revision = choose_release([version]).commit
    if source_epoch is None:
        known = _release_at(revision)
        if known is None:
            raise UsageError(
                "source-epoch-missing",
                f"the time of commit {revision} is not known",
                why="it becomes SOURCE_DATE_EPOCH of the wheels; the catalogue has it for releases only",
                remedy="give it with --source-epoch (git log -1 --format=%ct)",
            )
        source_epoch = known.epoch
    return revision, source_epoch
