"""Debian's and Ubuntu's LLVM packages, unpacked into a folder instead of installed.

Two versions' development packages conflict when installed, and installing changes the machine and needs root; unpacked
packages do neither. apt itself finds, fetches and verifies them, with lists of its own in the cache, so that
neither root nor a recent ``apt-get update`` is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.port import recipe_of
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError, ReleaseError
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.programs.process import capture
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.download import download

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

#: The oldest LLVM whose packages an SDK can be made of.
OLDEST_MAJOR = 19

#: clang besides, ``{v}`` is the major version: to compile code that is then compared, and with the archives and headers
#: of which a clang is linked. No SDK needs them.
CLANG_PACKAGES = (
    "clang-{v}", "libclang-cpp{v}", "libclang1-{v}", "libclang-common-{v}-dev", "libclang-{v}-dev", "libpolly-{v}-dev",
)  # fmt: skip

#: Packages that every machine has: the C and C++ runtimes must be its own.
_RUNTIME_PACKAGE = re.compile(
    r"libc6|libgcc-s1|libstdc\+\+6|libcrypt1|gcc-\d+-base|debconf.*|dpkg|tar|perl.*|install-info"
)

#: Package lists older than this are fetched again, in seconds.
LISTS_MAX_AGE = 24 * 3600


class DebianPackages:
    """LLVM packages of the distribution that this machine runs.

    :param cache: holds apt's lists and the unpacked trees
    :param project: which packages are wanted
    """

    def __init__(self, cache: Path, project: str = DEFAULT_PROJECT) -> None:
        self.cache = cache
        self.recipe = recipe_of(project)
        self._apt = cache / "apt"

    @staticmethod
    def available() -> bool:
        """Whether this machine has apt and dpkg at all."""
        return shutil.which("apt-get") is not None and shutil.which("dpkg-deb") is not None

    def versions(self) -> dict[int, str]:
        """LLVM's version (``22.1.8``) by major version, for each that the distribution has, newest first.

        :raises MachineError: if apt has no lists and can't fetch them
        """
        self._update()
        first, *_ = self.recipe.packages
        names = [first.format(v=major) for major in range(60, OLDEST_MAJOR - 1, -1)]
        pattern = re.escape(first).replace(re.escape("{v}"), r"(\d+)")
        found: dict[int, str] = {}
        for record in self._run("apt-cache", "show", *names, check=False).split("\n\n"):
            package = re.search(rf"^Package: {pattern}$", record, re.MULTILINE)
            version = re.search(r"^Version: (?:\d+:)?(\d+\.\d+\.\d+)", record, re.MULTILINE)
            if package and version:
                found.setdefault(int(package[1]), version[1])
        return found

    def unpack(self, major: int) -> Path:
        """Fetch and unpack LLVM ``major``; returns its prefix (``…/usr/lib/llvm-22``). Kept for the next time.

        :raises MachineError: if a package is missing, can't be fetched or doesn't fit on the disk
        """
        wanted = [name.format(v=major) for name in self.recipe.packages]

        def fill(tree: Path) -> None:
            # With the shared libraries that the programs need (libz3, libedit, …), which this machine need not have.
            only_depends = [f"--no-{kind}" for kind in (
                "recommends", "suggests", "conflicts", "breaks", "replaces", "enhances",
            )]  # fmt: skip
            programs = [name for name in wanted if not name.endswith("-dev") and not re.fullmatch(r"llvm-\d+.*", name)]
            found = self._run("apt-cache", "depends", "--recurse", *only_depends, *programs).splitlines()
            names = {line for line in found if re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", line)} - set(wanted)
            self._unpack([*wanted, *sorted(name for name in names if not _RUNTIME_PACKAGE.fullmatch(name))], tree)

        return self._kept(major, "", fill)

    def unpack_with_clang(self, major: int) -> Path:
        """As :meth:`unpack`, with clang; a tree of its own, which shares the other's files."""
        without = self.unpack(major).parents[2]

        def fill(tree: Path) -> None:
            shutil.copytree(without, tree, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
            self._unpack([name.format(v=major) for name in CLANG_PACKAGES], tree)

        return self._kept(major, "-clang-dev", fill)

    def _kept(self, major: int, suffix: str, fill: Callable[[Path], None]) -> Path:
        """The prefix in a tree of the cache, which ``fill`` makes if it is not there."""
        tree = self.cache / "packages" / self.recipe.cached(f"llvm-{self.versions()[major]}{suffix}")
        prefix = tree / "usr" / "lib" / f"llvm-{major}"
        if prefix.is_dir():
            return prefix
        with locked(tree.parent / ".lock"):
            if not prefix.is_dir():
                building = tree.with_name(f"{tree.name}.tmp")
                shutil.rmtree(building, ignore_errors=True)  # of a run that was killed
                building.mkdir(parents=True)
                fill(building)
                building.rename(tree)
        return prefix

    def source_archive(self, version: str, *, sha256: str = "") -> Path:
        """LLVM ``version``'s upstream source archive, ``llvm-toolchain-<major>_<version>.orig.tar.xz``.

        It is fetched by name from the pools that apt is configured with: those keep archives whose other files the
        package lists no longer name.

        :param sha256: of the archive; default: the one in the distribution's signed source index
        :raises MachineError: if the index does not name it, or no pool has it
        """
        major = version.partition(".")[0]
        name = f"llvm-toolchain-{major}_{version}.orig.tar.xz"
        archive = self.cache / "archives" / name
        with locked(archive.parent / ".lock"):
            if not archive.is_file():
                with console.waiting(f"fetching {name}"):
                    folder = f"pool/main/l/llvm-toolchain-{major}"
                    if not sha256:
                        folder, sha256 = self._indexed_source(f"llvm-toolchain-{major}", name)
                    self._update()
                    pools = self._run("apt-get", "indextargets", "--format", "$(REPO_URI)").splitlines()
                    refusals = []
                    for pool in dict.fromkeys(pools):
                        try:
                            download(f"{pool.rstrip('/')}/{folder}/{name}", archive, sha256=sha256)
                        except ReleaseError as error:
                            refusals.append(f"{pool}: {error.why}")
                        else:
                            return archive
                    raise MachineError(
                        "sources-unavailable", f"none of apt's repositories has {name}", why="; ".join(refusals)
                    )
        return archive

    def _indexed_source(self, package: str, name: str) -> tuple[str, str]:
        """The folder and the sha256 of a file, by the records of a source package in the index."""
        records = self._run("apt-cache", "showsrc", "--only-source", package, *self._source_lists(), check=False)
        for record in records.split("\n\n"):
            folder = re.search(r"^Directory: (\S+)$", record, re.MULTILINE)
            digest = re.search(rf"^ ([0-9a-f]{{64}}) \d+ {re.escape(name)}$", record, re.MULTILINE)
            if folder and digest:
                return folder[1], digest[1]
        archives = sorted(set(re.findall(r"\S+\.orig\.tar\.xz$", records, re.MULTILINE)))
        raise MachineError(
            "sources-unavailable",
            f"the distribution's source index does not name {name}",
            where=package,
            why=f"it names {', '.join(archives)}" if archives else "it has no such source package",
            remedy="give the sources with --source",
        )

    def _source_lists(self) -> tuple[str, ...]:
        """apt's options to look into the source index, by ``deb-src`` lines of our own: most machines have none."""
        self._update()
        folder = self._apt / "sources"
        (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        fields = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)"
        lines = []
        for target in dict.fromkeys(self._run("apt-get", "indextargets", "--format", fields).splitlines()):
            uri, release, component, key = target.split("|")
            option = f" [signed-by={key}]" if key.startswith("/") else ""
            lines.append(f"deb-src{option} {uri} {release} {component}\n")
        (folder / "sources.list").write_text("".join(lines), encoding="utf-8")
        own = (
            "-o", f"Dir::Etc::sourcelist={folder / 'sources.list'}",
            "-o", "Dir::Etc::sourceparts=-",
            "-o", f"Dir::State::lists={folder / 'lists'}",
            "-o", f"Dir::Cache={folder}",
        )  # fmt: skip
        stamp = folder / "updated"
        if not _is_recent(stamp):
            self._run("apt-get", "update", "-qq", *own, check=False)
            stamp.touch()
        return own

    def _unpack(self, packages: Sequence[str], tree: Path) -> None:
        downloads = tree / "debs"
        downloads.mkdir()
        with console.waiting(f"fetching the distribution's {packages[0]} and what belongs to it"):
            self._run("apt-get", "download", "-qq", *packages, cwd=downloads)
        with console.waiting(f"unpacking {packages[0]} and what belongs to it"):
            for archive in sorted(downloads.glob("*.deb")):
                self._run("dpkg-deb", "--extract", str(archive), str(tree))
        shutil.rmtree(downloads)

    def _update(self) -> None:
        stamp = self._apt / "updated"
        if _is_recent(stamp):
            return
        for folder in ("lists/partial", "archives/partial"):
            (self._apt / folder).mkdir(parents=True, exist_ok=True)
        with console.waiting("fetching the distribution's package lists"):
            # One configured source that can't be reached must not matter: the others' lists are used.
            self._run("apt-get", "update", "-qq", check=False)
        if not any(path.name.endswith("Release") for path in (self._apt / "lists").iterdir()):
            raise MachineError(
                "network-failed",
                "apt could not fetch the distribution's package lists",
                where=str(self._apt),
                remedy="check the network and apt's sources, or give an installed LLVM with --prefix",
            )
        stamp.touch()

    def _run(self, program: str, *args: str, cwd: Path | None = None, check: bool = True) -> str:
        options: Sequence[str] = ()
        if program.startswith("apt-"):
            # Given first, so that a caller's own options win.
            options = (
                "-o", f"Dir::State::lists={self._apt / 'lists'}",
                "-o", f"Dir::Cache={self._apt}",
                "-o", f"Dir::Cache::archives={self._apt / 'archives'}",
                # apt's own unprivileged user can't write here, and prints long warnings.
                "-o", "APT::Sandbox::User=root",
            )  # fmt: skip
        environment = {**foreign_environment(), "LC_ALL": "C.UTF-8"}
        done = capture([program, *options, *args], cwd=cwd, environment=environment, encoding="utf-8")
        if check and not done.ok:
            raise MachineError(
                "network-failed",
                f"{program} {args[0]} failed: {done.ending}",
                where=str(cwd or self._apt),
                why="\n".join(done.stderr.strip().splitlines()[-5:]),
                remedy="check the network, apt's sources and the free disk space, then run this again",
            )
        return done.stdout


def _is_recent(stamp: Path) -> bool:
    return stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_MAX_AGE
