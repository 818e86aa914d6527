"""``llvm-config`` of a real SDK: compared with upstream's own, and used by a Makefile and by Cargo."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.sdk_wheels import write_sdk_wheel
from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from tests.processes import run

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.python.venv import VirtualEnvironment

MAKEFILE = """\
LLVM_CONFIG ?= llvm-config
CFLAGS := $(shell $(LLVM_CONFIG) --cflags)
LDFLAGS := $(shell $(LLVM_CONFIG) --ldflags)
LDLIBS := $(shell $(LLVM_CONFIG) --libs $(COMPONENTS) --system-libs) -lstdc++
program: main.c
\t$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< $(LDFLAGS) $(LDLIBS)
"""

#: Uses MLIR's C API; with ``EVERYTHING`` it registers all passes, and so links most of MLIR.
PROGRAM_C = r"""
#include "mlir-c/IR.h"
#ifdef EVERYTHING
#include "mlir-c/RegisterEverything.h"
#endif
#include <stdio.h>
static void show(MlirStringRef text, void *data) { fwrite(text.data, 1, text.length, stdout); }
int main(void) {
  MlirContext context = mlirContextCreate();
#ifdef EVERYTHING
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  mlirRegisterAllDialects(registry);
  mlirContextAppendDialectRegistry(context, registry);
  mlirRegisterAllPasses();
  mlirRegisterAllLLVMTranslations(context);
#endif
  MlirModule module = mlirModuleCreateParse(context, mlirStringRefCreateFromCString("module @made {}"));
  if (mlirModuleIsNull(module))
    return 1;
  mlirOperationPrint(mlirModuleGetOperation(module), show, NULL);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
}
"""

PROGRAM_RS = r"""
use mlir_sys::*;
use std::ffi::CString;
unsafe extern "C" fn show(text: MlirStringRef, _: *mut std::ffi::c_void) {
    let bytes = unsafe { std::slice::from_raw_parts(text.data as *const u8, text.length) };
    print!("{}", std::str::from_utf8(bytes).unwrap());
}
fn main() {
    unsafe {
        let context = mlirContextCreate();
        let registry = mlirDialectRegistryCreate();
        mlirRegisterAllDialects(registry);
        mlirContextAppendDialectRegistry(context, registry);
        mlirRegisterAllPasses();
        mlirRegisterAllLLVMTranslations(context);
        let text = CString::new("module @made {}").unwrap();
        let module = mlirModuleCreateParse(context, mlirStringRefCreateFromCString(text.as_ptr()));
        mlirOperationPrint(mlirModuleGetOperation(module), Some(show), std::ptr::null_mut());
        mlirModuleDestroy(module);
        mlirContextDestroy(context);
    }
}
"""


def ask(program: Path, *words: str) -> list[str]:
    return run(program, *words).split()


@pytest.fixture(scope="module")
def upstreams(sdk: Sdk) -> Path:
    """The program that LLVM's own build makes, of the packages that the SDK was imported from."""
    if sdk.info.provider != "debian":
        pytest.skip("the SDK is not of Debian's packages")
    prefix = DebianPackages(cache_directory()).unpack(int(sdk.info.llvm_version.split(".")[0]))
    return prefix / "bin" / "llvm-config"


@pytest.mark.parametrize(
    "option", ["--version", "--targets-built", "--build-mode", "--assertion-mode", "--has-rtti", "--host-target",
               "--build-system", "--cflags", "--cxxflags", "--cppflags", "--ldflags", "--libdir", "--cmakedir"]
)  # fmt: skip
def test_it_says_what_upstreams_does(sdk: Sdk, upstreams: Path, option: str) -> None:
    """Folders are each one's own; nobody reads an order into flags."""
    prefix = run(upstreams, "--prefix").strip()
    expected = [word.replace(prefix, str(sdk.root)) for word in ask(upstreams, option)]
    assert sorted(ask(sdk.tools / "llvm-config", option)) == sorted(expected)


