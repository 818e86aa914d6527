"""What extensions of the installed ``mlir`` are built with: headers, and the CMake package, by a miniature ``mlir``."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import WHEEL
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.storage.cache import cache_directory

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: run make setup-tests"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at the run path of an ELF file"),
]

REVISION = "ca7933e47d3a3451d81e72ac174dcb5aa28b59d1"
RELEASE = {
    "distribution": "mlir-core",
    "profile": "core",
    "tag": "snapshot-20261120.02",
    "revision": REVISION,
    "llvm_version": "22.1.8",
}

HEADERS = {
    "mlir-c/IR.h": '#include "mlir-c/Support.h"\n#include "mlir/Dialect/Func/Passes.capi.h.inc"\n',
    "mlir-c/Support.h": "#include <stddef.h>\nint mlirAnswer(void);\n",
    "mlir-c/Target.h": '  #  include "llvm-c/Core.h"\n',
    "mlir/Dialect/Func/Passes.capi.h.inc": '#include "mlir-c/Support.h"\n',
    "llvm-c/Core.h": '#include "llvm-c/Types.h"\n',
    "llvm-c/Types.h": '#include "llvm-c/Core.h"\n',  # in a circle
    "llvm-c/lto.h": "",
    "mlir/IR/Operation.h": "",
}

#: What the wheel project does, without its bindings.
WHEEL_PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(wheel LANGUAGES C)
set(MLIR_BINDINGS_PYTHON_NB_DOMAIN own)
set(MLIR_RELEASE_C_API MLIRPythonCAPI-own)
set(nanobind_VERSION 2.9.2)
function(nanobind_add_module)
endfunction()
include(cmake/MLIRReleaseExtension.cmake)
install(DIRECTORY mlir/ DESTINATION mlir COMPONENT mlir_package)
"""

EXTENSION = """\
find_package(MLIRExtension REQUIRED CONFIG)
add_library(native MODULE native.c)
mlir_extension_module(native PACKAGE example/inner)
"""
NATIVE = '#include "mlir-c/Support.h"\nint answer(void) { return mlirAnswer(); }\n'


