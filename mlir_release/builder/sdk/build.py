"""Build an SDK from llvm-project's sources: only what the project's wheels and downstream projects need.

Configured with Ninja, a compiler cache and ``LLVM_DISTRIBUTION_COMPONENTS``; then :data:`INSTALL` into a
prefix, which the importer turns into an SDK as it does with any other installed LLVM. Compilers run in a
:mod:`~mlir_release.builder.sdk.build_environment`: this machine, or a manylinux container. The build folder is kept
until the SDK is complete, so a stopped build can be resumed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.model.regalloc_model import MODEL
from mlir_release.builder.sdk.build_environment import BuildEnvironment, build_tools, choose_environment
from mlir_release.builder.sdk.components import CONFIGURATIONS, USUAL, SdkSpec, cmake_settings, not_installed
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.parts import DESCRIPTION
from mlir_release.builder.sdk.progress import StageLog, disk_usage, run_step
from mlir_release.builder.sdk.regalloc_model import CMAKE_PROJECT
from mlir_release.builder.sdk.sources.upstream import UpstreamSource, read_source, unused_to_build
from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.programs.needs import Needs
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.platforms import executable_name
from mlir_release.ground.storage.cache import cache_directory, locked

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mlir_release.builder.sdk.regalloc_model import ModelFolder

#: Upstream's target. Symbols are a quarter of the programs' bytes; libraries keep theirs.
INSTALL = "install-distribution-stripped"

#: Processor time of one step, averaged over a whole build, in seconds; measured on 2.6 GHz cores with GCC 12.
_SECONDS_A_STEP = 5.7

#: Bytes of disk for a build at its largest: objects, and libraries and programs three times (build, prefix, SDK). LLVM
#: 23.1.1 took 10.0 GB (:mod:`~mlir_release.builder.sdk.progress`), with GCC 12 and symbols.
DISK_NEEDED = 12_000_000_000

#: Bytes that must be free however much is built already: they are linked and installed last.
_DISK_LEFT = 1_000_000_000

#: Bytes of memory that lld takes to link one of the largest programs.
_MEMORY_A_LINK = 3_000_000_000


@dataclass(frozen=True, kw_only=True)
class BuildTree:
    """A configured build of one source tree; ``root`` holds ``build/`` and ``prefix/``, ``output`` will be the SDK."""

    source: UpstreamSource
    root: Path
    output: Path
    spec: SdkSpec
    jobs: int
    source_epoch: int
    environment: BuildEnvironment

    @property
    def build_dir(self) -> Path:
        """CMake's build folder."""
        return self.root / "build"

    @property
    def prefix(self) -> Path:
        """Where :data:`INSTALL` puts what an SDK is made of."""
        return self.root / "prefix"

    def ninja(self, *words: str) -> list[str]:
        """The command that runs Ninja in the build folder."""
        return self.environment.command("ninja", "-C", self.environment.path(self.build_dir), *words)


def build_sdk(tree: BuildTree, *, revision: str, budget: float | None = None) -> Sdk:
    """Build LLVM with the project and make an SDK at ``tree.output``. Takes an hour or more.

    :param revision: the llvm-project commit of the sources
    :param budget: seconds after which the build stops; what is compiled stays, in the tree and in the compiler cache
    :raises BudgetSpent: when it does; re-running it resumes the build
    :raises MachineError: the build failed
    """
    stages = StageLog(tree.output)
    began = time.time()
    with _locked(tree):
        description = tree.output / DESCRIPTION
        if description.is_file() and description.stat().st_mtime >= began:  # by another process, meanwhile
            there = Sdk.load(tree.output)
            if there.info.revision == revision:
                return there
        try:
            deadline = None if budget is None else time.monotonic() + budget
            configure(tree, stages)
            steps = count_steps(tree, INSTALL)
            duration = format_seconds(estimate(steps, tree.jobs))
            console.say(f"    {steps} steps left on {tree.jobs} cores: about {duration} if the compiler cache is cold")
            others = not_installed(tree.source)
            for name, targets in (("build", ["distribution", *others]), ("install", [INSTALL])):
                left = None if deadline is None else max(1.0, deadline - time.monotonic())
                run_target(tree, *targets, stages=stages, name=name, budget=left)
            for name in others:
                shutil.copy2(tree.build_dir / "bin" / executable_name(name), tree.prefix / "bin")
            with stages.stage("import", tree.output):
                sdk = import_sdk(
                    tree.prefix,
                    source=tree.source.root,
                    output=tree.output,
                    revision=revision,
                    source_epoch=tree.source_epoch,
                    provider="source",
                    spec=tree.spec,
                )
        finally:
            stages.show()
        shutil.rmtree(tree.root, ignore_errors=True)
    return sdk


