"""A corpus of a ThinLTO link, by the stock clang and lld."""

from __future__ import annotations

import os
import random
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from mlir_release.extras.mlgo.compiling import Compiler
from mlir_release.extras.mlgo.corpora.corpus import load_corpus
from mlir_release.extras.mlgo.corpora.response_files import split
from mlir_release.extras.mlgo.toolchain import Toolchain
from tests.extras.integration.mlgo.conftest import error_of, mlgo, run, said

if TYPE_CHECKING:
    from pathlib import Path

NINJA = """
rule cc
  command = {llvm}/bin/clang -O1 -flto=thin -c $in -o $out
rule link
  command = {llvm}/bin/clang -O3 -fPIC -flto=thin --ld-path={llvm}/bin/ld.lld {wanted} $in -o $out
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


def build(llvm: Path, folder: Path, *, wanted: str = TEMPORARIES) -> Path:
    (folder / "lib").mkdir(parents=True)
    (folder / "main.c").write_text(MAIN)
    (folder / "callee.c").write_text("int table[8]; int callee(int x) { return x * x + table[x & 7]; }\n")
    (folder / "build.ninja").write_text(NINJA.format(llvm=llvm, wanted=wanted))
    run("ninja", "-C", folder)
    return folder


def add_to_link(tree: Path, more: str) -> None:
    """Change what links the program, after it was linked."""
    text = (tree / "build.ninja").read_text()
    assert text.count(" $in -o $out\nbuild main.o") == 1
    (tree / "build.ninja").write_text(text.replace(" $in -o $out\nbuild main.o", f" $in {more} -o $out\nbuild main.o"))


def test_modules_have_what_they_imported_and_are_optimized_as_they_are_linked(clang: Path, tmp_path: Path) -> None:
    tree, corpus = build(clang, tmp_path / "build"), tmp_path / "corpus"
    said(mlgo("corpus", tree, "-o", corpus, "--llvm", clang, "--thinlto", "program", "--json"))
    loaded = load_corpus(corpus)
    assert [module.name for module in loaded.modules] == ["lib/callee.o", "main.o"]
    assert {module.flags for module in loaded.modules} == {
        ("-O3", "-relocation-model=pic", "-function-sections", "-data-sections")
    }
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
    done = mlgo("corpus", tree, "-o", tmp_path / "two", "--llvm", clang, "--thinlto", "two")
    assert f"another link has changed modules of two since: delete {tree}/two" in done.output
    done = mlgo("corpus", tree, "-o", tmp_path / "one", "--llvm", clang, "--thinlto", "one")
    assert "another link" not in done.output
    (tree / "other.c").write_text("int other(int x) { return x - 1; } int unused(void) { return 2; }\n")
    (tree / "callee.c").write_text("int callee(int x) { return x * x + 4; }\n")
    assert modules("one") == ["lib/libboth.a(callee.o", "main.o"], "callee.o has moved in the archive"
    loaded = load_corpus(tmp_path / "one")
    compiler = Compiler(Toolchain(clang), loaded, tmp_path / "one")
    assert all(compiler.compile(module, emit=True).text > 0 for module in loaded.modules)


@pytest.mark.parametrize(
    ("wanted", "more", "target", "said"),
    [
        (TEMPORARIES, "", "no-such-target", "is no target of Ninja's"),
        (TEMPORARIES, "", "main.o", "is linked from no module in the build folder"),
        ("", "", "program", "have no module with what it imported"),
        (TEMPORARIES, "-mno-such-option", "program", "clang does not understand what the modules are linked with"),
    ],
)
def test_what_is_no_such_link_is_refused(
    wanted: str, more: str, target: str, said: str, clang: Path, tmp_path: Path
) -> None:
    tree = build(clang, tmp_path / "build", wanted=wanted)
    add_to_link(tree, more)
    words = ("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto")
    assert said in error_of(*words, target).what
    assert mlgo(*words, target, "--profiled").exit_code == 2


@pytest.mark.parametrize("more", ["", "-no-pie", "-Os", "-Wl,--lto-O1", "-Wl,-mllvm -Wl,-inline-threshold=0 -O1"])
def test_code_is_the_linkers_whatever_the_line_says(more: str, clang: Path, tmp_path: Path) -> None:
    tree = build(clang, tmp_path / "build", wanted=f"{TEMPORARIES} -Wl,--save-temps=prelink {more}")
    corpus = tmp_path / "corpus"
    said(mlgo("corpus", tree, "-o", corpus, "--llvm", clang, "--thinlto", "program", "--json"))
    loaded = load_corpus(corpus)
    compiler = Compiler(Toolchain(clang), loaded, corpus)
    for module, name in zip(loaded.modules, ("lib/program.lto.callee.o", "program.lto.main.o"), strict=True):
        compiler.compile(module, emit=True, keep=tmp_path / "ours.o")
        assert code(tmp_path / "ours.o") == code(tree / name)


#: In the shape of Chromium's: a wrapper, a thin archive, response files, an object of assembly, CFI, and lld's cache.
GN = """
rule cxx
  command = {llvm}/bin/clang++ -fno-rtti -fno-sanitize-ignorelist {cfi} -fvisibility=hidden -O2 -fPIC $
    -flto=thin -c $in -o $out
