"""S15: the options of a corpus choose how code is generated, and neither load a plugin nor name a file to write."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.mlgo.corpora import corpus as corpora
from mlir_release.extras.mlgo.corpora.cc1 import clang_flags
from mlir_release.extras.mlgo.problems import EVICTION, INLINING
from mlir_release.extras.mlgo.toolchain import Toolchain
from mlir_release.ground.errors import ReleaseError, UsageError, VerificationError
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = "/tmp/evil.so"

FOR_LLC = [
    [f"-load={PLUGIN}"], ["-load", PLUGIN], [f"--load={PLUGIN}"], ["-o", "/tmp/x"], ["@/tmp/options"], ["-o=/tmp/x"],
    [f"-load-pass-plugin={PLUGIN}"], ["-O3", "-stats", "-info-output-file=/tmp/x"], ["-mcpu=/tmp/x"], [""],
    ["-filetype=obj"], ["-mcpu=x\n-load=y"], ["-relocation-model=pic -load=x"], ["/tmp/other.bc"],
]  # fmt: skip

FOR_CLANG = [
    ["-cc1", "-load", PLUGIN], ["-cc1", f"-fplugin={PLUGIN}"], ["-cc1", f"-fpass-plugin={PLUGIN}"],
    ["-cc1", "-mllvm", f"-load={PLUGIN}"], ["-cc1", "-mllvm", f"-load-pass-plugin={PLUGIN}"], ["-cc1", "@/tmp/options"],
    ["-cc1", "-mllvm", "-load", "-mllvm", PLUGIN], ["-cc1", "-o", "/tmp/x"], ["-cc1", "-Xclang", "-load"],
    ["-cc1", "-add-plugin", "x"], ["-cc1", "-plugin", "x"], ["-cc1", "-ftime-trace=/tmp/x"],
    ["-cc1", "-fplugin-arg-x-y"],
    ["-cc1", "-include", "/etc/passwd"], ["-cc1", "-dependency-file", "/tmp/x"], ["-cc1", "-x", "c"],
    ["-cc1", "-fixit"],
    ["-cc1", "-opt-record-file", "/tmp/x"], ["-cc1", "-target-cpu", "@/tmp/x"], ["-cc1", "-main-file-name", "x"],
    ["-cc1", "-split-dwarf-file", "/tmp/x"], ["-cc1", "-module-dependency-dir", "x"], ["-cc1", "-triple", "/tmp/x"],
    ["-cc1", "-stack-protector"], ["-cc1", "/tmp/other.bc"], ["-cc1", "-mllvm", "-info-output-file=x"],
    ["-cc1", "-mllvm", "@/tmp/x"], ["-cc1", "-target-feature", "@/tmp/x"], ["-cc1", "-fthinlto-index=/tmp/x"],
    ["-cc1", "-mllvm", "-stats", "-mllvm", "-info-output-file=5"], ["-cc1", "-mllvm", "-exec-on-ir-change=5"],
    ["-cc1", "-mllvm", "-info-output-file", "-mllvm", "-x"], ["-cc1", "-mllvm", "-x86-lvi-load-opt-plugin=5"],
    ["-cc1", "-triple", "-load"], ["-cc1", "-mtp", "-fpic"], ["-cc1", "-mllvm", "--load=x"],
    ["-cc1", "-ftrapv-handler", "-target-feature", "-load", "-fprofile-sample-use=/evil.so"],
    ["-cc1", "-mmlir", "-mllvm", "-dependency-file", "-fprofile-sample-use=/x"],
]  # fmt: skip

#: Commands that a list of allowed options takes for harmless if it reads them otherwise than clang does: the check once
#: left out an option of the front end with its value, where clang takes that option for the value of the one before.
READ_OTHERWISE = [
    ["-cc1", "-target-feature", "-I", f"-fpass-plugin={PLUGIN}", "-fmath-errno"],
    ["-cc1", "-target-feature", "-I", "-load", "-W/evil.so", "-fmath-errno"],
    ["-cc1", "-mllvm", "-I", "-load", "-W/evil.so", "-fmath-errno"],
    ["-cc1", "-triple", "-D", f"-fpass-plugin={PLUGIN}", "x86_64-linux-gnu"],
    ["-cc1", "-mllvm", "-o", f"-fpass-plugin={PLUGIN}", "-fmath-errno"],
    ["-cc1", "-target-feature", "-x", "-load", "-W/evil.so", "-fmath-errno"],
    ["-cc1", "-main-file-name", "@/tmp/evil.rsp", "-fmath-errno"],
    ["-cc1", "-target-feature", "-I", "@/tmp/evil.rsp", "-fmath-errno"],
    ["@/tmp/evil.rsp"],
]  # fmt: skip

#: As clang 22 of Debian records it, for ``-O3 -g -fPIC -march=native -flto=thin -mllvm -inline-threshold=5`` and more.
RECORDED = [
    "-cc1", "-triple", "x86_64-pc-linux-gnu", "-O3", "-emit-obj", "-disable-free", "-clear-ast-before-backend",
    "-discard-value-names", "-main-file-name", "a.cpp", "-mrelocation-model", "pic", "-pic-level", "2",
    "-mframe-pointer=none", "-fmath-errno", "-ffp-contract=on", "-funwind-tables=2", "-target-cpu", "znver4",
    "-target-feature", "-xop", "-target-feature", "+avx512vp2intersect", "-debug-info-kind=constructor",
    "-dwarf-version=5", "-debugger-tuning=gdb", "-ffunction-sections", "-fvisibility=hidden", "-resource-dir", "/lib",
    "-D", "NDEBUG", "-I", "/src", "-std=c++17", "-stack-protector", "2", "-mllvm", "-inline-threshold=5",
    "-D__GCC_HAVE_DWARF2_CFI_ASM=1", "-fgnuc-version=4.2.1", "-vectorize-loops", "-vectorize-slp", "-faddrsig",
    "-fsanitize=address,undefined", "-fprofile-instrument-use-path=/build/a.profdata", "-mcmodel=medium",
    "-dumpdir", "a-", "-dependency-file", "a.d", "-fembed-bitcode=all", "-o", "a.o", "-x", "c++",
]  # fmt: skip


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An LLVM whose programs only note how they were called."""
    folder = tmp_path / "llvm" / "bin"
    folder.mkdir(parents=True)
    for name in ("llc", "clang", "opt", "llvm-objcopy"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "LLVM version 22.1.8" && exit 0\necho "$@" >> {tmp_path}/called\n'
        )
        program.chmod(0o755)
    return folder.parent


