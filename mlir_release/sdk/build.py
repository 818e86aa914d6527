"""Build an SDK from llvm-project's sources: only what bindings and downstream projects need.

Configured with Ninja, a compiler cache and ``LLVM_DISTRIBUTION_COMPONENTS``; then ``install-distribution`` into a
prefix, which the importer turns into an SDK as it does with any other installed LLVM. Compilers run in a
:mod:`~mlir_release.sdk.build_environment`: this machine, or a manylinux container. The build folder is kept until
the SDK is complete, so a stopped build can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.console import console, format_seconds
from mlir_release.errors import UsageError
from mlir_release.host.cache import cache_directory, locked
from mlir_release.host.disk import check_room
from mlir_release.host.process import capture
from mlir_release.sdk.build_environment import BuildEnvironment, choose_environment
from mlir_release.sdk.components import CONFIGURATIONS, cmake_settings
from mlir_release.sdk.importer import import_sdk
from mlir_release.sdk.progress import run_step
from mlir_release.sdk.upstream import UpstreamSource, read_source

if TYPE_CHECKING:
    from mlir_release.sdk.info import Sdk

#: Processor time of one step, averaged over a whole build, in seconds; measured on 2.6 GHz cores with GCC 12.
_SECONDS_A_STEP = 5.7

#: What a build takes at its largest: objects, static libraries twice (build and prefix), programs.
_DISK_NEEDED = 12_000_000_000

#: Memory that linking the largest programs takes, each, with lld.
_MEMORY_A_LINK = 3_000_000_000


@dataclass(frozen=True, kw_only=True)
class BuildTree:
    """A configured build of one source tree; ``root`` holds ``build/`` and ``prefix/``, ``output`` will be the SDK."""

    source: UpstreamSource
    root: Path
    output: Path
    configuration: str
    jobs: int
    source_epoch: int
    floor: str
    environment: BuildEnvironment

    @property
    def build_dir(self) -> Path:
        """CMake's build folder."""
        return self.root / "build"

    @property
    def prefix(self) -> Path:
        """Where ``install-distribution`` puts what an SDK is made of."""
        return self.root / "prefix"

    def ninja(self, *words: str) -> list[str]:
        """The command that runs Ninja in the build folder."""
        return self.environment.command("ninja", "-C", self.environment.path(self.build_dir), *words)


def build_sdk(tree: BuildTree, *, revision: str, budget: float | None = None) -> Sdk:
    """Build LLVM and MLIR and make an SDK of them at ``tree.output``. Takes an hour or more.

    :param revision: the llvm-project commit of the sources
    :param budget: seconds after which the build stops; what is compiled stays, in the tree and in the compiler cache
    :raises BudgetSpent: when it does; re-running it resumes the build
    :raises MachineError: the build failed
    """
    with locked(tree.root / "lock"):
        configure(tree)
        steps = count_steps(tree, "install-distribution")
        duration = format_seconds(estimate(steps, tree.jobs))
        console.say(f"    {steps} steps left on {tree.jobs} cores: about {duration} if the compiler cache is cold")
        run_target(tree, "install-distribution", budget=budget)
        sdk = import_sdk(
            tree.prefix,
            source=tree.source.root,
            output=tree.output,
            revision=revision,
            source_epoch=tree.source_epoch,
            provider="source",
        )
    shutil.rmtree(tree.root, ignore_errors=True)
    return sdk


def build_until(tree: BuildTree, target: str, *, budget: float | None = None) -> None:
    """Configure, and build up to one of Ninja's targets (``mlir-tblgen``); :func:`build_sdk` continues from there.

    Parameters and errors as there.
    """
    with locked(tree.root / "lock"):
        configure(tree)
        run_target(tree, target, budget=budget)