def _locked(tree: BuildTree) -> AbstractContextManager[None]:
    """The lock of a build folder, beside it, because the folder is removed in the end."""
    return locked(
        tree.root.with_name(f"{tree.root.name}.lock"), waiting="another build of this SDK is running: waiting"
    )


def build_until(tree: BuildTree, target: str, *, budget: float | None = None) -> None:
    """Configure, and build up to one of Ninja's targets (``mlir-tblgen``); :func:`build_sdk` continues from there.

    Parameters and errors as there.
    """
    stages = StageLog(tree.output)
    with _locked(tree):
        configure(tree, stages)
        run_target(tree, target, stages=stages, name=f"build {target}", budget=budget)


def prepare(
    source: Path,
    spec: SdkSpec = USUAL,
    *,
    output: Path,
    source_epoch: int,
    jobs: int | None = None,
    disk: int = DISK_NEEDED,
) -> BuildTree:
    """Check arguments and machine, and name the build folder: one for each set of settings.

    :param source: all of llvm-project that the project needs (``llvm/``, ``cmake/``, ``third-party/``, ``mlir/``, …)
    :param output: where the SDK will be
    :param source_epoch: the commit's time, seconds since 1970
    :param jobs: compilers at once; default: one a core
    :param disk: bytes that the whole build takes at its largest
    :raises UsageError: no complete sources, an unknown configuration
    :raises VerificationError: as :meth:`ModelFolder.check`
    :raises MachineError: no compiler, no container engine; no disk space
    """
    if spec.configuration not in CONFIGURATIONS:
        raise UsageError(
            "option-invalid",
            f"there is no LLVM configuration {spec.configuration!r}",
            remedy=f"use one of: {', '.join(CONFIGURATIONS)}",
        )
    upstream = read_source(source, project=spec.project, whole=True)
    if spec.regalloc is not None:
        spec.regalloc.check(upstream.root)
    output = Path(output).absolute()
    settings = json.dumps(cmake_settings(upstream, spec))
    facts = [str(upstream.root), upstream.version, spec.configuration, spec.floor, settings]
    if spec.regalloc is not None:
        facts.append(spec.regalloc.about.key)
    key = sha256_of("\0".join(facts))[:12]
    folder = output.parent / f".{output.name}.build-{key}"
    cache, unused = cache_directory(), unused_to_build(upstream.recipe)
    environment = choose_environment(
        upstream.root, folder, build_tools(cache), floor=spec.floor, cache=cache, unused=unused
    )
    environment.check()
    root = environment.root
    root.mkdir(parents=True, exist_ok=True)
    tree = BuildTree(
        source=upstream,
        root=root,
        output=output,
        spec=spec,
        jobs=jobs or os.cpu_count() or 1,
        source_epoch=source_epoch,
        environment=environment,
    )
    # Some of it may be written already, in a fixed place by another build, which is removed first: as good as free.
    left = max(disk - disk_usage(tree.build_dir) - disk_usage(tree.prefix), _DISK_LEFT)
    remedy = "free some space, or give another output folder; what was built is kept and used again"
    Needs(purpose="to build LLVM", disk=left, memory=_MEMORY_A_LINK, remedy=remedy).check(root)
    return tree