rule asm
  command = {llvm}/bin/clang -c $in -o $out
rule alink
  command = {llvm}/bin/llvm-ar -T -r -c -s -D $out @"$out.rsp"
  rspfile = $out.rsp
  rspfile_content = $in
rule link
  command = python3 "../wrapper.py" --output="$out" -- {llvm}/bin/clang++ -Werror --ld-path={llvm}/bin/ld.lld $
    -Wl,--fatal-warnings -Wl,--build-id=sha1 -fPIC -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now -Wl,--icf=all $
    -Wl,-mllvm,-instcombine-lower-dbg-declare=0 -Wl,--save-temps=import $
    -Wl,--thinlto-emit-index-files -flto=thin -Wl,--thinlto-jobs=2 -Wl,--thinlto-cache-dir=cache $
    -Wl,--thinlto-cache-policy=cache_size=10\\%:cache_size_bytes=40m -Wl,-mllvm,-import-instr-limit=30 $
    -fwhole-program-vtables -Wl,--undefined-version -m64 -no-canonical-prefixes -Wl,-O2 -Wl,--gc-sections -rdynamic $
    -Wl,-z,defs -Wl,--as-needed -nostdlib++ --sysroot=../../{root} -fno-sanitize-ignorelist {cfi} $
    -pie -Wl,--disable-new-dtags -Wl,--lto-O2 -o "$out" -Wl,--start-group @"$out.rsp"  -Wl,--end-group $libs
  rspfile = $out.rsp
  rspfile_content = $in $archives
build obj/main.o: cxx main.cpp
build obj/shape.o: cxx shape.cpp
build obj/fast.o: asm fast.S
build obj/lib/square.o: cxx square.cpp
build obj/lib/unused.o: cxx unused.cpp
build obj/lib/libsquare.a: alink obj/lib/square.o obj/lib/unused.o
build ./browser: link ./obj/main.o obj/shape.o obj/fast.o | obj/lib/libsquare.a
  archives = obj/lib/libsquare.a
  libs = -ldl -lpthread -lm