def prepare(
    source: Path,
    *,
    output: Path,
    source_epoch: int,
    configuration: str = "release",
    floor: str = "",
    workspace: Path | None = None,
    jobs: int | None = None,
) -> BuildTree:
    """Check arguments and machine, and name the build folder: one for each set of settings.

    :param source: all of llvm-project (``llvm/``, ``mlir/``, ``cmake/``, ``third-party/``; ``lld/`` too where it is)
    :param output: where the SDK will be
    :param source_epoch: the commit's time, seconds since 1970
    :param configuration: a name in :data:`CONFIGURATIONS`
    :param floor: the oldest platform of its wheels (``manylinux_2_28``, ``macosx_13_0``); default: this machine
    :param workspace: folder that the build folder is made in; default: beside ``output``
    :param jobs: compilers at once; default: one a core
    :raises UsageError: no complete sources, an unknown configuration
    :raises MachineError: no compiler, no container engine; no disk space
    """
    if configuration not in CONFIGURATIONS:
        raise UsageError(
            "sdk-configuration-unknown",
            f"there is no LLVM configuration {configuration!r}",
            remedy=f"use one of: {', '.join(CONFIGURATIONS)}",
        )
    upstream = read_source(source, whole=True)
    output = Path(output).absolute()
    settings = cmake_settings(upstream, configuration, floor)
    facts = [str(upstream.root), upstream.version, configuration, floor, json.dumps(settings)]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:12]
    root = (workspace or output.parent).absolute() / f".{output.name}.build-{key}"
    environment = choose_environment(upstream.root, root, floor=floor, cache=cache_directory())
    environment.check()
    root.mkdir(parents=True, exist_ok=True)
    tree = BuildTree(
        source=upstream,
        root=root,
        output=output,
        configuration=configuration,
        jobs=jobs or os.cpu_count() or 1,
        source_epoch=source_epoch,
        floor=floor,
        environment=environment,
    )
    used = sum(path.stat().st_size for path in tree.build_dir.rglob("*.a")) if tree.build_dir.is_dir() else 0
    remedy = "free some space, or give another output folder; what was built is kept and used again"
    check_room(root, _DISK_NEEDED - 2 * used, purpose="to build LLVM", remedy=remedy)
    return tree


def configure(tree: BuildTree) -> None:
    """Run CMake; quick if it ran before."""
    environment = tree.environment
    settings = cmake_settings(tree.source, tree.configuration, tree.floor) | environment.settings()
    settings["CMAKE_INSTALL_PREFIX"] = environment.path(tree.prefix)
    source, build = environment.path(tree.source.root), environment.path(tree.build_dir)
    if sys.platform != "win32":
        maps = f"-ffile-prefix-map={source}=/llvm-project -ffile-prefix-map={build}=/build"
        settings["CMAKE_C_FLAGS"] = settings["CMAKE_CXX_FLAGS"] = maps
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        settings["LLVM_PARALLEL_LINK_JOBS"] = str(max(1, min(tree.jobs, memory // _MEMORY_A_LINK)))
    words = ["-G", "Ninja", "-S", f"{source}/llvm", "-B", build]
    words += [f"-D{name}={value}" for name, value in sorted(settings.items())]
    with console.step(f"configure LLVM {tree.source.version} ({tree.configuration})"):
        run_step(
            environment.command("cmake", *words),
            environment=_variables(tree),
            log=tree.root / "configure.log",
            what="CMake could not configure LLVM",
        )


def count_steps(tree: BuildTree, target: str) -> int:
    """How many of Ninja's steps are to be done for ``target``."""
    printed = capture(tree.ninja("-n", target), environment=_variables(tree)).stdout
    steps = re.findall(r"^\[\d+/(\d+)\]", printed, re.MULTILINE)
    return int(steps[-1]) if steps else 0


def _variables(tree: BuildTree) -> dict[str, str]:
    common = {"SOURCE_DATE_EPOCH": str(tree.source_epoch), "NINJA_STATUS": "[%f/%t] "}
    return tree.environment.variables() | common


def estimate(steps: int, jobs: int) -> float:
    """Seconds that ``steps`` take on ``jobs`` cores (±30 %)."""
    return steps * _SECONDS_A_STEP / jobs


def run_target(tree: BuildTree, target: str, *, budget: float | None = None) -> None:
    """Build one of Ninja's targets. :raises BudgetSpent: after ``budget`` seconds"""
    with console.step(f"build {target} of LLVM {tree.source.version}"):
        run_step(
            tree.ninja("-j", str(tree.jobs), target),
            environment=_variables(tree),
            log=tree.root / "build.log",
            what=f"building {target} failed",
            budget=budget,
        )
