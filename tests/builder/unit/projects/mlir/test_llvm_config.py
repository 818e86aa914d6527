"""``llvm-config`` of a miniature SDK: what it answers, wherever the SDK is, and what it refuses."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.llvm_config import NAME, STARTER, add_llvm_config
from mlir_release.ground.python.platforms import Platform

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk

SETTINGS = """
set(LLVM_HOST_TRIPLE "x86_64-pc-linux-gnu")
set(LLVM_ENABLE_RTTI ON)
set(LLVM_ENABLE_EH OFF)
set(LLVM_DEFINITIONS "-D_GNU_SOURCE -D__STDC_LIMIT_MACROS")
set(MLIR_SDK_CXX_STANDARD 20)
"""


@pytest.fixture
def sdk(imported: Sdk, tmp_path: Path) -> Sdk:
    """Moved after it was made, to a place with a blank in its name."""
    moved = imported.copy_to(tmp_path / "my sdk")
    configure(moved, SETTINGS)
    return moved


def config(sdk: Sdk) -> Path:
    return sdk.cmake_dir / "llvm" / "LLVMConfig.cmake"


def configure(sdk: Sdk, more: str) -> None:
    config(sdk).write_text(config(sdk).read_text(encoding="utf-8") + more, encoding="utf-8")


def run(sdk: Sdk, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sdk.tools / NAME, *words], capture_output=True, text=True, check=False)


def ask(sdk: Sdk, *words: str) -> str:
    done = run(sdk, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.removesuffix("\n")


def refuse(sdk: Sdk, *words: str) -> str:
    """The message of a refusal, on one line; nothing is printed that a Makefile could take for an answer."""
    done = run(sdk, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert "\nTo do: " in done.stderr
    return " ".join(done.stderr.split())


def test_folders_are_those_where_the_sdk_is_now(sdk: Sdk) -> None:
    folders = {"--prefix": "", "--obj-root": "", "--bindir": "bin", "--includedir": "include", "--libdir": "lib"}
    for option, folder in {**folders, "--cmakedir": "lib/cmake/llvm"}.items():
        assert ask(sdk, option) == str(sdk.root / folder)


@pytest.mark.parametrize(
    ("option", "answer"),
    [("--version", "22.1.8"), ("--build-mode", "RelWithDebInfo"), ("--assertion-mode", "OFF"), ("--has-rtti", "YES"),
     ("--shared-mode", "static"), ("--targets-built", "AMDGPU NVPTX X86"), ("--host-target", "x86_64-pc-linux-gnu"),
     ("--build-system", "cmake"), ("--system-libs", "-lrt -ldl -lm -lz -lzstd")],
)  # fmt: skip
def test_facts_are_those_of_the_cmake_packages(sdk: Sdk, option: str, answer: str) -> None:
    assert ask(sdk, option) == answer


def test_flags_are_those_that_llvms_headers_need(sdk: Sdk) -> None:
    include = f"-I{sdk.root}/include"
    assert ask(sdk, "--cppflags") == f"{include} -D_GNU_SOURCE -D__STDC_LIMIT_MACROS"
    assert ask(sdk, "--cflags") == ask(sdk, "--cppflags")
    assert ask(sdk, "--cxxflags") == f"{include} -std=c++20 -D_GNU_SOURCE -D__STDC_LIMIT_MACROS -fno-exceptions"
    assert ask(sdk, "--ldflags") == f"-L{sdk.root}/lib"


def test_other_builds_have_other_flags(sdk: Sdk) -> None:
    configure(sdk, "set(LLVM_ENABLE_RTTI OFF)\nset(LLVM_ENABLE_EH ON)\nset(LLVM_ENABLE_ASSERTIONS TRUE)\n")
    assert ask(sdk, "--has-rtti", "--assertion-mode") == "NO\nON"
    assert ask(sdk, "--cxxflags").split()[-1] == "-fno-rtti"


def test_libraries_come_before_those_that_they_need(sdk: Sdk) -> None:
    assert ask(sdk, "--libs", "core") == "-lLLVMCore -lLLVMSupport -lLLVMDemangle"
    assert ask(sdk, "--libnames", "Support") == "libLLVMSupport.a libLLVMDemangle.a"
    assert ask(sdk, "--libfiles", "demangle") == str(sdk.libraries / "libLLVMDemangle.a")
    assert ask(sdk, "--libs") == ask(sdk, "--libs", "all") == ask(sdk, "--libs", "core")


def test_a_library_of_mlir_is_a_component_too(sdk: Sdk) -> None:
    assert ask(sdk, "--libs", "MLIRCAPIIR") == (
        "-lMLIRCAPIIR -lMLIRIR -lMLIRSupport -lLLVMCore -lLLVMSupport -lLLVMDemangle"
    )


def test_components_are_those_whose_archives_are_carried(sdk: Sdk) -> None:
    groups = {"all", "all-targets", "amdgpu", "engine", "native", "nativecodegen", "nvptx", "x86"}
    assert set(ask(sdk, "--components").split()) == {"core", "demangle", "support"} | groups


def test_several_options_are_answered_in_one_go_libraries_last(sdk: Sdk) -> None:
    answers = ask(sdk, "--libs", "demangle", "--system-libs", "--link-static", "--ignore-libllvm", "--version")
    assert answers.splitlines() == ["22.1.8", "-lLLVMDemangle", "-lrt -ldl -lm -lz -lzstd"]


def test_a_shell_takes_quoted_paths_as_one_word(sdk: Sdk) -> None:
    assert f"-I{sdk.root}/include" in shlex.split(ask(sdk, "--quote-paths", "--cflags"))
    assert shlex.split(ask(sdk, "--quote-paths", "--ldflags")) == [f"-L{sdk.root}/lib"]
    library = str(sdk.libraries / "libLLVMDemangle.a")
    assert shlex.split(ask(sdk, "--quote-paths", "--libfiles", "demangle")) == [library]


def test_a_path_without_blanks_is_not_quoted(imported: Sdk) -> None:
    assert ask(imported, "--quote-paths", "--libdir") == str(imported.libraries)


def test_a_link_to_it_finds_the_sdk(sdk: Sdk, tmp_path: Path) -> None:
    (tmp_path / "llvm-config-22").symlink_to(sdk.tools / NAME)
    done = subprocess.run([tmp_path / "llvm-config-22", "--prefix"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{sdk.root}\n"


def test_help_names_every_option(sdk: Sdk) -> None:
    text = ask(sdk, "--help")
    for option in ("--cxxflags", "--libs", "--system-libs", "--quote-paths", "--link-static"):
        assert f"  {option} " in text
    done = run(sdk)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("usage: llvm-config OPTION... [COMPONENT...]")


def test_an_unknown_option_is_refused(sdk: Sdk) -> None:
    assert refuse(sdk, "--version", "--lib") == (
        "llvm-config: error: unknown option: --lib To do: `llvm-config --help` lists the options"
    )


def test_an_unknown_component_is_refused(sdk: Sdk) -> None:
    assert "unknown component name: nosuch To do: `llvm-config --components`" in refuse(sdk, "--libs", "core", "nosuch")


@pytest.mark.parametrize("option", ["--libs", "--libnames", "--libfiles", "--shared-mode", "--system-libs"])
def test_shared_libraries_are_refused(sdk: Sdk, option: str) -> None:
    """Cargo's mlir-sys asks by ``--libnames`` whether it can link them."""
    assert "has no shared libraries of LLVM or MLIR" in refuse(sdk, "--link-shared", option)