def configure(tree: BuildTree, stages: StageLog) -> None:
    """Run CMake; quick if it ran before."""
    import psutil

    tree.root.mkdir(parents=True, exist_ok=True)  # one that another process built, and removed, while this one waited
    environment = tree.environment
    environment.begin()
    settings = cmake_settings(tree.source, tree.spec) | environment.settings()
    if tree.spec.regalloc is not None:
        settings |= _compile_model(tree, tree.spec.regalloc)
    settings["CMAKE_INSTALL_PREFIX"] = environment.path(tree.prefix)
    source, build = environment.path(tree.source.root), environment.path(tree.build_dir)
    if sys.platform != "win32":
        maps = f"-ffile-prefix-map={source}=/llvm-project -ffile-prefix-map={build}=/build"
        settings["CMAKE_C_FLAGS"] = settings["CMAKE_CXX_FLAGS"] = maps
    links = psutil.virtual_memory().total // _MEMORY_A_LINK
    settings["LLVM_PARALLEL_LINK_JOBS"] = str(max(1, min(tree.jobs, links)))
    words = ["-G", "Ninja", "-S", f"{source}/llvm", "-B", build]
    words += [f"-D{name}={value}" for name, value in sorted(settings.items())]
    title = f"configure LLVM {tree.source.version} ({tree.spec.configuration})"
    with console.step(title), stages.stage("configure", tree.root):
        run_step(
            environment.command("cmake", *words),
            environment=_variables(tree),
            log=tree.root / "configure.log",
            what="CMake could not configure LLVM",
        )


def _compile_model(tree: BuildTree, regalloc: ModelFolder) -> dict[str, str]:
    """Compile a model, and return LLVM's settings that take it. Source: tf_find_and_compile in upstream's CMake."""
    model = tree.root / "regalloc"
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(CMAKE_PROJECT, model)
    regalloc.copy_to(model)
    environment, folder = tree.environment, tree.environment.path(model)
    generator = ("-G", "Ninja", *(f"-D{name}={value}" for name, value in sorted(environment.settings().items())))
    for words in (
        (*generator, "-DCMAKE_BUILD_TYPE=Release", "-S", folder, "-B", f"{folder}/build"),
        ("--build", f"{folder}/build"),
    ):
        run_step(
            environment.command("cmake", *words),
            environment=_variables(tree),
            log=tree.root / "regalloc.log",
            what="the model of the register allocator could not be compiled",
        )
    override = "LLVM_OVERRIDE_MODEL_{}_" + MODEL.upper()
    return {
        "TENSORFLOW_AOT_PATH": folder,
        "LLVM_INLINER_MODEL_PATH": "none",
        override.format("HEADER"): f"{folder}/{MODEL}.h",
        override.format("OBJECT"): f"{folder}/{MODEL}.o",
    }


def count_steps(tree: BuildTree, target: str) -> int:
    """The number of Ninja's steps that ``target`` still needs."""
    printed = capture(tree.ninja("-n", target), environment=_variables(tree)).stdout
    steps = re.findall(r"^\[\d+/(\d+)\]", printed, re.MULTILINE)
    return int(steps[-1]) if steps else 0


def _variables(tree: BuildTree) -> dict[str, str]:
    common = {"SOURCE_DATE_EPOCH": str(tree.source_epoch), "NINJA_STATUS": "[%f/%t] "}
    return tree.environment.variables() | common


def estimate(steps: int, jobs: int) -> float:
    """Seconds that ``steps`` take on ``jobs`` cores (±30 %)."""
    return steps * _SECONDS_A_STEP / jobs


def run_target(tree: BuildTree, *targets: str, stages: StageLog, name: str, budget: float | None = None) -> None:
    """Build some of Ninja's targets as the stage ``name``. :raises BudgetSpent: after ``budget`` seconds"""
    log = tree.root / f"{name.split()[0]}.log"
    target = targets[0]
    recorded = stages.stage(name, tree.root, log=log, counts=tree.environment.cache_counts)
    with console.step(f"build {', '.join(targets)} of LLVM {tree.source.version}"), recorded:
        run_step(
            tree.ninja("-j", str(tree.jobs), *targets),
            environment=_variables(tree),
            log=log,
            what=f"building {target} failed",
            budget=budget,
        )
