"""An SDK of one release for this machine: imported from an installed LLVM, else built from source."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.host.cache import locked
from mlir_release.host.files import sha256_of_all
from mlir_release.projects.mlir import PYTHON_SOURCES
from mlir_release.sdk.build import build_sdk, prepare
from mlir_release.sdk.build_environment import is_too_new
from mlir_release.sdk.debian import DebianPackages
from mlir_release.sdk.importer import import_sdk
from mlir_release.sdk.info import Sdk
from mlir_release.sdk.prefix import inspect_prefix
from mlir_release.sdk.source import KnownRelease, choose_release, fetch_source, read_catalogue

if TYPE_CHECKING:
    from mlir_release.snapshot.upstream import Revision

#: Trailer of commits that represent a release of LLVM: its version.
TRAILER_VERSION = "LLVM-Version"

#: llvm-project itself, the first place that sources are fetched from.
LLVM_PROJECT = "https://github.com/llvm/llvm-project.git"


def available_release(*, cache: Path, prefix: Path | None = None, version: str | None = None) -> KnownRelease:
    """The newest release of the catalogue that this machine can have an SDK of without building LLVM.

    :param prefix: an installed LLVM; then it is that one's release
    :param version: take this one
    :raises UsageError: if the catalogue knows none of what is at hand. Where there is nothing at all, it is the newest
        release of the catalogue, whose LLVM must be built.
    """
    if version is not None:
        return choose_release([version])
    if prefix is not None:
        return choose_release([inspect_prefix(prefix).version])
    versions = DebianPackages(cache).versions() if DebianPackages.available() else {}
    return choose_release(list(versions.values())) if versions else read_catalogue()[-1]


def provide_sdk(
    release: KnownRelease,
    *,
    revision: str,
    source_epoch: int,
    cache: Path,
    prefix: Path | None = None,
    source: Path | None = None,
    jobs: int | None = None,
) -> Sdk:
    """The SDK of ``release``, from the cache if an equal one was made before.

    :param revision: the commit that it is recorded with: ``release.commit``, or one that represents it
    :param source_epoch: that commit's time
    """
    facts = [release.version, revision, str(source_epoch), str(prefix), str(source), _code_digest()]
    name = f"llvm-{release.version}-{hashlib.sha256(' '.join(facts).encode()).hexdigest()[:12]}"
    root = cache / "sdks" / name
    # Not the lock that the importer takes on the SDK's own folder: this one also covers the fetching before it.
    with locked(cache / "sdks" / f".{name}.provide.lock"):
        if (root / "sdk.json").is_file():
            return Sdk.load(root)
        shutil.rmtree(root, ignore_errors=True)
        installed = prefix or _distribution_prefix(release, cache)
        tree = fetch_source(
            release.commit, cache=cache, directory=source, upstream=LLVM_PROJECT, whole=installed is None
        )
        if installed is None:
            return build_sdk(prepare(tree.root, output=root, source_epoch=source_epoch, jobs=jobs), revision=revision)
        return import_sdk(installed, source=tree.root, output=root, revision=revision, source_epoch=source_epoch)


def provide_for(
    revision: Revision, *, floor: str, cache: Path, budget: float | None = None, jobs: int | None = None
) -> Sdk:
    """The SDK of a selected revision: of a release that is packaged here, else built from source.

    :param floor: the oldest platform that its wheels are for (``manylinux_2_28``, ``macosx_13_0``). Distribution
        packages are used only if the distribution's glibc is no newer than that.
    :param budget: seconds for a build from source
    :raises BudgetSpent: after that time
    """
    version = revision.trailers.get(TRAILER_VERSION)  # set where commits represent releases
    known = next((r for r in read_catalogue() if r.commit == revision.sha or r.version == version), None)
    if known is not None and not is_too_new(floor) and _packaged_major(known, cache) is not None:
        return provide_sdk(known, revision=revision.sha, source_epoch=revision.epoch, cache=cache, jobs=jobs)
    output = cache / "sdks" / f"{revision.sha}-{floor or 'here'}-{_code_digest()[:12]}"
    if (output / "sdk.json").is_file():
        return Sdk.load(output)
    commit = known.commit if known is not None else revision.sha
    tree = fetch_source(commit, cache=cache, directory=None, upstream=LLVM_PROJECT, whole=True)
    build = prepare(
        tree.root,
        output=output,
        source_epoch=revision.epoch,
        floor=floor,
        # So that relative paths between sources and build are the same for every revision: compiler caches need it.
        workspace=tree.root,
        jobs=jobs,
    )
    return build_sdk(build, revision=revision.sha, budget=budget)


def _packaged_major(release: KnownRelease, cache: Path) -> int | None:
    """The major version under which the distribution has packages of exactly this release; None if it has none."""
    packages = DebianPackages(cache)
    versions = packages.versions() if packages.available() else {}
    found = next((major for major, version in versions.items() if version == release.version), None)
    if found is None:
        console.say(f"    this distribution has no packages of LLVM {release.version}: building it from source")
    return found


def _distribution_prefix(release: KnownRelease, cache: Path) -> Path | None:
    """Where the distribution's packages of exactly this release are unpacked; None if it has none."""
    major = _packaged_major(release, cache)
    return None if major is None else DebianPackages(cache).unpack(major)


def _code_digest() -> str:
    """Of the code that makes SDKs, so that a cached one is not taken for what newer code would make."""
    return sha256_of_all([*sorted(Path(__file__).parent.glob("*.py")), *sorted(PYTHON_SOURCES.rglob("*.*"))])
