"""LLVM itself as CMake configures it on each system for an SDK: what is built, how it is compiled, and what is linked.

As in :mod:`tests.platforms.configure.test_wheel`. The stub that poses as a compiler has every header, function and
option that CMake's checks ask for, so what depends on those is not judged.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.build_environment import fixed_root
from mlir_release.builder.sdk.components import components, not_installed
from mlir_release.ground.python.platforms import SYSTEMS
from tests.platforms import wine
from tests.platforms.configure.machines import Mac, Machine, Windows
from tests.platforms.configure.ninja import Build, Step, check_c_runtime, check_deployment_target, check_no_times
from tests.platforms.test_path_lengths import CACHE, too_long

if TYPE_CHECKING:
    from pathlib import PureWindowsPath

    from mlir_release.builder.sdk.build import BuildTree

pytestmark = [
    pytest.mark.slow,  # Windows' takes three minutes
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="LLVM's sources are Debian's"),
]


@dataclass(frozen=True)
class Configured:
    """A configured LLVM."""

    machine: Machine
    tree: BuildTree

    @cached_property
    def steps(self) -> list[Step]:
        """Those of the targets that the toolkit builds."""
        wanted = ["distribution", *not_installed(self.tree.source)]
        return Build(self.tree.build_dir).for_target(*wanted)

    @property
    def links(self) -> list[Step]:
        return [step for step in self.steps if step.links]

    @property
    def compiles(self) -> list[Step]:
        return [step for step in self.steps if step.compiles]

    @property
    def os(self) -> str:
        return self.machine.platform.os


@pytest.fixture(scope="module", params=[Machine, Mac, Windows], ids=["linux", "mac", "windows"])
def configured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Configured:
    if request.param is Windows:
        wine.skip_without()
    machine = request.param(tmp_path_factory.mktemp("llvm"))
    return Configured(machine, machine.configure_llvm())


def test_steps(configured: Configured) -> None:
    counts = [len(steps) for steps in (configured.steps, configured.compiles, configured.links)]
    print("\n{}: {} steps, of which {} compile and {} link".format(configured.os, *counts))
    assert 4_000 < len(configured.steps) < 7_000  # of LLVM 22: a generator that is not asked for has hundreds


def test_what_is_linked(configured: Configured) -> None:
    """Programs and runner libraries that are components, and the programs that the build runs."""
    system = SYSTEMS[configured.os]
    source = configured.tree.source
    linked = {step.name.removesuffix(system.executable_suffix) for step in configured.links}
    programs = {name for name in linked if not re.search(r"\.(so|dylib|dll)", name)}
    libraries = {PurePosixPath(name).name.partition(".")[0].removeprefix("lib") for name in linked - programs}
    wanted = {*components(source, system), *not_installed(source)}
    run_by_the_build = {"llvm-min-tblgen", "mlir-src-sharder"}
    assert programs <= wanted | run_by_the_build
    assert {"mlir-tblgen", "mlir-opt", "llvm-tblgen", "lld"} <= programs
    assert libraries == {name for name in wanted if name.startswith("mlir_")}


def test_code_generators(configured: Configured) -> None:
    files = [step.outputs[0] for step in configured.compiles]
    generators = {found[1] for file in files if (found := re.match(r"lib/Target/(\w+)/", file))}
    native = "AArch64" if configured.machine.platform.arch in {"arm64", "aarch64"} else "X86"
    assert generators - {"CMakeFiles"} == {native, "AMDGPU", "NVPTX"}


def test_c_runtime(configured: Configured) -> None:
    check_c_runtime(configured.os, configured.compiles)


def test_no_file_has_a_time_in_it(configured: Configured) -> None:
    check_no_times(configured.os, configured.compiles, configured.links)


def test_deployment_target(configured: Configured) -> None:
    check_deployment_target(configured.os, [*configured.compiles, *configured.links])


def test_nothing_of_the_machine_is_linked(configured: Configured) -> None:
    """But for the system's own libraries."""
    system = SYSTEMS[configured.os]
    own = {f"{name}.lib" if configured.os == "windows" else f"-l{name}" for name in system.system_libraries}
    made = {PurePosixPath(output).name for step in configured.steps for output in step.outputs}
    for step in configured.links:
        others = {library for library in step.libraries if not library.startswith(("-Wl,", "-delayload:"))}
        assert others - made <= own, step.name


def test_no_path_is_too_long(configured: Configured) -> None:
    """For Microsoft's tools, in the folder that a build has on GitHub's runners."""
    if configured.os != "windows":
        pytest.skip("others have no such limit")
    root: PureWindowsPath = fixed_root("windows", CACHE, {})  # type: ignore[assignment]
    files = [file for step in configured.steps for file in step.outputs if not file.startswith("/")]
    assert too_long(root / "build", files) == []
    print(f"\nthe longest path has {max(len(str(root / 'build' / file)) for file in files)} characters")
