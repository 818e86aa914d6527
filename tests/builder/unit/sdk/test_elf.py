from __future__ import annotations

import io
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.elf import read_elf
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="compiles a small library")

SOURCE = """
#include <stdio.h>
extern int other; static int *table[] = {&other, &other};
int **f(void) { printf("x"); return table; }
int other;
static char zeros[100000];
char *g(void) { return zeros; }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "x.c").write_text(SOURCE)
    return tmp_path / "libx.so.1"


def link(library: Path, *flags: str) -> None:
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(library.with_name("x.c")), *flags]
    subprocess.run(command, check=True, capture_output=True)


def test_what_it_says_of_itself(library: Path) -> None:
    link(library, "-Wl,-soname,libx.so", "-Wl,-rpath,$ORIGIN:/opt/x")
    with library.open("rb") as file:
        facts = read_elf(file)
    assert facts.soname == "libx.so"
    assert facts.needed == ("libc.so.6",)
    assert facts.runpath == ("$ORIGIN", "/opt/x")
    assert "libc.so.6" in facts.versions
    assert facts.has_symbol_table
    assert not facts.packed_relocations
    assert ".bss" not in facts.sections  # takes no bytes in the file
    assert facts.sections[".text"] > 0
    assert list(facts.sections.values()) == sorted(facts.sections.values(), reverse=True)


def test_a_stripped_one(library: Path) -> None:
    link(library, "-s")
    assert not read_elf(io.BytesIO(library.read_bytes())).has_symbol_table


def test_packed_relocations_and_their_declaration(library: Path) -> None:
    try:
        link(library, "-Wl,-z,pack-relative-relocs,--fatal-warnings")
    except subprocess.CalledProcessError:
        pytest.skip("this linker cannot pack relocations")
    facts = read_elf(io.BytesIO(library.read_bytes()))
    if not facts.packed_relocations:
        pytest.skip("this linker ignores the flag")
    assert facts.declares_packed_relocations
    assert facts.glibc is not None
    assert facts.glibc >= (2, 36)


def test_no_elf_file() -> None:
    refused(lambda: read_elf(io.BytesIO(b"MZ" + bytes(100))), "file-damaged")
