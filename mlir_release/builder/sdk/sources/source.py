"""Sources of llvm-project at one revision: from a folder, the cache, git, or Debian's source package.

The cache holds one tree a revision and project, either whole (for building LLVM) or only what an SDK carries (for MLIR
a tenth of the size). A tree appears there by one rename, so it is always complete.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.sdk.sources.upstream import UpstreamSource, read_source, unused_to_build
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, ReleaseError
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.files import remove_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mlir_release.builder.sdk.port import Recipe
    from mlir_release.builder.sdk.sources.releases import LlvmRelease

#: Ends the name of a tree that has only the files which an SDK carries. Change it when files are added.
_KEPT = "-kept"


def fetch_source(
    release: LlvmRelease,
    *,
    cache: Path,
    directory: Path | None = None,
    upstream: str = "",
    project: str = DEFAULT_PROJECT,
    whole: bool = False,
) -> UpstreamSource:
    """The source tree of ``release``: from a given folder, the cache, git or Debian, whichever has it first.

    :param release: git needs its commit, Debian its version
    :param directory: a tree of this release; used as it is
    :param upstream: URL that git can fetch from; empty: don't try
    :param project: whose SDK is to be made of it
    :param whole: all of llvm-project that it needs, for building LLVM itself
    :raises UsageError: if ``directory`` is no llvm-project tree
    :raises MachineError: if the sources are nowhere to be had, with the reason for each place
    """
    if directory is not None:
        return read_source(directory, project=project, whole=whole)
    sources, recipe = cache / "sources", recipe_of(project)
    known = [name for name in (release.commit, release.version and f"llvm-{release.version}") if name]
    names = [recipe.cached(name) for name in known]
    for found in (sources / f"{name}{part}" for name in names for part in (("",) if whole else (_KEPT, ""))):
        if found.is_dir():
            return _read(found, release, recipe, whole=whole)
    kept = () if whole else recipe.kept_sources
    wanted = ["/*", *(f"!/{name}/" for name in unused_to_build(recipe))] if whole else [f"/{name}" for name in kept]
    places: list[tuple[str, Callable[[Path], None]]] = []
    if upstream and release.commit:
        places.append((f"git ({upstream})", lambda into: _from_git(release.commit, upstream, into, wanted)))
    if release.version:
        places.append(("Debian's source package", lambda into: _from_debian(release, cache, into, kept)))
    tree = sources / (names[0] if whole else f"{names[0]}{_KEPT}")
    with locked(sources / ".lock"):
        if tree.is_dir():
            return _read(tree, release, recipe, whole=whole)
        staging = tree.with_name(f"{tree.name}.tmp")
        unknown = "git: its commit is not known (no such tag upstream, or no upstream in reach)"
        refusals = [] if release.commit else [unknown]
        for number, (name, fetch) in enumerate(places, 1):
            following = f"{places[number][0]} is next" if number < len(places) else ""
            shutil.rmtree(staging, ignore_errors=True)  # of another place, or of a run that was killed
            staging.mkdir(parents=True)
            try:
                with console.step(f"fetch the sources of {release} from {name}", without=following):
                    fetch(staging)
                _read(staging, release, recipe, whole=whole)
            except (ReleaseError, OSError) as error:
                lines = ((error.why if isinstance(error, ReleaseError) else "") or str(error)).strip().splitlines()
                refusals.append(f"{name}: {lines[-1].strip() if lines else type(error).__name__}")
                continue
            staging.rename(tree)
            return _read(tree, release, recipe, whole=whole)
        shutil.rmtree(staging, ignore_errors=True)
    raise MachineError(
        "sources-unavailable",
        f"the sources of {release} are not available",
        where=str(tree),
        why="; ".join(refusals) or "no upstream is given, and this commit is no release that Debian could have",
        remedy="give a source tree of it with --source, or make the upstream reachable",
    )


def _read(tree: Path, release: LlvmRelease, recipe: Recipe, *, whole: bool) -> UpstreamSource:
    found = read_source(tree, project=recipe.project.name, whole=whole)
    if release.version and found.version.removesuffix("git") != release.version:
        raise MachineError(
            "sources-unavailable",
            f"the sources of LLVM {release.version} are those of {found.version}",
            where=str(tree),
            why=f"the tree says that it is {found.version}, not {release.version}",
            remedy="remove this folder, and where it was unpacked from an archive, the archive, too",
        )
    return found


def _from_git(revision: str, upstream: str, into: Path, wanted: Sequence[str]) -> None:
    """Fetch one commit without its history, and of it only what is wanted.

    :param wanted: patterns as git's sparse checkout has them
    """
    git = Git(into)
    git.run("init", "--quiet")
    try:
        git.run("remote", "add", "origin", upstream)
        # Git for Windows changes line ends, which tests and digests would see, and refuses paths over 260 characters.
        git.run("config", "core.autocrlf", "false")
        git.run("config", "core.longpaths", "true")
        git.run("config", "core.sparseCheckout", "true")
        (into / ".git" / "info").mkdir(exist_ok=True)
        (into / ".git" / "info" / "sparse-checkout").write_text("\n".join([*wanted, ""]), encoding="utf-8")
        with console.waiting(f"fetching llvm-project {revision[:12]} with git"):
            filters = [] if "/*" in wanted else ["--filter=blob:none"]
            options = ("--quiet", "--depth=1", "--no-tags", *filters)
            git.run("fetch", *options, "origin", revision, remote="origin")
            # It fetches the files that are left out until then.
            git.run("checkout", "--quiet", "--detach", "FETCH_HEAD", remote="origin")
    except GitError as error:
        raise MachineError(
            "sources-unavailable",
            "git could not fetch the sources",
            where=upstream,
            why=error.why,
        ) from error
    remove_folder(into / ".git")


def _from_debian(release: LlvmRelease, cache: Path, into: Path, kept: Sequence[str]) -> None:
    """Unpack the archive of Debian's source package, which is upstream's own tree; all of it unless parts are named."""
    if not DebianPackages.available():
        raise MachineError("sources-unavailable", "this machine has no apt", remedy="give the sources with --source")
    archive = DebianPackages(cache).source_archive(release.version, sha256=release.sha256)
    top = archive.name.removesuffix(".orig.tar.xz")
    members = [f"{top}/{name}" for name in kept] or [top]
    command = ["tar", "--extract", "--xz", f"--file={archive}", f"--directory={into}", "--strip-components=1"]
    # A release may lack some of the wanted files; whether the tree is usable is checked afterwards.
    with console.waiting(f"unpacking {archive.name}"):
        done = capture([*command, *members])
    if not done.ok and "Not found in archive" not in done.stderr:
        raise MachineError(
            "sources-unavailable",
            f"{archive.name} can't be unpacked",
            where=str(into),
            why="\n".join(done.complaint.splitlines()[-3:]),
            remedy="check the free disk space, and that xz is installed",
        )
