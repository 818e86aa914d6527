"""S15 with the real clang and lld: neither a link line nor a command recorded in an object loads a library here."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.ground.errors import ReleaseError
from tests.extras.integration.mlgo.conftest import error_of, mlgo, run
from tests.extras.integration.mlgo.test_thinlto import add_to_link, build

if TYPE_CHECKING:
    from pathlib import Path

#: A library that leaves a file where it is loaded, without a C library of its own.
EVIL = """
int open(const char *, int, ...);
__attribute__((constructor)) static void loaded(void) { open("MARKER", 0100 | 1, 0600); }
"""


#: What is added to a link line, the content of ``evil.rsp``, and what is said; nothing if the options are left out.
SMUGGLED = [
    ("-Wl,-mllvm,-load={evil}", "", "-mllvm -load="),
    ("-mllvm -load={evil}", "", "-mllvm -load="),
    ("-Wl,-plugin-opt=-load={evil}", "", "-mllvm -load="),
    ("-Wl,-mllvm -Wl,-info-output-file={marker}", "", "-mllvm -info-output-file="),
    ("-Wl,-mllvm -Wl,-print-module-scope=x", "", "-mllvm -print-module-scope=x"),
    ("@evil.rsp", "-Wl,-mllvm,-load={evil}", "-mllvm -load="),
    ("@evil.rsp", "-Xlinker -mllvm -Xlinker '-load={evil}'", "-mllvm -load="),
    ("-Wl,-mllvm,@evil.rsp", "-load={evil}", "a response file of the linker's own"),
    ("-Wl,-mllvm=@evil.rsp", "-load={evil}", "clang does not understand"),
    ("-Wl,-plugin-opt=-mllvm,-plugin-opt=-@evil.rsp", "-load={evil}", "-mllvm -@evil.rsp"),
    ("-mllvm -I -march=native", "", "no longer works"),
    ("-target @evil.rsp", "-B{folder} --offload-arch=native -x hip", "clang does not understand"),
    ("-fplugin={evil} -fpass-plugin={evil} -Wl,--load-pass-plugin={evil} -Xclang -load -Xclang {evil}", "", ""),
    ("@evil.rsp", "-fthinlto-index=/etc/passwd -fpass-plugin={evil} -Xclang -load -Xclang {evil}", ""),
    ("-ftime-trace={marker} -fsave-optimization-record -foptimization-record-file={marker}", "", ""),
]


def plugin(llvm: Path, folder: Path) -> tuple[Path, Path]:
    """Such a library, and its file."""
    folder.mkdir(parents=True)
    library, marker, clang = folder / "evil.so", folder / "loaded", llvm / "bin" / "clang"
    (folder / "evil.c").write_text(EVIL.replace("MARKER", str(marker)))
    run(clang, f"--ld-path={llvm}/bin/ld.lld", "-shared", "-fPIC", "-nostdlib", folder / "evil.c", "-o", library)
    subprocess.run([clang, "-cc1", "-load", library, "-x", "c", "/dev/null", "-fsyntax-only"], check=False)
    assert marker.exists(), "it is a danger"
    marker.unlink()
    return library, marker


def test_a_link_line_loads_nothing_and_writes_nothing_here(clang: Path, tmp_path: Path) -> None:
    library, marker = plugin(clang, tmp_path / "evil")
    tree = build(clang, tmp_path / "build")
    manifest = (tree / "build.ninja").read_text()
    words = ("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto", "program")
    for more, content, refused in SMUGGLED:
        places = {"evil": library, "marker": marker, "folder": library.parent}
        (tree / "build.ninja").write_text(manifest)
        (tree / "evil.rsp").write_text(content.format(**places))
        add_to_link(tree, more.format(**places))
        if refused:
            assert refused in error_of(*words).what, more
        else:
            assert mlgo(*words).exit_code == 0, more
            assert {module.flags[0] for module in load_corpus(tmp_path / "corpus").modules} == {"-O3"}
        assert not marker.exists(), more


#: Recorded commands that load it. ``{evil}`` is its path; ``W`` is a folder of the tree that is named like an option.
FORGED = [
    "-load {evil}",
    "-target-feature -I -fpass-plugin={evil} -fmath-errno",
    "-mllvm -I -load -W/evil.so -fmath-errno",
    "-target-feature -I -load -W/evil.so -fmath-errno",
    "-ftrapv-handler -target-feature -load -fprofile-sample-use=/evil.so",
    "-target-feature @evil.rsp -fmath-errno",
    "-target-feature -I @evil.rsp -fmath-errno",
]


@pytest.mark.parametrize("problem", ["regalloc", "inlining"])
def test_a_recorded_command_loads_nothing(problem: str, clang: Path, tmp_path: Path) -> None:
    library, marker = plugin(clang, tmp_path / "-W")
    tree, bin = tmp_path, clang / "bin"
    (tree / "-fprofile-sample-use=").symlink_to("-W")
    (tree / "evil.rsp").write_text(f"+x -load {library}")
    listing = []
    for name in ("a", "b", "c"):
        (tree / f"{name}.c").write_text(f"int {name}(int x) {{ return x * x; }}\n")
        run(bin / "clang", "-O2", "-Xclang", "-fembed-bitcode=all", "-c", tree / f"{name}.c", "-o", tree / f"{name}.o")
        listing.append({"directory": str(tree), "arguments": ["clang", "-c", f"{name}.c", "-o", f"{name}.o"]})
    (tree / "compile_commands.json").write_text(json.dumps(listing))
    for words in FORGED:
        command = ["-cc1", "-triple", "x86_64-pc-linux-gnu", "-O2", *words.format(evil=library).split()]
        full = [str(bin / "clang"), *command, "-emit-llvm-bc", "-x", "c", "a.c", "-o", "x"]
        subprocess.run(full, cwd=tree, check=False, capture_output=True)
        assert marker.exists(), words
        marker.unlink()
        (tree / "forged").write_text("\0".join(command) + "\0")
        run(bin / "llvm-objcopy", "--update-section", f".llvmcmd={tree}/forged", tree / "a.o")
        done = mlgo("corpus", tree, "-o", tree / "corpus", "--llvm", clang, "--problem", problem)
        assert done.exception is None or isinstance(done.exception, ReleaseError), words
        assert not marker.exists(), words
