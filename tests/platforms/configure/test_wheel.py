"""The wheel project as CMake configures it on each system: what is built, how it is compiled, and what is linked.

Configured by the toolkit's own code (:mod:`tests.platforms.configure.machines`). Only Linux' compiler is real, and only
Linux' SDK: the others are made of it, with the libraries that its CMake files name, but for those of the system.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.for_testing import place_libraries
from mlir_release.ground.storage.cache import build_folder
from tests.platforms import wine
from tests.platforms.configure.machines import Mac, Machine, Windows, as_llvm_23
from tests.platforms.configure.ninja import Build, Step, check_c_runtime, check_deployment_target, check_no_times
from tests.platforms.test_path_lengths import CACHE, too_long

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("dpkg-deb", "cc", "c++"))), reason="uses the SDK of Debian's or Ubuntu's packages"
)

#: No other wheel of an MLIR has libraries of these names, or this domain: two in one process would be taken for one.
DOMAIN = "mlir_release"
C_API = f"MLIRPythonCAPI-{DOMAIN}"

RUNNERS = {"mlir_async_runtime", "mlir_c_runner_utils", "mlir_float16_utils", "mlir_runner_utils"}

#: What CMake links everywhere on Windows.
WINDOWS_OWN = {
    *("kernel32.lib", "user32.lib", "gdi32.lib", "winspool.lib", "shell32.lib", "ole32.lib", "oleaut32.lib"),
    *("uuid.lib", "comdlg32.lib", "advapi32.lib"),
}


@dataclass(frozen=True)
class Configured:
    """A configured wheel project."""

    machine: Machine
    sdk: Sdk
    folder: Path

    @cached_property
    def steps(self) -> list[Step]:
        return Build(self.folder).for_target("all")

    @cached_property
    def links(self) -> dict[str, Step]:
        """The steps that link, by the names of what they make, without what differs among systems."""
        return {plain(step.name): step for step in self.steps if step.links}

    @cached_property
    def compiles(self) -> list[Step]:
        return [step for step in self.steps if step.compiles]

    @property
    def os(self) -> str:
        return self.machine.platform.os

    @property
    def shares(self) -> bool:
        """Whether its modules share a library of nanobind: before LLVM 22 each had its own, or pybind11's headers."""
        return int(self.sdk.info.llvm_version.partition(".")[0]) >= 22

    @property
    def libraries(self) -> set[str]:
        """What the package has beside modules. LLVM 23's library of nanobind has another name for the stable ABI."""
        return {C_API} | ({f"MLIRPythonSupport-{DOMAIN}", f"nanobind-{DOMAIN}"} if self.shares else set())

    @property
    def wrappers(self) -> set[str]:
        """What the libraries of the execution engine need where it exists: LLVM 22 has it, but not on Windows."""
        return {"mlir_apfloat_wrappers"} if self.shares and self.os != "windows" else set()


def plain(name: str) -> str:
    """``libnanobind-own.so`` and ``nanobind-abi3-own.dll`` are ``nanobind-own``."""
    return name.partition(".")[0].removeprefix("lib").replace("-abi3", "")


def configure(machine: Machine, *, stable_abi: bool) -> Configured:
    sdk = machine.sdk()
    if stable_abi:
        as_llvm_23(sdk)
    return Configured(machine, sdk, machine.configure_wheel(sdk, stable_abi=stable_abi))


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Configured:
    return configure(Machine(tmp_path_factory.mktemp("linux")), stable_abi=False)


class Older(Machine):
    """With the oldest LLVM that this machine has packages of."""

    nth = -1


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Configured:
    return configure(Older(tmp_path_factory.mktemp("older")), stable_abi=False)


@pytest.fixture(scope="module")
def mac(tmp_path_factory: pytest.TempPathFactory) -> Configured:
    return configure(Mac(tmp_path_factory.mktemp("mac")), stable_abi=False)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Configured:
    """For the stable ABI, as releases have it there."""
    wine.skip_without()
    return configure(Windows(tmp_path_factory.mktemp("windows")), stable_abi=True)


@pytest.fixture(scope="module")
def windows_for_one(tmp_path_factory: pytest.TempPathFactory) -> Configured:
    """For one CPython."""
    wine.skip_without()
    return configure(Windows(tmp_path_factory.mktemp("windows-for-one")), stable_abi=False)


@pytest.fixture(params=["linux", "older", "mac", "windows", pytest.param("windows_for_one", marks=pytest.mark.slow)])
def configured(request: pytest.FixtureRequest) -> Configured:
    found: Configured = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def here(configured: Configured, request: pytest.FixtureRequest) -> Configured:
    """The same LLVM's, on Linux."""
    found: Configured = configured if configured.os == "linux" else request.getfixturevalue("linux")
    return found