build all: phony ./browser
"""
CFI = "-fwhole-program-vtables -fsanitize=cfi-vcall"
SHAPES = """
struct Shape { virtual int area(int) const; };
struct Square final : Shape { int area(int) const override; };
int total(const Shape &, int);
extern "C" int fast(int);
"""
SOURCES = {
    "main.cpp": SHAPES + "int main(int n, char **) { Square s; Shape t; return total(s, n) + total(t, fast(n)); }\n",
    "shape.cpp": SHAPES + "int Shape::area(int x) const { return x; }\n"
    "int total(const Shape &s, int n) { int t = 0; for (int i = 0; i < n; i++) t += s.area(i); return t; }\n",
    "square.cpp": SHAPES + "int Square::area(int x) const { return x * x; }\n",
    "unused.cpp": "int unused() { return 1; }\n",
    "fast.S": ".globl fast\nfast:\n  movl %edi, %eax\n  ret\n.section .note.GNU-stack\n",
    "../wrapper.py": "import pathlib, subprocess, sys\npathlib.Path('wrapped').touch()\n"
    "sys.exit(subprocess.call(sys.argv[sys.argv.index('--') + 1 :]))\n",
}
MEMBER = "obj/lib/libsquare.a(square.o"


def browser(llvm: Path, folder: Path) -> Path:
    """A build tree of :data:`GN`, linked."""
    (folder / "obj" / "lib").mkdir(parents=True)
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    up = "/".join(".." for _ in folder.resolve().parts[3:])
    (folder / "build.ninja").write_text(GN.format(llvm=llvm, cfi=CFI, root=up))
    run("ninja", "-C", folder, "all")
    return folder


def code(path: Path) -> dict[str, bytes]:
    """The machine code in an object, by its sections."""
    with path.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return {
            part.name: part.data() for part in sections if part["sh_flags"] & SH_FLAGS.SHF_EXECINSTR and part.data()
        }


def test_a_line_as_the_guides_gives_all_modules_with_the_linkers_own_code(clang: Path, tmp_path: Path) -> None:
    """Of its response file nothing is left, and Ninja doesn't fill it in, because its name is quoted."""
    tree, corpus = browser(clang, tmp_path / "out" / "Release"), tmp_path / "corpus"
    assert (tree / "wrapped").exists()
    assert not list(tree.glob("*.rsp"))
    said(mlgo("corpus", tree, "-o", corpus, "--llvm", clang, "--thinlto", "all", "--json"))
    loaded = load_corpus(corpus)
    names = [module.name for module in loaded.modules]
    assert [name.split(" at ")[0] for name in names] == [MEMBER, "obj/main.o", "obj/shape.o"]
    options = ("-O2", "-relocation-model=pic", "-function-sections", "-data-sections")
    assert {module.flags for module in loaded.modules} == {options}
    compiler = Compiler(Toolchain(clang), loaded, corpus)
    linked = [code(path) for path in tree.glob("cache/llvmcache-*")]
    assert len(linked) == 3
    for module in loaded.modules:
        compiler.compile(module, emit=True, keep=tmp_path / "ours.o")
        linked.remove(code(tmp_path / "ours.o"))


def test_the_linker_writes_no_module_for_what_it_takes_from_its_cache(clang: Path, tmp_path: Path) -> None:
    tree = browser(clang, tmp_path / "out" / "Release")
    words = ("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto", "browser")

    def link_again() -> None:
        (tree / "browser").unlink()
        run("ninja", "-C", tree, "-d", "keeprsp", "all")

    link_again()
    assert (tree / "browser.rsp").is_file()
    done = mlgo(*words)
    assert "1 members of archives are left out, because the last link did not take them, or took them" in done.output
    assert [module.name for module in load_corpus(tmp_path / "corpus").modules] == ["obj/main.o", "obj/shape.o"]

    (tree / "obj" / "shape.o.3.import.bc").unlink()
    link_again()
    error = error_of(*words)
    assert "1 of 2 objects of browser have no module" in error.what
    assert "--thinlto-cache-dir" in str(error.remedy)

    for cached in (tree / "cache").iterdir():
        cached.unlink()
    link_again()
    assert [module["name"].split(" at ")[0] for module in said(mlgo(*words, "--json"))["modules"]] == [
        MEMBER, "obj/main.o", "obj/shape.o",
    ]  # fmt: skip
    os.utime(tree / "obj" / "shape.o")
    assert "1 of 2 objects of browser have no module" in error_of(*words).what