@pytest.mark.parametrize("component", ["support", "core", "native", "nativecodegen", "x86", "passes", "all-targets"])
def test_components_have_upstreams_libraries(sdk: Sdk, upstreams: Path, component: str) -> None:
    """All of them but those that an SDK can't carry; and each comes before those that it needs."""
    targets = cmake_exports.read(sdk.cmake_dir / "llvm" / "LLVMExports.cmake")
    expected = {f"-l{name}" for name in targets} & set(ask(upstreams, "--link-static", "--libs", component))
    found = ask(sdk.tools / "llvm-config", "--libs", component)
    assert len(found) == len(set(found))
    assert expected <= set(found)
    places = {word.removeprefix("-l"): place for place, word in enumerate(found)}
    for name, place in places.items():
        needed = {cmake_exports.linked_name(entry) for entry in targets[name].links} & set(places)
        assert all(places[other] > place for other in needed), (name, needed)


def test_upstreams_components_are_known_but_for_what_is_left_out(sdk: Sdk, upstreams: Path) -> None:
    """Debian's libLTO and its like link libraries that an SDK has not (see `sdk import`)."""
    missing = set(ask(upstreams, "--components")) - set(ask(sdk.tools / "llvm-config", "--components"))
    assert missing <= {"dtlto", "extensions", "interpreter", "lineeditor", "lto", "windowsmanifest", "debuginfod"}


def build_by_make(folder: Path, *settings: str, variables: dict[str, str] | None = None) -> str:
    """Build the program by a Makefile, and return what it prints."""
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (folder / "main.c").write_text(PROGRAM_C, encoding="utf-8")
    run("make", "-C", folder, *settings, variables=variables)
    return run(folder / "program")


def test_a_makefile_builds_a_program(sdk: Sdk, tmp_path: Path) -> None:
    config = f"LLVM_CONFIG={sdk.tools / 'llvm-config'}"
    assert build_by_make(tmp_path / "project", config, "COMPONENTS=MLIRCAPIIR").startswith("module @made {\n}")


@pytest.fixture(scope="module")
def environment(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> VirtualEnvironment:
    """With ``mlir-sdk``, which has fewer code generators than its libraries were compiled with."""
    root = tmp_path_factory.mktemp("installed")
    made = venv.create(root / "environment", Path(sys.executable))
    made.install("--no-index", write_sdk_wheel(sdk, sdk.info.llvm_version, output=root / "wheels"))
    return made


@pytest.fixture
def variables(environment: VirtualEnvironment) -> dict[str, str]:
    return {**os.environ, "PATH": f"{environment.scripts}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow  # mlir-sdk is made first
def test_a_makefile_finds_it_on_path(variables: dict[str, str], tmp_path: Path) -> None:
    settings = ("COMPONENTS=MLIRCAPIRegisterEverything MLIRCAPIIR", "CPPFLAGS=-DEVERYTHING")
    assert build_by_make(tmp_path / "project", *settings, variables=variables).startswith("module @made {\n}")


@pytest.mark.slow
@pytest.mark.parametrize("by_prefix", [True, False], ids=["prefix", "path"])
def test_cargo_builds_a_program_on_mlir_sys(
    sdk: Sdk, environment: VirtualEnvironment, variables: dict[str, str], tmp_path: Path, *, by_prefix: bool
) -> None:
    """The crate of crates.io for this LLVM; bindgen reads the headers by libclang, from PyPI."""
    if shutil.which("cargo") is None:
        pytest.skip("no cargo: install Rust (on Debian: apt-get install cargo)")
    clang = venv.create(tmp_path / "clang", Path(sys.executable))
    clang.install("libclang")
    variables["LIBCLANG_PATH"] = str(clang.site_packages() / "clang" / "native")
    variables["BINDGEN_EXTRA_CLANG_ARGS"] = f"-I{run('gcc', '-print-file-name=include').strip()}"
    major = sdk.info.llvm_version.split(".")[0]
    if by_prefix:
        variables["PATH"] = os.environ["PATH"]
        variables[f"MLIR_SYS_{major}0_PREFIX"] = run(environment.python, "-m", "mlir_sdk").strip()
    run("cargo", "new", "--bin", tmp_path / "project", variables=variables)
    (tmp_path / "project" / "src" / "main.rs").write_text(PROGRAM_RS, encoding="utf-8")
    manifest = ("--manifest-path", tmp_path / "project" / "Cargo.toml")
    run("cargo", "add", *manifest, f"mlir-sys@{major}0", variables=variables)
    assert run("cargo", "run", "--quiet", *manifest, variables=variables).startswith("module @made {\n}")