def test_archives_that_are_not_there_are_named(sdk: Sdk) -> None:
    (sdk.libraries / "libLLVMDemangle.a").unlink()
    said = refuse(sdk, "--libs", "core")
    assert f"missing: {sdk.libraries}/libLLVMDemangle.a To do: install mlir-sdk again" in said
    assert ask(sdk, "--version") == "22.1.8"


def test_a_program_outside_an_sdk_says_so(sdk: Sdk) -> None:
    config(sdk).unlink()
    assert f"{sdk.root} is no complete SDK" in refuse(sdk, "--version")


def test_microsofts_linker_gets_paths_and_names_of_its_own(sdk: Sdk) -> None:
    configure(sdk, 'set(LLVM_HOST_TRIPLE "x86_64-pc-windows-msvc")\nset(LLVM_ENABLE_RTTI OFF)\n')
    exports = sdk.cmake_dir / "llvm" / "LLVMExports.cmake"
    exports.write_text(exports.read_text(encoding="utf-8").replace("rt;dl;m;", "psapi;ole32;"), encoding="utf-8")
    assert ask(sdk, "--cxxflags").split()[-5:] == [
        "-std:c++20", "-D_GNU_SOURCE", "-D__STDC_LIMIT_MACROS", "-EHs-c-", "-GR-",
    ]  # fmt: skip
    assert ask(sdk, "--ldflags") == f"-LIBPATH:{sdk.root}/lib"
    assert ask(sdk, "--libs", "demangle") == f"{sdk.libraries}/libLLVMDemangle.a"
    assert ask(sdk, "--system-libs").split()[:2] == ["psapi.lib", "ole32.lib"]


def test_windows_gets_a_starter_and_others_do_not(imported: Sdk, tmp_path: Path) -> None:
    copied = imported.copy_to(tmp_path / "sdk")
    assert not (copied.tools / STARTER).exists()
    source = tmp_path / "llvm-project"
    (source / "mlir").mkdir(parents=True)
    (source / "mlir" / "CMakeLists.txt").write_text('set(CMAKE_CXX_STANDARD 23 CACHE STRING "")\n', encoding="utf-8")
    add_llvm_config(copied.root, source, Platform.of("windows", "x86_64").system)
    assert (copied.tools / STARTER).read_bytes() == b'@python "%~dp0llvm-config" %*\r\n'
    assert "-std=c++23" in ask(copied, "--cxxflags")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows starts no program by its first line")
def test_it_needs_no_package_of_python(sdk: Sdk) -> None:
    command: list[str | Path] = [sys.executable, "-I", "-S", sdk.tools / NAME, "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "22.1.8\n"
