"""Programs and shared libraries of an SDK: what their files say, and that they run wherever they are moved."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlir_release.builder.sdk import programs as tools
from mlir_release.builder.sdk.elf import ElfFacts, read_elf
from mlir_release.ground.python.platforms import SYSTEMS
from tests.refusals import refused

LINUX = SYSTEMS["linux"]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF programs are moved on Linux only")


def test_a_link_to_a_neighbour_stays_a_link_and_brings_it(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    shutil.copy("/bin/true", origin / "lld")
    (origin / "ld.lld").symlink_to("lld")
    tools.add_programs(["ld.lld", "opt"], origin, tmp_path / "sdk", LINUX)
    assert (tmp_path / "sdk" / "bin" / "ld.lld").readlink() == Path("lld")
    assert not (tmp_path / "sdk" / "bin" / "lld").is_symlink()


def test_a_link_to_elsewhere_becomes_the_file(tmp_path: Path) -> None:
    (tmp_path / "origin").mkdir()
    shutil.copy("/bin/true", tmp_path / "real")
    (tmp_path / "origin" / "opt").symlink_to("../real")
    tools.add_programs(["opt"], tmp_path / "origin", tmp_path / "sdk", LINUX)
    assert not (tmp_path / "sdk" / "bin" / "opt").is_symlink()


def test_a_hard_link_is_made_and_else_a_copy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("text")
    tools.link_or_copy(source, tmp_path / "a" / "linked")
    assert (tmp_path / "a" / "linked").samefile(source)

    def refuse(*paths: object) -> None:
        raise OSError("cross-device link")

    tools.link_or_copy(source, tmp_path / "a" / "copied", refuse)
    assert (tmp_path / "a" / "copied").read_text() == "text"
    assert not (tmp_path / "a" / "copied").samefile(source)


@pytest.fixture(params=["$ORIGIN/../lib", "", "/nowhere"], ids=["relative", "none", "absolute"])
def program(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A prefix whose ``opt`` needs libdeep by way of libnear, which only the folder of its libraries has.

    The parameter is the program's run path: Debian's LLVM 22 has a relative one, its LLVM 23 none at all.
    """
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    prefix = tmp_path / "its prefix"
    for folder in ("bin", "lib"):
        (prefix / folder).mkdir(parents=True)
    sources = {
        "libdeep.so": "int deep(void) { return 42; }",
        "libnear.so": "int deep(void); int near(void) { return deep(); }",
    }
    for name, code in sources.items():
        (tmp_path / f"{name}.c").write_text(code)
        libraries = ["-L", str(prefix / "lib"), "-ldeep"] if name == "libnear.so" else []
        compile_c(tmp_path / f"{name}.c", prefix / "lib" / name, "-shared", "-fPIC", f"-Wl,-soname,{name}", *libraries)
    (tmp_path / "opt.c").write_text("int near(void); int main(void) { return near() - 42; }")
    libraries = [f"-L{prefix}/lib", "-lnear", f"-Wl,-rpath-link,{prefix}/lib"]
    run_path = [f"-Wl,-rpath,{request.param}"] if request.param else []
    compile_c(tmp_path / "opt.c", prefix / "bin" / "opt", *libraries, *run_path)
    return prefix


def add_program(program: Path, folder: Path) -> None:
    tools.add_programs(["opt"], program / "bin", folder / "sdk", LINUX)


def add_libraries(program: Path, folder: Path, loaded: re.Pattern[str] | None = None) -> None:
    tools.add_shared_libraries([program / "lib"], folder / "sdk", LINUX, loaded)


def compile_c(source: Path, output: Path, *arguments: str) -> None:
    subprocess.run(["cc", str(source), "-o", str(output), *arguments], check=True)


def test_a_program_runs_with_its_libraries_wherever_it_is_moved(program: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in program.rglob("*") if path.is_file()}
    add_program(program, tmp_path)
    add_libraries(program, tmp_path)
    # What is linked is the distribution's own file: only copies may be changed.
    assert {path: path.read_bytes() for path in program.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in (tmp_path / "sdk").glob("*/.*")) == []
    shutil.rmtree(program)
    moved = (tmp_path / "sdk").rename(tmp_path / "moved")
    # libnear.so had no run path: without one of its own it would not find libdeep.so.
    assert subprocess.run([moved / "bin" / "opt"], check=False).returncode == 0
    tools.check_relocated(moved)


@pytest.mark.parametrize("program", ["$ORIGIN/../lib"], indirect=True)
def test_a_program_that_finds_its_libraries_stays_the_same_file(program: Path, tmp_path: Path) -> None:
    add_program(program, tmp_path)
    add_libraries(program, tmp_path)
    assert (tmp_path / "sdk" / "bin" / "opt").samefile(program / "bin" / "opt")