def run(*command: str | Path) -> tuple[bool, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, " ".join((done.stdout + done.stderr).split())


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ``site-packages`` with a ``mlir`` that has one function."""
    root = tmp_path_factory.mktemp("made")
    for folder in ("cmake", "src", "mlir"):
        shutil.copytree(WHEEL / folder, root / "wheel" / folder)
    write(root / "wheel", {"CMakeLists.txt": WHEEL_PROJECT, "mlir/_release.json": json.dumps(RELEASE)})
    write(root / "sdk" / "include", HEADERS)
    cmake, ninja = cmake_and_ninja(cache_directory())
    settings = {"MLIR_RELEASE_SDK": root / "sdk", "MLIR_RELEASE_GLIBC": "2.28", "CMAKE_MAKE_PROGRAM": ninja}
    settings |= {"SKBUILD_PROJECT_VERSION_FULL": "20261120.2", "CMAKE_INSTALL_PREFIX": root / "site"}
    words = [f"-D{name}={value}" for name, value in settings.items()]
    passed, said = run(cmake, "-G", "Ninja", "-S", root / "wheel", "-B", root / "build", *words)
    assert passed, said
    passed, said = run(cmake, "--install", root / "build", "--component", "mlir_package")
    assert passed, said
    libs = root / "site" / "mlir" / "_mlir_libs"
    (root / "capi.c").write_text("int mlirAnswer(void) { return 42; }\n", encoding="utf-8")
    library = libs / "libMLIRPythonCAPI-own.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library, root / "capi.c"], check=True
    )
    write(libs, {f"include/{name}": text for name, text in HEADERS.items() if name.startswith("mlir-c/")})
    (libs / "__init__.py").touch()
    return root / "site"


def configure(folder: Path, site: Path, lines: str = EXTENSION, **settings: object) -> tuple[bool, str]:
    head = "cmake_minimum_required(VERSION 3.20)\nproject(extension LANGUAGES C)\n"
    write(folder, {"CMakeLists.txt": head + lines, "native.c": NATIVE})
    cmake, ninja = cmake_and_ninja(cache_directory())
    settings = {"CMAKE_PREFIX_PATH": site / "mlir" / "_extension", "CMAKE_MAKE_PROGRAM": ninja} | settings
    words = [f"-D{name}={value}" for name, value in settings.items()]
    return run(cmake, "-G", "Ninja", "-S", folder, "-B", folder / "build", *words)


def test_headers_that_those_of_the_c_api_include_are_there_and_no_others(site: Path) -> None:
    include = site / "mlir" / "_mlir_libs" / "include"
    found = {path.relative_to(include).as_posix() for path in include.rglob("*") if path.is_file()}
    assert found == HEADERS.keys() - {"llvm-c/lto.h", "mlir/IR/Operation.h"}


def test_the_package_says_which_mlir_it_is_of(site: Path, tmp_path: Path) -> None:
    names = ("DISTRIBUTION", "VERSION", "TAG", "REVISION", "LLVM_VERSION", "C_RUNTIME", "NANOBIND_VERSION", "NB_DOMAIN")
    said = f'message(STATUS "{"|".join(f"${{MLIRExtension_{name}}}" for name in names)}")\n'
    passed, output = configure(tmp_path, site, f"find_package(MLIRExtension 20261120.2 EXACT REQUIRED)\n{said}")
    assert passed, output
    expected = ("mlir-core", "20261120.2", RELEASE["tag"], REVISION, "22.1.8", "glibc 2.28", "2.9.2", "own")
    assert "|".join(expected) in output


@pytest.mark.parametrize("first", ["mlir", "mlir-sdk"])
def test_an_sdk_beside_it_must_be_the_one_that_the_mlir_was_built_with(site: Path, tmp_path: Path, first: str) -> None:
    home, sdk = tmp_path / "site", tmp_path / "mlir_sdk"
    shutil.copytree(site, home)
    facts = home / "mlir" / "_extension" / "lib" / "cmake" / "MLIRExtension" / "facts.cmake"
    found = [f'set_property(GLOBAL PROPERTY MLIR_SDK_ROOT "{sdk}")\n', "find_package(MLIRExtension REQUIRED)\n"]
    lines = "".join(found if first == "mlir-sdk" else reversed(found))

    def says(*, digest: str, named: str = "") -> tuple[bool, str]:
        facts.write_text(
            f'{facts.read_text()}set(MLIRExtension_SDK "{digest}")\nset(MLIRExtension_SDK_WHEEL "{named}")\n'
        )
        shutil.rmtree(tmp_path / "project", ignore_errors=True)
        return configure(tmp_path / "project", home, lines)

    write(sdk, {"_mlir_sdk.json": json.dumps({"digest": "sha256:1", "version": "20261116.1"})})
    assert says(digest="sha256:1")[0]
    assert says(digest="")[0], "an mlir of an older toolkit"
    passed, said = says(digest="sha256:2", named="mlir-sdk==20261120.2")
    assert not passed
    assert "[mlir-extension-other-sdk] mlir-core 20261120.2 was not built with this mlir-sdk" in said
    assert "which is mlir-sdk 20261116.1" in said
    assert "To do: install mlir-sdk==20261120.2, from the release snapshot-20261120.02." in said
    assert "that of this mlir (snapshot-20261120.02) has no mlir-sdk" in says(digest="sha256:2")[1]


def test_another_version_is_not_found(site: Path, tmp_path: Path) -> None:
    passed, said = configure(tmp_path, site, "find_package(MLIRExtension 20261120.3 REQUIRED)\n")
    assert not passed
    assert '"MLIRExtension" that is compatible with requested version "20261120.3"' in said


def test_python_tells_where_the_package_is(site: Path) -> None:
    root = site / "mlir" / "_extension"
    for words, folder in (((), root), (("--cmakedir",), root / "lib" / "cmake" / "MLIRExtension")):
        command = [sys.executable, "-m", "mlir._extension", *words]
        done = subprocess.run(command, cwd=site, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(folder.resolve())


@pytest.fixture
def home(site: Path, tmp_path: Path) -> Path:
    """A ``site-packages`` with an extension, too."""
    home = tmp_path / "site"
    shutil.copytree(site, home)
    passed, said = configure(tmp_path / "project", home, CMAKE_INSTALL_PREFIX=home)
    assert passed, said
    cmake, _ = cmake_and_ninja(cache_directory())
    passed, said = run(cmake, "--build", tmp_path / "project" / "build", "--target", "install")
    assert passed, said
    return home


def test_a_module_finds_the_library_where_it_is_installed(home: Path, tmp_path: Path) -> None:
    """From a folder within a package, by its run path; loaded in a process of its own."""
    moved = home.rename(tmp_path / "moved")
    program = f"import ctypes; print(ctypes.CDLL({str(moved / 'example' / 'inner' / 'libnative.so')!r}).answer())"
    assert run(sys.executable, "-c", program) == (True, "42")
    assert imported(moved, RELEASE) == (True, "")


def imported(site: Path, release: dict[str, str] | None) -> tuple[bool, str]:
    """Import the generated check with a ``mlir`` of ``release``; None: of another maker."""
    others = dict.fromkeys(("target", "toolkit_version"), "")
    (site / "mlir" / "_release.json").write_text(json.dumps((release or {}) | others), encoding="utf-8")
    if release is None:
        (site / "mlir" / "_release.py").unlink()
    program = f"import sys; sys.path.insert(0, {str(site)!r}); import example.inner._mlir_check"
    return run(sys.executable, "-c", program)


def test_importing_it_with_another_mlir_is_one_clear_error(home: Path) -> None:
    other = RELEASE | {"revision": "42eda7e27fa5998bc87f0be4c1705b8d0565d4b2", "tag": "snapshot-20261121.01"}
    passed, said = imported(home, other)
    assert not passed
    assert said.endswith(
        "ImportError: [mlir-extension-other-mlir] example/inner was built with mlir-core 20261120.2 "
        "(snapshot-20261120.02, LLVM 22.1.8) and works with no other; installed is mlir-core of snapshot-20261121.01 "
        "(LLVM 22.1.8). To do: pip install 'mlir-core==20261120.2', or the example/inner that was built with the "
        "mlir that is installed."
    )
    passed, said = imported(home, RELEASE | {"distribution": "mlir", "profile": "host"})  # of the same commit
    assert not passed
    assert "installed is mlir of snapshot-20261120.02" in said
    assert imported(home, RELEASE | {"distribution": "mlir-core-asserts"})[0], "of the same profile"
    passed, said = imported(home, None)
    assert not passed
    assert "[mlir-extension-other-mlir]" in said
    assert "no mlir of mlir-release is installed" in said


def test_an_mlir_of_another_platform(site: Path, tmp_path: Path) -> None:
    target = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "riscv64"}
    passed, said = configure(tmp_path, site, **target)
    assert not passed
    assert f"[mlir-extension-other-platform] This mlir is for Linux on {platform.machine()}" in said
    assert "the build is for Linux on riscv64" in said


@pytest.mark.parametrize(
    ("domain", "version", "good"), [("own", "2.9.2", True), ("own", "2.10.2", False), ("other", "2.10.2", True)]
)
def test_nanobind_is_mlirs_where_its_types_are_shared(
    site: Path, tmp_path: Path, domain: str, version: str, good: bool
) -> None:
    defined = f"add_library(native MODULE native.c)\ntarget_compile_definitions(native PRIVATE NB_DOMAIN={domain})\n"
    lines = EXTENSION.replace("add_library(native MODULE native.c)\n", f"set(nanobind_VERSION {version})\n{defined}")
    passed, said = configure(tmp_path, site, lines)
    assert passed is good, said
    assert good or "[mlir-extension-wrong-nanobind] native is to share nanobind's types with mlir" in said


def test_a_module_without_a_package(site: Path, tmp_path: Path) -> None:
    passed, said = configure(tmp_path, site, EXTENSION.replace(" PACKAGE example/inner", ""))
    assert not passed
    assert "mlir_extension_module(native) needs PACKAGE" in said
