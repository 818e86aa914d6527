"""An LLVM of each platform, in that platform's shape: imported, divided, packed, staged; from here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.suites.lit_site import LitSetup, site_variables
from mlir_release.builder.sdk.importer import describe, import_sdk
from mlir_release.builder.sdk.packing import pack, unpack
from mlir_release.builder.sdk.parts import BUILD, TOOLS, list_of
from mlir_release.builder.wheels.request import WheelRequest
from mlir_release.builder.wheels.stage import stage
from mlir_release.ground.python.platforms import Platform
from tests.installed_factory import make_installed, runner_library
from tests.platforms.runtimes import MATRIX
from tests.prefix_factory import EPOCH, REVISION, make_source

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.release.model.targets import Runtime

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the importer asks Linux's loader about programs")


@pytest.fixture(scope="module")
def sdk(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    folder = tmp_path_factory.mktemp(runtime.name)
    prefix = make_installed(folder / "prefix", runtime.platform)
    source = make_source(folder / "llvm-project")
    return import_sdk(
        prefix, source=source, output=folder / "sdk", revision=REVISION, source_epoch=EPOCH, provider="source"
    )


def files(sdk: Sdk, part: str) -> set[str]:
    return {line.split(" ", 2)[2] for line in list_of(sdk.root, part).read_text(encoding="utf-8").splitlines()}


def test_an_sdk_is_for_the_platform_of_its_llvm(runtime: Runtime, sdk: Sdk) -> None:
    assert sdk.info.platform == runtime.platform == Platform.parse(runtime.name)
    assert dict(describe(sdk))["platform"] == str(runtime.platform)
    assert sdk.info.configuration == "release"
    sdk.verify()


def test_nothing_is_left_out_and_everything_that_is_linked_is_there(sdk: Sdk) -> None:
    llvm, mlir = (
        cmake_exports.read(sdk.cmake_dir / file) for file in ("llvm/LLVMExports.cmake", "mlir/MLIRTargets.cmake")
    )
    assert {"LLVMDemangle", "LLVMSupport", "LLVMCore"} <= llvm.keys()
    assert {"MLIRSupport", "MLIRIR", "MLIRCAPIIR", "obj.MLIRCAPIIR", "mlir_c_runner_utils", "mlir-opt"} <= mlir.keys()
    for target in (*llvm.values(), *mlir.values()):
        for file in target.files:
            assert (sdk.root / file).is_file(), file


def test_systems_own_libraries_stay_linked(runtime: Runtime, sdk: Sdk) -> None:
    support = cmake_exports.read(sdk.cmake_dir / "llvm" / "LLVMExports.cmake")["LLVMSupport"]
    text = support.properties["INTERFACE_LINK_LIBRARIES"]
    if runtime.os == "windows":
        assert text.endswith(
            r"ntdll;\$<\$<NOT:\$<LINK_LANGUAGE:Swift>>:delayimp;-delayload:shell32.dll;-delayload:ole32.dll>;"
            "LLVMDemangle"
        )
    else:
        assert "m" in support.links
    assert "LLVMDemangle" in support.links


def test_builds_take_generators_and_linkers_and_tests_take_the_rest(runtime: Runtime, sdk: Sdk) -> None:
    system = runtime.platform.system
    build, tools = files(sdk, BUILD), files(sdk, TOOLS)
    assert {f"bin/{system.program(name)}" for name in ("mlir-tblgen", "ld.lld", "lld-link")} <= build
    assert {f"lib/{system.static_library(name)}" for name in ("LLVMSupport", "MLIRIR")} <= build
    assert {f"bin/{system.program(name)}" for name in ("mlir-opt", "FileCheck", "not")} <= tools
    assert runner_library(runtime.platform) in tools
    assert any(path.startswith("lib/objects/MLIRCAPIIR/IR.cpp.o") for path in build)
    if runtime.os == "windows":
        assert "lib/mlir_c_runner_utils.lib" in build


def test_upstreams_tests_find_the_runner_libraries(runtime: Runtime, sdk: Sdk, tmp_path: Path) -> None:
    setup = LitSetup(sdk=sdk, python=Path("python"), bindings=False, code_generators=sdk.info.code_generators)
    values = site_variables(setup, tmp_path)
    # As upstream's lit.cfg.py looks for them: with and without "lib".
    found = [Path(values["SHLIBDIR"], f"{lib}mlir_c_runner_utils{values['SHLIBEXT']}") for lib in ("", "lib")]
    assert sum(path.is_file() for path in found) == 1
    assert values["LLVM_TARGET_TRIPLE"] == runtime.platform.triple


def test_an_sdk_is_packed_and_unpacked(sdk: Sdk, tmp_path: Path) -> None:
    pack(sdk, tmp_path / "packed")
    there = unpack([tmp_path / "packed"], tmp_path / "there")
    assert there.info == sdk.info
    there.verify()


def test_a_wheel_of_each_target_is_staged(runtime: Runtime, sdk: Sdk, tmp_path: Path) -> None:
    for target in MATRIX.wheels:
        if target.runtime.name != runtime.name or target.configuration.has_sdk:
            continue
        project = stage(WheelRequest.of_order(target.order(), sdk), tmp_path / target.name)
        text = (project / "pyproject.toml").read_text(encoding="utf-8")
        assert str(sdk.root) not in text
        assert (project / "upstream" / "mlir" / "python" / "CMakeLists.txt").is_file()


@pytest.mark.parametrize("name", ["MLIRIR", "LLVMSupport"])
def test_what_is_missing_has_the_platforms_name(name: str, runtime: Runtime, tmp_path: Path) -> None:
    from mlir_release.ground.errors import MachineError

    prefix = make_installed(tmp_path / "prefix", runtime.platform)
    file = runtime.platform.system.static_library(name)
    (prefix / "lib" / file).unlink()
    (prefix / "bin" / runtime.platform.system.program("mlir-opt")).unlink()
    source = make_source(tmp_path / "llvm-project")
    with pytest.raises(MachineError) as caught:
        import_sdk(prefix, source=source, output=tmp_path / "sdk", revision=REVISION, source_epoch=EPOCH)
    assert caught.value.id == "tool-missing"
    assert f"the static library {file}, " in caught.value.why
    assert "the program mlir-opt, " in caught.value.why