@pytest.mark.parametrize("program", ["$ORIGIN/../lib"], indirect=True)
def test_a_library_that_gives_no_symbol_is_needed_no_longer(program: Path, tmp_path: Path) -> None:
    """A linker keeps libraries that nothing uses (Debian's FileCheck: z3, zlib, zstd), and the loader wants them."""
    original, copied = program / "bin" / "opt", tmp_path / "copied" / "bin" / "opt"
    libraries = ["-Wl,--no-as-needed", f"-L{program}/lib", "-lnear", "-ldeep"]
    compile_c(tmp_path / "opt.c", original, *libraries, "-Wl,-rpath,$ORIGIN/../lib")
    before = original.read_bytes()
    tools.link_or_copy(original, copied)
    tools.drop_unused_libraries(copied, program / "lib")
    with copied.open("rb") as file:
        needed = read_elf(file).needed
    assert ("libnear.so" in needed, "libdeep.so" in needed) == (True, False)
    assert any(name.startswith("libc.") for name in needed)
    assert original.read_bytes() == before
    tools.drop_unused_libraries(original, program / "bin")  # no libraries there: nothing is changed
    assert original.read_bytes() == before


def test_an_sdk_may_have_no_program(tmp_path: Path) -> None:
    (tmp_path / "prefix" / "lib").mkdir(parents=True)
    (tmp_path / "sdk").mkdir()
    tools.add_programs(["lld"], tmp_path / "prefix" / "bin", tmp_path / "sdk", LINUX)
    tools.add_shared_libraries([tmp_path / "prefix" / "lib"], tmp_path / "sdk", LINUX, re.compile("lib.*"))
    tools.check_relocated(tmp_path / "sdk")
    assert not [path for path in (tmp_path / "sdk").rglob("*") if path.is_file()]


def test_a_library_that_is_asked_for_brings_what_it_needs(program: Path, tmp_path: Path) -> None:
    add_libraries(program, tmp_path, re.compile(r"libnear[.]so"))
    assert sorted(path.name for path in (tmp_path / "sdk").glob("*/*")) == ["libdeep.so", "libnear.so"]
    with (tmp_path / "sdk" / "lib" / "libnear.so").open("rb") as file:
        assert read_elf(file).runpath == ("$ORIGIN",)


def test_a_library_that_is_nowhere_is_named(program: Path, tmp_path: Path) -> None:
    (program / "lib" / "libdeep.so").unlink()
    add_program(program, tmp_path)
    error = refused(lambda: add_libraries(program, tmp_path), "tool-missing")
    assert error.why == "libdeep.so"


def test_a_program_that_reaches_outside_is_found_out(program: Path, tmp_path: Path) -> None:
    add_program(program, tmp_path)
    error = refused(lambda: tools.check_relocated(tmp_path / "sdk"), "llvm-unsuitable")
    assert "libnear.so" in error.why


def test_without_patchelf_it_says_where_to_get_it(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_program(program, tmp_path)
    real = shutil.which
    monkeypatch.setattr("shutil.which", lambda name, **others: None if name == "patchelf" else real(name, **others))
    refused(lambda: add_libraries(program, tmp_path), "tool-missing", "patchelf is needed to make")


SOURCE = """
#include <stdio.h>
extern int other; static int *table[] = {&other, &other};
int **f(void) { printf("x"); return table; }
int other;
static char zeros[100000];
char *g(void) { return zeros; }
"""


def facts_of(folder: Path, *flags: str) -> ElfFacts:
    """What a library says of itself that is linked with these flags."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (folder / "x.c").write_text(SOURCE)
    compile_c(folder / "x.c", folder / "libx.so.1", "-shared", "-fPIC", *flags)
    return read_elf(io.BytesIO((folder / "libx.so.1").read_bytes()))


def test_what_a_library_says_of_itself(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, "-Wl,-soname,libx.so", "-Wl,-rpath,$ORIGIN:/opt/x")
    assert facts.soname == "libx.so"
    assert facts.needed == ("libc.so.6",)
    assert facts.runpath == ("$ORIGIN", "/opt/x")
    assert "libc.so.6" in facts.versions
    assert facts.has_symbol_table
    assert not facts.packed_relocations
    assert ".bss" not in facts.sections  # takes no bytes in the file
    assert facts.sections[".text"] > 0
    assert list(facts.sections.values()) == sorted(facts.sections.values(), reverse=True)


def test_a_stripped_library(tmp_path: Path) -> None:
    assert not facts_of(tmp_path, "-s").has_symbol_table


def test_packed_relocations_and_their_declaration(tmp_path: Path) -> None:
    try:
        facts = facts_of(tmp_path, "-Wl,-z,pack-relative-relocs,--fatal-warnings")
    except subprocess.CalledProcessError:
        pytest.skip("this linker cannot pack relocations")
    if not facts.packed_relocations:
        pytest.skip("this linker ignores the flag")
    assert facts.declares_packed_relocations
    assert facts.glibc is not None
    assert facts.glibc >= (2, 36)


def test_no_elf_file() -> None:
    refused(lambda: read_elf(io.BytesIO(b"MZ" + bytes(100))), "file-damaged")