def test_what_is_linked(configured: Configured, here: Configured) -> None:
    runners = RUNNERS | configured.wrappers
    modules = configured.links.keys() - configured.libraries - runners
    assert configured.links.keys() == configured.libraries | runners | modules
    assert {"_mlir", "_mlirExecutionEngine", "_mlirRegisterEverything"} <= modules
    assert all(name.startswith("_mlir") for name in modules)
    assert modules == here.links.keys() - here.libraries - RUNNERS - here.wrappers
    static = {plain(step.name) for step in configured.steps if "STATIC_LIBRARY" in step.rule}
    assert static <= (set() if configured.shares else {"nanobind-static"})
    assert not [step.outputs for step in configured.steps if "EXECUTABLE" in step.rule]


def test_number_of_steps(configured: Configured, here: Configured) -> None:
    """The same but for precompiled headers, stubs and checks, of which some systems have none."""
    counts = {"steps": len(configured.steps), "compiled": len(configured.compiles), "linked": len(configured.links)}
    print(f"\n{configured.os}: {counts}")
    assert abs(len(configured.steps) - len(here.steps)) <= 10
    assert abs(len(configured.compiles) - len(here.compiles)) <= 10


def test_libraries_of_modules(configured: Configured) -> None:
    for name, step in configured.links.items():
        if name.startswith("_mlir"):
            linked = [plain(library) for library in step.libraries if not library.startswith("-")]
            assert {*configured.libraries, "LLVMSupport", "LLVMDemangle"} <= set(linked), name
            ours = [library for library in linked if library.startswith(("LLVM", "MLIR"))]
            static = [library for library in ours if library not in configured.libraries]
            assert set(static) == {"LLVMSupport", "LLVMDemangle"}, name  # all else is in the C API's library


def test_libraries_of_the_c_api(configured: Configured, here: Configured) -> None:
    """The same everywhere, and on Linux in the order in which linkers want archives that read each once.

    Apple's and Microsoft's read them as often as they must, and CMake names each once there.
    """
    exports = configured.sdk.root / "lib/cmake"
    targets = cmake_exports.read(exports / "llvm/LLVMExports.cmake")
    targets |= cmake_exports.read(exports / "mlir/MLIRTargets.cmake")

    def archives(of: Configured) -> list[str]:
        return [name for name in map(plain, of.links[C_API].libraries) if name in targets]

    linked = archives(configured)
    assert len(set(linked)) > 300
    assert set(linked) == {name for name in archives(here) if targets[name].kind == "STATIC"}
    if configured.os != "linux":
        assert len(linked) == len(set(linked))
        return
    last = {name: position for position, name in enumerate(linked)}
    for name in last:
        for needed in map(cmake_exports.linked_name, targets[name].links):
            assert needed not in last or last[needed] > linked.index(name), f"{name} needs {needed}"


def test_nothing_else_of_the_machine_is_linked(configured: Configured) -> None:
    own = {
        "linux": {"-lrt", "-ldl", "-lm", "-lpthread", "libz.a", "libzstd.a"},
        "macos": set[str](),
        "windows": WINDOWS_OWN | {"python3.lib", "python313.lib"},
    }[configured.os]
    of_sdk = {path.name for path in (configured.sdk.root / "lib").iterdir()}
    of_package = {step.name for step in configured.links.values()}
    of_package |= {f"{name.rpartition('.')[0]}.lib" for name in of_package}
    for name, step in configured.links.items():
        others = {library for library in step.libraries if not library.startswith("-Wl,-rpath,")}
        assert others - of_sdk - of_package <= own, name


def test_c_runtime(configured: Configured) -> None:
    check_c_runtime(configured.os, configured.compiles)


def test_what_is_exported(configured: Configured) -> None:
    """See ``MLIRReleaseHide.cmake``. On Windows, upstream exports the names in the objects of two libraries."""
    lines = {name: " ".join(step.flags).replace("-Xlinker ", "") for name, step in configured.links.items()}
    for name in configured.links.keys() - {f"nanobind-{DOMAIN}"}:
        archives = [library for library in configured.links[name].libraries if plain(library) == "LLVMSupport"]
        if configured.os == "linux":
            assert "--exclude-libs,ALL" in lines[name], name
        elif configured.os == "macos" and archives and name != C_API:
            assert re.search(r"-load_hidden \S+/libLLVMSupport\.a", lines[name]), name
        elif configured.os == "windows":
            assert ("/DEF:" in lines[name]) == (name in {C_API, f"MLIRPythonSupport-{DOMAIN}"}), name
    if configured.os == "macos":
        assert '-exported_symbol "_mlir*"' in lines[C_API]


