"""A corpus of a ThinLTO link, by the stock clang and lld."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpus import load_corpus
from mlir_release.extras.mlgo.toolchain import Toolchain
from tests.integration.extras.mlgo.conftest import error_of, mlgo, run, said

if TYPE_CHECKING:
    from pathlib import Path

NINJA = """
rule cc
  command = {llvm}/bin/clang -O1 -flto=thin -c $in -o $out
rule link
  command = {llvm}/bin/clang -O3 -fPIC {flto} --ld-path={llvm}/bin/ld.lld {wanted} $in -o $out
build main.o: cc main.c
build lib/callee.o: cc callee.c
build program: link main.o lib/callee.o
"""
MAIN = (
    "int callee(int); int main(int n, char **v) { int s = 0; for (int i = 0; i < n; i++) s += callee(i); return s; }\n"
)
ARCHIVES = """
rule ar
  command = {llvm}/bin/llvm-ar rc{thin} $out $in
build lib/other.o: cc other.c
build user.o: cc user.c
build lib/libboth.a: ar lib/other.o lib/callee.o
build two: link main.o user.o lib/libboth.a
build one: link main.o lib/libboth.a
"""
TEMPORARIES = "-Wl,--save-temps=import -Wl,--thinlto-emit-index-files"


def build(llvm: Path, folder: Path, *, flto: str = "-flto=thin", wanted: str = TEMPORARIES) -> Path:
    (folder / "lib").mkdir(parents=True)
    (folder / "main.c").write_text(MAIN)
    (folder / "callee.c").write_text("int callee(int x) { return x * x + 3; }\n")
    (folder / "build.ninja").write_text(NINJA.format(llvm=llvm, flto=flto, wanted=wanted))
    run("ninja", "-C", folder)
    return folder


def test_modules_have_what_they_imported_and_are_optimized_as_they_are_linked(clang: Path, tmp_path: Path) -> None:
    tree, corpus = build(clang, tmp_path / "build"), tmp_path / "corpus"
    said(mlgo("corpus", tree, "-o", corpus, "--llvm", clang, "--thinlto", "program", "--json"))
    loaded = load_corpus(corpus)
    assert [module.name for module in loaded.modules] == ["lib/callee.o", "main.o"]
    assert {module.flags for module in loaded.modules} == {("-O3", "-relocation-model=pic")}
    main = loaded.modules[1]
    symbols = subprocess.run(
        [clang / "bin" / "llvm-nm", corpus / main.bitcode], capture_output=True, text=True, check=True
    )
    assert "main" in symbols.stdout
    assert "callee" not in symbols.stdout, "it was imported, and inlined"
    assert Compiler(Toolchain(clang), loaded, corpus).compile(main, emit=True).text > 0


@pytest.mark.parametrize("thin", ["", "T"])
def test_of_an_archive_the_members_are_taken_that_the_last_link_took(thin: str, clang: Path, tmp_path: Path) -> None:
    tree = build(clang, tmp_path / "build")
    (tree / "other.c").write_text("int other(int x) { return x - 1; }\n")
    (tree / "user.c").write_text("int other(int); int callee(int); int user(int x) { return other(callee(x)); }\n")
    with (tree / "build.ninja").open("a") as file:
        file.write(ARCHIVES.format(llvm=clang, thin=thin))

    def modules(target: str) -> list[str]:
        run("ninja", "-C", tree, target)
        words = ("corpus", tree, "-o", tmp_path / target, "--llvm", clang, "--thinlto", target, "--json")
        return [module["name"].split(" at ")[0] for module in said(mlgo(*words))["modules"]]

    assert modules("two") == ["lib/libboth.a(callee.o", "lib/libboth.a(other.o", "main.o", "user.o"]
    assert modules("one") == ["lib/libboth.a(callee.o", "main.o"], "the other one's module is of the link before"
    (tree / "other.c").write_text("int other(int x) { return x - 1; } int unused(void) { return 2; }\n")
    (tree / "callee.c").write_text("int callee(int x) { return x * x + 4; }\n")
    assert modules("one") == ["lib/libboth.a(callee.o", "main.o"], "callee.o has moved in the archive"
    loaded = load_corpus(tmp_path / "one")
    compiler = Compiler(Toolchain(clang), loaded, tmp_path / "one")
    assert all(compiler.compile(module, emit=True).text > 0 for module in loaded.modules)


@pytest.mark.parametrize(
    ("changed", "target", "said"),
    [
        ({}, "no-such-target", "is no target of Ninja's"),
        ({}, "main.o", "have no module with what it imported"),
        ({"wanted": ""}, "program", "have no module with what it imported"),
        (
            {"wanted": f"{TEMPORARIES} -mno-such-option"},
            "program",
            "clang does not understand what program is linked with",
        ),
    ],
)
def test_what_is_no_such_link_is_refused(
    changed: dict[str, str], target: str, said: str, clang: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "build"
    if "-mno-such-option" in changed.get("wanted", ""):
        build(clang, tree)
        (tree / "build.ninja").write_text(NINJA.format(llvm=clang, flto="-flto=thin", **changed))
    else:
        build(clang, tree, **changed)
    words = ("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto")
    assert said in error_of(*words, target).what
    assert mlgo(*words, target, "--profiled").exit_code == 2