def write_corpus(folder: Path, problem: str, flags: list[str], **changed: str) -> Path:
    folder.mkdir()
    modules = []
    for number, name in enumerate(("a.o", "b.o", "c.o")):
        content = f"BC{number}".encode()
        (folder / f"{name}.bc").write_bytes(content)
        module = {"name": name, "bitcode": f"{name}.bc", "sha256": hashlib.sha256(content).hexdigest()}
        modules.append({**module, "flags": flags, "held_out": name == "c.o", **(changed if number == 0 else {})})
    document = {"schema": 1, "problem": problem, "llvm": "22.1.8", "share": 0.3, "modules": modules}
    (folder / "corpus.json").write_text(json.dumps(document))
    return folder


@pytest.mark.skipif(os.name == "nt", reason="mlgo needs Linux")
@pytest.mark.parametrize(
    ("problem", "flags"), [("regalloc", flags) for flags in FOR_LLC] + [("inlining", flags) for flags in FOR_CLANG]
)
def test_an_option_that_is_not_of_code_generation_is_refused_and_no_compiler_runs(
    problem: str, flags: list[str], prefix: Path, tmp_path: Path
) -> None:
    folder = write_corpus(tmp_path / "corpus", problem, flags)
    done = CliRunner().invoke(app, ["mlgo", "trace", str(folder), "--llvm", str(prefix)])
    assert isinstance(done.exception, UsageError), done.output
    assert (done.exception.id, ", which the options of a corpus may not have" in done.exception.what) == (
        "input-invalid",
        True,
    )
    assert not (tmp_path / "called").exists()
    assert not (folder / "trace.json").exists()