def test_runpaths(configured: Configured) -> None:
    """The folder of the library itself, and no other."""
    wanted = {"linux": {'"$ORIGIN"', '"$ORIGIN:"'}, "macos": {"@loader_path"}, "windows": {""}}[configured.os]
    for name, step in configured.links.items():
        found = [word.removeprefix("-Wl,-rpath,") for word in step.libraries if word.startswith("-Wl,-rpath,")]
        assert set(found or [""]) <= wanted, name
        if configured.os == "macos" and "MODULE" not in step.rule:
            assert step.variables["INSTALLNAME_DIR"] == "@rpath/", name


def test_no_file_has_a_time_in_it(configured: Configured) -> None:
    check_no_times(configured.os, configured.compiles, list(configured.links.values()))
    if configured.os == "linux":
        for step in configured.links.values():
            assert "-Wl,--build-id=none" in step.flags, step.name


def test_deployment_target(configured: Configured) -> None:
    check_deployment_target(configured.os, [*configured.compiles, *configured.links.values()])


def test_no_path_of_this_machine_is_compiled_into_files(configured: Configured) -> None:
    maps = (
        f"{configured.folder}=/build",
        f"{configured.folder.parent / 'project'}=/mlir",
        f"{configured.sdk.root}=/sdk",
    )
    for step in configured.compiles:
        assert {f"-ffile-prefix-map={folders}" for folders in maps} <= set(step.flags), step.name


def test_what_runner_libraries_have_in_common(configured: Configured, here: Configured) -> None:
    """``LoadLibraryW`` with a full path looks for what a DLL needs on the PATH, not beside it."""
    alone = configured.os == "windows"
    for name in ("mlir_c_runner_utils", "mlir_runner_utils"):
        step = configured.links[name]
        needed = {plain(library) for library in step.libraries} & (RUNNERS | here.wrappers)
        assert needed == (set() if alone else {"mlir_float16_utils", *here.wrappers}), name
        assert any(file.endswith("Float16bits.cpp.obj") for file in step.inputs) == alone, name


def test_runner_libraries_are_placed_where_upstreams_tests_look(configured: Configured, tmp_path: Path) -> None:
    libraries, build = tmp_path / "libraries", tmp_path / "build"
    tests = build / "tools/mlir/test/python"  # where lit runs them
    libraries.mkdir()
    tests.mkdir(parents=True)
    for step in configured.links.values():
        (libraries / step.name).touch()
    place_libraries(libraries, build, configured.machine.platform)
    upstream = (configured.sdk.root / "source/mlir/test/python/execution_engine.py").read_text(encoding="utf-8")
    suffix = configured.machine.platform.system.shared_suffix
    looked_for = {path for path in re.findall(r'"((?:\.\./){4}[^"]+)"', upstream) if path.endswith(suffix)}
    assert len(looked_for) >= 2
    assert [path for path in looked_for if not (tests / path).is_file()] == []


def test_no_path_is_too_long(configured: Configured) -> None:
    """For Microsoft's tools, in the folders that a build has on GitHub's runners."""
    if configured.os != "windows":
        pytest.skip("others have no such limit")
    tree = build_folder(CACHE, "windows") / "builds/mlir-0123456789-cp312/tree"
    packages = str(CACHE / "environments/0123456789abcdef/Lib/site-packages").replace("\\", "/").replace(":", "_")
    here = str(configured.machine.folder / "packages")
    files = [file.replace(f"Z_{here}", packages) for step in configured.steps for file in step.outputs]
    assert any("site-packages/nanobind" in file for file in files)
    assert too_long(tree, files) == []
    print(f"\nthe longest path has {max(len(str(tree / file)) for file in files)} characters")


def test_modules_for_the_stable_abi_need_no_single_cpython(windows: Configured) -> None:
    """Imports come from the first library that has them: ``python313.lib`` ahead would make ``python3.lib`` useless."""
    linked = {lib for step in windows.links.values() for lib in step.libraries if lib.startswith("python")}
    assert linked == {"python3.lib"}
    modules = [step for step in windows.compiles if "mlir_package.extension._mlir" in step.outputs[0]]
    assert modules
    assert all("-DPy_LIMITED_API=" in step.variables["DEFINES"] for step in modules)
    names = [step.name for name, step in windows.links.items() if name.startswith("_mlir")]
    assert all(name.endswith(".pyd") and "cp3" not in name for name in names)