RESPONSE = """
rule filled
  command = {llvm}/bin/clang -flto=thin --ld-path={llvm}/bin/ld.lld {wanted} @$out.rsp $more -o $out
  rspfile = $out.rsp
  rspfile_content = $in_newline -Wl,--lto-O1
build absolute.o: cc callee.c
build ../outside.o: cc other.c
build tool: filled main.o lib/callee.o
build nested: filled main.o @more.rsp
build far: filled main.o {tree}/absolute.o ../outside.o
"""


def responding(llvm: Path, folder: Path, *targets: str) -> Path:
    """A build tree in which Ninja fills in what it deletes."""
    build(llvm, folder)
    (folder / "other.c").write_text("int other(int x) { return x + 1; }\n")
    for name in ("more.rsp", "@more.rsp"):  # for clang; for Ninja, it is an input
        (folder / name).write_text("'lib/callee.o'\n")
    with (folder / "build.ninja").open("a") as file:
        file.write(RESPONSE.format(llvm=llvm, wanted=TEMPORARIES, tree=folder))
    for target in targets:
        run("ninja", "-C", folder, target)
    return folder


@pytest.mark.parametrize("target", ["tool", "nested"])
def test_ninja_fills_in_a_response_file_that_it_has_deleted(target: str, clang: Path, tmp_path: Path) -> None:
    tree = responding(clang, tmp_path / "build", "lib/callee.o", target)
    assert not (tree / f"{target}.rsp").exists()
    words = ("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto", target, "--json")
    assert [module["name"] for module in said(mlgo(*words))["modules"]] == ["lib/callee.o", "main.o"]
    assert {module.flags[0] for module in load_corpus(tmp_path / "corpus").modules} == {"-O1"}


def test_objects_may_have_full_paths_and_those_outside_the_build_folder_are_left_out(
    clang: Path, tmp_path: Path
) -> None:
    tree = responding(clang, tmp_path / "build", "absolute.o", "../outside.o", "far")
    done = mlgo("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto", "far")
    assert done.exit_code == 0, done.output
    assert "1 modules of far are outside the build folder, and left out: ../outside.o" in done.output
    assert [module.name for module in load_corpus(tmp_path / "corpus").modules] == ["absolute.o", "main.o"]


@pytest.mark.parametrize("more", ["@gone.rsp", "@gone.rsp @also.rsp", "@empty.rsp @gone.rsp"])
def test_a_response_file_that_is_gone_is_missed(more: str, clang: Path, tmp_path: Path) -> None:
    """Ninja's own holds the inputs, and here they are in the line."""
    tree = build(clang, tmp_path / "build")
    (tree / "empty.rsp").touch()
    add_to_link(tree, more)
    error = error_of("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto", "program")
    assert error.what == "the response file gone.rsp can't be read"
    assert "ninja -d keeprsp" in str(error.remedy)


def test_ninja_runs_no_rule_of_a_tree_that_is_asked(clang: Path, tmp_path: Path) -> None:
    tree = build(clang, tmp_path / "build")
    with (tree / "build.ninja").open("a") as file:
        file.write(f"rule again\n  command = touch {tree}/ran\n  generator = 1\nbuild build.ninja: again always\n")
    said(mlgo("corpus", tree, "-o", tmp_path / "corpus", "--llvm", clang, "--thinlto", "program", "--json"))
    assert not (tree / "ran").exists()


def test_words_of_a_response_file_are_those_that_clang_itself_reads(clang: Path, tmp_path: Path) -> None:
    """clang names each word that is no file of its own; the texts have all characters that mean something."""
    chosen = random.Random(38)
    for _ in range(60):
        text = "".join(chosen.choice('ab \t\r\n\\\\\\\'""#.') for _ in range(chosen.randrange(1, 60)))
        (tmp_path / "x.rsp").write_text(text, newline="")
        words = (f"{clang}/bin/clang", "-###", "@x.rsp")
        told = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).stderr.decode()
        missed = re.findall(
            r"no such file or directory: '(.*?)'(?:; did you mean .*?)?\n(?=clang| \"|\Z)", told, re.DOTALL
        )
        ours = [word for word in split(text) if not (tmp_path / word).exists()]
        assert missed == ours, repr(text)