def test_an_empty_list_of_options_is_honest(prefix: Path, tmp_path: Path) -> None:
    """What the tests above would show if nothing were refused."""
    folder = write_corpus(tmp_path / "corpus", "regalloc", ["-O3", "-relocation-model=pic", "-mcpu=znver4"])
    CliRunner().invoke(app, ["mlgo", "trace", str(folder), "--llvm", str(prefix)])
    assert "-O3 -relocation-model=pic -mcpu=znver4" in (tmp_path / "called").read_text()


#: Options that only say what to write, or where sources are: whoever compiles bitcode leaves them out.
DROPPED = ("-o", "-x", "-ftime-trace=/tmp/x", "-include", "-dependency-file", "-split-dwarf-file", "-main-file-name")


@pytest.mark.parametrize(
    "flags", [flags for flags in FOR_CLANG if flags[-2] not in DROPPED and flags[-1] not in DROPPED]
)
def test_the_recorded_command_of_an_object_is_held_to_the_same_list(
    flags: list[str], prefix: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.o.cmd").write_text("\0".join(flags) + "\0")
    refused(
        lambda: corpora._take("a.o", tmp_path, tmp_path / "out", tmp_path, Toolchain(prefix), EVICTION),
        "input-invalid",
        ", which the options of a corpus may not have",
    )
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("flags", READ_OTHERWISE)
def test_clang_gets_exactly_the_words_that_were_checked(flags: list[str], prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "a.o.cmd").write_text("\0".join(flags) + "\0")
    with pytest.raises((UsageError, VerificationError)):  # it is refused, or this clang writes nothing
        corpora._take("a.o", tmp_path, tmp_path / "out", tmp_path, Toolchain(prefix), EVICTION)
    called = tmp_path / "called"
    words = called.read_text().split() if called.exists() else []
    assert not [word for word in words if "evil" in word or word == "-load" or word.startswith("@")], words


def test_a_compiler_that_ends_well_without_an_object_is_refused(prefix: Path, tmp_path: Path) -> None:
    """As clang does with ``-mllvm -help``."""
    folder = write_corpus(tmp_path / "corpus", "inlining", ["-cc1", "-mllvm", "-help"])
    done = CliRunner().invoke(app, ["mlgo", "trace", str(folder), "--llvm", str(prefix)])
    assert isinstance(done.exception, ReleaseError), done.exception
    assert "-mllvm -help" in (tmp_path / "called").read_text()


@pytest.mark.parametrize("option", DROPPED)
def test_what_a_recorded_command_writes_is_left_out(option: str) -> None:
    assert clang_flags(["-cc1", *option.split(), "/tmp/x"][: 2 if "=" in option else 3]) == ("-cc1",)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "a/../../b", "", ".", "a//b", "x\ny", "a\0b"])
@pytest.mark.parametrize("field", ["name", "bitcode"])
def test_a_module_is_below_its_corpus(field: str, path: str, prefix: Path, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "corpus", "regalloc", [], **{field: path})
    done = CliRunner().invoke(app, ["mlgo", "trace", str(folder), "--llvm", str(prefix)])
    assert isinstance(done.exception, UsageError), done.output
    assert (done.exception.id, "can't be read:" in done.exception.what) == ("input-invalid", True)
    assert not (tmp_path / "called").exists()


def test_what_corpora_really_need_is_taken() -> None:
    assert INLINING.refused(clang_flags(RECORDED)) is None
    assert EVICTION.refused(EVICTION.flags(RECORDED)) is None
    assert EVICTION.refused(["-mtriple=x86_64-linux-gnu", "-mcpu=znver4", "-mattr=+avx,-xop"]) is None


def test_an_object_outside_its_build_folder_is_not_taken(tmp_path: Path) -> None:
    """Upstream's extract_ir writes below a folder of ours, by the object's own path."""
    listing = tmp_path / "compile_commands.json"
    objects = ("../../.bashrc.o", "/etc/x.o", "lib/a.o")
    rows = [{"directory": str(tmp_path), "arguments": ["clang", "-c", "a.c", "-o", name]} for name in objects]
    listing.write_text(json.dumps(rows))
    assert corpora.read_commands(listing) == {"lib/a.o": tmp_path}
